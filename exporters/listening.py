"""Where the plain listener is, what it allows, and which addresses count as this machine's own."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import msgspec


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen and what to allow. ``port`` 0 takes a free one. Times in seconds, sizes in bytes.

    ``response_bytes`` bounds one answer; ``/metrics`` has the renderer's bound on series instead.
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
