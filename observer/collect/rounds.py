"""A visit to each member of a changing set, each on a schedule of its own and in a supervised task while it lasts.

One member that hangs delays nobody but itself: its own next visit waits, and the slots that pass are skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from observer.clock import Clock
from observer.collect.schedule import offset
from observer.collect.timetable import Entry, Timetable
from observer.supervise import Supervisor
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


class _Visits(Entry, Generic[S]):
    """The visits to one member."""

    __slots__ = ("visitor",)

    def __init__(self, name: str, shift: float, visitor: Visitor[S]) -> None:
        super().__init__(name, shift)
        self.visitor = visitor

    async def turn(self, *, extra: bool) -> None:  # noqa: ARG002 - a visit is a visit
        """Visit once."""
        await self.visitor.visit()


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
        self._period = period
        self._timetable = Timetable(f"begin to {what}", clock=clock, supervisor=supervisor, period=period)
        self._most = most
        self._visits: dict[TargetKey, _Visits[S]] = {}
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
                key for key, each in self._visits.items() if key not in wanted or not each.visitor.adopt(wanted[key])
            ]
            await self._timetable.remove(*[self._visits.pop(key) for key in gone])
            for key in kept:
                if key not in self._visits:
                    name = f"{self._what} {key.deployment} {key.member_uid}"
                    visits = _Visits(name, offset(key, self._period), self._make(wanted[key]))
                    self._visits[key] = visits
                    self._timetable.add(visits)

    def visitor(self, key: TargetKey) -> Visitor[S] | None:
        """Who visits a member, ``None`` for one that is not visited."""
        visits = self._visits.get(key)
        return None if visits is None else visits.visitor

    def poke(self, key: TargetKey) -> None:
        """Visit a member at once instead of at its next slot; nothing for one that is not visited."""
        visits = self._visits.get(key)
        if visits is not None:
            self._timetable.poke(visits)

    def keys(self) -> Iterator[TargetKey]:
        """The members that are visited."""
        return iter(self._visits)

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The wanted members that are left out because there are too many."""
        return self._shed

    def _note_shed(self, shed: tuple[TargetKey, ...]) -> None:
        if len(shed) != len(self._shed):
            text = "%s: %d members are left out: the limit is %d" if shed else "%s: all members again (%d, limit %d)"
            _log.warning(text, self._what, len(shed), self._most)
        self._shed = shed
