"""Connections to targets, bounded: how many reads run at once, and which idle connection makes room for a new one."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler


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


class BoundedConnector(aiohttp.TCPConnector):
    """A connector that counts idle connections too: before it makes one beyond ``most``, it closes the oldest idle one."""

    def __init__(self, most: int, **options: Any) -> None:
        super().__init__(limit=most, **options)
        self._most = most
        self.closed_idle = 0

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
        while self._most and self.open > self._most and self._close_oldest():
            pass
        return await super()._create_connection(req, traces, timeout)

    def _close_oldest(self) -> bool:
        """Close the connection that has been idle longest; False when none is idle."""
        held = [(kept[0][1], key) for key, kept in self._conns.items() if kept]
        if not held:
            return False
        _, key = min(held, key=lambda each: each[0])
        protocol, _ = self._conns[key].popleft()
        if not self._conns[key]:
            del self._conns[key]
        protocol.close()
        self.closed_idle += 1
        return True
