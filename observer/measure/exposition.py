"""A selective reader of Prometheus text and OpenMetrics: it reads wanted families only, and those completely.

A fault costs the family that it hits, which is then named in ``problems``; the rest of the body is read. A body that
is no exposition at all is `NotRead`. A repeated read goes through a verified `Layout` and gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import ne

import numpy as np

from observer.measure.budget import LayoutBudget
from observer.measure.layout import Layout
from observer.measure.lines import LineError, parse_line, shown
from observer.measure.outline import Memory
from observer.measure.rows import Rows
from observer.measure.scan import Scan
from observer.measure.shape import Family, Limits, NotRead, Reading, SampleKey, Shape
from observer.measure.variants import Variants
from observer.measure.words import Indices, line_starts
from router_contract.readings import FailureKind

_BOM = b"\xef\xbb\xbf"
_BINARY = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")
_TRIED = 2
_LAYOUT_BYTES = 32 << 20
_LAYOUT_LINES = 50_000


class Reader:
    """Reads bodies of one kind of program. It keeps layouts (at most ``layouts``, and bytes) and nothing of any target.

    ``wanted`` are exact family names as on the wire. ``budget`` bounds the layouts that targets hold, of all readers that
    have it: a body that has none is read in full each time. One task owns a reader: it is not safe for threads.
    """

    def __init__(
        self,
        wanted: Iterable[str],
        *,
        limits: Limits | None = None,
        layouts: int = 64,
        budget: LayoutBudget | None = None,
    ) -> None:
        self.wanted = frozenset(wanted)
        self.limits = limits or Limits()
        self.full_reads = 0
        self.layout_reads = 0
        self._memory = Memory(self.wanted, self.limits)
        self._variants = Variants(self._memory.structures, self.limits.family_bytes, self.limits.line_bytes)
        self._budget = LayoutBudget() if budget is None else budget
        self._budget.keepers.add(self)
        self._most = layouts
        self._shapes: list[Shape] = []

    def read(self, body: bytes, *, hint: Shape | None = None, openmetrics: bool = False) -> Reading | NotRead:
        """Read one body; ``hint`` is the shape that this target had last, which is tried first.

        ``openmetrics`` says that the content type was OpenMetrics, whose bodies must end in ``# EOF``.
        """
        refused = self._refuse(body)
        if refused is not None:
            return refused
        body = body.removeprefix(_BOM)
        closed = body.endswith(b"\n")
        if not closed:
            body += b"\n"
        starts = line_starts(body)
        if len(starts) > self.limits.lines + 1:
            detail = f"{len(starts) - 1} lines, at most {self.limits.lines}"
            return NotRead(kind=FailureKind.TOO_LARGE, detail=detail)
        if closed:
            reading = self._by_layout(body, starts, hint, openmetrics=openmetrics)
            if reading is not None:
                self.layout_reads += 1
                return reading
        self.full_reads += 1
        return self._in_full(body, starts, closed=closed, openmetrics=openmetrics)

    def forget(self) -> None:
        """Keep no layout any more; those that targets hold are kept again when they are read next."""
        self._shapes.clear()

    @property
    def layout_bytes(self) -> int:
        """Bytes that the kept layouts hold, roughly."""
        return sum(shape.layout.nbytes for shape in self._shapes if shape.layout is not None)

    def _refuse(self, body: bytes) -> NotRead | None:
        """What can be said without reading lines."""
        if len(body) > self.limits.body_bytes:
            detail = f"body of {len(body)} bytes, at most {self.limits.body_bytes}"
            return NotRead(kind=FailureKind.TOO_LARGE, detail=detail)
        if b"\0" in body or body.startswith(_BINARY):
            return NotRead(kind=FailureKind.BAD_ENCODING, detail=f"not text: body begins with {shown(body[:16])}")
        head = body[:256].removeprefix(_BOM).lstrip()
        if not head and not body.removeprefix(_BOM).strip():
            return NotRead(kind=FailureKind.NOT_EXPOSITION, detail="empty body")
        if head[:1] in {b"<", b"["}:
            return NotRead(kind=FailureKind.NOT_EXPOSITION, detail=f"body begins with {shown(head[:32])}")
        return None

    def _by_layout(self, body: bytes, starts: Indices, hint: Shape | None, *, openmetrics: bool) -> Reading | None:
        for base in self._candidates(body, starts, hint):
            if openmetrics and not base.ended:
                continue
            found = self._variants.read(base, hint, body, starts)
            if found is not None:
                self._use(base)
                return Reading(shape=found[0], values=found[1])
        return None

    def _candidates(self, body: bytes, starts: Indices, hint: Shape | None) -> Iterator[Shape]:
        """The shapes with a layout that a body may have, or nearly: none of them is another's variant."""
        first = None
        if hint is not None and (hint.wanted is self.wanted or hint.wanted == self.wanted):
            first = hint.base or hint
            if first.layout is not None:
                yield first
        tried = 0
        for shape in self._shapes:
            if shape is not first and shape.layout is not None and shape.layout.resembles(body, starts):
                yield shape
                tried += 1
                if tried == _TRIED:
                    return

    def _in_full(self, body: bytes, starts: Indices, *, closed: bool, openmetrics: bool) -> Reading | NotRead:
        scan = Scan(body, starts, self._memory)
        scan.run(closed=closed)
        if not scan.rows and not _is_exposition(scan):
            return NotRead(kind=FailureKind.NOT_EXPOSITION, detail=f"no sample line; begins with {shown(body[:64])}")
        good = {family: rows for family, rows in scan.rows.items() if family not in scan.broken}
        values = np.concatenate([np.zeros(0), *(rows.values for rows in good.values())])
        shape = _shape(scan, good, openmetrics=openmetrics)
        if any(rows.stamps for rows in good.values()):
            stamps = [stamp for rows in good.values() for stamp in rows.stamps or [None] * len(rows.values)]
            timestamps = np.array([np.nan if stamp is None else stamp for stamp in stamps], np.float64)
            return Reading(shape=shape, values=values, timestamps=timestamps)
        if closed and not shape.truncated and self._most and scan.count <= _LAYOUT_LINES and _repeats(scan, good):
            shape = self._kept(scan, shape) or self._keep(scan, good, shape)
        return Reading(shape=shape, values=values)

    def _kept(self, scan: Scan, shape: Shape) -> Shape | None:
        """The kept shape of such a body, or the variant of one: more have its number of lines than are tried before.

        Without it many targets of few layouts would each have a shape of their own.
        """
        for kept in self._shapes:
            layout = kept.layout
            if layout is None or layout.lines != scan.count or kept.ended != shape.ended:
                continue
            if not _same_rows(kept, shape, layout.most_own):
                continue
            found = self._variants.read(kept, None, scan.body, scan.starts)
            if found is not None:
                self._use(kept)
                return found[0]
        return None

    def _use(self, shape: Shape) -> None:
        """Put a shape before all others; what was not used for longest goes."""
        if self._shapes and self._shapes[0] is shape:
            return
        if shape in self._shapes:
            self._shapes.remove(shape)
            self._shapes.insert(0, shape)
            return
        self._shapes.insert(0, shape)
        del self._shapes[self._most :]
        while self.layout_bytes > _LAYOUT_BYTES and len(self._shapes) > 1:
            self._shapes.pop()

    def _keep(self, scan: Scan, good: dict[str, Rows], shape: Shape) -> Shape:
        runs = [run for rows in good.values() for run in rows.runs]
        prefixes = list(chain.from_iterable([rows.prefixes for rows in good.values()]))
        special = scan.special, scan.outline.special
        layout = Layout(scan.count, special, runs, prefixes, scan.gaps, self._memory.names)
        if not self._budget.take(layout):
            return shape
        kept = Shape(**{name: getattr(shape, name) for name in shape.__struct_fields__} | {"layout": layout})
        self._use(kept)
        return kept


def _is_exposition(scan: Scan) -> bool:
    """Whether a body without any wanted sample is one all the same: metadata, ``# EOF`` or one readable sample."""
    if scan.types or scan.outline.ended:
        return True
    special = frozenset(scan.special)
    for index, line in enumerate(scan.lines):
        if index not in special or line.lstrip()[:1] == b"{":
            try:
                parse_line(line)
            except LineError:
                continue
            return True
    return False


def _repeats(scan: Scan, good: dict[str, Rows]) -> bool:
    """Whether the next body may be read by this one's layout: nothing in it depended on more than its lines' names.

    A body that is an exposition only because one of its unwanted lines can be read is none any more without that one.
    """
    return (
        bool(scan.rows or scan.types or scan.outline.ended)
        and not scan.outline.samples
        and not scan.broken
        and not scan.truncated
        and all(len(rows.runs) == 1 and not rows.folded for rows in good.values())
    )


def _same_rows(one: Shape, other: Shape, most: int) -> bool:
    """Whether the rows of two shapes are the same but for at most so many."""
    if len(one.families) != len(other.families):
        return False
    for mine, its in zip(one.families.values(), other.families.values(), strict=True):
        if mine.prefixes != its.prefixes:
            if len(mine.prefixes) != len(its.prefixes):
                return False
            most -= sum(map(ne, mine.prefixes, its.prefixes))
            if most < 0:
                return False
    return True


def _shape(scan: Scan, good: dict[str, Rows], *, openmetrics: bool) -> Shape:
    families: dict[str, Family] = {}
    start = 0
    for name, rows in good.items():
        stop = start + len(rows.values)
        kind = scan.types.get(name, "")
        family = Family(name, kind, start, stop, tuple(rows.prefixes), rows.runs[0][0] + 1)
        # Shapes of bodies that no layout can read are many; most of their families are those of the body before.
        last = scan.memory.families.get(name)
        families[name] = scan.memory.families[name] = last if last is not None and last == family else family
        start = stop
    return Shape(
        wanted=scan.memory.wanted,
        families=families,
        types=scan.types,
        problems=(*scan.broken.values(), *scan.notes),
        unreadable=frozenset(scan.broken),
        truncated=scan.truncated or (openmetrics and not scan.outline.ended),
        ended=scan.outline.ended,
        kept=start,
        dropped=scan.samples - start,
    )


__all__ = ["Family", "Limits", "NotRead", "Reader", "Reading", "SampleKey", "Shape"]
