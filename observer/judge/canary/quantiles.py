"""Quantiles as counts: "the p95 is at most T" is "at least 95 % of the requests are", exact where T is a bucket bound.

So at a bound LT and LTE mean the same, as buckets count what is at most their bound. Inside a bucket the answer is a
bracket, and what the bracket does not decide is inconclusive unless the metric asks for interpolation.
"""

from __future__ import annotations

import math

import msgspec

from observer.judge.canary.counts import (
    Unusable,
    by_minute,
    cells_beyond,
    histogram,
    need_for_quantile,
    time_to,
    within,
)
from observer.judge.canary.display import number
from observer.judge.canary.evidence import Bernoulli, Spread, against_limit, binomial_tail, design_effect, enough
from observer.judge.canary.finding import Evidence, Finding, Terms, conclude, failed, few, passed, unknown, unusable
from observer.measure.histograms import at_most, estimate
from router_contract.canary import BucketPolicy, Metric, NativeMetric, Operator, Procedure
from router_contract.canary_inputs import CountWindow
from router_contract.canary_results import Reason, Verdict
from router_contract.readings import Histogram


def judge_quantile(
    metric: Metric, measure: NativeMetric, since_step: CountWindow, recent: CountWindow, alpha: float
) -> Finding:
    """The finding of a quantile metric with a threshold."""
    q = measure.quantile or 0.5
    sequential = measure.test is Procedure.SEQUENTIAL
    window = since_step if sequential else recent
    data, newest = histogram(window), histogram(recent)
    if isinstance(data, Unusable):
        return unusable(data)
    if isinstance(newest, Unusable):
        return unknown(newest.reason, f"{newest.detail} (since the last conclusive sample)")
    whole = _numbers(metric, measure, window, data, q)
    terms = Terms(Reason.WITHIN_THRESHOLD, Reason.THRESHOLD_BREACHED, f"{metric.operator} {metric.threshold}")
    undecided = _undecided(metric, whole, data)
    if sequential:
        late = _numbers(metric, measure, recent, newest, q)
        return conclude(terms, Evidence(whole, late, enough(whole.evidence or 0.0, alpha)), undecided)
    if whole.verdict is Verdict.INCONCLUSIVE:
        return undecided
    short = data.count < (whole.need or 0)
    if whole.verdict is Verdict.FAILED and (not short or _tail(metric, data, q, whole.effect or 1.0) <= alpha):
        return failed(terms.bad, f"{whole.message}, wanted {terms.wanted}", whole)
    return few(whole, data.count) if short else passed(terms.good, f"{whole.message}, {terms.wanted}", whole)


def holds(data: Histogram, q: float, operator: Operator, limit: float, policy: BucketPolicy) -> Verdict:
    """Whether a quantile satisfies a threshold, decided by counts, or by interpolation where the policy says so."""
    below = at_most(data, q, limit)
    if below is None:
        value = estimate(data, q)
        if policy is BucketPolicy.BRACKET or value is None or value.high is None:
            return Verdict.INCONCLUSIVE
        return Verdict.PASSED if operator.holds(value.value, limit) else Verdict.FAILED
    return Verdict.PASSED if below is operator.is_upper else Verdict.FAILED


def _numbers(metric: Metric, measure: NativeMetric, window: CountWindow, data: Histogram, q: float) -> Finding:
    value = estimate(data, q)
    cells = cells_beyond(window, metric.limit, flipped=not metric.operator.is_upper)
    observed = [cell for cell in window.cells if cell.histogram is not None]
    _, share = _bad(metric, data, q)
    need = measure.min_samples or need_for_quantile(q)
    found = Finding(
        verdict=holds(data, q, metric.operator, metric.limit, measure.bucket_policy),
        reason=Reason.BUCKET_RESOLUTION,
        message="",
        estimate=None if value is None else value.value,
        low=None if value is None else value.low,
        high=None if value is None else value.high,
        exact=value is not None and value.exact,
        samples=data.count,
        need=need,
        enough_in=time_to(need, data.count, window.seconds),
        evidence=against_limit(by_minute(zip(observed, cells, strict=True)), share),
        effect=design_effect(Spread.of(cells)),
    )
    words = f"p{100 * q:g} {_shown(found)} of {number(data.count)}"
    return msgspec.structs.replace(found, message=words)


def _bad(metric: Metric, data: Histogram, q: float) -> tuple[Bernoulli, float]:
    """The least that can be on the wrong side of the threshold, and the share that may be."""
    low, high = within(data, metric.limit)
    if metric.operator.is_upper:
        return Bernoulli(data.count - high, data.count), 1 - q
    return Bernoulli(low, data.count), q


def _tail(metric: Metric, data: Histogram, q: float, effect: float) -> float:
    bad, share = _bad(metric, data, q)
    return binomial_tail(Bernoulli(bad.bad / effect, bad.total / effect), share)


def _undecided(metric: Metric, found: Finding, data: Histogram) -> Finding:
    if found.high is None and data.bounds[-2] < metric.limit < math.inf:
        said = f"{found.message}: beyond the last bound {number(data.bounds[-2])}, no bucket tells more"
        return unknown(Reason.BUCKET_OVERFLOW, said, found)
    return unknown(Reason.BUCKET_RESOLUTION, f"{found.message} and {metric.threshold} lie in one bucket", found)


def _shown(found: Finding) -> str:
    if found.estimate is None:
        return "unknown"
    if found.high is None:
        return f"above {number(found.low or 0.0)}"
    return f"about {number(found.estimate)} (from {number(found.low or 0.0)} to {number(found.high)})"
