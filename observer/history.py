"""An hour of numbers of each deployment or canary metric, in rings of fixed size. Pure: the moment is an argument.

A number that is not known is kept as ``nan``: a chart then has a gap there and never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

import numpy as np

from router_contract.history import SERIES, Past
from router_contract.readings import Instant

Key = TypeVar("Key", bound=Hashable)

HOUR = 3600.0
STEP = 10.0
"""Seconds between two samples of one deployment, at least."""
MOST = 5_000
"""Deployments that are remembered; further ones have no past. One costs about 20 kB."""


class _Ring:
    """The last ``size`` samples of one thing."""

    def __init__(self, size: int, names: tuple[str, ...]) -> None:
        self.names = names
        self.walls = np.full(size, np.nan)
        self.monos = np.full(size, -np.inf)
        self.numbers = np.full((size, len(names)), np.nan, np.float32)
        self.next = 0
        self.last = -math.inf

    def add(self, at: Instant, numbers: Mapping[str, float | None]) -> None:
        row = [numbers.get(name) for name in self.names]
        self.walls[self.next], self.monos[self.next] = at.wall, at.mono
        self.numbers[self.next] = [math.nan if number is None else number for number in row]
        self.next = (self.next + 1) % len(self.walls)
        self.last = at.mono

    def since(self, mono: float) -> Past:
        order = np.argsort(self.monos, kind="stable")
        kept = order[self.monos[order] >= mono]
        table = self.numbers[kept].astype(np.float64)
        series = {
            name: tuple(None if math.isnan(number) else float(f"{number:.6g}") for number in table[:, place].tolist())
            for place, name in enumerate(self.names)
        }
        return Past(times=tuple(self.walls[kept].tolist()), series=series)


class Rings(Generic[Key]):
    """The past of everything that exists, by its key. ``span`` and ``step`` in seconds; ``names`` are a ring's columns."""

    def __init__(
        self, span: float = HOUR, step: float = STEP, most: int = MOST, names: tuple[str, ...] = SERIES
    ) -> None:
        self._span, self._step, self._most, self._names = span, step, most, names
        self._rings: dict[Key, _Ring] = {}

    def sample(self, key: Key, at: Instant, numbers: Mapping[str, float | None]) -> None:
        """Keep the numbers of a moment; one that comes sooner than a step after the last is not kept."""
        ring = self._rings.get(key)
        if ring is None:
            if len(self._rings) >= self._most:
                return
            ring = self._rings[key] = _Ring(round(self._span / self._step), self._names)
        if at.mono - ring.last >= self._step:
            ring.add(at, numbers)

    def past(self, key: Key, now: Instant) -> Past:
        """What is kept of the last hour; empty for what was never sampled."""
        ring = self._rings.get(key)
        return Past() if ring is None else ring.since(now.mono - self._span)

    def forget(self, alive: Collection[Key]) -> None:
        """Drop everything that is not in the list."""
        kept = set(alive)
        self._rings = {key: ring for key, ring in self._rings.items() if key in kept}

    def __len__(self) -> int:
        return len(self._rings)
