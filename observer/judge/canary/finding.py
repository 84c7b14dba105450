"""What one native judgement found, before guards and before it becomes a result."""

from __future__ import annotations

import msgspec

from observer.judge.canary.counts import Unusable
from router_contract.canary import Metric
from router_contract.canary_results import Reason, Verdict


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with its reason, one sentence, and the numbers it used (as in `MetricResult`)."""

    verdict: Verdict
    reason: Reason
    message: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    exact: bool = False
    samples: float | None = None
    stable_samples: float | None = None
    stable_estimate: float | None = None
    need: int | None = None
    enough_in: float | None = None
    evidence: float | None = None
    effect: float | None = None


def unknown(reason: Reason, message: str, found: Finding | None = None) -> Finding:
    """An inconclusive finding, with the numbers of another one where there are any."""
    if found is None:
        return Finding(verdict=Verdict.INCONCLUSIVE, reason=reason, message=message)
    return msgspec.structs.replace(found, verdict=Verdict.INCONCLUSIVE, reason=reason, message=message)


def unusable(why: Unusable) -> Finding:
    """The finding of a window that cannot be judged."""
    return unknown(why.reason, why.detail)


def failed(reason: Reason, message: str, found: Finding) -> Finding:
    """The numbers with a failed verdict."""
    return msgspec.structs.replace(found, verdict=Verdict.FAILED, reason=reason, message=message)


def passed(reason: Reason, message: str, found: Finding) -> Finding:
    """The numbers with a passed verdict."""
    return msgspec.structs.replace(found, verdict=Verdict.PASSED, reason=reason, message=message)


def convict(metric: Metric, found: Finding, words: str, *, convicted: bool, held: bool) -> Finding:
    """A value beyond its threshold: failed once the evidence convicts, unless the newest window is back within it.

    ``held`` says that it is: then the incident has been counted by an earlier sample and is not counted again.
    """
    limit = f"{metric.operator} {metric.threshold}"
    if not convicted:
        said = f"{words} is not {limit}, but the evidence may still be chance"
        return unknown(Reason.INSUFFICIENT_EVIDENCE, said, found)
    if held:
        said = f"{words} since the step began is not {limit}; what came after the last conclusive sample is"
        return unknown(Reason.INCIDENT_COUNTED, said, found)
    return failed(Reason.THRESHOLD_BREACHED, f"{words}, not {limit}", found)
