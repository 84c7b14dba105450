"""Shapes that are a kept one's but for a few wanted lines, as those of Pods that differ in the labels of an info line.

Such a line is read by the grammar of a full read; all others are proved by the kept shape's layout. The new shape shares
everything with the kept one but the families of these lines, and lives as long as someone holds it.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import msgspec

from observer.measure.layout import Layout, Own
from observer.measure.lines import LineError, parse_key
from observer.measure.rows import Rows, Structures
from observer.measure.shape import Family, Shape
from observer.measure.words import Floats, Indices


class Variants:
    """Reads bodies of kept shapes and of what differs from those in few lines. It keeps nothing that nobody holds."""

    def __init__(self, known: Structures, family_bytes: int, line_bytes: int) -> None:
        self._known = known
        self._limits = family_bytes, line_bytes
        self._living: WeakValueDictionary[tuple[int, Own], Shape] = WeakValueDictionary()

    def read(self, base: Shape, hint: Shape | None, body: bytes, starts: Indices) -> tuple[Shape, Floats] | None:
        """The shape of a body and its values, where it is the shape ``base`` or one that differs from it in few lines.

        ``None`` where that is not proved. ``hint`` is what the body probably is.
        """
        layout = base.layout
        rows = None if layout is None else layout.unproved(body, starts, *self._limits)
        if layout is None or rows is None:
            return None
        if not rows:
            values = layout.numbers(body, starts)
            return None if values is None else (base, values)
        shape = (
            hint if hint is not None and hint.base is base and _stands(hint.own, rows, layout, body, starts) else None
        )
        own = self._own(base, layout, rows, body, starts) if shape is None else shape.own
        values = None if own is None else layout.numbers(body, starts, own)
        if own is None or values is None:
            return None
        shape = shape or self._living.get((id(base), own)) or self._made(base, own)
        return None if shape is None else (shape, values)

    def _own(self, base: Shape, layout: Layout, rows: list[int], body: bytes, starts: Indices) -> Own | None:
        """What the lines of these rows begin with; ``None`` where one has a fault or might be of another family."""
        own: list[tuple[int, bytes]] = []
        for row, before in zip(rows, _prefixes(base, rows), strict=True):
            # Whose line it is depends on the sample's name alone.
            name = before[: before.find(b"{") + 1]
            line = layout.line(row)
            text = body[starts[line] : starts[line + 1] - 1]
            if len(name) < 2 or not text.startswith(name):
                return None
            try:
                own.append((row, Rows.head(text, self._known)))
            except LineError:
                return None
        return tuple(own)

    def _made(self, base: Shape, own: Own) -> Shape | None:
        """The shape with other beginnings of some rows; ``None`` where a series would be there twice."""
        families = dict(base.families)
        left = list(own)
        for name, family in base.families.items():
            mine = [(row - family.start, text) for row, text in left if row < family.stop]
            if not mine:
                continue
            left = left[len(mine) :]
            prefixes = list(family.prefixes)
            for place, text in mine:
                prefixes[place] = text
            keys = {(key, *sorted(labels)) for key, labels, _ in map(parse_key, prefixes)}
            if len(keys) < len(prefixes):
                return None
            families[name] = Family(name, family.type, family.start, family.stop, tuple(prefixes), family.line)
        shape = msgspec.structs.replace(base, families=families, base=base, own=own)
        self._living[id(base), own] = shape
        return shape


def _prefixes(base: Shape, rows: list[int]) -> list[bytes]:
    """What the lines of these rows begin with in a shape; rows rise, as those of its families do."""
    found: list[bytes] = []
    for family in base.families.values():
        while len(found) < len(rows) and rows[len(found)] < family.stop:
            found.append(family.prefixes[rows[len(found)] - family.start])
    return found


def _stands(own: Own, rows: list[int], layout: Layout, body: bytes, starts: Indices) -> bool:
    """Whether these rows are those that have beginnings of their own, and begin with them."""
    return len(own) == len(rows) and all(
        place == row and body.startswith(text, starts[layout.line(row)])
        for (place, text), row in zip(own, rows, strict=True)
    )
