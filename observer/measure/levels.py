"""The numbers of a plan that stand by themselves (levels and counts): where they are, and what each series' number is.

Everything here is made once for a plan; of a body only the rows of such numbers are kept (`Levels.of`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np

from observer.measure.layout import Floats
from observer.measure.lines import ProblemKind
from observer.measure.numbers import LARGEST, WANTED, usable, usable_each
from observer.measure.plan import Plan, PlanSeries, Sets, fold
from router_contract.readings import Problem
from router_contract.signals import Kind

_TOLD = (Kind.COUNTER, Kind.GAUGE)


class Level(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One series without a histogram. ``sets`` are its places in what `Levels.of` gives.

    ``place`` is the only one of them, where its number is the series' number but for the scale; else -1.
    """

    series: PlanSeries
    sets: Sets
    place: int


class Levels:
    """The rows of the levels and counts of one plan. ``of_signal`` has the series of each signal, in the plan's order."""

    def __init__(self, plan: Plan) -> None:
        rows: list[int] = []
        self._told: list[tuple[int, PlanSeries]] = []
        self.of_signal: dict[str, tuple[Level, ...]] = {}
        for signal, several in plan.series.items():
            found = [self._level(each, plan, rows) for each in several if each.spread is None]
            if found:
                self.of_signal[signal] = tuple(found)
        self._rows = np.array(rows, np.int64)
        self._checked = np.array([place for place, _ in self._told], np.int64)

    def _level(self, each: PlanSeries, plan: Plan, rows: list[int]) -> Level:
        if each.fixed is not None and not each.sets:
            return Level(each, (), -1)
        first, places = plan.starts[each.family], []
        for copies in each.sets:
            places.append(tuple(range(len(rows), len(rows) + len(copies))))
            rows += [first + row for row in copies]
        if each.kind in _TOLD:
            self._told += [(place, each) for copies in places for place in copies]
        alone = len(places) == 1 and len(places[0]) == 1 and not each.sentinels and each.fixed is None
        return Level(each, tuple(places), places[0][0] if alone else -1)

    def of(self, values: Floats) -> Floats:
        """The numbers that are kept of a body's row values."""
        return values.take(self._rows)

    def outside(self, levels: Floats) -> Iterable[Problem]:
        """Families with a level or count that is no number of its signal in this body; NaN is an honest "none"."""
        rows = levels[self._checked]
        bad = ~(usable_each(rows) | np.isnan(rows))
        said: set[str] = set()
        for found in np.flatnonzero(bad).tolist() if bad.any() else ():
            (_, owner), value = self._told[found], float(rows[found])
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
