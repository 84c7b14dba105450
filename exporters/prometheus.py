"""Rendering of metric families as Prometheus text 0.0.4 or OpenMetrics 1.0, fast on repeat.

Everything of an exposition but its numbers stays the same from scrape to scrape as long as the same series exist. So
each family keeps what stands before its numbers and only the numbers are written anew. The bytes equal what
``prometheus_client.generate_latest`` writes for the same families.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.utils import floatToGoString

from exporters.encoding import UNRENDERABLE, in_words
from exporters.family import Family, FamilyType, Row, signals_of, totals_of
from exporters.snapshot import Snapshot
from router_contract.readings import Histogram

Made = TypeVar("Made")

_END = b"# EOF\n"
_APART = "\0"


LINES_A_STEP = 10_000
"""How many rows are asked for or written in one step where a rendering goes on in steps: some 5 ms."""
_AT_ONCE = 1 << 40


class Format(StrEnum):
    """An exposition format, by its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Exposition(msgspec.Struct, frozen=True):
    """One rendered exposition: its bytes, their content type, and the number of series, the registry's aside.

    ``dropped`` names the families that were left out because the limit on series was reached.
    """

    body: bytes
    content_type: str
    series: int
    dropped: tuple[str, ...] = ()


def negotiate(accept: str) -> Format:
    """The format for an ``Accept`` header: OpenMetrics where it is preferred to (or as good as) plain text."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0, "*/*": 0.0}
    for entry in accept.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        settings = dict(parameter.partition("=")[::2] for parameter in parameters)
        if name in best and settings.get("version", "1.0.0") in {"0.0.1", "0.0.4", "1.0.0"}:
            best[name] = max(best[name], _quality(settings.get("q", "1")))
    openmetrics = best["application/openmetrics-text"]
    return Format.OPENMETRICS if openmetrics > 0 and openmetrics >= best["text/plain"] else Format.TEXT


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def numbers(values: Sequence[float]) -> list[bytes]:
    """Each value as Prometheus writes it (``1e+06``, ``+Inf``, ``NaN``)."""
    if not values:
        return []
    array = np.fromiter(values, np.float64, len(values))
    texts: list[bytes] = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    size = np.abs(array)
    # Outside this range the two spellings differ, and JSON has no NaN; the comparison is false for NaN.
    usual = (size < 1e6) & ((size >= 1e-4) | (size == 0))
    for index in np.flatnonzero(~usual).tolist():
        texts[index] = _number(values[index]).encode()
    return texts


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]  # the library leaves this function untyped


_SPECIAL = ("\\", "\n", '"', _APART)
_Shape = tuple[float, ...]


class _FamilyLayout:
    """What stands before each number of one family (its line's beginning after a newline), until its series change."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._labels: list[tuple[str, ...]] = []
        self._shapes: list[_Shape | None] = []
        order = sorted(range(len(family.labels)), key=family.labels.__getitem__)
        inner = ",".join(f'{family.labels[place]}="%s"' for place in order)
        self._order = itemgetter(*order) if order else None
        self._form = f"\n{family.name}{{{inner}}} "
        self.beginnings: list[bytes] = []

    def fill(self, rows: Iterable[Row], values: list[float], step: int) -> Generator[None, None, bool]:
        """Append the rows' numbers to ``values`` in line order; True when the lines had to be written anew.

        After so many rows a step; what is left half way is made anew the next time.
        """
        cells = yield from _cells(iter(rows), step)
        labels: list[tuple[str, ...]] = cells[::2]
        found: list[float | Histogram] = cells[1::2]
        shapes: list[_Shape | None] = []
        if self._family.type is FamilyType.HISTOGRAM:
            shapes = [_append(value, values) for value in found]
        else:
            values.extend(found)  # type: ignore[arg-type]  # a histogram here is no number, which `numbers` refuses
        if labels == self._labels and shapes == self._shapes:
            return False
        self._labels, self.beginnings = [], []
        for first in range(0, len(labels), step):
            self.beginnings += self._written(labels[first : first + step], shapes[first : first + step])
            yield
        self._labels, self._shapes = labels, shapes
        return True

    def _written(self, labels: list[tuple[str, ...]], shapes: list[_Shape | None]) -> list[bytes]:
        """Every line's beginning. Labels that need no escapes and are all there, as nearly all are, go one quick way."""
        if not labels:
            return []
        order = self._order
        if order is not None and not shapes and all(map(all, labels)):
            known = set(map(len, labels)) == {len(self._family.labels)}
            text = "".join(chain.from_iterable(labels))
            if known and not any(map(text.__contains__, _SPECIAL)):
                return _APART.join(map(self._form.__mod__, map(order, labels))).encode().split(_APART.encode())
        lines = zip(labels, shapes or repeat(None, len(labels)), strict=True)
        return [line.encode() for each, shape in lines for line in self._lines(each, shape)]

    def _lines(self, labels: tuple[str, ...], shape: _Shape | None) -> list[str]:
        name = self._family.name
        pairs = [(label, value) for label, value in zip(self._family.labels, labels, strict=True) if value]
        if shape is None:
            return [_line(name, pairs)]
        bounds = shape[:-1]
        lines = [_line(f"{name}_bucket", [*pairs, ("le", _number(bound))]) for bound in bounds]
        if shape[-1]:
            lines += [_line(f"{name}_count", pairs), _line(f"{name}_sum", pairs)]
        return lines

    def header(self, target: Format) -> bytes:
        """The HELP and TYPE lines after a newline. OpenMetrics names a counter's family without ``_total``."""
        family = self._family
        name = family.name
        if target is Format.OPENMETRICS and family.type is FamilyType.COUNTER:
            name = name.removesuffix("_total")
        return f"\n# HELP {name} {family.help}\n# TYPE {name} {family.type.value}".encode()


def _cells(rows: Iterator[Row], step: int) -> Generator[None, None, list[Any]]:
    """Labels and number of each row in turn, after so many rows a step."""
    # One row at a time: tuples of all rows at once would have the garbage collector visit them.
    cells: list[Any] = []
    while True:
        before = len(cells)
        deque(
            map(cells.extend, islice(rows, step)), maxlen=0
        )  # a loop in C; an iterator over each row costs twice as much
        if len(cells) < before + 2 * step:
            return cells
        yield


def _append(value: float | Histogram, values: list[float]) -> _Shape | None:
    """Append what a row's lines hold; the shape of a histogram."""
    if not isinstance(value, Histogram):
        values.append(value)
        return None
    values.extend(value.counts)
    if value.sum == value.sum:
        values.extend((value.count, value.sum))
    return _shape(value)


class _Page:
    """An exposition in parts: what stands before each number, the numbers of the last rendering, and the end."""

    def __init__(self, layouts: Sequence[_FamilyLayout], target: Format) -> None:
        before: list[bytes] = []
        header = b""
        for layout in layouts:
            header += layout.header(target)
            if layout.beginnings:
                first = len(before)
                before += layout.beginnings
                before[first] = header + before[first]
                header = b""
        if before:
            before[0] = before[0].removeprefix(b"\n")
        else:
            header = header.removeprefix(b"\n")
        self._end = header + b"\n" if layouts else b""
        self._parts = [b""] * (2 * len(before) + 1)
        self._parts[:-1:2] = before

    def filled(self, values: list[float], more: bytes, step: int) -> Generator[None, None, bytes]:
        """The exposition with its numbers, and what follows it, after so many lines a step."""
        parts = self._parts
        parts[-1] = self._end + more
        if len(values) <= step:
            parts[1::2] = numbers(values)
            return b"".join(parts)
        pieces: list[bytes] = []
        for first in range(0, len(values), step):
            some = values[first : first + step]
            last = first + len(some)
            parts[2 * first + 1 : 2 * last : 2] = numbers(some)
            pieces.append(b"".join(parts[2 * first : 2 * last]))
            yield
        return b"".join((*pieces, parts[-1]))


def _shape(histogram: Histogram) -> tuple[float, ...]:
    """The bounds and whether a sum is known: what decides a histogram's lines."""
    return (*histogram.bounds, 0.0 if histogram.sum != histogram.sum else 1.0)


def _line(name: str, pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return f"\n{name} "
    inner = ",".join(f'{label}="{_escape(value)}"' for label, value in sorted(pairs))
    return f"\n{name}{{{inner}}} "


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Renderer:
    """Renders a table of families. Not for concurrent use: one exposition at a time.

    ``registry`` holds the process's own metrics; they follow the families. A family that would bring the exposition
    above ``series_limit`` lines is left out whole and named, so that no family is ever half there.
    """

    def __init__(
        self, families: Sequence[Family], registry: CollectorRegistry | None = None, series_limit: int = 1_000_000
    ) -> None:
        self._families = tuple(families)
        self._layouts = tuple(_FamilyLayout(family) for family in families)
        self._registry = registry
        self._limit = series_limit
        self._pages: dict[Format, _Page] = {}
        self.signals = signals_of(families)
        """The signals whose values the families look at: a snapshot needs no others."""
        self.totals = totals_of(families)
        """The signals of which they take running totals of roles."""

    def render(self, snapshot: Snapshot, target: Format = Format.TEXT) -> Exposition:
        """The exposition of one instant. A family without a series keeps its HELP and TYPE lines.

        What rows or values raise is raised; the next call is then made from nothing that this one left.
        """
        return _finished(self._steps(snapshot, target, frozenset(), _AT_ONCE))

    def steps(self, snapshot: Snapshot, target: Format = Format.TEXT) -> Generator[None, None, Exposition]:
        """`render` in steps short enough for an event loop. One that is not gone through to its end leaves nothing."""
        return self._steps(snapshot, target, frozenset(), LINES_A_STEP)

    def faults(self, snapshot: Snapshot, among: Collection[str] | None = None) -> dict[str, str]:
        """The families (of those named) that cannot be rendered from this snapshot, each with why; costs a rendering."""
        found: dict[str, str] = {}
        for family in self._families:
            if among is not None and family.name not in among:
                continue
            values: list[float] = []
            try:
                if not family.counts_series:
                    _finished(_FamilyLayout(family).fill(family.rows(snapshot), values, _AT_ONCE))
                numbers(values)
            except UNRENDERABLE as error:
                found[family.name] = in_words(error)
        return found

    def render_without(self, snapshot: Snapshot, target: Format, families: frozenset[str]) -> Exposition:
        """The exposition with these families left empty and named in ``dropped``."""
        self._pages.clear()
        return _finished(self._steps(snapshot, target, families, _AT_ONCE))

    def _steps(
        self, snapshot: Snapshot, target: Format, without: frozenset[str], lines: int
    ) -> Generator[None, None, Exposition]:
        # Until the end nothing is kept, so that what was begun and left, or raised, is made anew.
        pages, self._pages = self._pages, {}
        values: list[float] = []
        changed = False
        dropped: list[str] = []
        counts: list[Row] = []
        for family, layout in zip(self._families, self._layouts, strict=True):
            before = len(values)
            if family.name in without:
                changed |= yield from layout.fill((), values, lines)
                dropped.append(family.name)
                continue
            rows = counts if family.counts_series else family.rows(snapshot)
            changed |= yield from layout.fill(rows, values, lines)
            if len(values) > self._limit:
                del values[before:]
                changed |= yield from layout.fill((), values, lines)
                dropped.append(family.name)
            counts.append(((family.name,), float(len(values) - before)))
            yield
        if changed:
            pages.clear()
        if target not in pages:
            pages[target] = _Page(self._layouts, target)
        body = yield from pages[target].filled(values, self._own(target), lines)
        self._pages = pages
        return Exposition(body, target.value, len(values), tuple(dropped))

    def _own(self, target: Format) -> bytes:
        if target is Format.TEXT:
            return generate_latest(self._registry) if self._registry is not None else b""
        if self._registry is None:
            return _END
        return bytes(generate_openmetrics(self._registry))  # type: ignore[no-untyped-call]  # untyped in the library


def _finished(steps: Generator[None, None, Made]) -> Made:
    """What steps give, gone through without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made
