"""All metrics of one sample to results and one verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from observer.judge.canary.absolute import judge_absolute
from observer.judge.canary.algebra import all_of
from observer.judge.canary.counts import Unusable, histogram, ratio, since
from observer.judge.canary.display import agreeing, duration, message, number
from observer.judge.canary.finding import Finding, unknown
from observer.judge.canary.guards import guarded
from observer.judge.canary.quantiles import holds
from observer.judge.canary.relative import choose_bound, judge_relative
from observer.judge.canary.series import judge_query
from observer.measure.histograms import mean
from router_contract.canary import Analysis, Metric, NativeKind, NativeMetric, PromqlMetric
from router_contract.canary_inputs import BaselineKind, NativeObservation, Observation, QueryObservation
from router_contract.canary_results import MAX_NAMES, FrozenBound, MetricResult, Reason, Verdict


class Judged(msgspec.Struct, frozen=True):
    """A sample's results in the order of the metrics, its verdict over the required ones, and the bounds now frozen."""

    results: tuple[MetricResult, ...]
    verdict: Verdict
    bounds: tuple[FrozenBound, ...]


def judge_sample(
    analysis: Analysis, observations: Sequence[Observation], bounds: Sequence[FrozenBound], entered: float, now: float
) -> Judged:
    """Judge every metric; one without an observation of its kind is Inconclusive/NotMeasured.

    ``entered`` (wall seconds) is when the step began: nothing that was counted before can enter. ``now`` is when the
    sample was completed: bounds chosen now count from then on.
    """
    seen = {each.metric: _anchored(each, entered) for each in observations}
    kept = {each.metric: each for each in bounds}
    shares = analysis.shares
    results = tuple(_judge(metric, seen.get(metric.name), kept, shares, now) for metric in analysis.metrics)
    verdict = all_of(result.verdict for result in results if result.required)
    stamped = tuple(msgspec.structs.replace(result, time=math.floor(now)) for result in results)
    return Judged(stamped, verdict, tuple(kept.values()))


def _anchored(seen: Observation, entered: float) -> Observation:
    """An observation without what was counted before the step began."""
    if not isinstance(seen, NativeObservation):
        return seen
    stable = seen.stable
    if stable is not None and stable.kind is BaselineKind.LIVE:
        stable = msgspec.structs.replace(stable, window=since(stable.window, entered))
    step, recent = since(seen.since_step, entered), since(seen.recent, entered)
    return msgspec.structs.replace(seen, since_step=step, recent=recent, stable=stable)


def slow_metrics(results: Sequence[MetricResult], left: float | None) -> tuple[str, ...]:
    """A warning for each metric that cannot have enough samples before the step stalls in ``left`` seconds."""
    found = []
    for result in results:
        if result.need is None or result.samples is None or result.samples >= result.need or left is None:
            continue
        have = f"{result.name} has {number(result.samples)} of {result.need} samples"
        if result.enough_in_seconds is None:
            found.append(f"{have} and none arrive; the step stalls in {duration(left)}")
        elif result.enough_in_seconds > left:
            rest = duration(result.enough_in_seconds)
            found.append(f"{have}; the rest take {rest} at this rate, and the step stalls in {duration(left)}")
    return tuple(found)


def _judge(
    metric: Metric, seen: Observation | None, bounds: dict[str, FrozenBound], shares: int, now: float
) -> MetricResult:
    if isinstance(metric.measure, PromqlMetric):
        if isinstance(seen, QueryObservation):
            return judge_query(metric, metric.measure, seen)
        return _bare(metric, unknown(Reason.NOT_MEASURED, "the query was not evaluated"))
    if not isinstance(seen, NativeObservation):
        return _bare(metric, unknown(Reason.NOT_MEASURED, "the observer did not measure it"))
    return _native(metric, metric.measure, seen, bounds, shares, now)


def _native(
    metric: Metric,
    measure: NativeMetric,
    seen: NativeObservation,
    bounds: dict[str, FrozenBound],
    shares: int,
    now: float,
) -> MetricResult:
    alpha = measure.alpha / shares
    if seen.unavailable:
        finding = unknown(Reason.SIGNAL_UNAVAILABLE, seen.unavailable)
    elif measure.relative is None:
        finding = judge_absolute(metric, measure, seen.since_step, seen.recent, alpha)
    else:
        finding = judge_relative(metric, measure, seen, alpha, _bound(metric, measure, seen, bounds, now))
    finding = guarded(measure, seen, finding)
    stable = seen.stable
    return msgspec.structs.replace(
        _bare(metric, finding),
        measured_by=seen.measured_by,
        window_start=math.floor(seen.since_step.start),
        window_end=math.floor(seen.since_step.end),
        lossy=seen.since_step.lossy,
        aborted=seen.since_step.aborted,
        expected_pods=seen.expected,
        missing_count=len(seen.missing),
        missing_pods=seen.missing[:MAX_NAMES],
        warming_pods=seen.warming[:MAX_NAMES],
        unattributed_pods=seen.unattributed[:MAX_NAMES],
        mixed_pairing=seen.mixed_pairing,
        baseline="" if stable is None else str(stable.kind),
        baseline_age_seconds=None
        if stable is None or stable.kind is BaselineKind.LIVE
        else max(0.0, now - stable.window.end),
        baseline_unhealthy=_unhealthy(metric, measure, seen),
    )


def _bound(
    metric: Metric, measure: NativeMetric, seen: NativeObservation, bounds: dict[str, FrozenBound], now: float
) -> FrozenBound | None:
    """The frozen bound of a relative quantile, chosen now if it can be and was not before."""
    if measure.kind is NativeKind.QUANTILE and metric.name not in bounds:
        chosen = choose_bound(metric, measure, seen, now)
        if chosen is not None:
            bounds[metric.name] = chosen
    return bounds.get(metric.name)


def _unhealthy(metric: Metric, measure: NativeMetric, seen: NativeObservation) -> bool:
    """Whether stable itself is beyond an absolute threshold: then the step says little about the canary."""
    if measure.relative is not None or seen.stable is None:
        return False
    window = seen.stable.window
    if measure.kind is NativeKind.RATIO:
        counts = ratio(window)
        return not isinstance(counts, Unusable) and not metric.operator.holds(counts.rate, metric.limit)
    data = histogram(window)
    if measure.kind is NativeKind.RATE or isinstance(data, Unusable):
        return False
    if measure.kind is NativeKind.QUANTILE and measure.quantile is not None:
        verdict = holds(data, measure.quantile, metric.operator, metric.limit, measure.bucket_policy)
        return verdict is Verdict.FAILED
    value = mean(data)
    return value is not None and not metric.operator.holds(value, metric.limit)


def _bare(metric: Metric, finding: Finding) -> MetricResult:
    """The result of a finding. A conclusive one whose number cannot be shown in agreement is inconclusive."""
    text = ""
    conclusive = finding.verdict is not Verdict.INCONCLUSIVE
    if conclusive and finding.estimate is not None:
        shown = agreeing(finding.estimate, metric.operator, metric.limit, passed=finding.verdict is Verdict.PASSED)
        text = shown or ""
    if conclusive and not text:
        finding = unknown(Reason.BUCKET_RESOLUTION, "the number and its verdict disagree: " + finding.message, finding)
    return MetricResult(
        name=metric.name,
        value=text,
        threshold=metric.threshold,
        operator=metric.operator,
        required=metric.required,
        passed=finding.verdict is Verdict.PASSED,
        message=message(finding.message),
        verdict=finding.verdict,
        reason=finding.reason,
        estimate=finding.estimate,
        low=finding.low,
        high=finding.high,
        exact=finding.exact,
        samples=finding.samples,
        stable_samples=finding.stable_samples,
        stable_estimate=finding.stable_estimate,
        need=finding.need,
        enough_in_seconds=finding.enough_in,
        evidence=finding.evidence,
        design_effect=finding.effect,
    )
