"""How many clients may be connected at once: past the bound the longest idle one makes room, and else the new one goes.

A connection is busy while a request of it is being answered, which includes that its client takes the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from aiohttp.web_protocol import RequestHandler


class _Refused(asyncio.Protocol):
    """A connection that nobody has room for: it ends at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class Connections:
    """Makes the protocol of each new connection; ``made`` gives aiohttp's, ``open_now`` those that are connected."""

    def __init__(
        self,
        most: int,
        made: Callable[[], RequestHandler],
        open_now: Callable[[], Iterable[RequestHandler]],
        coming_seconds: float = 1.0,
    ) -> None:
        """``coming_seconds`` is how long a connection may take from being accepted to being known (a TLS handshake)."""
        self._most = most
        self._made = made
        self._open = open_now
        # Those whose transport is still to come; the loop takes several connections before it tells of the first.
        # Held strongly: aiohttp's handlers take no weak references. One that never came is forgotten after a while.
        self._coming_seconds = coming_seconds
        self._coming: set[RequestHandler] = set()
        self._order: dict[RequestHandler, None] = {}
        self._busy: set[RequestHandler] = set()
        self.high_water = 0
        self.closed_idle = 0
        self.refused = 0

    @property
    def used(self) -> int:
        """Connections that are open now."""
        return len(self._known())

    @property
    def reached(self) -> int:
        """How often the bound was met: an idle connection was closed, or a new one was."""
        return self.closed_idle + self.refused

    def __call__(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        known = self._known()
        if len(known) >= self._most and not self._make_room(known):
            self.refused += 1
            return _Refused()
        handler = self._made()
        self._coming.add(handler)
        asyncio.get_running_loop().call_later(self._coming_seconds, self._coming.discard, handler)
        self._order[handler] = None
        self.high_water = max(self.high_water, min(self._most, len(known) + 1))
        return handler

    def begun(self, handler: RequestHandler) -> None:
        """A request of this connection is being answered."""
        self._busy.add(handler)

    def ended(self, handler: RequestHandler) -> None:
        """It was answered: the connection is idle from now on, and so the last to be closed."""
        self._busy.discard(handler)
        if self._order.pop(handler, 0) is None:
            self._order[handler] = None

    def _known(self) -> set[RequestHandler]:
        connected = set(self._open())
        # One that has come and gone in between is none of aiohttp's any more.
        lost = {handler for handler in self._coming if getattr(handler, "_manager", None) is None}
        self._coming -= connected | lost
        known = connected | self._coming
        for gone in [handler for handler in self._order if handler not in known]:
            del self._order[gone]
        return known

    def _make_room(self, known: set[RequestHandler]) -> bool:
        for handler in self._order:
            if handler not in self._busy and handler.transport is not None:
                handler.force_close()
                del self._order[handler]
                known.discard(handler)
                self.closed_idle += 1
                return True
        return False
