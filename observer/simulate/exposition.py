"""Samples and their text: the registry that every simulated program renders its exposition from.

Four house styles exist on the wire: ``SINGLE`` (one Python process: HELP, buckets before count and sum, ``_created``
gauges), ``MULTI`` (several Python processes: sum first, no ``_created``), ``RUST`` (no HELP, a blank line after each
family, series in any order, whole numbers printed bare) and ``GO`` (sorted, whole numbers bare). Text is kept per
family and made again only when a sample of that family moved.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import StrEnum

from prometheus_client.utils import floatToGoString

_go_text: Callable[[float], str] = floatToGoString
Labels = tuple[tuple[str, str], ...]
QUANTILES = ("0", "0.5", "0.9", "0.95", "0.99", "0.999", "1")


class Style(StrEnum):
    """Which program's habits an exposition follows."""

    SINGLE = "single"
    MULTI = "multi"
    RUST = "rust"
    GO = "go"


def number(value: float, style: Style) -> str:
    """A sample value as the style prints it: Python always shows a point, Rust and Go print whole numbers bare."""
    if style in (Style.SINGLE, Style.MULTI):
        return _go_text(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value):
        return str(int(value))
    text = repr(value)
    return format(Decimal(text), "f") if "e" in text else text


def escape(text: str) -> str:
    """A label value with backslash, quote and newline escaped as the format asks."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Series:
    """One label set of a family: a number, or the counts of a histogram, or the kept values of a summary."""

    __slots__ = ("counts", "created", "kept", "labels", "sum", "value")

    def __init__(self, labels: Labels, bounds: Sequence[float], value: float = 0.0) -> None:
        self.labels = labels
        self.value = value
        self.counts = [0.0] * len(bounds)
        self.sum = 0.0
        self.kept: list[float] = []
        self.created = 0.0

    @property
    def count(self) -> float:
        """The number of observations of a histogram or summary."""
        return sum(self.counts) if self.counts else float(len(self.kept)) + self.value


class Family:
    """One family: its TYPE, its bounds as written, and its series by label set."""

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        style: Style,
        bounds: Sequence[str] = (),
        created: bool = False,
        quantiles: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.style = style
        self.bound_texts = tuple(bounds)
        self.bounds = tuple(math.inf if text == "+Inf" else float(text) for text in bounds)
        self.created = created
        self.quantiles = quantiles
        self.series: dict[Labels, Series] = {}
        self.moved = True
        self._prefixes: list[str] = []
        self._shape = -1
        self._text = ""

    def at(self, labels: Labels, now: float = 0.0) -> Series:
        """The series of a label set, made at zero when it is new. ``now`` is its creation time in wall seconds."""
        series = self.series.get(labels)
        if series is None:
            series = self.series[labels] = Series(labels, self.bounds)
            series.created = now
            self.moved = True
        return series

    def _labels_text(self, labels: Iterable[tuple[str, str]]) -> str:
        text = ",".join(f'{name}="{escape(value)}"' for name, value in labels)
        return f"{{{text}}}" if text else ""

    def _with(self, labels: Labels, name: str, value: str) -> str:
        if self.style in (Style.SINGLE, Style.MULTI):
            return self._labels_text(sorted((*labels, (name, value))))
        return self._labels_text((*labels, (name, value)))

    def _series_prefixes(self, series: Series) -> list[str]:
        plain = self._labels_text(series.labels)
        if self.kind == "histogram":
            buckets = [f"{self.name}_bucket{self._with(series.labels, 'le', text)} " for text in self.bound_texts]
            total, count = f"{self.name}_sum{plain} ", f"{self.name}_count{plain} "
            if self.style is Style.MULTI:
                return [total, *buckets, count]
            return [*buckets, count, total] if self.style is Style.SINGLE else [*buckets, total, count]
        if self.kind == "summary":
            quantiles = [f"{self.name}{self._with(series.labels, 'quantile', q)} " for q in QUANTILES]
            total, count = f"{self.name}_sum{plain} ", f"{self.name}_count{plain} "
            return [*quantiles, total, count] if self.quantiles else [count, total]
        return [f"{self.name}{plain} "]

    def _series_values(self, series: Series) -> list[float]:
        if self.kind == "histogram":
            running, cumulative = 0.0, []
            for amount in series.counts:
                running += amount
                cumulative.append(running)
            if self.style is Style.MULTI:
                return [series.sum, *cumulative, running]
            tail = [running, series.sum] if self.style is Style.SINGLE else [series.sum, running]
            return [*cumulative, *tail]
        if self.kind == "summary":
            if not self.quantiles:
                return [series.count, series.sum]
            ordered = sorted(series.kept)
            last = len(ordered) - 1
            return [*(ordered[round(float(q) * last)] if ordered else 0.0 for q in QUANTILES), series.sum, series.count]
        return [series.value]

    def _head(self) -> str:
        help_line = "" if self.style is Style.RUST else f"# HELP {self.name} text left out\n"
        return f"{help_line}# TYPE {self.name} {self.kind}\n"

    def _created_text(self) -> str:
        base = self.name.removesuffix("_total") if self.kind == "counter" else self.name
        name = f"{base}_created"
        lines = [
            f"{name}{self._labels_text(series.labels)} {_go_text(series.created)}\n" for series in self.series.values()
        ]
        return f"# HELP {name} text left out\n# TYPE {name} gauge\n" + "".join(lines)

    def render(self, shuffle: random.Random | None = None) -> str:
        """The family as text. With ``shuffle`` the order of the series is drawn anew each time."""
        if shuffle is not None:
            order = list(self.series.values())
            shuffle.shuffle(order)
            return self._head() + "".join(self._lines(order, [p for s in order for p in self._series_prefixes(s)]))
        if not self.moved:
            return self._text
        rows = list(self.series.values())
        if self._shape != len(rows):
            self._prefixes = [prefix for series in rows for prefix in self._series_prefixes(series)]
            self._shape = len(rows)
        self._text = self._head() + "".join(self._lines(rows, self._prefixes))
        if self.created and rows:
            self._text += self._created_text()
        self.moved = False
        return self._text

    def _lines(self, rows: Iterable[Series], prefixes: Sequence[str]) -> list[str]:
        values = [value for series in rows for value in self._series_values(series)]
        return [f"{p}{number(v, self.style)}\n" for p, v in zip(prefixes, values, strict=True)]


class Registry:
    """Every family of one program in the order it exposes them, and the ways to move a sample."""

    def __init__(self, style: Style, seed: int = 0) -> None:
        self.style = style
        self.families: dict[str, Family] = {}
        self._random = random.Random(seed)

    def declare(self, name: str, kind: str, *, bounds: Sequence[str] = (), created: bool = False) -> Family:
        """Add a family at the end. ``bounds`` are the ``le`` texts of a histogram, ``+Inf`` last."""
        rust = self.style in (Style.RUST, Style.GO)
        family = Family(name, kind, style=self.style, bounds=bounds, created=created, quantiles=rust)
        self.families[name] = family
        return family

    def add(self, name: str, labels: Labels, amount: float = 1.0, now: float = 0.0) -> None:
        """Raise a counter or a gauge."""
        family = self.families[name]
        family.at(labels, now).value += amount
        family.moved = True

    def put(self, name: str, labels: Labels, value: float, now: float = 0.0) -> None:
        """Set a gauge."""
        family = self.families[name]
        series = family.at(labels, now)
        if series.value != value:
            series.value = value
            family.moved = True

    def observe(self, name: str, labels: Labels, value: float, times: float = 1.0, now: float = 0.0) -> None:
        """Record ``times`` equal observations in a histogram or a summary."""
        family = self.families[name]
        series = family.at(labels, now)
        if family.bounds:
            series.counts[bisect_left(family.bounds, value)] += times
        elif family.quantiles:
            series.kept.append(value)
            if len(series.kept) > 1000:
                series.value += 500.0
                del series.kept[:500]
        else:
            series.value += times
        series.sum += value * times
        family.moved = True

    def get(self, name: str, labels: Labels) -> float:
        """A sample's value; 0 for a series that does not exist (for the simulator's own books, not for readers)."""
        family = self.families.get(name)
        series = family.series.get(labels) if family is not None else None
        return 0.0 if series is None else series.value

    def render(self) -> bytes:
        """The whole exposition. Families without any series are left out in the Rust and Go styles."""
        if self.style is Style.RUST:
            order = {"counter": 0, "gauge": 1}
            families = [family for family in self.families.values() if family.series]
            self._random.shuffle(families)
            families.sort(key=lambda family: order.get(family.kind, 2))
            return "".join(family.render(self._random) + "\n" for family in families).encode()
        if self.style is Style.GO:
            return "".join(family.render() for _, family in sorted(self.families.items()) if family.series).encode()
        return "".join(family.render() for family in self.families.values()).encode()
