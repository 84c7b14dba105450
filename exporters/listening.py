"""Where the plain listener is, what it allows, and which addresses count as this machine's own."""

from __future__ import annotations

import ipaddress

import msgspec


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen and what to allow. ``port`` 0 takes a free one. Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 9480
    token: str | None = None
    answer_seconds: float = 10.0
    in_flight: int = 256
    header_bytes: int = 8190
    body_bytes: int = 65_536
    stop_seconds: float = 5.0


class ListenError(Exception):
    """The listener cannot be opened; the text says why and what to change."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address (brackets allowed) is this machine's loopback."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
