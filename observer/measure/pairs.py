"""What one read adds to a chain: the delta to the read before it, decided for each wire family as a whole.

The common case (the same series, nothing lower, nothing unreadable) is a handful of vector operations; everything else
goes series by series.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from observer.measure.columns import Columns
from observer.measure.layout import Floats
from observer.measure.packed import Packed, pack
from observer.measure.plan import OurLabels, Plan

Key = tuple[str, OurLabels]
_ROUNDING: Final = 1e-9
_MOMENTS: Final = 200
"""How many moments of growth a tail tells apart; each of them is the newest of a series."""
_TIDY: Final = 16
"""After so many reads moments are forgotten that are the newest of no series."""


class Step(IntEnum):
    """What a read was for one series."""

    BASELINE = 0
    DELTA = 1
    RESET = 2
    SKIPPED = 3


class Held(msgspec.Struct, frozen=True):
    """The last good read of a series that was unreadable since: its columns, when, whether a restart came between."""

    source: str
    values: Floats
    bounds: tuple[float, ...]
    at: float
    lossy: bool
    moved: float


_NO_STARTS: Final[Mapping[int, float]] = MappingProxyType({})
_NOTHING_HELD: Final[Mapping[Key, Held]] = MappingProxyType({})


class Link(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One read of a chain: from ``start`` to ``end`` (mono seconds), its deltas packed.

    ``steps`` has a `Step` for each series (``None``: all are deltas). ``starts`` are the starts of series whose pair began
    earlier, ``lossy`` the series that lost a restart while they were unreadable.
    """

    columns: Columns
    start: float
    end: float
    packed: Packed
    steps: bytes | None = None
    starts: Mapping[int, float] = _NO_STARTS
    lossy: frozenset[int] = frozenset()

    def deltas(self) -> Floats:
        """The deltas of all columns; nobody may write into them."""
        return self.packed.floats()

    @property
    def nbytes(self) -> int:
        """Bytes of the packed numbers."""
        return self.packed.nbytes


class Moved(msgspec.Struct, frozen=True, eq=False, gc=False):
    """When each series last grew, mono seconds: ``times[which[place]]``; few reads are the last one for any series."""

    times: tuple[float, ...]
    which: npt.NDArray[np.uint8]

    @classmethod
    def never(cls, series: int) -> Moved:
        """None of so many series was seen to grow."""
        return cls((math.nan,), np.zeros(series, np.uint8))

    @classmethod
    def of(cls, moments: list[float]) -> Moved:
        """Series that last grew at these moments, NaN for never; of more than 255 moments the oldest are told as one."""
        times = sorted({each for each in moments if not math.isnan(each)})[-_MOMENTS:]
        place = {each: index for index, each in enumerate(times, 1)}
        which = [0 if math.isnan(each) else place.get(each, 1) for each in moments]
        return cls((math.nan, *times), np.array(which, np.uint8))

    def at(self, place: int) -> float:
        """When one series last grew; NaN: not seen to."""
        return self.times[self.which.item(place)]

    def after(self, grew: npt.NDArray[np.bool_], at: float) -> Moved:
        """After a read at ``at`` in which these series grew."""
        before = self._tidy() if len(self.times) % _TIDY == 0 else self
        return Moved((*before.times, at), np.where(grew, np.uint8(len(before.times)), before.which))

    def _tidy(self) -> Moved:
        """The same without moments that are no longer the last of any series."""
        used = np.bincount(self.which, minlength=len(self.times)) > 0
        used[0] = True  # never
        if np.count_nonzero(used) > _MOMENTS:
            return Moved.of([self.times[index] for index in self.which.tolist()])
        places = np.cumsum(used) - 1
        times = tuple(time for time, kept in zip(self.times, used.tolist(), strict=True) if kept)
        return Moved(times, places.astype(np.uint8)[self.which])

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.which.nbytes + 8 * len(self.times)


class Tail(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The newest read of a chain: what the next one is compared with.

    ``last`` are its columns (NaN where a series had no number, then ``gaps``), ``moved`` when each series last grew.
    """

    plan: Plan
    columns: Columns
    last: Packed
    moved: Moved
    at: float
    held: Mapping[Key, Held] = _NOTHING_HELD
    gaps: bool = False


def _lower(before: Floats, now: Floats) -> npt.NDArray[np.bool_]:
    """Which numbers fell. Sums of fractions added up in another order may differ in their last digits; that is no fall."""
    lower = now < before
    if lower.any():
        fractions = (np.floor(now) != now) | (np.floor(before) != before)
        lower &= ~(fractions & (before - now <= _ROUNDING * np.abs(before)))
    return lower


class Pair(msgspec.Struct, frozen=True, eq=False):
    """What one read adds: its link, with the deltas not packed yet, the new tail, and whether anything was reset."""

    link: Link
    deltas: Floats
    tail: Tail
    reset: bool


def repeat(tail: Tail, plan: Plan, packed: Packed, at: float) -> Pair:
    """A read with the columns of the one before, all of them with numbers, in the same incarnation."""
    columns = tail.columns
    cumulative, last = packed.floats(), tail.last.floats()
    deltas = cumulative - last
    steps = None
    if len(deltas) and np.minimum.reduce(deltas) < 0.0:
        np.maximum(deltas, 0.0, out=deltas)
        steps = _resets(columns, last, cumulative, deltas)
    moved = tail.moved
    if len(columns.series):
        moved = moved.after(np.add.reduceat(deltas, columns.begins) > 0, at)
    link = Link(columns, tail.at, at, pack(deltas, sound=True), steps)
    return Pair(link, deltas, Tail(plan, columns, packed, moved, at), steps is not None)


def _resets(columns: Columns, last: Floats, cumulative: Floats, deltas: Floats) -> bytes | None:
    """The steps of a read in which numbers fell; of families that were reset ``deltas`` become all they count now."""
    lower = _lower(last, cumulative)
    if not lower.any():
        return None
    families = np.zeros(len(columns.families), np.bool_)
    families[columns.column_family[lower]] = True
    reset = families[columns.column_family]
    deltas[reset] = cumulative[reset]
    return bytes(Step.RESET if families[family] else Step.DELTA for family in columns.families)


class Change:
    """A read that is not a plain repeat: a restart, other series, or series without a number."""

    def __init__(
        self, tail: Tail, plan: Plan, columns: Columns, packed: Packed, invalid: frozenset[int], at: float
    ) -> None:
        self.tail, self.plan, self.columns, self.packed = tail, plan, columns, packed
        self.invalid, self.at = invalid, at
        self.cumulative = packed.floats()
        self.before = tail.last.floats()
        self.deltas = np.zeros(columns.width)
        self.moved = [math.nan] * len(columns.series)
        self.steps = bytearray(len(columns.series))
        self.starts: dict[int, float] = {}
        self.lossy: set[int] = set()
        self.held: dict[Key, Held] = {}

    def make(self, *, restarted: bool) -> Pair:
        """What the read adds."""
        lower: set[int] = set()
        for place in range(len(self.columns.series)):
            if place in self.invalid:
                self._skip(place, restarted=restarted)
            elif self._pair(place):
                lower.add(self.columns.families[place])
        for place, family in enumerate(self.columns.families):
            if (restarted or family in lower) and self.steps[place] != Step.SKIPPED:
                self.steps[place] = Step.RESET
                self.deltas[self.columns.span(place)] = self.cumulative[self.columns.span(place)]
        self._hold_unreadable(restarted=restarted)
        for place in range(len(self.columns.series)):
            if self.deltas[self.columns.span(place)].any():
                self.moved[place] = self.at
        steps = None if self.steps.count(Step.DELTA) == len(self.steps) else bytes(self.steps)
        packed = pack(self.deltas)
        link = Link(self.columns, self.tail.at, self.at, packed, steps, self.starts, frozenset(self.lossy))
        last, moved = _without(self.columns, self.packed, self.invalid), Moved.of(self.moved)
        tail = Tail(self.plan, self.columns, last, moved, self.at, self.held, gaps=bool(self.invalid))
        return Pair(link, self.deltas, tail, restarted or bool(lower))

    def _before(self, key: Key) -> Held | None:
        """The last good read of a series, wherever it is kept."""
        held = self.tail.held.get(key)
        place = self.tail.columns.where.get(key)
        if held is not None or place is None:
            return held
        values = self.before[self.tail.columns.span(place)]
        if np.isnan(values).any():
            return None
        columns = self.tail.columns
        source, moved = columns.series[place].source, self.tail.moved.at(place)
        return Held(source, values, columns.bounds(place), self.tail.at, lossy=False, moved=moved)

    def _skip(self, place: int, *, restarted: bool) -> None:
        """No number this time: the older read stays the baseline."""
        self.steps[place] = Step.SKIPPED
        self._keep(self._key(place), restarted=restarted)

    def _hold_unreadable(self, *, restarted: bool) -> None:
        """Series of signals that this body hides keep their older read."""
        for key in (*self.tail.columns.where, *self.tail.held):
            if key[0] in self.plan.unreadable:
                self._keep(key, restarted=restarted)

    def _keep(self, key: Key, *, restarted: bool) -> None:
        before = self._before(key)
        if before is not None:
            # After a restart everything is counted since, from 0.
            values = np.zeros_like(before.values) if restarted else before.values
            lossy = before.lossy or restarted
            self.held[key] = Held(before.source, values, before.bounds, before.at, lossy, before.moved)

    def _key(self, place: int) -> Key:
        series = self.columns.series[place]
        return series.signal, series.labels

    def _pair(self, place: int) -> bool:
        """Decide one series that has a number; True when it is lower than before."""
        before = self._before(self._key(place))
        span = self.columns.span(place)
        now = self.cumulative[span]
        if before is None:
            if self._was_zero(place):
                self.steps[place] = Step.DELTA
                self.deltas[span] = now
            return False
        self.moved[place] = before.moved
        if before.source != self.columns.series[place].source:
            # Another name on the wire is another count, even where it means the same.
            return False
        bounds = self.columns.bounds(place)
        if before.bounds != bounds or len(before.values) != len(now):
            # Only the number of observations can be compared: a lower one is a restart, else a new baseline begins.
            ends = now[max(len(bounds) - 1, 0)], before.values[max(len(before.bounds) - 1, 0)]
            return bool(bounds and before.bounds and ends[0] < ends[1])
        if before.at != self.tail.at:
            self.starts[place] = before.at
        if before.lossy:
            self.lossy.add(place)
        self.steps[place] = Step.DELTA
        self.deltas[span] = np.maximum(now - before.values, 0.0)
        return bool(_lower(before.values, now).any())

    def _was_zero(self, place: int) -> bool:
        """Whether the read before proves that this new series had counted nothing."""
        series = self.columns.series[place]
        before = self.tail.plan
        return (
            series.from_zero is not None
            and series.from_zero in before.series
            and series.signal not in before.unreadable
        )


def first(
    plan: Plan, columns: Columns, packed: Packed, invalid: frozenset[int], at: float, start: float | None
) -> tuple[Link | None, Tail]:
    """The first read of a chain: counted from 0 since ``start`` where that is given, else only a baseline."""
    deltas = packed.floats().copy()
    steps = bytearray([Step.DELTA] * len(columns.series))
    for place in invalid:
        steps[place] = Step.SKIPPED
        deltas[columns.span(place)] = 0.0
    grew = [start is not None and bool(deltas[columns.span(place)].any()) for place in range(len(columns.series))]
    moved = Moved.of([at if each else math.nan for each in grew])
    tail = Tail(plan, columns, _without(columns, packed, invalid), moved, at, gaps=bool(invalid))
    return (None if start is None else Link(columns, start, at, pack(deltas), bytes(steps))), tail


def _without(columns: Columns, packed: Packed, invalid: frozenset[int]) -> Packed:
    """The columns with NaN where a series has no number; the same object where all have one."""
    if not invalid:
        return packed
    last = packed.floats().copy()
    for place in invalid:
        last[columns.span(place)] = np.nan
    return pack(last)
