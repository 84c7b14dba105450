"""Who we are to the API server: kubeconfig or in-cluster credentials, read by kubernetes_asyncio's loaders only."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from observer.kube.identity import CredentialsError

_MALFORMED = (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError, AssertionError)
"""What the loader raises for a malformed file: whatever its first wrong step does."""


class LoadedCredentials:
    """Credentials of a kubeconfig file, or of the Pod we run in without one.

    An in-cluster token is read again when it is a minute old; certificates when their files change.
    """

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._configuration = Configuration(host="")
        self._tls: ssl.SSLContext | None = None
        self._read: tuple[tuple[str, int], ...] = ()

    @classmethod
    async def load(cls, kubeconfig: str | None = None, context: str | None = None) -> LoadedCredentials:
        """Read a kubeconfig (``context`` or its current one), or the in-cluster files. Raises `CredentialsError`."""
        credentials = cls(kubeconfig, context)
        await credentials.refresh()
        return credentials

    @property
    def server(self) -> str:
        """The API server's base URL."""
        return str(self._configuration.host).rstrip("/")

    @property
    def proxy(self) -> str | None:
        """The kubeconfig's ``proxy-url``."""
        return self._configuration.proxy or None

    def tls(self) -> tuple[ssl.SSLContext | None, str | None]:
        """The context of the present files. Raises `CredentialsError` when they cannot be read."""
        if not self.server.startswith("https"):
            return None, None
        files = self._configuration
        try:
            seen = tuple(
                (path, Path(path).stat().st_mtime_ns)
                for path in (files.ssl_ca_cert, files.cert_file, files.key_file)
                if path
            )
            if self._tls is None or seen != self._read:
                self._tls, self._read = self._context_of_files(), seen
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(f"certificates of {self._source}: {error}") from error
        return self._tls, files.tls_server_name or None

    async def headers(self) -> Mapping[str, str]:
        """``Authorization`` with the present token. Raises `CredentialsError` when its file cannot be read."""
        try:
            value = await self._configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            raise CredentialsError(f"token of {self._source}: {error}") from error
        return {"Authorization": str(value).strip()} if value else {}

    async def refresh(self) -> None:
        """Read everything anew. Raises `CredentialsError`."""
        configuration = Configuration(host="")
        try:
            if self._kubeconfig is None:
                load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library leaves it untyped
            else:
                _require_file(self._kubeconfig)
                await load_kube_config(
                    self._kubeconfig, self._context, client_configuration=configuration, persist_config=False
                )
        except (*_MALFORMED, ConfigException, OSError) as error:
            raise CredentialsError(f"{self._source}: {error or type(error).__name__}") from error
        self._configuration = configuration
        self._tls = None

    @property
    def _source(self) -> str:
        return f"kubeconfig {self._kubeconfig}" if self._kubeconfig is not None else "the in-cluster service account"

    def _context_of_files(self) -> ssl.SSLContext:
        files = self._configuration
        context = ssl.create_default_context(cafile=files.ssl_ca_cert or None)
        if files.cert_file:
            context.load_cert_chain(files.cert_file, files.key_file)
        if not files.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _require_file(path: str) -> None:
    if not Path(path).is_file():
        raise FileNotFoundError("found no such file, wanted a kubeconfig")
