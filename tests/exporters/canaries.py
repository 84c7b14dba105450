"""Views of canary analyses for tests of exporters."""

from __future__ import annotations

import msgspec

from router_contract.canary import (
    Analysis,
    CanaryAnalysis,
    MeasuredBy,
    Metric,
    NativeKind,
    NativeMetric,
    Operator,
    Step,
    TargetRef,
)
from router_contract.canary_results import CanaryStatus, Decision, MetricResult, Reason, Verdict
from router_contract.canary_view import CanaryView
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

NOW = Instant(5_000.0, 1_700_005_000.0)
METRIC = Metric(
    name="errors",
    operator=Operator.LTE,
    threshold="0.01",
    limit=0.01,
    measure=NativeMetric(kind=NativeKind.RATIO, signal="router-worker-outcomes", total="router-worker-outcomes"),
)
DEFINITION = CanaryAnalysis(
    namespace="demo",
    name="chat-2",
    target=TargetRef(kind="ModelDeployment", name="chat"),
    component="engine",
    stable="1",
    canary="2",
    steps=(Step(analysis=Analysis(interval=30.0, failure_limit=3, metrics=(METRIC,))),) * 2,
)
PASSED = MetricResult(
    name="errors",
    value="0.002",
    threshold="0.01",
    operator=Operator.LTE,
    passed=True,
    message="2 of 1000",
    verdict=Verdict.PASSED,
    reason=Reason.WITHIN_THRESHOLD,
    estimate=0.002,
    stable_estimate=0.003,
    samples=1000.0,
    stable_samples=900.0,
    need=500,
    measured_by=MeasuredBy.ROUTER,
    expected_pods=4,
    missing_count=1,
)


def status(
    verdict: Verdict | None = Verdict.PASSED,
    decision: Decision = Decision.HOLD,
    reason: Reason = Reason.BAKE,
    step: int = 0,
    results: tuple[MetricResult, ...] = (PASSED,),
) -> CanaryStatus:
    return CanaryStatus(
        target_id="demo/chat",
        canary_revision="2",
        stable_revision="1",
        current_step=step,
        metric_results=results,
        sample_id=7,
        verdict=verdict,
        decision=decision,
        reason=reason,
        message="Step 1 of 2 is held by its bake: 30s left.",
        failure_limit=3,
        steps=2,
    )


def view(
    told: CanaryStatus | None = None, *, age: float = 10.0, look_age: float = 1.0, judged: bool = True
) -> CanaryView:
    return CanaryView(
        definition=DEFINITION,
        now=NOW,
        status=(told or status()) if judged else None,
        looked=Instant(NOW.mono - look_age, NOW.wall - look_age) if judged else None,
        sampled_at=NOW.wall - age if judged else None,
        interval=30.0,
        deadline=30.0,
        tallies=(("Hold", "Bake", 7),),
    )


class Source:
    """Satisfies `exporters.canary.CanarySource`."""

    def __init__(self, *views: CanaryView) -> None:
        self._views = views

    def now(self) -> Instant:
        return NOW

    def canaries(self) -> tuple[CanaryView, ...]:
        return self._views

    def canary(self, key: DeploymentKey) -> CanaryView | None:
        return next((each for each in self._views if each.key == key), None)


def with_value(number: float) -> MetricResult:
    return msgspec.structs.replace(PASSED, estimate=number)
