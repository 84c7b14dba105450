"""The aggregated API of one replica, joined: its listener, what the cluster says about callers, and its certificate.

`AggregatedApi` is an async context. Opening it listens; it is ready once the front proxy's ConfigMap and a certificate
were read and the observer is. Leaving it is unready first, answers for a while longer, and closes then.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from exporters.aggregated.access import Access
from exporters.aggregated.api import AggregatedContent, KvDocument
from exporters.aggregated.forwarding import Elsewhere, Peers
from exporters.aggregated.identity import BadFrontProxyError, FrontProxy, front_proxy
from exporters.aggregated.kv import kv_answers
from exporters.aggregated.objects import Described, no_labels
from exporters.aggregated.resources import GROUP, VERSION
from exporters.aggregated.server import AggregatedServer
from exporters.aggregated.tls import BadCertificateError, KeyPair, ServingTls
from exporters.listening import Listen
from exporters.protocols import Documents, Looks, ReportSource
from observer.app.cluster import Cluster, namespace_of
from observer.app.peers import HttpsPeers, Replicas
from observer.app.reviews import KubeReviews
from observer.app.told import package_version
from observer.app.watcher import Watcher
from observer.clock import Clock
from observer.kube.aggregated_options import AggregatedSettings
from observer.kube.cache import Change
from observer.kube.certificate_keeper import CertificateKeeper
from observer.kube.client import ApiClient
from observer.kube.identity import Credentials
from observer.kube.informer import Informer
from observer.kube.issuing import SETTLED
from observer.kube.records import Document, watched_documents
from observer.kube.resources import Resource
from observer.settings import Settings
from observer.supervise import Supervisor

_log = logging.getLogger(__name__)

API_SERVICE = f"{VERSION}.{GROUP}"
CONFIG_MAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
AUTHENTICATION = "extension-apiserver-authentication"
SYSTEM = "kube-system"
_QUICK = 1.0
"""How soon (s) a certificate is looked for again while there is none."""


class AggregatedApi:
    """The aggregated API on one replica.

    ``namespace`` is our own, ``leads`` says whether this replica keeps the certificate now, ``described`` gives the
    labels of a deployment's object, ``kv`` the documents of KV events, ``peers`` are the other replicas, ``settled`` is
    how long (s) a new authority is published before its first leaf is shown, ``told`` counts answers, and ``tls`` is
    given by whoever shows the same certificate elsewhere. Opening raises `ListenError` when the port cannot be had.
    """

    def __init__(
        self,
        settings: AggregatedSettings,
        client: ApiClient,
        clock: Clock,
        source: ReportSource,
        *,
        leads: Callable[[], bool],
        namespace: str,
        version: str,
        chance: Callable[[], float],
        described: Described = no_labels,
        kv: KvDocument | None = None,
        peers: Peers | None = None,
        elsewhere: Elsewhere | None = None,
        pods: int = 0,
        looks: Looks | None = None,
        documents: Documents | None = None,
        settled: float = SETTLED,
        told: Callable[[str, int], None] | None = None,
        tls: ServingTls | None = None,
    ) -> None:
        self._settings = settings
        self._leads = leads
        self._tls = tls if tls is not None else ServingTls()
        self.access = Access(KubeReviews(client, settings.audiences), lambda: clock.now().mono)
        wall = lambda: clock.now().wall  # noqa: E731 - two consumers, one line
        content = AggregatedContent(
            source,
            wall,
            version,
            described=described,
            kv=kv,
            peers=peers,
            elsewhere=elsewhere,
            pods=pods,
            looks=looks,
            documents=documents,
        )
        host, _, port = settings.listen.rpartition(":")
        listen = Listen(host=host.strip("[]"), port=int(port), in_flight=settings.in_flight, header_bytes=65_536)
        self.server = AggregatedServer(content, self.access, self._tls, source, listen, wall, told)
        self._keeper = CertificateKeeper(
            client,
            clock,
            namespace=namespace,
            secret=settings.secret,
            service=settings.service,
            api_service=API_SERVICE,
            settled=settled,
        )
        watched = watched_documents(CONFIG_MAPS, SYSTEM, field_selector=f"metadata.name={AUTHENTICATION}")
        self._informer = Informer(client, watched, clock, on_change=self._authentication, chance=chance)
        self._supervisor = Supervisor(clock)
        self._stack = AsyncExitStack()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.port

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._supervisor)
            self._supervisor.start("follow the front proxy's ConfigMap", self._informer.run)
            self._supervisor.start("follow the serving certificate", self._follow_certificate)
            await self.server.start()
            stack.push_async_callback(self.server.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.drain()
            await asyncio.sleep(self._settings.drain_grace)
        finally:
            await self._stack.__aexit__(kind, error, trace)

    def standing(self) -> tuple[bool, str]:
        """Whether callers can be served, and one sentence with what keeps us from it."""
        good, why = self.server.standing()
        trouble = "" if good else (self._informer.health.trouble or self._keeper.trouble)
        return good, f"{why}: {trouble}" if trouble else why

    def drain(self) -> None:
        """Be unready from now on and end connections after their next answer; leaving the context waits and closes."""
        self.server.drain()

    def _authentication(self, _: Change[Document]) -> None:
        """The ConfigMap was read or changed: who is believed from now on. Without one nobody is."""
        found = self._informer.get(AUTHENTICATION, SYSTEM)
        try:
            if found is None:
                raise BadFrontProxyError(f"ConfigMap {SYSTEM}/{AUTHENTICATION} does not exist")
            self.believe(front_proxy(found.body.get("data") or {}))
        except (BadFrontProxyError, BadCertificateError) as error:
            self.access.proxy, self.access.trouble = None, str(error)
            _log.error("no proxied identity is believed: %s", error)

    def believe(self, proxy: FrontProxy) -> None:
        """Believe exactly this front proxy from now on. Raises `BadCertificateError`, and then changes nothing."""
        self._tls.trust(proxy.ca)
        if proxy != self.access.proxy:
            names = ", ".join(proxy.allowed_names) or "every name"
            _log.info("identities are believed from the front proxy's CA for %s", names)
        self.access.proxy = proxy

    async def _follow_certificate(self) -> None:
        """Show what the files or the Secret hold, and look again for ever; the leader keeps the Secret."""
        while True:
            pair = await self._read_pair()
            if pair is not None:
                self._show(pair)
            await asyncio.sleep(self._settings.reread if self._tls.ready else min(_QUICK, self._settings.reread))

    async def _read_pair(self) -> KeyPair | None:
        settings = self._settings
        if settings.cert_file is not None and settings.key_file is not None:
            return await asyncio.to_thread(_read_files, Path(settings.cert_file), Path(settings.key_file))
        held = await (self._keeper.keep() if self._leads() else self._keeper.read())
        return None if held is None else KeyPair(held.certificate.encode(), held.key.encode())

    def _show(self, pair: KeyPair) -> None:
        """A pair that cannot be used (files that are being replaced) changes nothing; it is read again."""
        try:
            if self._tls.show(pair):
                _log.info("the serving certificate is shown from now on (change %d)", self._tls.generation)
        except BadCertificateError as error:
            _log.error("%s; the one before stays", error)


@asynccontextmanager
async def beside(
    watcher: Watcher,
    cluster: Cluster,
    client: ApiClient,
    settings: Settings,
    clock: Clock,
    *,
    replicas: Replicas | None = None,
    credentials: Credentials | None = None,
    elsewhere: Elsewhere | None = None,
) -> AsyncIterator[AggregatedApi]:
    """The aggregated API of an observer of a cluster; from now on the observer is ready only when this is too.

    With ``replicas``, what others own is asked of them, with the token of ``credentials``; ``elsewhere`` tells what can be
    said of it without them.
    """
    namespace, tls = namespace_of(settings.kubernetes), ServingTls()
    async with AsyncExitStack() as stack:
        peers = None
        if replicas is not None and credentials is not None:
            host = f"{settings.aggregated.service}.{namespace}.svc"
            made = HttpsPeers(replicas, shown=lambda: tls.pair, name=host, headers=credentials.headers)
            peers = await stack.enter_async_context(made)
        api = AggregatedApi(
            settings.aggregated,
            client,
            clock,
            watcher.source,
            leads=lambda: cluster.leads(API_SERVICE),
            namespace=namespace,
            version=package_version(),
            chance=random.random,
            described=cluster.labels,
            kv=kv_answers(watcher.kv),
            peers=peers,
            elsewhere=elsewhere,
            pods=settings.limits.pods_per_document,
            looks=watcher.looking,
            documents=watcher.documents,
            told=watcher.tally.answered,
            tls=tls,
        )
        watcher.source.gates.append(api.standing)
        yield await stack.enter_async_context(api)


def _read_files(certificate: Path, key: Path) -> KeyPair | None:
    try:
        return KeyPair(certificate.read_bytes(), key.read_bytes())
    except OSError as error:
        _log.error("the serving certificate cannot be read: %s", error)
        return None
