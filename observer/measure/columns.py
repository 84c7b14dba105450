"""The numbers of a plan that only grow, as one vector, and the checks that every body's histograms must pass.

Column order: series grouped by wire family; a counter has one column, a histogram its cumulative buckets and, where it
has one, its sum. Everything here is made once for a plan and read many times.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from observer.measure.layout import Floats, Indices
from observer.measure.lines import ProblemKind
from observer.measure.numbers import LARGEST, WANTED, usable_each
from observer.measure.plan import Check, OurLabels, Plan, PlanSeries, Sets
from router_contract.readings import Problem
from router_contract.signals import Kind

Bools = npt.NDArray[np.bool_]
_GROWS = (Kind.COUNTER, Kind.HISTOGRAM)
_MadeOf = tuple[
    tuple[tuple[str, tuple[PlanSeries, ...]], ...],
    tuple[Check, ...],
    tuple[tuple[str, tuple[int, ...]], ...],
    tuple[tuple[str, int], ...],
]


class Columns:
    """The cumulative columns of one plan.

    ``series[i]`` owns columns ``starts[i]`` to ``starts[i + 1]``; ``where`` finds i by signal and labels;
    ``families[i]`` is the number of its wire family, ``column_family`` the same for each column. ``of_signal`` has the
    places of each signal, ``histograms`` those of its histograms.
    """

    def __init__(self, plan: Plan) -> None:
        self._made_of = _made_of(plan)
        found = [each for _, several in self._made_of[0] for each in several]
        self.series: tuple[PlanSeries, ...] = tuple(sorted(found, key=lambda each: each.family))
        self.where: dict[tuple[str, OurLabels], int] = {}
        self.starts: list[int] = [0]
        self.families: list[int] = []
        self.of_signal: dict[str, tuple[int, ...]] = {}
        names: dict[str, int] = {}
        numbers: list[Sets] = []
        scales: list[float] = []
        for index, each in enumerate(self.series):
            self.where[each.signal, each.labels] = index
            self.of_signal[each.signal] = (*self.of_signal.get(each.signal, ()), index)
            if each.family not in names:
                names[each.family] = len(names)
            self.families.append(names[each.family])
            if each.spread is None:
                numbers.append(each.sets)
                scales.append(each.scale)
            else:
                numbers += each.spread.buckets
                scales += [1.0] * len(each.spread.buckets)
                if each.spread.sums:
                    numbers.append(each.spread.sums)
                    scales.append(each.scale)
            self.starts.append(len(numbers))
        spreads = {
            signal: tuple(self.where[signal, each.labels] for each in several if each.spread is not None)
            for signal, several in plan.series.items()
        }
        self.histograms = {signal: places for signal, places in spreads.items() if places}
        self.width = len(numbers)
        self.begins = np.array(self.starts[:-1], np.int64)
        self.column_family = np.repeat(np.array(self.families, np.int64), np.diff(self.starts))
        firsts = [plan.starts[each.family] for each in self.series for _ in range(self._width(each))]
        self._sum = _Sum(numbers, firsts, scales)
        self._checks = _Checks(plan)

    def fit(self, plan: Plan) -> bool:
        """Whether they are those of another plan too: its columns would be made of the same, and checked as these are."""
        return self._made_of == _made_of(plan)

    @staticmethod
    def _width(each: PlanSeries) -> int:
        """How many columns a series has."""
        return 1 if each.spread is None else len(each.spread.buckets) + bool(each.spread.sums)

    def read(self, values: Floats) -> Floats:
        """The cumulative vector of a body's row values."""
        return self._sum.of(values)

    def sound(self, values: Floats, cumulative: Floats) -> bool:
        """Whether nothing at all is odd in a body's numbers, told in a few passes; else the other checks say what is."""
        if not len(values):
            return True
        # a NaN makes either of them one, and is at most nothing
        if not (np.minimum.reduce(values) >= 0.0 and np.maximum.reduce(values) <= LARGEST):
            return False
        if self._sum.adds and not (cumulative <= LARGEST).all():
            return False
        return self._checks.sound(values)

    def torn(self, values: Floats) -> dict[str, str]:
        """Families whose histograms cannot be true in this body, and what was found."""
        return self._checks.torn(values)

    def unequal(self, values: Floats) -> Iterable[Problem]:
        """Copies of one number that differ in this body."""
        return self._checks.unequal(values)

    def unusable(self, values: Floats, cumulative: Floats) -> frozenset[int]:
        """Series with a row or a sum of rows that is no number of its signal (see `numbers`)."""
        good = usable_each(cumulative)
        rows = self._sum.unusable(values)
        if good.all() and not len(rows):
            return frozenset()
        places = np.concatenate((np.flatnonzero(~good), rows))
        return frozenset((np.searchsorted(self.starts, places, side="right") - 1).tolist())

    def span(self, index: int) -> slice:
        """The columns of a series."""
        return slice(self.starts[index], self.starts[index + 1])

    def size(self, index: int) -> int:
        """How many columns a series has: of two histograms with the same bounds only one may have a sum."""
        return self.starts[index + 1] - self.starts[index]

    def bounds(self, index: int) -> tuple[float, ...]:
        """The bucket bounds of a series, empty for a counter."""
        spread = self.series[index].spread
        return () if spread is None else spread.bounds


def _made_of(plan: Plan) -> _MadeOf:
    """All that columns depend on: the series that grow, what is checked, and where the families of those begin."""
    series = tuple(
        (signal, tuple(each for each in several if each.kind in _GROWS and not each.fixed))
        for signal, several in plan.series.items()
    )
    series = tuple((signal, several) for signal, several in series if several)
    names = {each.family for _, several in series for each in several}
    names |= {each.family for each in plan.checks} | {name for name, _ in plan.copies}
    return series, plan.checks, plan.copies, tuple((name, plan.starts[name]) for name in sorted(names))


class _Sum:
    """Rows to numbers: the largest of each set of copies, then the sum of the sets, then the scale."""

    def __init__(self, numbers: list[Sets], firsts: list[int], scales: list[float]) -> None:
        placed = zip(numbers, firsts, strict=True)
        self._rows = np.array([first + row for sets, first in placed for copies in sets for row in copies], np.int64)
        copies = [len(copies) for sets in numbers for copies in sets]
        parts = [len(sets) for sets in numbers]
        self._copies = _begins(copies) if any(length > 1 for length in copies) else None
        self._parts = _begins(parts) if any(length > 1 for length in parts) else None
        self._scale = np.array(scales) if any(scale != 1.0 for scale in scales) else None
        self._places = np.repeat(np.arange(len(numbers)), [sum(map(len, sets)) for sets in numbers])
        self.adds = self._parts is not None or self._scale is not None

    def of(self, values: Floats) -> Floats:
        out = values.take(self._rows)
        if self._copies is not None:
            out = np.maximum.reduceat(out, self._copies)
        if not self.adds:
            return out
        # What overflows here is found by `unusable`.
        with np.errstate(over="ignore", invalid="ignore"):
            if self._parts is not None:
                out = np.add.reduceat(out, self._parts)
            return out if self._scale is None else out * self._scale

    def unusable(self, values: Floats) -> Indices:
        """The columns with an unusable row; the largest of copies, or a sum, would hide some."""
        return self._places[~usable_each(values[self._rows])]


class _Checks:
    """What must hold between rows, as index arrays: counts do not fall, ``+Inf`` is the count, copies are equal."""

    def __init__(self, plan: Plan) -> None:
        placed = [(plan.starts[each.family], each) for each in plan.checks]
        pairs = [
            (first + low, first + high, each)
            for first, each in placed
            for low, high in zip(each.buckets, each.buckets[1:], strict=False)
        ]
        ends = [
            (first + each.buckets[-1], first + each.count, each)
            for first, each in placed
            if min(each.count, len(each.buckets) - 1) >= 0
        ]
        firsts = [(first + row, each) for first, each in placed for row in _ends(each) if row >= 0]
        sums = [(first + each.total, each) for first, each in placed if each.total >= 0]
        self._rising = [each.family for *_, each in pairs]
        self._equal = [each.family for *_, each in ends]
        self._positive = [each.family for _, each in firsts]
        self._finite = [each.family for _, each in sums]
        self._low, self._high = _column(pairs, 0), _column(pairs, 1)
        self._last, self._count = _column(ends, 0), _column(ends, 1)
        self._first, self._total = _column(firsts, 0), _column(sums, 0)
        self._copy_families = [family for family, _ in plan.copies]
        self._copy_rows = np.array([plan.starts[name] + row for name, rows in plan.copies for row in rows], np.int64)
        self._copy_starts = _begins([len(rows) for _, rows in plan.copies])

        # Where buckets stand in order, each is compared with the row before it; ``_free`` rows with no other.
        self._free = None
        if pairs and np.array_equal(self._high, self._low + 1):
            self._free = np.ones(int(self._high.max()), np.bool_)
            self._free[self._low] = False

    def sound(self, values: Floats) -> bool:
        """Whether all of it holds, where every row is a usable number."""
        if self._free is None:
            rising = values.take(self._high) >= values.take(self._low)
        else:
            last = len(self._free)
            rising = values[1 : last + 1] >= values[:last]
            rising |= self._free
        if not (rising.all() and (values.take(self._last) == values.take(self._count)).all()):
            return False
        return not self._copy_families or not any(True for _ in self.unequal(values))

    def torn(self, values: Floats) -> dict[str, str]:
        found: dict[str, str] = {}
        for good, families, detail in (
            (values[self._high] >= values[self._low], self._rising, "bucket counts fall"),
            (values[self._last] == values[self._count], self._equal, "the +Inf bucket is not the count"),
            (usable_each(values[self._first]), self._positive, f"a count of it cannot be: {WANTED}"),
            (usable_each(values[self._total]), self._finite, f"its sum cannot be: {WANTED}"),
        ):
            if not good.all():
                for place in np.flatnonzero(~good).tolist():
                    found.setdefault(families[place], detail)
        return found

    def unequal(self, values: Floats) -> Iterable[Problem]:
        if not self._copy_families:
            return
        rows = values[self._copy_rows]
        most, least = np.maximum.reduceat(rows, self._copy_starts), np.minimum.reduceat(rows, self._copy_starts)
        for place in np.flatnonzero(most != least).tolist():
            if not np.isnan(most[place]):
                detail = f"copies of one number differ: {least[place]:g} to {most[place]:g}, the largest is used"
                yield Problem(family=self._copy_families[place], kind=ProblemKind.UNEQUAL_COPIES, detail=detail)


def _ends(check: Check) -> tuple[int, ...]:
    """The rows of a histogram between which its other counts lie."""
    return (*check.buckets[:1], *check.buckets[-1:], check.count)


def _begins(lengths: list[int]) -> Indices:
    """Where each part begins when parts of these lengths stand one after the other."""
    return np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64) if lengths else np.zeros(0, np.int64)


def _column(rows: Iterable[tuple[object, ...]], place: int) -> Indices:
    return np.array([row[place] for row in rows], np.int64)
