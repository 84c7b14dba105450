"""When each stream's socket is connected again: back-off that doubles to a bound, spread so that many do not come together."""

from __future__ import annotations

import heapq

_GOLDEN = 0.618033988749895
"""Multiples of it fall evenly between whole numbers, so that streams with neighbouring ids are far apart."""


class Redials:
    """Times are monotonic seconds. A stream that was lost is due once; forgetting it takes it out."""

    def __init__(self, first: float, longest: float) -> None:
        """``first`` seconds before the first attempt, then twice as long each, up to ``longest``."""
        self._first = first
        self._longest = max(first, longest)
        self._next: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def lost(self, sid: int, now: float) -> None:
        """Its connection ended, or none could be made."""
        wait = self._next.get(sid, self._first)
        self._next[sid] = min(2 * wait, self._longest)
        self.put_off(sid, now + min(wait + self._first * (sid * _GOLDEN % 1.0), self._longest))

    def put_off(self, sid: int, until: float) -> None:
        """Make it due at ``until``."""
        self._due[sid] = until
        heapq.heappush(self._heap, (until, sid))

    def connected(self, sid: int) -> None:
        """It is connected: the next loss waits as briefly as a first one."""
        self._next.pop(sid, None)

    def forget(self, sid: int) -> None:
        """The stream is gone."""
        self._next.pop(sid, None)
        self._due.pop(sid, None)

    def due(self, now: float) -> list[int]:
        """Those to connect now, which are then no longer due."""
        found: list[int] = []
        while self._heap and self._heap[0][0] <= now:
            at, sid = heapq.heappop(self._heap)
            if self._due.get(sid) == at:
                del self._due[sid]
                found.append(sid)
        return found

    def wait(self, now: float, most: float) -> float:
        """Seconds until the next is due, ``most`` at most."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # forgotten since
        return min(max(self._heap[0][0] - now, 0.0), most) if self._heap else most
