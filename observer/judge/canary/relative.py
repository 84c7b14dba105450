"""Native metrics of the canary against stable's over the same time: not worse by more than a margin.

Shares of requests are compared as counts, minute by minute; a latency quantile as the share of requests beyond a bound
that was taken from stable before (its p95, say), so that no percentile is interpolated. A stable side without one bad
request is no obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from observer.judge.canary.algebra import compare
from observer.judge.canary.counts import (
    MEAN_SAMPLES,
    Unusable,
    added,
    cells_beyond,
    cells_of_ratio,
    histogram,
    minutes,
    need_for_quantile,
    need_for_rate,
    since,
    time_to,
)
from observer.judge.canary.display import number
from observer.judge.canary.evidence import Bernoulli, Spread, against_stable, design_effect, enough
from observer.judge.canary.finding import Evidence, Finding, Terms, conclude, failed, few, passed, unknown, unusable
from observer.measure.histograms import estimate, mean
from router_contract.canary import Metric, NativeKind, NativeMetric
from router_contract.canary_inputs import Baseline, BaselineKind, Cell, CountWindow, NativeObservation
from router_contract.canary_results import FrozenBound, Reason, Verdict

LEAST_RATE = 0.01
"""Below this rate of stable a pass asks for no more requests than at it: a rate of 0 would ask for infinitely many."""


class _Sides(msgspec.Struct, frozen=True):
    """Each cell's counts: the canary's least and most, stable's least and most, and the canary's newest."""

    least: list[Bernoulli]
    most: list[Bernoulli]
    stable_least: list[Bernoulli]
    stable_most: list[Bernoulli]
    newest: Bernoulli
    cells: tuple[Cell, ...]
    stable_cells: tuple[Cell, ...]


def judge_relative(
    metric: Metric, measure: NativeMetric, seen: NativeObservation, alpha: float, bound: FrozenBound | None
) -> Finding:
    """The finding of a relative metric. ``bound`` is the frozen one of a quantile metric, once there is one."""
    if seen.incomparable:
        return unknown(Reason.INCOMPARABLE, seen.incomparable)
    if seen.stable is None or not seen.stable.window.cells:
        return unknown(Reason.BASELINE_UNUSABLE, "no stable Pod was read, so there is nothing to compare with")
    if measure.kind is NativeKind.MEAN:
        return _mean(metric, measure, seen, seen.stable)
    if measure.kind is NativeKind.RATIO:
        sides = _ratio_sides(seen, seen.stable)
        return _counted(metric, measure, seen, sides, alpha, "bad requests")
    if bound is None:
        return unknown(Reason.BASELINE_FORMING, "stable has too few requests yet to take a latency bound from")
    if bound.bound is None:
        return unknown(Reason.BUCKET_OVERFLOW, "stable's own quantile lies beyond the last bound")
    sides = _quantile_sides(seen, seen.stable, bound.bound, bound.since)
    return _counted(metric, measure, seen, sides, alpha, f"requests above {number(bound.bound)}")


def choose_bound(metric: Metric, measure: NativeMetric, seen: NativeObservation, now: float) -> FrozenBound | None:
    """The bound for a relative quantile, from stable's requests, or ``None`` while it has too few.

    From before the step where they suffice: then all that came since the step counts. Else from the step itself: then
    only what comes after ``now`` does, because a bound must not be chosen from the requests it judges.
    """
    if seen.stable is None or measure.quantile is None:
        return None
    need = measure.min_samples or need_for_quantile(measure.quantile)
    for window, start in ((seen.stable.before, seen.since_step.start), (seen.stable.window, now)):
        data = None if window is None else histogram(window)
        if data is None or isinstance(data, Unusable) or data.count < need:
            continue
        place = estimate(data, measure.quantile)
        if place is not None:
            return FrozenBound(metric=metric.name, bound=place.high, since=start)
    return None


def _ratio_sides(seen: NativeObservation, stable: Baseline) -> _Sides:
    canary, base = cells_of_ratio(seen.since_step), cells_of_ratio(stable.window)
    newest = added(cells_of_ratio(seen.recent))
    return _Sides(canary, canary, base, base, newest, seen.since_step.cells, stable.window.cells)


def _quantile_sides(seen: NativeObservation, stable: Baseline, bound: float, start: float) -> _Sides:
    canary, recent = since(seen.since_step, start), since(seen.recent, start)
    base = stable.window if stable.kind is BaselineKind.FROZEN else since(stable.window, start)

    def of(window: CountWindow, *, most: bool) -> list[Bernoulli]:
        return cells_beyond(window, bound, most=most)

    return _Sides(
        of(canary, most=False),
        of(canary, most=True),
        of(base, most=False),
        of(base, most=True),
        added(of(recent, most=False)),
        _observed(canary.cells),
        _observed(base.cells),
    )


def _observed(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple(cell for cell in cells if cell.histogram is not None)


def _counted(
    metric: Metric, measure: NativeMetric, seen: NativeObservation, sides: _Sides, alpha: float, what: str
) -> Finding:
    pooled = seen.stable is not None and seen.stable.kind is BaselineKind.FROZEN
    canary, stable = added(sides.most), added(sides.stable_least)
    if canary.total <= 0:
        return unknown(Reason.NO_DATA, "the canary served no request in the window")
    if stable.total <= 0:
        return unknown(Reason.BASELINE_UNUSABLE, "stable served no request in the window")
    if canary.bad > canary.total or stable.bad > stable.total:
        return unknown(Reason.SIGNAL_UNAVAILABLE, "more bad requests than requests: the two do not belong together")
    proof = minutes(
        zip(sides.cells, sides.least, strict=True),
        zip(sides.stable_cells, sides.stable_most, strict=True),
        pooled=pooled,
    )
    need = _need(measure, stable)
    whole = msgspec.structs.replace(
        _ratio(metric, added(sides.least), canary, sides, what),
        stable_samples=stable.total,
        stable_estimate=stable.rate,
        need=need,
        enough_in=time_to(need, min(canary.total, stable.total), seen.since_step.seconds),
        evidence=against_stable(proof, metric.limit),
        effect=design_effect(Spread.of(sides.least), Spread.of(sides.stable_most)),
    )
    if sides.newest.total <= 0:
        return unknown(Reason.NO_DATA, "the canary served no request since the last conclusive sample", whole)
    newest = _ratio(metric, sides.newest, sides.newest, sides, what)
    terms = Terms(Reason.WITHIN_MARGIN, Reason.MARGIN_EXCEEDED, f"within {metric.threshold} times")
    said = f"{whole.message}: the buckets do not tell on which side of {metric.threshold} times"
    undecided = unknown(Reason.BUCKET_RESOLUTION, said, whole)
    return conclude(terms, Evidence(whole, newest, enough(whole.evidence or 0.0, alpha)), undecided)


def _ratio(metric: Metric, least: Bernoulli, most: Bernoulli, sides: _Sides, what: str) -> Finding:
    """The canary's rate as a multiple of stable's, and the verdict by the numbers alone."""
    stable = added(sides.stable_least)
    low, high = _times(least, added(sides.stable_most)), _times(most, stable)
    verdict = compare(low, high, metric.operator, metric.limit)
    shown = low if verdict is Verdict.FAILED else high
    words = f"{number(most.bad)} of {number(most.total)} {what}, stable {number(stable.bad)} of {number(stable.total)}"
    return Finding(
        verdict=verdict,
        reason=Reason.INSUFFICIENT_EVIDENCE,
        message=words,
        estimate=shown,
        low=low,
        high=high,
        exact=low == high,
        samples=most.total,
    )


def _times(canary: Bernoulli, stable: Bernoulli) -> float:
    """How many times stable's rate the canary's is. Half a request is added to both where stable has no bad one."""
    if canary.bad <= 0:
        return 0.0
    if stable.bad > 0:
        return canary.rate / stable.rate
    return ((canary.bad + 0.5) / (canary.total + 1)) / (0.5 / (stable.total + 1))


def _need(measure: NativeMetric, stable: Bernoulli) -> int:
    if measure.min_samples is not None:
        return measure.min_samples
    if measure.quantile is not None:
        return need_for_quantile(measure.quantile)
    return need_for_rate(max(stable.rate, LEAST_RATE))


def _mean(metric: Metric, measure: NativeMetric, seen: NativeObservation, stable: Baseline) -> Finding:
    """The ratio of the means. It is a point comparison: a mean alone says nothing of how far it may be off."""
    data, base = histogram(seen.recent), histogram(stable.window)
    if isinstance(data, Unusable):
        return unusable(data)
    value, other = mean(data), None if isinstance(base, Unusable) else mean(base)
    if isinstance(base, Unusable) or other is None or other <= 0 or value is None:
        return unknown(Reason.BASELINE_UNUSABLE, "one side has no mean above 0 to compare with")
    need = measure.min_samples or MEAN_SAMPLES
    least, times = min(data.count, base.count), value / other
    found = Finding(
        verdict=Verdict.INCONCLUSIVE,
        reason=Reason.INSUFFICIENT_SAMPLES,
        message=f"mean {number(value)}, stable {number(other)}",
        estimate=times,
        low=times,
        high=times,
        exact=True,
        samples=data.count,
        stable_samples=base.count,
        stable_estimate=other,
        need=need,
        enough_in=time_to(need, least, seen.recent.seconds),
    )
    if least < need:
        return few(found, least)
    if times <= metric.limit:
        return passed(Reason.WITHIN_MARGIN, f"{found.message}: within {metric.threshold} times", found)
    return failed(Reason.MARGIN_EXCEEDED, f"{found.message}: more than {metric.threshold} times", found)
