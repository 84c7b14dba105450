"""How long routers took to follow each change of the eligible endpoints, counted for one observer's life."""

from __future__ import annotations

import math

from router_contract.judging import Judged, Stored
from router_contract.readings import Histogram
from router_contract.status import ServingState
from router_contract.targets import DeploymentKey

BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, math.inf)
"""Upper bounds in seconds; views are read every few seconds, so finer ones would tell nothing."""

_EMPTY = Histogram(bounds=BOUNDS, counts=(0.0,) * len(BOUNDS), sum=0.0)


class ConvergenceTimes:
    """A histogram for each deployment with a router. Each change of the eligible set is counted once."""

    def __init__(self) -> None:
        self._found: dict[DeploymentKey, Histogram] = {}
        self._counted: dict[DeploymentKey, float | None] = {}

    def add(self, key: DeploymentKey, before: Stored, judged: Judged) -> None:
        """One pass. A view that comes back over the same eligible set is no new convergence, nor is the first pass."""
        convergence = judged.convergence
        if convergence.serving.state is ServingState.NOT_CONFIGURED:
            self.forget(key)
            return
        changed = judged.stored.eligible_changed_at
        if key not in self._found:
            self._found[key] = _EMPTY
            # what was under way when this observer began may have converged before: its time is not known
            self._counted[key] = before.eligible_changed_at
        if convergence.took_seconds is None or changed == self._counted[key]:
            return
        self._counted[key] = changed
        self._found[key] = with_observation(self._found[key], convergence.took_seconds)

    def of(self, key: DeploymentKey) -> Histogram | None:
        """What was counted; ``None`` for a deployment without a router or not judged yet."""
        return self._found.get(key)

    def forget(self, key: DeploymentKey) -> None:
        """The deployment, or its router, is gone."""
        self._found.pop(key, None)
        self._counted.pop(key, None)


def with_observation(histogram: Histogram, value: float) -> Histogram:
    """The histogram with one more observation."""
    counts = (count + (value <= bound) for bound, count in zip(histogram.bounds, histogram.counts, strict=True))
    return Histogram(bounds=histogram.bounds, counts=tuple(counts), sum=histogram.sum + value)
