"""What the readings of one program, version and model are made of, for each shape: its plan, and where its numbers stand.

Views are kept for as long as somebody holds their shape. Those of shapes that differ in few families share all that is
equal, and their columns above all: those are what windows are added up by.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import msgspec

from observer.measure.columns import Columns
from observer.measure.levels import Levels
from observer.measure.plan import Plan
from observer.measure.planner import Planner
from observer.measure.shape import Family, Shape
from router_contract.vocabulary import Vocabulary


class View(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One shape as one program's table reads it. Columns are those that only grow, levels stand by themselves."""

    plan: Plan
    columns: Columns
    levels: Levels


class Views:
    """Makes views and remembers them. It holds no shape."""

    def __init__(self, vocabulary: Vocabulary, version: str | None, model: str | None) -> None:
        self._planner = Planner(vocabulary, version, model)
        self._living: WeakKeyDictionary[Shape, View] = WeakKeyDictionary()

    def of(self, shape: Shape, last: Shape | None, before: View | None) -> View:
        """The view of a shape; ``last`` and ``before`` are the shape and the view that this target had last."""
        if before is None or before.plan.planner is not self._planner:
            last = before = None
        if before is not None and last is shape:
            return before
        known = self._living.get(shape)
        if known is not None:
            return known
        # A body that no layout can read has a new shape each time; its plan is still the same when its series are.
        if last is not None and before is not None and _same_series(last, shape):
            return before
        base = None if shape.base is None else self.of(shape.base, None, None)
        view = self._made(shape, [each for each in (before, base) if each is not None])
        if shape.layout is not None:
            self._living[shape] = view
        return view

    def _made(self, shape: Shape, like: list[View]) -> View:
        """A new view that shares what it can with one of those that it may be like."""
        plan = self._planner.plan(shape, like[-1].plan if like else None)
        columns = next((each.columns for each in like if each.columns.fit(plan)), None)
        if columns is None:
            columns = Columns(plan)
        return View(plan, columns, Levels(plan, columns, like[-1].levels if like else None))


def _same_series(one: Shape, other: Shape) -> bool:
    def told(family: Family) -> tuple[object, ...]:
        return family.type, family.start, family.prefixes

    return (
        one.unreadable == other.unreadable
        and one.truncated == other.truncated
        and one.types == other.types
        and one.families.keys() == other.families.keys()
        and all(told(family) == told(other.families[name]) for name, family in one.families.items())
    )
