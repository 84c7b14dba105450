"""Running totals: what each series of one target was seen to grow by since its first read, whatever restarts.

They are sums of the same deltas that windows are made of, so they never fall: a restart adds what was counted since.
A series that goes away is parked and goes on where it stopped when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import msgspec
import numpy as np

from observer.measure.columns import Columns
from observer.measure.extract import histogram_of
from observer.measure.layout import Floats
from observer.measure.pairs import Key, Link
from observer.measure.plan import OurLabels
from router_contract.readings import Histogram

_PARKED: Final = 1000
"""How many series that are not there now are remembered; a label that changes for ever must not grow without end."""


class Parked(msgspec.Struct, frozen=True):
    """The total of a series that is not in the newest read. Other bounds begin again from 0."""

    bounds: tuple[float, ...]
    total: Floats


class Totals(msgspec.Struct, frozen=True, eq=False):
    """The totals of the columns of the newest read, and of series that are gone."""

    columns: Columns
    values: Floats
    parked: Mapping[Key, Parked] = {}

    @classmethod
    def of(cls, columns: Columns) -> Self:
        """Nothing has grown yet."""
        return cls(columns, np.zeros(columns.width))

    def after(self, link: Link) -> Totals:
        """The totals after one more read."""
        if link.columns is self.columns:
            return Totals(self.columns, self.values + link.deltas(), self.parked)
        return self._moved_to(link.columns).after(link)

    def of_series(self, signal: str, labels: OurLabels) -> float | Histogram | None:
        """One series' total; ``None`` for one that is not in the newest read."""
        place = self.columns.where.get((signal, labels))
        if place is None:
            return None
        part = self.values[self.columns.span(place)]
        return float(part[0]) if self.columns.series[place].spread is None else histogram_of(self.columns, place, part)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.values.nbytes + sum(each.total.nbytes for each in self.parked.values())

    def _moved_to(self, columns: Columns) -> Totals:
        """The same totals in the order of other columns; what has no place there is parked."""
        values = np.zeros(columns.width)
        parked = dict(self.parked)
        for key, place in self.columns.where.items():
            if key not in columns.where:
                parked[key] = Parked(self.columns.bounds(place), self.values[self.columns.span(place)].copy())
        for key, place in columns.where.items():
            before = parked.pop(key, None)
            mine = self.columns.where.get(key)
            if mine is not None:
                before = Parked(self.columns.bounds(mine), self.values[self.columns.span(mine)])
            span = columns.span(place)
            if before is not None and before.bounds == columns.bounds(place) and len(before.total) == len(values[span]):
                values[span] = before.total
        for key in list(parked)[: max(0, len(parked) - _PARKED)]:
            del parked[key]
        return Totals(columns, values, parked)
