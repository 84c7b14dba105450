"""The condition CanaryAnalysis of a deployment: the worst of its analyses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from router_contract.canary_results import Decision, Verdict
from router_contract.canary_view import FINAL, CanaryView
from router_contract.verdicts import Condition, Status

TYPE: Final = "CanaryAnalysis"
_RANKS: Final = {Status.FALSE: 0, Status.UNKNOWN: 1, Status.TRUE: 2}


def worst(views: Iterable[CanaryView]) -> tuple[Condition, ...]:
    """The condition of the analysis that stands worst; nothing without any."""
    return tuple(sorted((condition(each) for each in views), key=lambda each: _RANKS[each.status])[:1])


def condition(view: CanaryView) -> Condition:
    """True while the canary may go on or has passed, False where it is to go back or is parked, else Unknown."""
    status = view.status
    if status is None or status.decision is None or status.reason is None:
        return Condition(
            type=TYPE,
            status=Status.UNKNOWN,
            reason="AwaitingSample",
            message=f"{view.key.name}: nothing was judged yet",
        )
    told, reason, message = Status.UNKNOWN, str(status.reason), status.message
    if status.decision in FINAL and status.canary_revision == view.definition.canary:
        told = Status.FALSE
    elif view.stale:
        reason, message = "Stale", f"what was judged last is too old to say anything of now: {message}"
    elif status.decision is Decision.ADVANCE or view.verdict is Verdict.PASSED:
        told = Status.TRUE
    evidence = (("analysis", view.key.name), ("canary", status.canary_revision), ("decision", str(status.decision)))
    return Condition(
        type=TYPE,
        status=told,
        reason=reason,
        message=f"{view.key.name}: {message}",
        evidence=evidence,
    )
