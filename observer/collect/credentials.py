"""TLS contexts and bearer tokens from files, read again when the files change. Nothing here prints their content."""

from __future__ import annotations

import ssl
from pathlib import Path

from observer.collect.failures import Failure
from router_contract.readings import FailureKind
from router_contract.targets import Tls

MAX_TOKEN_BYTES = 64 << 10
_Stamp = tuple[tuple[int, int, int] | None, ...]


class TlsContexts:
    """One context for each distinct `Tls`, so that connections are kept alive and certificates loaded once."""

    def __init__(self) -> None:
        self._made: dict[Tls | None, tuple[_Stamp, ssl.SSLContext]] = {}

    def get(self, tls: Tls | None) -> ssl.SSLContext | Failure:
        """The context for ``tls`` (``None``: the system's authorities), or a Tls failure naming the file at fault."""
        files = () if tls is None else (tls.ca_file, tls.cert_file, tls.key_file)
        stamp = tuple(None if file is None else _stamp(file) for file in files)
        known = self._made.get(tls)
        if known is not None and known[0] == stamp:
            return known[1]
        made = _context(tls)
        if isinstance(made, ssl.SSLContext):
            self._made[tls] = (stamp, made)
        return made


class TokenFiles:
    """Bearer tokens by file, looked at before each use and read when they changed."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int, int], str]] = {}

    def get(self, file: str) -> str | Failure:
        """The token without surrounding white space, or a failure: then nothing was sent."""
        stamp = _stamp(file)
        known = self._read.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        if _is_special(file):
            return _no_token(file, "it is no regular file")
        try:
            with Path(file).open("rb") as stream:
                text = stream.read(MAX_TOKEN_BYTES + 1).decode("ascii").strip()
        except OSError as error:
            return _no_token(file, error.strerror or str(error))
        except UnicodeDecodeError:
            return _no_token(file, "it is not ASCII text")
        if not text or len(text) > MAX_TOKEN_BYTES or not text.isprintable():
            return _no_token(file, "it is empty, longer than 64 KiB, or has control characters")
        if stamp is not None:
            self._read[file] = (stamp, text)
        return text


def _no_token(file: str, why: str) -> Failure:
    detail = f"the bearer token file {file} cannot be used ({why}): nothing was sent"
    return Failure(kind=FailureKind.HTTP, detail=detail)


def _stamp(file: str) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; ``None`` while it cannot be seen."""
    try:
        seen = Path(file).stat()
    except OSError:
        return None
    return (seen.st_ino, seen.st_mtime_ns, seen.st_size)


def _is_special(file: str) -> bool:
    """Whether it is there and is a pipe or a device: reading one can wait for ever, and everything with it."""
    path = Path(file)
    return path.exists() and not path.is_file()


def _context(tls: Tls | None) -> ssl.SSLContext | Failure:
    if tls is None:
        return ssl.create_default_context()
    for step, file in (("caFile", tls.ca_file), ("certFile", tls.cert_file), ("keyFile", tls.key_file)):
        if file is not None and _is_special(file):
            return Failure(kind=FailureKind.TLS, detail=f"`tls.{step}` {file} cannot be used: it is no regular file")
    step, file = "caFile", tls.ca_file
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file is not None:
            step, file = "certFile", f"{tls.cert_file} with key {tls.key_file or tls.cert_file}"
            # An encrypted key must fail here; without a password OpenSSL would ask on the terminal and wait.
            context.load_cert_chain(tls.cert_file, tls.key_file, password="")  # nosec B106 - an encrypted key is refused instead of asked for
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        return Failure(kind=FailureKind.TLS, detail=f"`tls.{step}` {file} cannot be used: {why}")
    return context
