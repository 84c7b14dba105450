"""The published status of a canary: OME's fields with its meaning, so that its readers find no contradiction in them."""

from __future__ import annotations

import math

from router_contract.canary import CanaryAnalysis
from router_contract.canary_inputs import Run
from router_contract.canary_results import CanaryState, CanaryStatus, FailedStatus, Outcome


def status_of(definition: CanaryAnalysis, run: Run, outcome: Outcome, weight: int | None = None) -> CanaryStatus:
    """The status after ``outcome``. ``weight`` is the traffic that the controller programmed (percent)."""
    state = outcome.state
    decision, reason, message = outcome.decision, outcome.reason, outcome.sentence
    if outcome.step < state.step < len(definition.steps):
        # The step is the new one, of which nothing is known: an Advance beside it would be taken for its own.
        decision, reason = state.decision, state.reason
        message = f"{outcome.sentence} Step {state.step + 1} is entered now."
    analysis = definition.steps[state.step].analysis if state.step < len(definition.steps) else None
    return CanaryStatus(
        target_id=state.target,
        canary_revision=state.canary,
        stable_revision=run.stable or "",
        current_step=state.step,
        step_entered=math.floor(state.step_entered),
        observed_weight=weight,
        promoted_through=state.promoted,
        pre_step_hold=run.pre_step_hold,
        rolled_back=state.rejected,
        failed_checks=state.failed_checks,
        last_evaluation=_whole(state.evaluated_at),
        last_conclusive=_whole(state.conclusive_at),
        metric_results=tuple(each for each in state.results if each.required),
        dry_run_results=tuple(each for each in state.results if not each.required),
        failed=None
        if state.park is None
        else FailedStatus(reason=str(state.park.reason), time=math.floor(state.park.time)),
        sample_id=state.counted,
        verdict=state.verdict,
        decision=decision,
        reason=reason,
        message=message,
        failure_limit=None if analysis is None else analysis.failure_limit,
        steps=len(definition.steps),
        config_invalid=_config_invalid(state),
    )


def _config_invalid(state: CanaryState) -> bool:
    return any(result.permanent for result in state.results)


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else math.floor(seconds)
