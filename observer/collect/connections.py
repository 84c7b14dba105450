"""Connections to targets, bounded: how many reads run at once, and which idle connection makes room for a new one."""

from __future__ import annotations

import asyncio
import functools
import math
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler

from observer.collect.plain_request import literal

LONGEST_USE = 300.0
"""Seconds after which a connection to a name is used no more: the name may be another's by now, and whoever had it may
go on answering. The longest, too, for which what a name was found to be is remembered."""


class ReadSlots:
    """At most so many reads at once; who waits goes in order of coming, and its time begins when it has a place.

    ``most`` 0 bounds nothing; use and high water are counted all the same.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.used = 0
        self.high_water = 0
        self.waited = 0
        self._slots = asyncio.Semaphore(most) if most else None

    async def __aenter__(self) -> Self:
        if self._slots is not None:
            self.waited += self._slots.locked()
            await self._slots.acquire()
        self.used += 1
        self.high_water = max(self.high_water, self.used)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.used -= 1
        if self._slots is not None:
            self._slots.release()


class Holder(Protocol):
    """Who keeps connections."""

    @property
    def open(self) -> int:
        """Connections that are open, used ones included, and those that are being made."""
        ...

    def idle_since(self) -> float | None:
        """When the connection that nobody uses for longest became idle (monotonic seconds); ``None`` without one."""
        ...

    def close_oldest(self) -> None:
        """Close that one."""
        ...


class Room:
    """How many connections may be open over all holders; 0 is no bound. Idle ones make room, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._holders: list[Holder] = []
        self.closed_idle = 0

    def join(self, holder: Holder) -> None:
        """This holder's connections count from now on."""
        self._holders.append(holder)

    @property
    def open(self) -> int:
        """Connections that are open."""
        return sum(holder.open for holder in self._holders)

    def make(self) -> None:
        """Call it when a new connection has been counted: idle ones beyond the bound are closed."""
        while self._most and self.open > self._most:
            idle = [(since, holder) for holder in self._holders if (since := holder.idle_since()) is not None]
            if not idle:
                return
            min(idle, key=lambda each: each[0])[1].close_oldest()
            self.closed_idle += 1


class StrictHandler(ResponseHandler):
    """The library's protocol, but that an answer which did not come to its end is never whole, awaited or asked again.

    The library takes a body for whole that ends with its connection, also where that was lost by an error; it waits on
    for one that is not framed as HTTP says, until closing is done, which takes its time with TLS; and it asks again
    where an answer had begun, or on a new connection.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._begun = False
        self._asked = 0
        self.until = math.inf
        """When it is used no more (the loop's time)."""

    @property
    def should_close(self) -> bool:
        """Whether it is not to be used again."""
        return super().should_close or self._loop.time() >= self.until

    def set_response_params(self, **options: Any) -> None:
        """Another answer is expected."""
        self._begun = False
        self._asked += 1
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._begun = True
        super().data_received(data)
        if self._exception is not None:
            _broken(self._payload, self._exception)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is no more, by an error or by its end."""
        if exc is not None:
            _broken(self._payload, exc)
        if self._waiter is not None and (self._begun or self._asked == 1):
            # No error for which the library asks again: only silence on a kept connection says nothing of the server.
            lost = aiohttp.ClientPayloadError if self._begun else aiohttp.ClientConnectionError
            self.set_exception(lost("the connection was lost before the answer's head was whole"), exc or lost())
        super().connection_lost(exc)


def _handler(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return StrictHandler(loop)


def _broken(payload: aiohttp.StreamReader | None, error: BaseException) -> None:
    """Who reads this body is told that it is not whole, unless it is or this was told before."""
    if payload is None or payload.is_eof() or payload.exception() is not None:
        return
    told = aiohttp.ClientPayloadError("the connection was lost before the end of the body")
    told.__cause__ = error
    payload.set_exception(told)


class BoundedConnector(aiohttp.TCPConnector):
    """A connector that counts idle connections too: before it makes one beyond ``most``, it closes the oldest idle one.

    With a ``room`` it shares that bound with others.
    """

    def __init__(self, most: int, *, room: Room | None = None, **options: Any) -> None:
        super().__init__(limit=most, **options)
        self._factory = functools.partial(_handler, self._loop)
        self._room = Room(most) if room is None else room
        self._room.join(self)

    @property
    def closed_idle(self) -> int:
        """Idle connections that were closed to make room, over all that share it."""
        return self._room.closed_idle

    @property
    def idle(self) -> int:
        """Connections that are open and that nobody uses."""
        return sum(map(len, self._conns.values()))

    @property
    def open(self) -> int:
        """Connections that are open, used ones included."""
        return self.idle + len(self._acquired)

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the signature of the library
    ) -> ResponseHandler:
        # The new one is among those that are acquired already.
        self._room.make()
        made = await super()._create_connection(req, traces, timeout)
        if isinstance(made, StrictHandler) and not literal(req.url.host or ""):
            made.until = self._loop.time() + LONGEST_USE
        return made

    def idle_since(self) -> float | None:
        """When the connection that has been idle longest became so."""
        return min((kept[0][1] for kept in self._conns.values() if kept), default=None)

    def close_oldest(self) -> None:
        """Close the connection that has been idle longest."""
        held = [(kept[0][1], key) for key, kept in self._conns.items() if kept]
        if not held:
            return
        _, key = min(held, key=lambda each: each[0])
        protocol, _ = self._conns[key].popleft()
        if not self._conns[key]:
            del self._conns[key]
        protocol.close()
