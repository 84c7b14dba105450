"""Small builders for canary tests: definitions, observations, and a run that takes one sample after another."""

from __future__ import annotations

import msgspec

from observer.judge.canary.evaluate import evaluate
from observer.judge.canary.plan import plan_of
from router_contract.canary import (
    Analysis,
    CanaryAnalysis,
    MeasuredBy,
    Metric,
    NativeKind,
    NativeMetric,
    Operator,
    Pause,
    PromqlMetric,
    Relative,
    Step,
    TargetRef,
)
from router_contract.canary_inputs import (
    Baseline,
    Cell,
    CountWindow,
    NativeObservation,
    Observation,
    Observations,
    Point,
    QueryAnswer,
    QueryObservation,
    QueryTrouble,
    ResultType,
    Run,
    Sample,
)
from router_contract.canary_results import CanaryState, Outcome, Reason
from router_contract.readings import Histogram, Instant

T0 = 1_700_000_000.0
INF = float("inf")
BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, INF)


def promql(name: str = "errors", operator: Operator = Operator.LT, limit: float = 0.05, **more: object) -> Metric:
    required = bool(more.pop("required", True))
    measure = PromqlMetric(query="up", **more)  # type: ignore[arg-type]  # a test's shorthand
    return Metric(name=name, operator=operator, threshold=repr(limit), limit=limit, measure=measure, required=required)


def native(
    kind: NativeKind = NativeKind.RATIO,
    operator: Operator = Operator.LT,
    limit: float = 0.05,
    name: str = "m",
    **more: object,
) -> Metric:
    required = bool(more.pop("required", True))
    measure = NativeMetric(kind=kind, signal="s", total="t", **more)  # type: ignore[arg-type]  # a test's shorthand
    relative = measure.relative
    limit = limit if relative is None else relative.margin
    operator = operator if relative is None else Operator.LTE
    return Metric(name=name, operator=operator, threshold=repr(limit), limit=limit, measure=measure, required=required)


def relative(kind: NativeKind = NativeKind.RATIO, margin: float = 1.25, **more: object) -> Metric:
    return native(kind, relative=Relative(margin=margin), **more)  # type: ignore[arg-type]  # a test's shorthand


def analysis(*metrics: Metric, **more: object) -> Analysis:
    given: dict[str, object] = {"interval": 60.0, "failure_limit": 3, "metrics": metrics or (promql(),)} | more
    return Analysis(**given)  # type: ignore[arg-type]  # a test's shorthand


def definition(
    *gates: Analysis | Step, pause: float | None = None, ready_timeout: float | None = 900.0
) -> CanaryAnalysis:
    steps = tuple(
        each if isinstance(each, Step) else Step(analysis=each, pause=None if pause is None else Pause(seconds=pause))
        for each in gates
    )
    return CanaryAnalysis(
        namespace="ns",
        name="c",
        target=TargetRef(kind="InferenceService", name="chat"),
        component="engine",
        stable="old",
        canary="new",
        steps=steps,
        ready_timeout=ready_timeout,
    )


def answer(*values: float, at: float = T0, **more: object) -> QueryAnswer:
    points = tuple(Point(labels=(("pod", f"p{place}"),), value=value, at=at) for place, value in enumerate(values))
    return QueryAnswer(type=ResultType.VECTOR, points=points, query="up", **more)  # type: ignore[arg-type]  # a test's shorthand


def trouble(reason: Reason = Reason.TIMEOUT, *, permanent: bool = False) -> QueryTrouble:
    return QueryTrouble(reason=reason, detail="no answer", permanent=permanent)


def asked(outcome: QueryAnswer | QueryTrouble, metric: str = "errors") -> QueryObservation:
    return QueryObservation(metric=metric, outcome=outcome)


def cells(*counts: tuple[float, float], start: float = T0, pod: str = "a") -> tuple[Cell, ...]:
    """One cell a minute: (events, total)."""
    return tuple(
        Cell(pod=pod, start=start + 60.0 * place, events=events, total=total)
        for place, (events, total) in enumerate(counts)
    )


def window(*counts: tuple[float, float], start: float = T0, pod: str = "a") -> CountWindow:
    return CountWindow(start=start, end=start + 60.0 * max(1, len(counts)), cells=cells(*counts, start=start, pod=pod))


def hist(*per_bucket: float, bounds: tuple[float, ...] = BOUNDS, total: float | None = None) -> Histogram:
    """A histogram from the counts of single buckets; its sum is the middle of each unless given."""
    counts, middle, below = [], 0.0, 0.0
    for bound, count in zip(bounds, per_bucket, strict=True):
        counts.append((counts[-1] if counts else 0.0) + count)
        middle += count * ((bound + below) / 2 if bound < INF else below * 1.5)
        below = bound
    return Histogram(bounds=bounds, counts=tuple(counts), sum=middle if total is None else total)


def latencies(*parts: Histogram, start: float = T0, pod: str = "a") -> CountWindow:
    made = tuple(Cell(pod=pod, start=start + 60.0 * place, histogram=part) for place, part in enumerate(parts))
    return CountWindow(start=start, end=start + 60.0 * max(1, len(parts)), cells=made)


def measured(
    canary: CountWindow, stable: CountWindow | Baseline | None = None, recent: CountWindow | None = None, **more: object
) -> NativeObservation:
    base = Baseline(window=stable) if isinstance(stable, CountWindow) else stable
    given: dict[str, object] = {
        "metric": "m",
        "measured_by": MeasuredBy.ROUTER,
        "since_step": canary,
        "recent": canary if recent is None else recent,
        "stable": base,
        "expected": 1,
    }
    return NativeObservation(**(given | more))  # type: ignore[arg-type]  # a test's shorthand


class Canary:
    """A definition with its stored state and a clock; each call is one look. The state passes through JSON each time."""

    def __init__(self, made: CanaryAnalysis, run: Run | None = None) -> None:
        self.definition = made
        self.run = run or Run(target="t1", canary="new", stable="old")
        self.now = T0
        self.state: CanaryState | None = None
        self.ids = 0
        self.tick()

    def tick(self, seconds: float = 0.0) -> Outcome:
        """Time passes, no sample comes."""
        self.now += seconds
        return self._look(None)

    def sample(self, *observations: Observation, after: float = 60.0, **changes: object) -> Outcome:
        """A sample of the observations, begun and completed ``after`` so many seconds."""
        self.now += after
        assert self.state is not None
        self.ids += 1
        made = Sample(
            id=self.ids,
            step=self.state.step,
            canary=self.run.canary,
            plan=plan_of(self.definition, self.state.step),
            started=self.now,
            completed=self.now,
            observations=observations,
        )
        return self._look(msgspec.structs.replace(made, **changes))

    def change(self, **changes: object) -> Outcome:
        """The rollout changes, no sample comes."""
        self.run = msgspec.structs.replace(self.run, **changes)
        return self._look(None)

    def _look(self, sample: Sample | None) -> Outcome:
        seen = Observations(run=self.run, sample=sample)
        outcome = evaluate(self.definition, self.state, seen, Instant(self.now - T0, self.now))
        self.state = msgspec.json.decode(msgspec.json.encode(outcome.state), type=CanaryState)
        assert self.state == outcome.state, "the stored state survives JSON"
        return outcome
