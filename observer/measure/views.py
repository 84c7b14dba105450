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
    """Makes views and remembers them; of shapes it holds the newest only.

    Where no layout can be had each body has a new shape. Then its view is that of its target's last body, or the newest
    one, when their series are the same.
    """

    def __init__(self, vocabulary: Vocabulary, version: str | None, model: str | None) -> None:
        self._planner = Planner(vocabulary, version, model)
        self._living: WeakKeyDictionary[Shape, View] = WeakKeyDictionary()
        self._newest: tuple[Shape, View] | None = None

    def of(self, shape: Shape, last: Shape | None, before: View | None) -> View:
        """The view of a shape; ``last`` and ``before`` are the shape and the view that this target had last."""
        if before is None or before.plan.planner is not self._planner:
            last = before = None
        if before is not None and last is shape:
            return before
        view = self._living.get(shape)
        if view is None:
            view = self._found(shape, last, before) or self._made(shape, before)
            if shape.layout is not None:
                self._living[shape] = view
        return view

    def _found(self, shape: Shape, last: Shape | None, before: View | None) -> View | None:
        """The view of other bodies with the same series."""
        if last is not None and before is not None and _same_series(last, shape):
            mine = not before.plan.problems or last.families == shape.families  # problems say in which lines they are
            if mine:
                return before
        if self._newest is not None:
            newest, view = self._newest
            # What is told of another target's lines is true of these where they stand in the same places.
            if newest.families == shape.families and _same_series(newest, shape):
                return view
        return None

    def _made(self, shape: Shape, before: View | None) -> View:
        """A new view, which shares what it can with those that it may be like."""
        base = None if shape.base is None else self.of(shape.base, None, None)
        newest = None if self._newest is None else self._newest[1]
        like = next((each for each in (base, before, newest) if each is not None), None)
        plan = self._planner.plan(shape, None if like is None else like.plan)
        others = [each.columns for each in (before, base, newest) if each is not None]
        columns = next((each for each in others if each.fit(plan)), None)
        if columns is None:
            columns = Columns(plan)
        view = View(plan, columns, Levels(plan, columns, None if like is None else like.levels))
        self._newest = shape, view
        return view


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
