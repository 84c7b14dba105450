"""Rendering of metric families as Prometheus text 0.0.4 or OpenMetrics 1.0, fast on repeat.

Everything of an exposition but its numbers stays the same from scrape to scrape as long as the same series exist. So
each family keeps its lines as a template and only the numbers are written anew. The bytes equal what
``prometheus_client.generate_latest`` writes for the same families.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

import msgspec
import numpy as np
import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.utils import floatToGoString

from exporters.encoding import UNRENDERABLE, in_words
from exporters.family import Family, FamilyType, Row
from exporters.snapshot import Snapshot
from router_contract.readings import Histogram

_END = b"# EOF\n"


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
    array = np.asarray(values, dtype=np.float64)
    texts: list[bytes] = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    size = np.abs(array)
    # Outside this range the two spellings differ, and JSON has no NaN; the comparison is false for NaN.
    usual = (size < 1e6) & ((size >= 1e-4) | (size == 0))
    for index in np.flatnonzero(~usual).tolist():
        texts[index] = _number(values[index]).encode()
    return texts


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]  # the library leaves this function untyped


class _FamilyLayout:
    """The lines of one family as a ``%b`` template, kept until its series change."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._keys: list[tuple[tuple[str, ...], tuple[float, ...] | None]] = []
        self.template = b""

    def fill(self, rows: Iterable[Row], values: list[float]) -> bool:
        """Append the rows' numbers to ``values`` in line order; True when the template had to be written anew."""
        keys: list[tuple[tuple[str, ...], tuple[float, ...] | None]] = []
        for labels, value in rows:
            if isinstance(value, Histogram):
                keys.append((labels, _shape(value)))
                values.extend(value.counts)
                if value.sum == value.sum:
                    values.extend((value.count, value.sum))
            else:
                keys.append((labels, None))
                values.append(value)
        if keys == self._keys:
            return False
        lines = [line for labels, shape in keys for line in self._lines(labels, shape)]
        self.template = "".join(lines).encode()
        self._keys = keys
        return True

    def _lines(self, labels: tuple[str, ...], shape: tuple[float, ...] | None) -> list[str]:
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
        """The HELP and TYPE lines. OpenMetrics names a counter's family without ``_total``."""
        family = self._family
        name = family.name
        if target is Format.OPENMETRICS and family.type is FamilyType.COUNTER:
            name = name.removesuffix("_total")
        text = f"# HELP {name} {family.help}\n# TYPE {name} {family.type.value}\n"
        return text.replace("%", "%%").encode()


def _shape(histogram: Histogram) -> tuple[float, ...]:
    """The bounds and whether a sum is known: what decides a histogram's lines."""
    return (*histogram.bounds, 0.0 if histogram.sum != histogram.sum else 1.0)


def _line(name: str, pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return f"{name} %b\n"
    inner = ",".join(f'{label}="{_escape(value)}"' for label, value in sorted(pairs)).replace("%", "%%")
    return f"{name}{{{inner}}} %b\n"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Renderer:
    """Renders a table of families. Not for concurrent use: one event loop renders one exposition at a time.

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
        self._templates: dict[Format, bytes] = {}

    def render(self, snapshot: Snapshot, target: Format = Format.TEXT) -> Exposition:
        """The exposition of one instant. A family without a series keeps its HELP and TYPE lines.

        What rows or values raise is raised; the next call is then made from nothing that this one left.
        """
        try:
            return self._render(snapshot, target, frozenset())
        except UNRENDERABLE:
            self._templates.clear()
            raise

    def faults(self, snapshot: Snapshot, among: Collection[str] | None = None) -> dict[str, str]:
        """The families (of those named) that cannot be rendered from this snapshot, each with why; costs a rendering."""
        found: dict[str, str] = {}
        for family in self._families:
            if among is not None and family.name not in among:
                continue
            values: list[float] = []
            try:
                if not family.counts_series:
                    _FamilyLayout(family).fill(family.rows(snapshot), values)
                numbers(values)
            except UNRENDERABLE as error:
                found[family.name] = in_words(error)
        return found

    def render_without(self, snapshot: Snapshot, target: Format, families: frozenset[str]) -> Exposition:
        """The exposition with these families left empty and named in ``dropped``."""
        self._templates.clear()
        return self._render(snapshot, target, families)

    def _render(self, snapshot: Snapshot, target: Format, without: frozenset[str]) -> Exposition:
        values: list[float] = []
        changed = False
        dropped: list[str] = []
        counts: list[Row] = []
        for family, layout in zip(self._families, self._layouts, strict=True):
            before = len(values)
            if family.name in without:
                changed |= layout.fill((), values)
                dropped.append(family.name)
                continue
            changed |= layout.fill(counts if family.counts_series else family.rows(snapshot), values)
            if len(values) > self._limit:
                del values[before:]
                changed |= layout.fill((), values)
                dropped.append(family.name)
            counts.append(((family.name,), float(len(values) - before)))
        if changed:
            self._templates.clear()
        template = self._templates.get(target)
        if template is None:
            template = b"".join(layout.header(target) + layout.template for layout in self._layouts)
            self._templates[target] = template
        body = template % tuple(numbers(values))
        return Exposition(body + self._own(target), target.value, len(values), tuple(dropped))

    def _own(self, target: Format) -> bytes:
        if target is Format.TEXT:
            return generate_latest(self._registry) if self._registry is not None else b""
        if self._registry is None:
            return _END
        return bytes(generate_openmetrics(self._registry))  # type: ignore[no-untyped-call]  # untyped in the library
