"""Running totals: what each series of one target was seen to grow by since its first read, whatever restarts.

They are sums of the same deltas that windows are made of, so they never fall: a restart adds what was counted since.
A series that goes away is parked and goes on where it stopped when it comes back. Where bounds change, a bucket begins
with what is certainly in it: the observations of the largest earlier bound that is not above its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Self

import msgspec
import numpy as np

from observer.measure.columns import Columns
from observer.measure.extract import histogram_of
from observer.measure.histograms import merge
from observer.measure.layout import Floats
from observer.measure.packed import Packed, pack
from observer.measure.pairs import Key, Link
from observer.measure.plan import OurLabels
from router_contract.readings import Histogram

_PARKED: Final = 1000
"""How many series that are not there now are remembered; a label that changes for ever must not grow without end."""


_BOUNDS: Final = 512
"""How many bounds a sum of histograms may have; past it newcomers are put onto the bounds that are there."""


class Parked(msgspec.Struct, frozen=True):
    """The total of a series that is not in the newest read."""

    bounds: tuple[float, ...]
    total: Floats

    def histogram(self) -> Histogram:
        """The total of a histogram series; its sum is NaN where the program exported none."""
        counts: list[float] = self.total.tolist()
        spent = counts.pop() if len(counts) > len(self.bounds) else float("nan")
        return Histogram(bounds=self.bounds, counts=tuple(counts), sum=spent)


_NOBODY: Final[Mapping[Key, Parked]] = MappingProxyType({})
_NONE_GONE: Final[dict[str, list[Parked]]] = {}


class Totals(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The totals of the columns of the newest read, packed, and of series that are gone."""

    columns: Columns
    packed: Packed
    parked: Mapping[Key, Parked] = _NOBODY
    memo: dict[str, Histogram] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, columns: Columns) -> Self:
        """Nothing has grown yet."""
        return cls(columns, Packed(columns.width))

    def after(self, link: Link, deltas: Floats, without: Collection[int] = ()) -> Totals:
        """The totals after one more read with these deltas; the series at the places ``without`` stay as they are."""
        if link.columns is not self.columns:
            return self._moved_to(link.columns).after(link, deltas, without)
        if without:
            deltas = deltas.copy()
            for place in without:
                deltas[self.columns.span(place)] = 0.0
        return Totals(self.columns, pack(self.packed.floats() + deltas, sound=True), self.parked)

    def of_series(self, signal: str, labels: OurLabels) -> float | Histogram | None:
        """One series' total; ``None`` for one that is not in the newest read."""
        place = self.columns.where.get((signal, labels))
        if place is None:
            return None
        part = self.packed.floats()[self.columns.span(place)]
        return float(part[0]) if self.columns.series[place].spread is None else histogram_of(self.columns, place, part)

    def histograms(self, signals: frozenset[str] | None = None) -> Mapping[str, Histogram]:
        """Each histogram signal's total over every series that was ever read, also those that are gone now.

        With ``signals`` only those of them.
        """
        gone = self._gone() if self.parked else _NONE_GONE
        names = {*self.columns.histograms, *gone}
        found = ((name, self.histogram(name)) for name in (names if signals is None else names & signals))
        return {name: each for name, each in found if each is not None}

    def histogram(self, signal: str) -> Histogram | None:
        """The total of one histogram signal, as in `histograms`; ``None`` where it was never read."""
        if signal not in self.memo:
            values, columns = self.packed.floats(), self.columns
            places = columns.histograms.get(signal, ())
            return self.added(signal, [histogram_of(columns, each, values[columns.span(each)]) for each in places])
        return self.memo[signal]

    def added(self, signal: str, parts: Sequence[Histogram | None]) -> Histogram | None:
        """`histogram` of a signal; ``parts`` are the totals of all its columns, in their order."""
        if signal not in self.memo:
            found = [part for part in parts if part is not None]
            if self.parked:
                found += [each.histogram() for each in self._gone().get(signal, ())]
            if not found:
                return None
            self.memo[signal] = added(found)
        return self.memo[signal]

    def _gone(self) -> dict[str, list[Parked]]:
        """The histograms that are not there now, by signal."""
        found: dict[str, list[Parked]] = {}
        for (signal, _), parked in self.parked.items():
            if parked.bounds:
                found.setdefault(signal, []).append(parked)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.packed.nbytes + sum(each.total.nbytes for each in self.parked.values())

    def _moved_to(self, columns: Columns) -> Totals:
        """The same totals in the order of other columns; what has no place there is parked."""
        values, mine = np.zeros(columns.width), self.packed.floats()
        parked = dict(self.parked)
        for key, place in self.columns.where.items():
            if key not in columns.where:
                parked[key] = Parked(self.columns.bounds(place), mine[self.columns.span(place)].copy())
        for key, place in columns.where.items():
            before = parked.pop(key, None)
            there = self.columns.where.get(key)
            if there is not None:
                before = Parked(self.columns.bounds(there), mine[self.columns.span(there)])
            if before is not None:
                span = columns.span(place)
                values[span] = _carried(before, columns.bounds(place), len(values[span]))
        for key in list(parked)[: max(0, len(parked) - _PARKED)]:
            del parked[key]
        return Totals(columns, pack(values), parked)


def _carried(before: Parked, bounds: tuple[float, ...], width: int) -> Floats:
    """A total in the columns of other bounds."""
    total = before.total
    if before.bounds == bounds and len(total) == width:
        return total
    out = np.zeros(width)
    if not before.bounds or not bounds:
        return out
    counts = onto(before.histogram(), bounds).counts
    out[: len(bounds)] = counts
    if width > len(bounds) and len(total) > len(before.bounds):
        out[-1] = total[-1]
    return out


def onto(histogram: Histogram, bounds: tuple[float, ...]) -> Histogram:
    """A histogram on other bounds: each bucket has what is certainly in it, so no count is ever above the true one."""
    if histogram.bounds is bounds or histogram.bounds == bounds:
        return histogram
    places = (bisect_right(histogram.bounds, bound) - 1 for bound in bounds)
    counts = tuple(histogram.counts[place] if place >= 0 else 0.0 for place in places)
    return Histogram(bounds=bounds, counts=counts, sum=histogram.sum)


def added(parts: Iterable[Histogram]) -> Histogram:
    """The sum of at least one histogram on the bounds of all of them: adding one more never makes a bucket smaller."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    bounds = found[0].bounds
    for each in found[1:]:
        if each.bounds != bounds:
            union = tuple(sorted({*bounds, *each.bounds}))
            bounds = union if len(union) <= _BOUNDS else bounds
    whole = merge(onto(each, bounds) for each in found)
    return found[0] if whole is None else whole
