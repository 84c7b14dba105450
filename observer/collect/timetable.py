"""When each of many entries has its turn: slots of one period, shifted by identity, kept by one timer for all.

Slots that are close together begin together (`observer.collect.schedule.grain`): a process that wakes is expensive.

An entry costs a task only while its turn runs. It never has two turns at once; slots that pass during one are skipped.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import math
from abc import ABC, abstractmethod

from observer.clock import Clock
from observer.collect.schedule import grain, moment, slot_after
from observer.supervise import Child, Supervisor

_TICK = 0.001
"""Seconds: what the event loop's timers can tell apart; a turn never begins early."""
_NONE = -1
_FEW = 64
"""So many lines of entries that left are never worth the looking."""


class Entry(Child, ABC):
    """What has turns. ``shift`` is where its slots begin in the period, ``next_due`` the next one (monotonic seconds).

    ``wanted`` says that an extra turn is asked for.
    """

    __slots__ = ("next_due", "number", "planned", "resting_until", "shift", "slot", "wanted")

    def __init__(self, name: str, shift: float) -> None:
        super().__init__(name)
        self.shift = shift
        self.next_due: float | None = None
        self.wanted = False
        self.slot: int | None = None
        """The number of the slot that it had last, or has."""
        self.planned = 0
        """The number of the slot that begins at ``next_due``."""
        self.number = _NONE
        """Which of the timetable's lines for it counts."""
        self.resting_until = -math.inf

    @abstractmethod
    async def turn(self, *, extra: bool) -> None:
        """One turn, of its slot or ``extra``. It raises only for a bug."""


class Timetable:
    """Gives entries their turns. ``period`` in seconds.

    An entry whose turn failed by a bug is broken, visibly, and rests for a growing time, as every supervised child.
    """

    def __init__(self, what: str, *, clock: Clock, supervisor: Supervisor, period: float) -> None:
        self._what = what
        self._clock = clock
        self._supervisor = supervisor
        self._period = period
        self._lines: list[tuple[float, int, Entry]] = []
        self._numbers = itertools.count()
        self._alarm = asyncio.Event()
        self._armed = math.inf
        self._fired = -math.inf
        self._keeper: Child | None = None
        self._members = 0
        self._grain = grain(period, 0)

    def add(self, entry: Entry) -> None:
        """The entry has turns from its next slot on."""
        if self._keeper is None:
            self._keeper = self._supervisor.start(self._what, self._keep)
        self._count(1)
        self._plan(entry, self._clock.now().mono)

    async def remove(self, *entries: Entry) -> None:
        """The entries have no turn any more. On return none of theirs is under way."""
        for entry in entries:
            entry.number = _NONE
        self._count(-len(entries))
        self._forget()
        await self._supervisor.stop(*entries)

    def _forget(self) -> None:
        """Lines of entries that left hold them, and all they hold, until they are due: not more of them than others."""
        if len(self._lines) > 2 * self._members + _FEW:
            self._lines = [line for line in self._lines if line[1] == line[2].number]
            heapq.heapify(self._lines)

    def poke(self, entry: Entry) -> None:
        """An extra turn at once, or after the one under way."""
        entry.wanted = True
        if entry.task is None:
            self._write(entry, max(self._clock.now().mono, entry.resting_until))

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._alarm.clear()
            self._fired = -math.inf
            self._armed = due = self._lines[0][0] if self._lines else math.inf
            left = max(0.0, due - self._clock.now().mono)
            timer = None if due == math.inf else loop.call_later(math.ceil(left / _TICK) * _TICK, self._fire, due)
            try:
                await self._alarm.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            # The timer is believed: what it was set for is due, even if by this clock it came a little early.
            self._begin(max(self._clock.now().mono, self._fired))

    def _fire(self, due: float) -> None:
        self._fired = due
        self._alarm.set()

    def _begin(self, now: float) -> None:
        lines = self._lines
        while lines and lines[0][0] <= now:
            _, number, entry = heapq.heappop(lines)
            if number != entry.number:
                continue
            extra, entry.wanted = entry.wanted, False
            if not extra:
                entry.slot = entry.planned
            self._supervisor.turn(entry, functools.partial(entry.turn, extra=extra), self._over)

    def _next(self, entry: Entry, now: float) -> int:
        """The slot that comes next for an entry, one that it has not had."""
        slot = slot_after(now, entry.shift, self._period)
        return slot if entry.slot is None else max(slot, entry.slot + 1)

    def _count(self, more: int) -> None:
        self._members += more
        self._grain = grain(self._period, self._members)

    def _over(self, entry: Entry, pause: float) -> None:
        """A turn has ended; ``pause`` seconds are to pass before the next."""
        if entry.number == _NONE:
            return
        now = self._clock.now().mono
        entry.resting_until = now + pause
        self._plan(entry, entry.resting_until)

    def _plan(self, entry: Entry, begin: float) -> None:
        """Its next turn is at its next slot from a moment on, or at that moment if an extra one is asked for."""
        entry.planned = self._next(entry, begin)
        entry.next_due = moment(entry.planned, entry.shift, self._period)
        self._write(entry, begin if entry.wanted else math.ceil(entry.next_due / self._grain) * self._grain)

    def _write(self, entry: Entry, when: float) -> None:
        entry.number = next(self._numbers)
        heapq.heappush(self._lines, (when, entry.number, entry))
        if when < self._armed:
            self._armed = when
            self._alarm.set()
