"""A counted sample, or the lack of one, to a decision."""

from __future__ import annotations

from router_contract.canary import Analysis, OnInconclusive
from router_contract.canary_results import CanaryState, Decision, Reason, Verdict

Choice = tuple[Decision, Reason]


def on_verdict(
    analysis: Analysis, state: CanaryState, verdict: Verdict, why: Reason, *, baked: bool, is_stalled: bool
) -> Choice:
    """The decision after a sample was counted in ``state``. ``why`` is the reason of its verdict."""
    if verdict is Verdict.FAILED:
        consecutive = analysis.consecutive_failure_limit
        spent = state.failed_checks >= analysis.failure_limit
        if spent or (consecutive and state.consecutive_failures >= consecutive):
            return Decision.ROLLBACK, why
        return Decision.HOLD, Reason.FAILURES_BELOW_LIMIT
    if verdict is Verdict.PASSED:
        if state.passes < analysis.min_passes:
            return Decision.HOLD, Reason.MIN_PASSES
        return (Decision.ADVANCE, Reason.STEP_PASSED) if baked else (Decision.HOLD, Reason.BAKE)
    if analysis.on_inconclusive is OnInconclusive.ROLLBACK:
        return Decision.ROLLBACK, Reason.ROLLED_BACK_ON_INCONCLUSIVE
    return on_stall(analysis) if is_stalled else (Decision.HOLD, why)


def on_stall(analysis: Analysis) -> Choice:
    """The decision once a step is stalled."""
    parks = analysis.on_inconclusive is OnInconclusive.HOLD
    return (Decision.FAILED if parks else Decision.ROLLBACK), Reason.ANALYSIS_STALLED
