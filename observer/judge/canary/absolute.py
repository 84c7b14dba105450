"""Native metrics against a fixed threshold: shares of requests, means and rates. Quantiles are in `quantiles`."""

from __future__ import annotations

import math

from observer.judge.canary.counts import (
    MEAN_SAMPLES,
    Unusable,
    cells_of_ratio,
    histogram,
    need_for_rate,
    ratio,
    time_to,
)
from observer.judge.canary.display import number
from observer.judge.canary.evidence import Bernoulli, against_limit, binomial_tail, design_effect, enough
from observer.judge.canary.finding import Finding, convict, failed, passed, unknown, unusable
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
    upper = metric.operator.upper
    bad = counts if upper else Bernoulli(counts.total - counts.bad, counts.total)
    limit = metric.limit if upper else 1 - metric.limit
    effect = design_effect(cells_of_ratio(window, flipped=not upper))
    need = measure.min_samples or need_for_rate(limit)
    found = Finding(
        verdict=Verdict.INCONCLUSIVE,
        reason=Reason.INSUFFICIENT_EVIDENCE,
        message="",
        estimate=counts.rate,
        low=counts.rate,
        high=counts.rate,
        exact=True,
        samples=counts.total,
        need=need,
        enough_in=time_to(need, counts.total, window.seconds),
        evidence=against_limit(bad, limit, effect),
        effect=effect,
    )
    within = metric.operator.holds(counts.rate, metric.limit)
    words = f"{number(counts.bad)} of {number(counts.total)} requests ({number(counts.rate)})"
    if isinstance(newest, Unusable):
        return unknown(newest.reason, f"{newest.detail} since the last conclusive sample", found)
    if within:
        return _enough_or_not(metric, found, words)
    if sequential:
        held = metric.operator.holds(newest.rate, metric.limit)
        return convict(metric, found, words, convicted=enough(found.evidence or 0.0, alpha), held=held)
    scaled = Bernoulli(bad.bad / effect, bad.total / effect)
    if counts.total < need and binomial_tail(scaled, limit) > alpha:
        return _few(found, words)
    return failed(Reason.THRESHOLD_BREACHED, f"{words}, not {metric.operator} {metric.threshold}", found)


def _enough_or_not(metric: Metric, found: Finding, words: str) -> Finding:
    if found.samples is not None and found.need is not None and found.samples < found.need:
        return _few(found, words)
    return passed(Reason.WITHIN_THRESHOLD, f"{words}, {metric.operator} {metric.threshold}", found)


def _few(found: Finding, words: str) -> Finding:
    have = f"{number(found.samples or 0.0)}/{found.need}"
    return unknown(Reason.INSUFFICIENT_SAMPLES, f"{words}: {have} samples", found)


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
        message="",
        estimate=value,
        low=value,
        high=value,
        exact=True,
        samples=data.count,
        need=need,
        enough_in=time_to(need, data.count, recent.seconds),
    )
    words = f"mean {number(value)} over {number(data.count)}"
    if data.count < need:
        return _few(found, words)
    if metric.operator.holds(value, metric.limit):
        return passed(Reason.WITHIN_THRESHOLD, f"{words}, {metric.operator} {metric.threshold}", found)
    return failed(Reason.THRESHOLD_BREACHED, f"{words}, not {metric.operator} {metric.threshold}", found)


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
    return failed(Reason.THRESHOLD_BREACHED, f"{words}, not {metric.operator} {metric.threshold}", found)
