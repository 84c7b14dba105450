"""Where the plain listener is, what it allows, and which addresses count as this machine's own."""

from __future__ import annotations

import ipaddress
import re
import ssl
from pathlib import Path

import msgspec


class ServerTls(msgspec.Struct, frozen=True, kw_only=True):
    """Files of our own certificate and, for clients that prove who they are by theirs, of their authority."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None

    def context(self) -> ssl.SSLContext:
        """The context of a listener. Raises `ListenError`, which names the files and nothing that is in them.

        A client without a certificate is let into the handshake, because probes have none; each request is judged.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(file for file in (self.cert_file, self.key_file, self.client_ca_file) if file)
            why = error.strerror or type(error).__name__
            raise ListenError(f"cannot serve HTTPS with {files}: {why}; want PEM files that belong together") from None
        return context


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen and what to allow. ``port`` 0 takes a free one. Times in seconds, sizes in bytes.

    ``response_bytes`` bounds one answer; ``/metrics`` has the renderer's bound on series instead. ``in_flight`` bounds
    the requests that are answered at once, ``connections`` the clients that are connected: past it the longest idle one
    makes room. ``tls`` serves HTTPS and, with a client authority, takes its certificates instead of a token.
    """

    host: str = "127.0.0.1"
    port: int = 9480
    token: str | None = None
    answer_seconds: float = 10.0
    in_flight: int = 256
    header_bytes: int = 8190
    body_bytes: int = 65_536
    response_bytes: int = 32 << 20
    stop_seconds: float = 5.0
    connections: int = 512
    keep_alive_seconds: float = 75.0
    tls: ServerTls | None = None

    @property
    def guarded(self) -> bool:
        """Whether whoever asks must prove who it is."""
        return self.token is not None or (self.tls is not None and self.tls.client_ca_file is not None)


class ListenError(Exception):
    """The listener cannot be opened; the text says why and what to change."""


def read_token(file: str | None) -> str | None:
    """The token in a file, blanks around it aside; ``None`` without a file.

    Raises `ListenError`, which names the file and never what is in it.
    """
    if file is None:
        return None
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ListenError(f"http.tokenFile: {file!r} cannot be read: {why}") from error
    if not token:
        raise ListenError(f"http.tokenFile: {file!r} is empty; want a token")
    return token


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,255})(?::([0-9]{1,5}))?")


def host_of(header: str) -> str | None:
    """The host that a ``Host`` header names, without brackets and port; ``None`` when it is no ``host`` or ``host:port``."""
    found = _HOST.fullmatch(header)
    if found is None or int(found[2] or 0) > 65_535:
        return None
    return found[1].strip("[]")


def is_loopback(host: str) -> bool:
    """Whether a host name or address (brackets allowed) is this machine's loopback."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
