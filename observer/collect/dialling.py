"""One TCP connection for the doctor: what became of it, and what the other side says before it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket

from observer.clock import Clock
from router_contract.diagnosis import Dial, Reach

GREETING_BYTES = 64
GREETING_SECONDS = 0.3
"""How long is waited for a greeting: who sends one sends it at once."""

_REACH = {
    errno.ECONNREFUSED: Reach.REFUSED,
    errno.EHOSTUNREACH: Reach.NO_ROUTE,
    errno.ENETUNREACH: Reach.NO_ROUTE,
    errno.EHOSTDOWN: Reach.NO_ROUTE,
    errno.EADDRNOTAVAIL: Reach.NO_ROUTE,
    errno.ETIMEDOUT: Reach.TIMEOUT,
    errno.EACCES: Reach.FORBIDDEN,
    errno.EPERM: Reach.FORBIDDEN,
}


async def dial(host: str, port: int, seconds: float, clock: Clock) -> Dial:
    """Connect to an address (not a name) within ``seconds``; never raises for what a network does."""
    if _without_zone(host):
        detail = "a link-local address needs its zone, as fe80::1%eth0"
        return Dial(port=port, reach=Reach.FAILED, detail=detail)
    began = clock.now().mono
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, port)
        took = clock.now().mono - began
        greeting = b""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(GREETING_SECONDS):
                greeting = await reader.read(GREETING_BYTES)
        return Dial(port=port, reach=Reach.CONNECTED, seconds=took, greeting=greeting)
    except TimeoutError:
        return Dial(port=port, reach=Reach.TIMEOUT, seconds=clock.now().mono - began)
    except OSError as error:
        reach = _REACH.get(error.errno or 0, Reach.FAILED)
        detail = error.strerror or str(error)
        return Dial(port=port, reach=reach, seconds=clock.now().mono - began, detail=detail)
    finally:
        if writer is not None:
            writer.transport.abort()


def _without_zone(host: str) -> bool:
    """Whether an address says nothing of the interface that it needs; not every loop refuses to dial it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return isinstance(address, ipaddress.IPv6Address) and address.is_link_local and address.scope_id is None


def is_here(address: str) -> bool:
    """Whether an address belongs to this machine: only then a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((address, 0))
    except OSError:
        return False
    return True
