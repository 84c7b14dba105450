"""Native metrics against a fixed threshold: shares of requests, means and rates. Quantiles are in `quantiles`."""

from __future__ import annotations

import math

from observer.judge.canary.counts import (
    MEAN_SAMPLES,
    Unusable,
    by_minute,
    cells_of_ratio,
    histogram,
    need_for_rate,
    ratio,
    time_to,
)
from observer.judge.canary.display import number
from observer.judge.canary.evidence import Bernoulli, Spread, against_limit, binomial_tail, design_effect, enough
from observer.judge.canary.finding import Evidence, Finding, Terms, conclude, failed, few, passed, unknown, unusable
from observer.judge.canary.quantiles import judge_quantile
from observer.measure.histograms import mean
from router_contract.canary import Metric, NativeKind, NativeMetric, Procedure
from router_contract.canary_inputs import CountWindow
from router_contract.canary_results import Reason, Verdict


def judge_absolute(
    metric: Metric, measure: NativeMetric, since_step: CountWindow, recent: CountWindow, alpha: float
) -> Finding:
    """The finding of a native metric with a threshold. ``alpha`` is its share of the step's false-alarm budget."""
    if measure.kind is NativeKind.RATIO:
        return _ratio(metric, measure, since_step, recent, alpha)
    if measure.kind is NativeKind.QUANTILE:
        return judge_quantile(metric, measure, since_step, recent, alpha)
    return _mean(metric, measure, recent) if measure.kind is NativeKind.MEAN else _rate(metric, recent)


def _ratio(
    metric: Metric, measure: NativeMetric, since_step: CountWindow, recent: CountWindow, alpha: float
) -> Finding:
    sequential = measure.test is Procedure.SEQUENTIAL
    window = since_step if sequential else recent
    counts, newest = ratio(window), ratio(recent)
    if isinstance(counts, Unusable):
        return unusable(counts)
    whole = _share(metric, measure, window, counts)
    if isinstance(newest, Unusable):
        return unknown(newest.reason, f"{newest.detail} since the last conclusive sample", whole)
    terms = Terms(Reason.WITHIN_THRESHOLD, Reason.THRESHOLD_BREACHED, f"{metric.operator} {metric.threshold}")
    if sequential:
        late = _share(metric, measure, recent, newest)
        return conclude(terms, Evidence(whole, late, enough(whole.evidence or 0.0, alpha)))
    if whole.verdict is Verdict.FAILED:
        bad, limit = _as_bad(metric, counts)
        effect = whole.effect or 1.0
        tail = binomial_tail(Bernoulli(bad.bad / effect, bad.total / effect), limit)
        if counts.total >= (whole.need or 0) or tail <= alpha:
            return failed(terms.bad, f"{whole.message}, wanted {terms.wanted}", whole)
    if counts.total < (whole.need or 0):
        return few(whole, counts.total)
    return passed(terms.good, f"{whole.message}, {terms.wanted}", whole)


def _as_bad(metric: Metric, counts: Bernoulli) -> tuple[Bernoulli, float]:
    """The requests on the wrong side and the share of them that may be: a lower bound counts the others."""
    if metric.operator.is_upper:
        return counts, metric.limit
    return Bernoulli(counts.total - counts.bad, counts.total), 1 - metric.limit


def _share(metric: Metric, measure: NativeMetric, window: CountWindow, counts: Bernoulli) -> Finding:
    """The numbers of a window, and the verdict by them alone."""
    cells = cells_of_ratio(window, flipped=not metric.operator.is_upper)
    _, limit = _as_bad(metric, counts)
    need = measure.min_samples or need_for_rate(limit)
    within = metric.operator.holds(counts.rate, metric.limit)
    return Finding(
        verdict=Verdict.PASSED if within else Verdict.FAILED,
        reason=Reason.INSUFFICIENT_EVIDENCE,
        message=f"{number(counts.bad)} of {number(counts.total)} requests ({number(counts.rate)})",
        estimate=counts.rate,
        low=counts.rate,
        high=counts.rate,
        exact=True,
        samples=counts.total,
        need=need,
        enough_in=time_to(need, counts.total, window.seconds),
        evidence=against_limit(by_minute(zip(window.cells, cells, strict=True)), limit),
        effect=design_effect(Spread.of(cells)),
    )


def _mean(metric: Metric, measure: NativeMetric, recent: CountWindow) -> Finding:
    data = histogram(recent)
    if isinstance(data, Unusable):
        return unusable(data)
    value = mean(data)
    if value is None:
        return unknown(Reason.NO_DATA, "the program exports no sum, so there is no mean")
    need = measure.min_samples or MEAN_SAMPLES
    found = Finding(
        verdict=Verdict.INCONCLUSIVE,
        reason=Reason.INSUFFICIENT_SAMPLES,
        message=f"mean {number(value)} over {number(data.count)}",
        estimate=value,
        low=value,
        high=value,
        exact=True,
        samples=data.count,
        need=need,
        enough_in=time_to(need, data.count, recent.seconds),
    )
    if data.count < need:
        return few(found, data.count)
    if metric.operator.holds(value, metric.limit):
        return passed(Reason.WITHIN_THRESHOLD, f"{found.message}, {metric.operator} {metric.threshold}", found)
    return failed(Reason.THRESHOLD_BREACHED, f"{found.message}, wanted {metric.operator} {metric.threshold}", found)


def _rate(metric: Metric, recent: CountWindow) -> Finding:
    """An increase per second. Nothing counted by Pods that were read is a rate of 0; no Pod read is no rate."""
    if not recent.cells or recent.seconds <= 0:
        return unknown(Reason.NO_DATA, "no Pod was read in the window")
    value = math.fsum(cell.events for cell in recent.cells) / recent.seconds
    found = Finding(
        verdict=Verdict.INCONCLUSIVE,
        reason=Reason.NO_DATA,
        message="",
        estimate=value,
        low=value,
        high=value,
        exact=True,
    )
    words = f"{number(value)} per second"
    if metric.operator.holds(value, metric.limit):
        return passed(Reason.WITHIN_THRESHOLD, f"{words}, {metric.operator} {metric.threshold}", found)
    return failed(Reason.THRESHOLD_BREACHED, f"{words}, wanted {metric.operator} {metric.threshold}", found)
