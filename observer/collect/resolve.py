"""Names to addresses, such that a name that hangs delays nobody but its own target.

The system's resolver blocks a thread for as long as it likes. Here each name has at most one look-up, in a daemon
thread of its own; the threads are bounded; a name that was found keeps its answer while nobody can say a newer one,
because a look-up hangs, fails by itself, or cannot be started.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from observer.clock import Clock

MAX_LOOKUPS = 64
MAX_NAMES = 20_000
_NO_ADDRESS = frozenset({socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_ADDRFAMILY})
"""What says that a name has no address; every other error says only that nobody could tell."""


class _Answer(msgspec.Struct, frozen=True):
    at: float
    found: list[tuple[int, str]]


class Resolver(AbstractResolver):
    """aiohttp's resolver protocol. ``ttl`` seconds an answer is used as it is; up to ``keep`` while a look-up runs."""

    def __init__(
        self,
        clock: Clock,
        *,
        ttl: float = 10.0,
        keep: float = 300.0,
        getaddrinfo: Callable[..., list[Any]] = socket.getaddrinfo,
    ) -> None:
        self._clock = clock
        self._ttl = ttl
        self._keep = keep
        self._getaddrinfo = getaddrinfo
        self._known: dict[str, _Answer] = {}
        self._running: dict[str, asyncio.Future[list[tuple[int, str]]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name; `OSError` when it has none or too many look-ups hang."""
        known = self._known.get(host)
        age = self._clock.now().mono - known.at if known is not None else 0.0
        if known is not None and age >= self._keep:
            known = None
        if known is None or age >= self._ttl:
            try:
                looking = self._running.get(host) or self._start(host)
            except OSError:
                if known is None:
                    raise
            else:
                if known is None:
                    return _results(host, port, family, await asyncio.shield(looking))
        return _results(host, port, family, known.found)

    async def close(self) -> None:
        """Forget everything. Threads that hang end with their look-up or with the process."""
        for looking in self._running.values():
            looking.cancel()
        self._running.clear()
        self._known.clear()

    def _start(self, host: str) -> asyncio.Future[list[tuple[int, str]]]:
        if len(self._running) >= MAX_LOOKUPS:
            raise OSError(f"{MAX_LOOKUPS} other names are being looked up and do not come back")
        loop = asyncio.get_running_loop()
        looking: asyncio.Future[list[tuple[int, str]]] = loop.create_future()
        looking.add_done_callback(lambda done: self._finished(host, done))
        thread = threading.Thread(target=self._look_up, args=(host, looking, loop), name=f"dns {host}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError(f"its look-up could not begin: {error}") from error
        self._running[host] = looking
        return looking

    def _look_up(
        self, host: str, looking: asyncio.Future[list[tuple[int, str]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Runs in a thread. A loop that closed meanwhile no longer wants the answer."""
        outcome: list[tuple[int, str]] | OSError
        try:
            infos = self._getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
            outcome = [(int(info[0]), _address(info[4])) for info in infos]
        except OSError as error:
            outcome = error
        except UnicodeError as error:
            outcome = OSError(f"not a host name: {error}")
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, looking, outcome)

    def _finished(self, host: str, done: asyncio.Future[list[tuple[int, str]]]) -> None:
        if self._running.get(host) is done:
            del self._running[host]
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            if isinstance(error, socket.gaierror) and error.errno in _NO_ADDRESS:
                self._known.pop(host, None)
            return
        if len(self._known) >= MAX_NAMES:
            self._known.pop(next(iter(self._known)))
        self._known[host] = _Answer(self._clock.now().mono, done.result())


def _settle(looking: asyncio.Future[list[tuple[int, str]]], outcome: list[tuple[int, str]] | OSError) -> None:
    if looking.done():
        return
    if isinstance(outcome, OSError):
        looking.set_exception(outcome)
    else:
        looking.set_result(outcome)


def _address(sockaddr: tuple[Any, ...]) -> str:
    """An address as text, with the zone of a link-local IPv6 address."""
    host = str(sockaddr[0])
    return f"{host}%{sockaddr[3]}" if len(sockaddr) == 4 and sockaddr[3] and "%" not in host else host


def _results(host: str, port: int, family: int, found: list[tuple[int, str]]) -> list[ResolveResult]:
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return [
        ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=flags)
        for kind, address in found
        if family in {socket.AF_UNSPEC, kind}
    ]
