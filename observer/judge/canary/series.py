"""A query's answer to a result: what can be judged of it, the worst series by operator, and the comparison."""

from __future__ import annotations

import math
from typing import Final

from observer.judge.canary.display import agreeing, message, number
from router_contract.canary import EmptyMeans, Metric, NonFiniteSeries, PromqlMetric, Warnings
from router_contract.canary_inputs import Point, QueryAnswer, QueryObservation, QueryTrouble, ResultType
from router_contract.canary_results import MetricResult, Reason, Verdict

NO_DATA: Final = "no data"
"""OME's words for an answer without a number; its readers look for exactly these."""
MAX_LABELS: Final = 5
MAX_QUERY: Final = 1024
"""Characters of a query that a result shows."""
_MAX_LABEL: Final = 64


def judge_query(metric: Metric, measure: PromqlMetric, seen: QueryObservation) -> MetricResult:
    """The result of one query metric."""
    outcome = seen.outcome
    if isinstance(outcome, QueryTrouble):
        return _unknown(metric, outcome.reason, outcome.detail, query=outcome.query, permanent=outcome.permanent)
    numbers = [point for point in outcome.points if point.value is not None and math.isfinite(point.value)]
    dropped = len(outcome.points) - len(numbers)
    refused = _refused(measure, outcome, numbers, dropped)
    if refused is not None:
        reason, detail = refused
        traffic = _traffic(measure, seen.traffic) if reason is Reason.NO_DATA else None
        if traffic is None:
            return _unknown(metric, reason, detail, query=outcome.query, answer=outcome, dropped=dropped)
        zero = Point(value=0.0, at=outcome.points[0].at if outcome.points else 0.0)
        return _compared(metric, outcome, [zero], 0, f"no series, taken as 0 because {traffic}")
    return _compared(metric, outcome, numbers, dropped, "")


def _refused(
    measure: PromqlMetric, answer: QueryAnswer, numbers: list[Point], dropped: int
) -> tuple[Reason, str] | None:
    """Why an answer cannot be compared, and the message; ``None`` when it can."""
    if answer.warnings and measure.warnings is Warnings.INCONCLUSIVE:
        return Reason.PARTIAL_RESPONSE, f"the source answered with {len(answer.warnings)} warnings: it may be partial"
    if answer.type not in {ResultType.SCALAR, ResultType.VECTOR}:
        return Reason.UNSUPPORTED_TYPE, f"unsupported result type {answer.type}: a scalar or vector is wanted"
    if any(point.value is None for point in answer.points):
        return Reason.UNSUPPORTED_TYPE, "unsupported result: native histograms are not numbers"
    if not answer.points:
        return Reason.NO_DATA, NO_DATA
    if not numbers:
        infinite = all(math.isinf(point.value) for point in answer.points if point.value is not None)
        return (Reason.INFINITE if infinite else Reason.NOT_A_NUMBER), NO_DATA
    if dropped and measure.non_finite is NonFiniteSeries.INCONCLUSIVE:
        return Reason.NON_FINITE_SERIES, f"{dropped} of {len(answer.points)} series are not finite numbers"
    return None


def _traffic(measure: PromqlMetric, traffic: QueryAnswer | QueryTrouble | None) -> str | None:
    """The proof of traffic that lets an empty answer mean zero, in words, or ``None`` without it."""
    if measure.empty_means is not EmptyMeans.ZERO or not isinstance(traffic, QueryAnswer):
        return None
    values = [point.value for point in traffic.points]
    sound = traffic.type in {ResultType.SCALAR, ResultType.VECTOR} and not traffic.warnings and values
    if not sound or not all(value is not None and math.isfinite(value) and value > 0 for value in values):
        return None
    return f"the traffic query says {number(min(value for value in values if value is not None))}"


def _compared(metric: Metric, answer: QueryAnswer, numbers: list[Point], dropped: int, note: str) -> MetricResult:
    pick = max if metric.operator.is_upper else min
    worst = pick(numbers, key=lambda point: point.value or 0.0)
    value = worst.value or 0.0
    passed = metric.operator.holds(value, metric.limit)
    text = agreeing(value, metric.operator, metric.limit, passed=passed)
    of = f" (the worst of {len(numbers)} series)" if len(numbers) > 1 else ""
    words = f"{text}{of} is {'' if passed else 'not '}{metric.operator} {metric.threshold}"
    return MetricResult(
        name=metric.name,
        value=text or "",
        threshold=metric.threshold,
        operator=metric.operator,
        required=metric.required,
        passed=passed,
        verdict=Verdict.PASSED if passed else Verdict.FAILED,
        reason=Reason.WITHIN_THRESHOLD if passed else Reason.THRESHOLD_BREACHED,
        message=message(f"{words}; {note}" if note else words),
        estimate=value,
        low=value,
        high=value,
        exact=True,
        series=len(numbers) if answer.points else 0,
        worst=tuple((key, each[:_MAX_LABEL]) for key, each in worst.labels[:MAX_LABELS]),
        dropped_series=dropped,
        query=answer.query[:MAX_QUERY],
        infos=tuple(message(info) for info in answer.infos[:5]),
    )


def _unknown(
    metric: Metric,
    reason: Reason,
    detail: str,
    *,
    query: str,
    permanent: bool = False,
    answer: QueryAnswer | None = None,
    dropped: int = 0,
) -> MetricResult:
    return MetricResult(
        name=metric.name,
        threshold=metric.threshold,
        operator=metric.operator,
        required=metric.required,
        verdict=Verdict.INCONCLUSIVE,
        reason=reason,
        message=message(detail),
        permanent=permanent,
        query=query[:MAX_QUERY],
        series=None if answer is None else len(answer.points),
        dropped_series=dropped,
    )
