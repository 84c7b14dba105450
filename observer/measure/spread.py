"""The rows of one of our histograms, assembled from the wire histograms that make it, and checked as far as names go."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache

from observer.measure.numbers import number_in
from observer.measure.plan import Check, OurLabels, Sets, Spread
from observer.measure.shape import SampleKey
from router_contract.vocabulary import Labels

Members = list[tuple[int, SampleKey]]


class Torn(ValueError):  # noqa: N818  # it names the state, as ProblemKind does
    """A histogram that cannot be assembled; the text says what was found."""


def identity(key: SampleKey, labels: Labels) -> OurLabels:
    """A sample's labels without its bound and those that only tell copies apart."""
    told = ("le", *labels.copy, *labels.process)
    return tuple(sorted((name, text) for name, text in key.labels if text and name not in told))


def copies_of(members: Members, labels: Labels) -> tuple[Sets, list[tuple[int, ...]]]:
    """The rows of one number as sets of copies, and the sets whose copies should be equal.

    Copies of one process repeat one number; those of several processes are partial, and may differ.
    """
    sets: dict[OurLabels, list[int]] = defaultdict(list)
    equal: dict[tuple[OurLabels, OurLabels], list[int]] = defaultdict(list)
    for row, key in members:
        sets[identity(key, labels)].append(row)
        process = tuple(item for item in key.labels if item[0] in labels.process)
        equal[identity(key, labels), process].append(row)
    return _same(tuple(map(tuple, sets.values()))), [tuple(rows) for rows in equal.values() if len(rows) > 1]


@lru_cache(maxsize=1024)
def _one(bounds: tuple[float, ...]) -> tuple[float, ...]:
    """One object for all histograms with these bounds: to see that two have the same is then nothing."""
    return bounds


@lru_cache(maxsize=4096)
def _same(sets: Sets) -> Sets:
    """One object for all equal sets: rows are counted from their family's first, so that most plans have the same."""
    return sets


class Assembly:
    """One of our histograms in the making."""

    def __init__(self, family: str, scale: float, labels: Labels) -> None:
        self.family, self.scale, self.labels = family, scale, labels
        self.checks: list[Check] = []
        self.copies: list[tuple[int, ...]] = []
        self._buckets: dict[float, Members] = defaultdict(list)
        self._sums: Members = []
        self._counts: Members = []
        self._bounds: set[tuple[float, ...]] = set()
        self._wires = 0

    def add(self, members: Members) -> None:
        """Take the samples of all wire histograms that fold into this one. Raises `Torn`."""
        wires: dict[OurLabels, Members] = defaultdict(list)
        for row, key in members:
            wires[tuple(sorted(item for item in key.labels if item[0] not in {"le", "quantile"}))].append((row, key))
        for wire in wires.values():
            self._add_wire(wire)

    def _add_wire(self, wire: Members) -> None:
        buckets: dict[float, tuple[int, SampleKey]] = {}
        count = total = -1
        for row, key in wire:
            suffix = key.name[len(self.family) :]
            if suffix == "_bucket":
                text = dict(key.labels).get("le", "")
                bound = number_in(text, infinite=True)
                if bound is None or bound in buckets:
                    raise Torn(f"bucket bound {text!r} is repeated or no number")
                buckets[bound] = (row, key)
            elif suffix == "_count":
                count = row
                self._counts.append((row, key))
            elif suffix == "_sum":
                total = row
                self._sums.append((row, key))
        if (buckets and math.inf not in buckets) or (not buckets and count < 0):
            raise Torn("no bucket with bound +Inf" if buckets else "neither buckets nor a count")
        bounds = tuple(sorted(buckets))
        for bound in bounds:
            self._buckets[bound].append(buckets[bound])
        self._bounds.add(bounds)
        self._wires += 1
        self.checks.append(Check(self.family, tuple(buckets[bound][0] for bound in bounds), count, total))

    def spread(self) -> tuple[Spread, int]:
        """The rows, and how many wire histograms they come from. Raises `Torn` where their bounds differ."""
        if len(self._bounds) != 1:
            raise Torn("histograms with different bucket bounds would have to be added")
        (bounds,) = self._bounds
        if not bounds:
            # A summary tells how many and how much, not how they spread: one bucket that holds all.
            bounds, self._buckets[math.inf] = (math.inf,), self._counts
        made = Spread(
            bounds=_one(tuple(bound * self.scale for bound in bounds)),
            buckets=tuple(self._sets(self._buckets[bound]) for bound in bounds),
            sums=self._sets(self._sums) if len(self._sums) == self._wires else (),
        )
        return made, self._wires

    def _sets(self, members: Members) -> Sets:
        sets, equal = copies_of(members, self.labels)
        self.copies += equal
        return sets
