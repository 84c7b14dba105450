"""Our own HTTP/1.1 GET over plain TCP, for what is read most: expositions and APIs inside a cluster.

The HTTP library costs 0.4 to 0.5 ms of CPU a read and several kB a kept connection, most of it for what a read of a
known address never uses; with it one process cannot read 10,000 targets every 15 s on 0.6 of a core. Here a read is
one write of bytes that were made before, a parse where they were received, and one copy. TLS, and every address that
is out of the usual, stay with the library (`observer.collect.fetch`).

A connection is kept when its answer came to a clear end, and the one that was used last is used first. None carries a
request while an answer is expected on it, and one on which something was left over is closed.
"""

from __future__ import annotations

import asyncio
import math
import socket
from contextlib import ExitStack
from typing import cast

import aiohappyeyeballs

from observer.clock import Clock
from observer.collect.answer import Answer, Fetched
from observer.collect.body import SharedBytes
from observer.collect.buffers import Buffers
from observer.collect.connections import LONGEST_USE, Room
from observer.collect.failures import Failure, Progress, disconnected, timed_out, unresolved
from observer.collect.options import BodyLimits
from observer.collect.plain_request import literal
from observer.collect.resolve import Resolver
from router_contract.targets import Address

_Key = tuple[str, int]
_NEXT_ADDRESS = 0.25
"""Seconds after which a name's next address is tried beside the one that has not answered."""
_NOWHERE = memoryview(bytearray(4096))
"""Where bytes go that nobody asked for; they are not looked at."""


class _Connection(asyncio.BufferedProtocol):
    """One connection, and the answer that is expected on it."""

    __slots__ = ("_answer", "_client", "_transport", "_until", "_waiter", "below", "idle_since", "key")

    def __init__(self, client: WireClient, key: _Key, until: float, answer: Answer) -> None:
        """``until`` is when it is used no more (the loop's time); ``answer`` takes what comes before it is asked."""
        self.key = key
        self._until = until
        self.idle_since = 0.0
        self.below: _Connection | None = None
        """The one to the same place that became idle before this one."""
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = answer
        self._waiter: asyncio.Future[None] | None = None

    @property
    def usable(self) -> bool:
        """Whether nothing is known against asking on it."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, answer: Answer, seconds: float) -> bool:
        """Send a request and let the answer come. False when the time was over before."""
        loop = asyncio.get_running_loop()
        transport = self._transport
        if transport is None or transport.is_closing() or answer.outcome is not None:
            self.close()
            return True
        self._answer, self._waiter = answer, loop.create_future()
        timer = loop.call_later(seconds, self._settle)
        try:
            transport.write(request)
            await self._waiter
        finally:
            timer.cancel()
            in_time = self._answer is None
            self._answer = self._waiter = None
            if answer.reusable and not transport.is_closing() and loop.time() < self._until:
                self._client.keep(self)
            else:
                self.close()
        return in_time

    def _settle(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _answered(self) -> None:
        """The answer has come to its end, one way or another; further bytes belong to nobody."""
        self._answer = None
        self._settle()

    def close(self) -> None:
        """Give it up, whatever it is doing; it counts no more, though its socket is closed only in a moment."""
        self._client.lost(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._client.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the room is as large as it is
        return _NOWHERE if self._answer is None else self._answer.room()

    def buffer_updated(self, nbytes: int) -> None:
        answer = self._answer
        if answer is None:
            self.close()
            return
        answer.received(nbytes)
        if answer.outcome is not None:
            self._answered()

    def eof_received(self) -> None:
        if self._answer is not None:
            self._answer.ended(None)
            self._answered()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.lost(self)
        if self._answer is not None:
            self._answer.ended(exc)
            self._answered()


class WireClient:
    """Keeps the connections. `get` may be called any number of times at once."""

    def __init__(self, clock: Clock, resolver: Resolver, room: Room, shared: SharedBytes, *, keep_alive: float) -> None:
        """``keep_alive``: seconds for which an idle connection is kept."""
        self._clock = clock
        self._resolver = resolver
        self._room = room
        self._shared = shared
        self._keep_alive = keep_alive
        self._buffers = Buffers()
        self._open: set[_Connection] = set()
        self._making = 0
        self._idle: dict[_Connection, None] = {}  # the longest idle first
        self._top: dict[_Key, _Connection] = {}  # the last idle one to a place; it knows those below it
        self._sweeping: asyncio.TimerHandle | None = None
        room.join(self)

    @property
    def open(self) -> int:
        """Connections that are open or being made."""
        return len(self._open) + self._making

    def idle_since(self) -> float | None:
        """When the connection that has been idle longest became so."""
        return next((connection.idle_since for connection in self._idle), None)

    def close_oldest(self) -> None:
        """Close that one."""
        connection = next(iter(self._idle), None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Close every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in tuple(self._open):
            connection.close()
        # The loop closes sockets a moment after it is told.
        await asyncio.sleep(0)

    async def get(
        self, address: Address, request: bytes, limits: BodyLimits, seconds: float, progress: Progress
    ) -> Fetched | Failure:
        """Send a request and take the answer, all within ``seconds``. Raises `OSError` (and uvloop's `RuntimeError`).

        A kept connection that dies before the first byte of an answer says nothing of the server, which may close idle
        ones: the request is sent once more on a new one.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        answer = Answer(address, limits, self._shared, self._buffers, progress)
        try:
            kept = self._top.get((address.host, address.port))
            if kept is not None:
                self._unkeep(kept)
            if kept is not None and kept.usable:
                progress.connected = True
                if not await kept.ask(request, answer, seconds):
                    return timed_out(progress, seconds, address)
                if answer.outcome is not None:
                    return answer.outcome
                progress.connected = False
            try:
                async with asyncio.timeout_at(deadline):
                    made = await self._connect(address, progress, answer)
            except TimeoutError as error:
                if error.errno is not None:
                    raise
                return timed_out(progress, seconds, address)
            if isinstance(made, Failure):
                return made
            progress.connected = True
            if not await made.ask(request, answer, max(0.0, deadline - loop.time())):
                return timed_out(progress, seconds, address)
            if answer.outcome is None and answer.error is not None:
                raise answer.error
            return answer.outcome or disconnected(progress, address)
        finally:
            answer.close()

    def keep(self, connection: _Connection) -> None:
        """A connection on which an answer came to its end."""
        # Not the loop's time: uvloop's is too coarse to order what is kept.
        connection.idle_since = self._clock.now().mono
        connection.below = self._top.get(connection.key)
        self._top[connection.key] = connection
        self._idle[connection] = None
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self._keep_alive, self._sweep)

    def lost(self, connection: _Connection) -> None:
        """A connection that is no more."""
        self._open.discard(connection)
        if connection in self._idle:
            self._unkeep(connection)

    def _unkeep(self, connection: _Connection) -> None:
        """An idle connection is in use, or gone."""
        del self._idle[connection]
        above = self._top[connection.key]
        if above is not connection:
            while above.below is not None and above.below is not connection:
                above = above.below
            above.below = connection.below
        elif connection.below is None:
            del self._top[connection.key]
        else:
            self._top[connection.key] = connection.below
        connection.below = None

    def _sweep(self) -> None:
        """Close what has been idle for too long; one timer for all."""
        self._sweeping = None
        while (since := self.idle_since()) is not None:
            left = since + self._keep_alive - self._clock.now().mono
            if left > 0:
                self._sweeping = asyncio.get_running_loop().call_later(left, self._sweep)
                return
            self.close_oldest()

    def opened(self, connection: _Connection) -> None:
        """A connection that is there now."""
        self._open.add(connection)

    async def _connect(self, address: Address, progress: Progress, answer: Answer) -> _Connection | Failure:
        host, until = address.host, math.inf
        found = [(socket.AF_UNSPEC, host)]
        if not literal(host):
            until = asyncio.get_running_loop().time() + LONGEST_USE
            progress.resolving = True
            try:
                told = await self._resolver.resolve(host, address.port)
            except OSError as error:
                return unresolved(error, address)
            progress.resolving = False
            found = [(socket.AddressFamily(each["family"]), each["host"]) for each in told]
        connection = _Connection(self, (host, address.port), until, answer)
        self._making += 1
        # Whatever stops it, a cancellation too, must leave no socket behind.
        with ExitStack() as undo:
            undo.callback(connection.close)
            try:
                self._room.make()
                await _dial(found, address.port, connection)
            finally:
                self._making -= 1
            undo.pop_all()
        return connection


async def _dial(found: list[tuple[socket.AddressFamily, str]], port: int, connection: _Connection) -> None:
    """Connect to one of a host's addresses, trying the next beside one that is slow."""
    loop = asyncio.get_running_loop()
    if len(found) == 1 and "%" not in found[0][1]:
        await loop.create_connection(lambda: connection, found[0][1], port)
        return
    infos = [
        (family, socket.SOCK_STREAM, 0, "", (host, port, 0, 0) if family == socket.AF_INET6 else (host, port))
        for family, host in found
    ]
    made = await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=_NEXT_ADDRESS, loop=loop)
    with ExitStack() as undo:
        undo.callback(made.close)
        await loop.create_connection(lambda: connection, sock=made)
        undo.pop_all()
