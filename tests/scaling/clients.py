"""Small clients that follow the documented rules of KEDA's ScaledObject and of HorizontalPodAutoscaler, on a clock of the
test's own. They read the recipes that are shipped, so a changed recipe is a changed client.

What KEDA's own loop does on errors is not in its documentation; it is followed as its source had it (see docs/scaling.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HPA_PERIOD = 15.0
TOLERANCE = 0.1
COOLDOWN = 300.0


class Away(Exception):
    """Whoever answers queries does not."""


Answers = Callable[[], list[float]]
"""The values of a query's answer now, empty when it has none; raises `Away`."""


@dataclass
class Workload:
    """What is scaled: ``history`` has every number of replicas that it had, with when."""

    replicas: int
    history: list[tuple[float, int, str]] = field(default_factory=list)

    def scale(self, now: float, replicas: int, who: str) -> None:
        if replicas != self.replicas:
            self.replicas = replicas
            self.history.append((now, replicas, who))


class Hpa:
    """The controller's rule for one external metric with an average value."""

    def __init__(self, spec: dict[str, Any], target: float, smallest: int, largest: int) -> None:
        self._target, self._smallest, self._largest = target, smallest, largest
        self._down, self._up = spec.get("scaleDown", {}), spec.get("scaleUp", {})
        self._recommended: list[tuple[float, int]] = []
        self._changed: list[tuple[float, int]] = []

    def sync(self, now: float, metric: float | None, workload: Workload) -> None:
        """One round; without a metric nothing is decided and nothing remembered."""
        current = workload.replicas
        if not self._recommended:
            self._recommended.append((now, current))
        if metric is None:
            return
        ratio = metric / (self._target * current)
        wanted = current if abs(ratio - 1) <= TOLERANCE else math.ceil(metric / self._target)
        wanted = min(max(wanted, self._smallest), self._largest)
        self._recommended.append((now, wanted))
        steady = self._stabilised(now, current)
        limited = self._limited(now, current, steady)
        if limited != current:
            self._changed.append((now, limited - current))
        workload.scale(now, limited, "hpa")

    def _stabilised(self, now: float, current: int) -> int:
        def within(side: dict[str, Any], default: float) -> list[int]:
            window = side.get("stabilizationWindowSeconds", default)
            return [wanted for at, wanted in self._recommended if now - at <= window]

        lowest, highest = min(within(self._up, 0.0)), max(within(self._down, 300.0))
        return max(lowest, current) if lowest > current else min(highest, current)

    def _limited(self, now: float, current: int, wanted: int) -> int:
        """What the policies allow; the most permissive one counts. Several small steps add up within a period."""
        if wanted < current:
            policies = self._down.get("policies", [{"type": "Percent", "value": 100, "periodSeconds": 15}])
            return max(wanted, min(self._bound(now, current, each, -1) for each in policies))
        policies = self._up.get(
            "policies",
            [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
        )
        return min(wanted, max(self._bound(now, current, each, 1) for each in policies))

    def _bound(self, now: float, current: int, policy: dict[str, Any], sign: int) -> int:
        recent = sum(step for at, step in self._changed if now - at < policy["periodSeconds"] and step * sign > 0)
        start = current - recent
        if policy["type"] == "Pods":
            return start + sign * int(policy["value"])
        return math.ceil(start * (1 + sign * policy["value"] / 100))


class KedaClient:
    """A ScaledObject with one Prometheus trigger: the metric that HPA is given, and KEDA's own loop."""

    def __init__(self, scaled: dict[str, Any], ask: Answers, workload: Workload) -> None:
        spec = scaled["spec"]
        (trigger,) = spec["triggers"]
        assert trigger["type"] == "prometheus"
        assert trigger["metricType"] == "AverageValue", "the formula of the fallback here is that of AverageValue"
        told = trigger["metadata"]
        self._ask, self._workload = ask, workload
        self._threshold = float(told["threshold"])
        self._ignores_null = told.get("ignoreNullValues", "true") == "true"
        self._fallback: dict[str, Any] | None = spec.get("fallback")
        self._smallest = int(spec.get("minReplicaCount", 0))
        self._polling = float(spec.get("pollingInterval", 30))
        behavior = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", {}).get("behavior", {})
        self._hpa = Hpa(behavior, self._threshold, max(self._smallest, 1), int(spec.get("maxReplicaCount", 100)))
        self._failures = 0
        self._active_at: float | None = None
        self._polled_at = -math.inf

    def step(self, now: float) -> None:
        """Everything that is due at a multiple of `HPA_PERIOD`."""
        if now - self._polled_at >= self._polling:
            self._polled_at = now
            self._own_loop(now)
        if self._workload.replicas > 0:
            self._hpa.sync(now, self._metric(), self._workload)

    def _value(self) -> float | None:
        """The trigger's value; ``None`` is an error."""
        try:
            found = self._ask()
        except Away:
            return None
        if not found:
            return 0.0 if self._ignores_null else None
        return found[0] if len(found) == 1 and math.isfinite(found[0]) else None

    def _metric(self) -> float | None:
        value = self._value()
        if value is not None:
            self._failures = 0
            return value
        self._failures += 1
        if self._fallback is None or self._failures <= self._fallback["failureThreshold"]:
            return None
        return float(int(self._threshold)) * self._fallback_replicas(self._fallback)

    def _fallback_replicas(self, fallback: dict[str, Any]) -> int:
        stated, current = int(fallback["replicas"]), self._workload.replicas
        known = {
            "static": stated,
            "currentReplicas": current,
            "currentReplicasIfHigher": max(stated, current),
            "currentReplicasIfLower": min(stated, current),
        }
        return known[fallback.get("behavior", "static")]

    def _own_loop(self, now: float) -> None:
        value, current = self._value(), self._workload.replicas
        if value is not None and value > 0:
            self._active_at = now
            if current == 0:
                self._workload.scale(now, max(self._smallest, 1), "keda")
        elif value is None and self._fallback is not None and int(self._fallback["replicas"]) != 0:
            self._workload.scale(now, int(self._fallback["replicas"]), "keda")
        elif current > 0 and self._smallest == 0:
            if self._active_at is None or now - self._active_at > COOLDOWN:
                self._workload.scale(now, 0, "keda")
        elif current < self._smallest:
            self._workload.scale(now, self._smallest, "keda")


class HpaClient:
    """A HorizontalPodAutoscaler with one external metric; an empty answer is an error, as from prometheus-adapter."""

    def __init__(self, autoscaler: dict[str, Any], ask: Answers, workload: Workload) -> None:
        spec = autoscaler["spec"]
        (metric,) = spec["metrics"]
        target = metric["external"]["target"]
        assert target["type"] == "AverageValue"
        self._ask, self._workload = ask, workload
        self._hpa = Hpa(
            spec.get("behavior", {}), float(target["averageValue"]), int(spec["minReplicas"]), int(spec["maxReplicas"])
        )

    def step(self, now: float) -> None:
        """One round of the controller."""
        try:
            found = self._ask()
        except Away:
            found = []
        self._hpa.sync(now, sum(found) if found else None, self._workload)
