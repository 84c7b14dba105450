"""A visit to each member of a changing set, each on a schedule and in a supervised child of its own.

One member that hangs delays nobody but itself: its own next visit waits, and the slots that pass are skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from observer.clock import Clock
from observer.collect.schedule import moment, offset, slot_after
from observer.supervise import Child, Supervisor
from router_contract.targets import TargetKey

_log = logging.getLogger(__name__)
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Visitor(Protocol[S_contra]):
    """What visits one member. `visit` is never called twice at once for one visitor."""

    def adopt(self, subject: S_contra) -> bool:
        """Take a newer description of the same member; False when only another visitor will do (it moved)."""
        ...

    async def visit(self) -> None:
        """One visit. It bounds its own time and raises only for a bug."""
        ...


class _Loop(Generic[S]):
    def __init__(self, visitor: Visitor[S], clock: Clock, period: float, shift: float) -> None:
        self.visitor = visitor
        self.child: Child | None = None
        self._clock = clock
        self._period = period
        self._shift = shift
        self._slot: int | None = None
        self._poked = asyncio.Event()

    async def run(self) -> None:
        while True:
            now = self._clock.now().mono
            slot = slot_after(now, self._shift, self._period)
            if self._slot is not None:
                slot = max(slot, self._slot + 1)
            if not await self._poked_within(moment(slot, self._shift, self._period) - now):
                self._slot = slot
            await self.visitor.visit()

    async def _poked_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._poked.wait()
        except TimeoutError:
            return False
        self._poked.clear()
        return True

    def poke(self) -> None:
        self._poked.set()


class Rounds(Generic[S]):
    """The set of members that are visited. `sync` makes it equal to a wanted set.

    ``period`` in seconds. At most ``most`` members are visited; the others, last in order of identity, are `shed`.
    """

    def __init__(
        self,
        what: str,
        make: Callable[[S], Visitor[S]],
        *,
        clock: Clock,
        supervisor: Supervisor,
        period: float,
        most: int,
    ) -> None:
        self._what = what
        self._make = make
        self._clock = clock
        self._supervisor = supervisor
        self._period = period
        self._most = most
        self._loops: dict[TargetKey, _Loop[S]] = {}
        self._shed: tuple[TargetKey, ...] = ()
        self._changing = asyncio.Lock()

    async def sync(self, subjects: Mapping[TargetKey, S]) -> None:
        """Visit these members and no others. On return no visit of one that left, or moved, is under way."""
        async with self._changing:
            ordered = sorted(subjects)
            kept = ordered[: self._most]
            self._note_shed(tuple(ordered[self._most :]))
            wanted = {key: subjects[key] for key in kept}
            gone = [
                key for key, loop in self._loops.items() if key not in wanted or not loop.visitor.adopt(wanted[key])
            ]
            stopped = [self._loops.pop(key) for key in gone]
            await self._supervisor.stop(*(loop.child for loop in stopped if loop.child is not None))
            for key in kept:
                if key not in self._loops:
                    loop = _Loop(self._make(wanted[key]), self._clock, self._period, offset(key, self._period))
                    self._loops[key] = loop
                    loop.child = self._supervisor.start(f"{self._what} {key.deployment} {key.member_uid}", loop.run)

    def visitor(self, key: TargetKey) -> Visitor[S] | None:
        """Who visits a member, ``None`` for one that is not visited."""
        loop = self._loops.get(key)
        return None if loop is None else loop.visitor

    def poke(self, key: TargetKey) -> None:
        """Visit a member at once instead of at its next slot; nothing for one that is not visited."""
        loop = self._loops.get(key)
        if loop is not None:
            loop.poke()

    def keys(self) -> Iterator[TargetKey]:
        """The members that are visited."""
        return iter(self._loops)

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The wanted members that are left out because there are too many."""
        return self._shed

    def _note_shed(self, shed: tuple[TargetKey, ...]) -> None:
        if len(shed) != len(self._shed):
            text = "%s: %d members are left out: the limit is %d" if shed else "%s: all members again (%d, limit %d)"
            _log.warning(text, self._what, len(shed), self._most)
        self._shed = shed
