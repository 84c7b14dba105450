"""What each counted sample of a canary said, as far as it came in the last hour: the numbers in rings, the words in a list."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from exporters.page.protocols import CanaryMetric, Services
from router_contract.canary import Analysis, Metric, NativeMetric
from router_contract.canary_results import MetricResult
from router_contract.canary_view import CanaryView
from router_contract.history import CANARY_SERIES, Past
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

MOST_SAMPLES = 120
"""Samples of one analysis whose words are remembered."""
HOUR = 3600.0


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one counted sample said: its verdict, what was decided after it, and the verdict of each metric."""

    at: Instant
    sample: int
    step: int
    verdict: str
    decision: str
    reason: str
    message: str
    metrics: tuple[tuple[str, str, str], ...] = ()


def _gate(view: CanaryView) -> Analysis | None:
    """The analysis of the step that the status is about."""
    steps, status = view.definition.steps, view.status
    step = status.current_step if status is not None else None
    return steps[step].analysis if step is not None and step < len(steps) else None


def metric_of(view: CanaryView, name: str) -> Metric | None:
    """A metric of the current step by its name."""
    gate = _gate(view)
    return next((each for each in gate.metrics if each.name == name), None) if gate is not None else None


def relative_margin(metric: Metric | None) -> float | None:
    """How much worse than stable a metric may be, as a factor; ``None`` for one with a threshold of its own."""
    measure = metric.measure if metric is not None else None
    return measure.relative.margin if isinstance(measure, NativeMetric) and measure.relative is not None else None


def conviction(view: CanaryView, name: str) -> float | None:
    """The logarithm of the evidence that convicts a metric of the current step; ``None`` where none is gathered."""
    gate, metric = _gate(view), metric_of(view, name)
    measure = metric.measure if metric is not None else None
    if gate is None or not isinstance(measure, NativeMetric) or not measure.sequential:
        return None
    return math.log(gate.shares / measure.alpha)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def results(view: CanaryView) -> Sequence[MetricResult]:
    """The results of the last counted sample, dry runs last."""
    status = view.status
    return () if status is None else (*status.metric_results, *status.dry_run_results)


class Trail:
    """Follows every analysis. `turn` takes up what was counted since; it is cheap and is called each second."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._told: dict[DeploymentKey, deque[Told]] = {}
        self._names: dict[DeploymentKey, dict[str, None]] = {}

    def turn(self) -> None:
        """Remember the newest sample of each analysis, and forget the analyses that are gone."""
        views = self._services.canaries.canaries()
        alive = {view.key for view in views}
        self._told = {key: told for key, told in self._told.items() if key in alive}
        self._names = {key: names for key, names in self._names.items() if key in alive}
        for view in views:
            self._take(view)
        self._services.evidence.forget([(key, name) for key, names in self._names.items() for name in names])

    def _take(self, view: CanaryView) -> None:
        status, age = view.status, view.sample_age
        if status is None or status.verdict is None or age is None or view.sampled_at is None:
            return
        told = self._told.setdefault(view.key, deque(maxlen=MOST_SAMPLES))
        if told and told[-1].sample == status.sample_id:
            return
        at = Instant(view.now.mono - age, view.sampled_at)
        found = results(view)
        told.append(
            Told(
                at=at,
                sample=status.sample_id,
                step=status.current_step or 0,
                verdict=status.verdict.value,
                decision="" if status.decision is None else status.decision.value,
                reason="" if status.reason is None else status.reason.value,
                message=status.message,
                metrics=tuple((each.name, each.verdict.value, each.reason.value) for each in found),
            )
        )
        names = self._names.setdefault(view.key, {})
        for each in found:
            names[each.name] = None
            self._services.evidence.sample((view.key, each.name), at, self._numbers(view, each))

    def _numbers(self, view: CanaryView, result: MetricResult) -> dict[str, float | None]:
        shown = result.estimate if result.estimate is not None else _number(result.value)
        numbers = (
            shown,
            result.low,
            result.high,
            result.stable_estimate,
            _number(result.threshold),
            result.evidence,
            conviction(view, result.name) if result.evidence is not None else None,
            result.samples,
            result.stable_samples,
        )
        return dict(zip(CANARY_SERIES, numbers, strict=True))

    def told(self, key: DeploymentKey) -> list[Told]:
        """What the samples of the last hour said, newest first."""
        since = self._services.kv.now().mono - HOUR
        return [each for each in reversed(self._told.get(key, ())) if each.at.mono >= since]

    def past(self, key: DeploymentKey) -> Iterator[tuple[str, Past]]:
        """The numbers of each metric of an analysis in the last hour."""
        now = self._services.kv.now()
        for name in self._names.get(key, ()):
            metric: CanaryMetric = (key, name)
            yield name, self._services.evidence.past(metric, now)
