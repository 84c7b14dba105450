"""What one native judgement found, before guards and before it becomes a result."""

from __future__ import annotations

import msgspec

from observer.judge.canary.counts import Unusable
from observer.judge.canary.display import number
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


class Terms(msgspec.Struct, frozen=True):
    """How a judgement is worded: its reasons, and what was wanted (``LT 0.05``, ``within 1.25 times``)."""

    good: Reason
    bad: Reason
    wanted: str


class Evidence(msgspec.Struct, frozen=True):
    """What the whole step and the newest window say, each as numbers and as a verdict by numbers alone.

    ``convicted``: the evidence reaches its level.
    """

    whole: Finding
    newest: Finding
    convicted: bool


def conclude(terms: Terms, seen: Evidence, undecided: Finding | None = None) -> Finding:
    """Failed needs the evidence and a newest window beyond the limit, so that one incident counts once.

    Passed needs enough requests, and no newest window of enough requests that is beyond the limit. ``undecided`` is the
    finding for a whole step whose buckets do not decide.
    """
    whole, newest = seen.whole, seen.newest
    if seen.convicted and newest.verdict is Verdict.FAILED:
        shown = whole if whole.verdict is Verdict.FAILED else with_numbers(whole, newest)
        since = "" if shown is whole else " lately"
        return failed(terms.bad, f"{shown.message}{since}, wanted {terms.wanted}", shown)
    if whole.verdict is Verdict.FAILED and seen.convicted:
        said = f"{whole.message} since the step began; what came after the last conclusive sample is within the limit"
        return unknown(Reason.INCIDENT_COUNTED, said, whole)
    if whole.verdict is Verdict.FAILED:
        said = f"{whole.message}, wanted {terms.wanted}: it may still be chance"
        return unknown(Reason.INSUFFICIENT_EVIDENCE, said, whole)
    if whole.verdict is Verdict.INCONCLUSIVE and undecided is not None:
        return undecided
    return _passes(terms, whole, newest)


def _passes(terms: Terms, whole: Finding, newest: Finding) -> Finding:
    need = whole.need or 0
    if newest.verdict is Verdict.FAILED and (newest.samples or 0.0) >= need:
        said = f"{newest.message} lately, wanted {terms.wanted}: it may still be chance"
        return unknown(Reason.INSUFFICIENT_EVIDENCE, said, whole)
    have = min(whole.samples or 0.0, whole.samples or 0.0 if whole.stable_samples is None else whole.stable_samples)
    if have < need:
        return few(whole, have)
    return passed(terms.good, f"{whole.message}, {terms.wanted}", whole)


def few(found: Finding, have: float) -> Finding:
    """Too few requests for a verdict, told as have/need."""
    said = f"{found.message}: {number(have)}/{found.need} samples"
    return unknown(Reason.INSUFFICIENT_SAMPLES, said, found)


def with_numbers(found: Finding, other: Finding) -> Finding:
    """A finding with the value of another window; evidence and needs stay."""
    return msgspec.structs.replace(
        found,
        message=other.message,
        estimate=other.estimate,
        low=other.low,
        high=other.high,
        exact=other.exact,
    )
