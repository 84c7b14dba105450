"""A reader of the published status that enforces what OME's own reader does, written from the documented rules."""

from __future__ import annotations

import math

from router_contract.canary import Analysis
from router_contract.canary_results import CanaryStatus


class MalformedError(Exception):
    """The status contradicts itself."""


def read(status: CanaryStatus, analysis: Analysis) -> str:
    """Unobserved, Passing, Failing or Inconclusive; raises `MalformedError`."""
    results = status.metric_results
    evaluated, conclusive = status.last_evaluation, status.last_conclusive
    must(status.failed_checks >= 0, "a negative count")
    if evaluated is None:
        must(not results and conclusive is None and not status.failed_checks, "data without an evaluation time")
        return "Unobserved"
    must(conclusive is None or conclusive <= evaluated, "conclusive after the evaluation")
    must(not status.failed_checks or conclusive is not None, "failed checks without a conclusive time")
    planned = {metric.name: metric for metric in analysis.metrics if metric.required}
    seen: set[str] = set()
    for result in results:
        must(result.time == evaluated, "a result of another time")
        must(not (result.passed and not result.value), "passed without a value")
        plan = planned.get(result.name)
        must(plan is not None and result.name not in seen, "a name that is not planned, or twice")
        seen.add(result.name)
        assert plan is not None
        must((result.threshold, result.operator) == (plan.threshold, plan.operator), "another threshold or operator")
        if result.value:
            value, threshold = float(result.value), float(result.threshold)
            must(math.isfinite(value) and math.isfinite(threshold), "a number that is not finite")
            must(result.operator.holds(value, threshold) is result.passed, f"{result.value} contradicts its verdict")
    if any(result.value and not result.passed for result in results):
        must(status.failed_checks >= 1, "failing without a failed check")
        must(conclusive == evaluated, "failing, but not conclusive now")
        return "Failing"
    if not results or seen != set(planned) or any(not result.value for result in results):
        return "Inconclusive"
    must(conclusive == evaluated, "passing, but not conclusive now")
    return "Passing"


def must(condition: bool, what: str) -> None:
    if not condition:
        raise MalformedError(what)
