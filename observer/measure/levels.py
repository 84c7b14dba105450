"""The numbers of a plan that stand by themselves (levels and counts): where they are, and what each series' number is.

Everything here is made once for a plan; of a body only the rows of such numbers are kept (`Levels.of`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from observer.measure.columns import Columns
from observer.measure.layout import Floats
from observer.measure.lines import ProblemKind
from observer.measure.numbers import LARGEST, WANTED, usable, usable_each
from observer.measure.plan import Plan, PlanSeries, Sets, fold
from router_contract.readings import Problem
from router_contract.signals import Kind

_TOLD = (Kind.COUNTER, Kind.GAUGE)


class Level(msgspec.Struct, frozen=True, gc=False):
    """One series without a histogram. ``sets`` are its places in what `Levels.of` gives.

    ``place`` is the only one of them, where its number is the series' number but for the scale; else -1. ``column`` is the
    series' place in `Columns.series`, -1 for one that does not only grow.
    """

    series: PlanSeries
    sets: Sets
    place: int
    column: int


class Levels:
    """The levels and counts of one plan. ``of_signal`` has the series of each signal, in the plan's order.

    ``rows`` are those that are kept of a body, ``checked`` the places of those that must be numbers of their signal.
    ``columns`` are the plan's. What is equal in those of the plan that it is ``like`` is shared with them.
    """

    def __init__(self, plan: Plan, columns: Columns, like: Levels | None = None) -> None:
        rows: list[int] = []
        told: list[int] = []
        self.of_signal: dict[str, tuple[Level, ...]] = {}
        shared: Mapping[str, tuple[Level, ...]] = {} if like is None else like.of_signal
        for signal, several in plan.series.items():
            found = tuple(self._level(each, plan, columns, rows, told) for each in several if each.spread is None)
            if found:
                before = shared.get(signal, ())
                self.of_signal[signal] = before if before == found else found
        self.rows = np.array(rows, np.int64)
        self.checked = np.array(told, np.int64)
        if like is not None and np.array_equal(like.rows, self.rows) and np.array_equal(like.checked, self.checked):
            self.rows, self.checked = like.rows, like.checked

    @staticmethod
    def _level(each: PlanSeries, plan: Plan, columns: Columns, rows: list[int], told: list[int]) -> Level:
        column = columns.where.get((each.signal, each.labels), -1)
        if each.fixed is not None and not each.sets:
            return Level(each, (), -1, column)
        first, places = plan.starts[each.family], []
        for copies in each.sets:
            places.append(tuple(range(len(rows), len(rows) + len(copies))))
            rows += [first + row for row in copies]
        if each.kind in _TOLD:
            told += [place for copies in places for place in copies]
        alone = len(places) == 1 and len(places[0]) == 1 and not each.sentinels and each.fixed is None
        return Level(each, tuple(places), places[0][0] if alone else -1, column)

    def of(self, values: Floats) -> Floats:
        """The numbers that are kept of a body's row values."""
        return values.take(self.rows)

    def outside(self, levels: Floats) -> Iterable[Problem]:
        """Families with a level or count that is no number of its signal in this body; NaN is an honest "none"."""
        rows = levels[self.checked]
        bad = ~(usable_each(rows) | np.isnan(rows))
        if not bad.any():
            return
        said: set[str] = set()
        owners = {
            place: level.series
            for each in self.of_signal.values()
            for level in each
            for copies in level.sets
            for place in copies
        }
        for found in np.flatnonzero(bad).tolist():
            owner, value = owners[self.checked.item(found)], rows.item(found)
            if value not in owner.sentinels and owner.family not in said:
                said.add(owner.family)
                detail = f"{owner.signal} is {value:g}, {WANTED}"
                yield Problem(family=owner.family, kind=ProblemKind.OUT_OF_RANGE, detail=detail)


def number_of(level: Level, levels: Floats) -> float | None:
    """The number of a level or count, NaN where it cannot be one; ``None`` where only sentinels stand."""
    each = level.series
    if level.place >= 0:
        # what is folded of one number is that number, and no number times a scale is -0
        number: float = levels.item(level.place) * each.scale + 0.0
        return number if 0.0 <= number <= LARGEST and usable(levels.item(level.place)) else math.nan
    if each.fixed is not None:
        return each.fixed if usable(each.fixed) else math.nan
    values = [[float(levels[place]) for place in copies] for copies in level.sets]
    kept = [[value for value in copies if value not in each.sentinels] for copies in values]
    if not any(kept):
        return None
    # One bad number among copies must not hide: max() would keep or lose it by its place.
    if not all(usable(value) for copies in kept for value in copies):
        return math.nan
    number = fold([max(copies) for copies in kept if copies], each.combine) * each.scale
    return number if usable(number) else math.nan
