"""Native metrics of the canary against stable's over the same time: not worse by more than a margin.

Shares of requests are compared as counts, minute by minute; a latency quantile as the share of requests beyond a bound
that was taken from stable before (its p95, say), so that no percentile is interpolated. A stable side without one bad
request is no obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from observer.judge.canary.counts import (
    MEAN_SAMPLES,
    Unusable,
    added,
    cells_beyond,
    cells_of_ratio,
    histogram,
    need_for_quantile,
    need_for_rate,
    since,
    strata,
    time_to,
)
from observer.judge.canary.display import number
from observer.judge.canary.evidence import Bernoulli, against_stable, design_effect, enough
from observer.judge.canary.finding import Finding, failed, passed, unknown, unusable
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
    if seen.stable is None or not seen.stable.window.cells:
        return unknown(Reason.BASELINE_UNUSABLE, "no stable Pod was read, so there is nothing to compare with")
    if measure.kind is NativeKind.MEAN:
        return _mean(metric, measure, seen, seen.stable)
    if measure.kind is NativeKind.RATIO:
        sides = _ratio_sides(seen, seen.stable)
        return _counted(metric, measure, seen, sides, alpha, "bad requests")
    if bound is None:
        return unknown(Reason.BASELINE_FORMING, "stable has too few requests yet to take a latency bound from")
    if bound.bound == float("inf"):
        return unknown(Reason.BUCKET_OVERFLOW, "stable's own quantile lies beyond the last bound")
    sides = _quantile_sides(seen, seen.stable, bound)
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
            high = float("inf") if place.high is None else place.high
            return FrozenBound(metric=metric.name, bound=high, since=start)
    return None


def _ratio_sides(seen: NativeObservation, stable: Baseline) -> _Sides:
    canary, base = cells_of_ratio(seen.since_step), cells_of_ratio(stable.window)
    newest = added(cells_of_ratio(seen.recent))
    return _Sides(canary, canary, base, base, newest, seen.since_step.cells, stable.window.cells)


def _quantile_sides(seen: NativeObservation, stable: Baseline, bound: FrozenBound) -> _Sides:
    canary, recent = since(seen.since_step, bound.since), since(seen.recent, bound.since)
    base = stable.window if stable.kind is BaselineKind.FROZEN else since(stable.window, bound.since)

    def of(window: CountWindow, *, most: bool) -> list[Bernoulli]:
        return cells_beyond(window, bound.bound, most=most)

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
    if max(canary.bad - canary.total, stable.bad - stable.total) > 0:
        return unknown(Reason.SIGNAL_UNAVAILABLE, "more bad requests than requests: the two do not belong together")
    effect = design_effect(sides.least, sides.stable_most)
    proof = strata(
        zip(sides.cells, sides.least, strict=True),
        zip(sides.stable_cells, sides.stable_most, strict=True),
        pooled=pooled,
    )
    low, high = _times(added(sides.least), added(sides.stable_most)), _times(canary, stable)
    need = _need(measure, stable)
    slower = min(canary.total, stable.total)
    found = Finding(
        verdict=Verdict.INCONCLUSIVE,
        reason=Reason.INSUFFICIENT_EVIDENCE,
        message="",
        estimate=high if low == high else (low + high) / 2,
        low=low,
        high=high,
        exact=low == high,
        samples=canary.total,
        stable_samples=stable.total,
        stable_estimate=stable.rate,
        need=need,
        enough_in=time_to(need, slower, seen.since_step.seconds),
        evidence=against_stable(proof, metric.limit, effect),
        effect=effect,
    )
    words = (
        f"{number(canary.bad)} of {number(canary.total)} {what}, stable {number(stable.bad)} of {number(stable.total)}"
    )
    return _concluded(metric, found, sides, words, convicted=enough(found.evidence or 0.0, alpha))


def _concluded(metric: Metric, found: Finding, sides: _Sides, words: str, *, convicted: bool) -> Finding:
    low, high, need = found.low or 0.0, found.high or 0.0, found.need or 0
    newest, stable = sides.newest, added(sides.stable_most)
    if newest.total <= 0:
        return unknown(Reason.NO_DATA, "the canary served no request since the last conclusive sample", found)
    if low > metric.limit:
        if not convicted:
            said = f"{words}: more than {metric.threshold} times, but the evidence may still be chance"
            return unknown(Reason.INSUFFICIENT_EVIDENCE, said, found)
        if _times(newest, stable) <= metric.limit:
            said = f"{words} since the step began; what came after the last conclusive sample is within the margin"
            return unknown(Reason.INCIDENT_COUNTED, said, found)
        exceeded = msgspec.structs.replace(found, estimate=low)
        return failed(Reason.MARGIN_EXCEEDED, f"{words}: more than {metric.threshold} times", exceeded)
    if high > metric.limit:
        return unknown(Reason.BUCKET_RESOLUTION, f"{words}: the buckets do not tell on which side", found)
    least = min(found.samples or 0.0, found.stable_samples or 0.0)
    if least < need:
        return unknown(Reason.INSUFFICIENT_SAMPLES, f"{words}: {number(least)}/{need} samples", found)
    return passed(Reason.WITHIN_MARGIN, f"{words}: within {metric.threshold} times", found)


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
        message="",
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
    words = f"mean {number(value)}, stable {number(other)}"
    if least < need:
        return unknown(Reason.INSUFFICIENT_SAMPLES, f"{words}: {number(least)}/{need} samples", found)
    if times <= metric.limit:
        return passed(Reason.WITHIN_MARGIN, f"{words}: within {metric.threshold} times", found)
    return failed(Reason.MARGIN_EXCEEDED, f"{words}: more than {metric.threshold} times", found)
