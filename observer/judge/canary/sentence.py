"""The one sentence that says where a canary stands: what holds it, or what ended it."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.canary.clocks import baked_at, stalls_at, warm_at
from observer.judge.canary.display import duration
from router_contract.canary import Analysis, CanaryAnalysis
from router_contract.canary_inputs import Run
from router_contract.canary_results import CanaryState, Decision, MetricResult, Reason, Verdict


def sentence(definition: CanaryAnalysis, state: CanaryState, run: Run, step: int, now: float) -> str:
    """For ``step``, the one that was judged; ``state`` is the new state and holds the decision and its reason."""
    total = len(definition.steps)
    if step >= total:
        return f"All {total} steps are done: {run.canary} is the new stable revision."
    where = f"Step {step + 1} of {total}"
    if state.rejected and state.rejected == run.canary:
        return f"{where}: revision {run.canary} was rejected ({state.reason}); only another target starts again."
    if state.park is not None:
        since = duration(now - state.park.time)
        return f"{where}: the run is parked ({state.park.reason}, {since} ago); stable keeps serving."
    if state.decision is Decision.ADVANCE:
        return f"{where} may advance: {_ADVANCES[state.reason]}."
    return f"{where} is held by {_holds(definition, state, run, step, now)}."


_ADVANCES = {
    Reason.STEP_PASSED: "every metric passed",
    Reason.PAUSE_ELAPSED: "its pause is over",
    Reason.NO_GATE: "it has no gate",
    Reason.PROMOTED: "it was promoted by hand",
    Reason.COMPLETED: "all steps are done",
}


def _holds(definition: CanaryAnalysis, state: CanaryState, run: Run, step: int, now: float) -> str:
    gate = definition.steps[step]
    if state.reason is Reason.PAUSED:
        return "the pause of the whole rollout"
    if state.reason is Reason.CAPACITY:
        return "capacity: the step's replicas do not serve yet"
    if state.reason is Reason.PRE_STEP_HOLD:
        return "a pre-step hold: raising its traffic waits for a promote"
    if state.reason is Reason.MANUAL:
        return "a manual pause: it waits for a promote"
    if state.reason is Reason.BAKE:
        seconds = None if gate.pause is None else gate.pause.seconds
        return f"its bake: {duration(baked_at(seconds, state, run) - now)} left"
    if gate.analysis is None:
        return str(state.reason)
    return _analysis(definition, gate.analysis, state, now)


def _analysis(definition: CanaryAnalysis, analysis: Analysis, state: CanaryState, now: float) -> str:
    checks = f"{state.failed_checks}/{analysis.failure_limit} failed checks"
    if state.reason is Reason.WARMING_UP and now < warm_at(analysis, state):
        return f"its warm-up: {duration(warm_at(analysis, state) - now)} left"
    if state.verdict is None:
        return f"analysis: no sample yet{_stall(definition, state, now)}"
    if state.reason is Reason.MIN_PASSES:
        return f"analysis: {state.passes} of {analysis.min_passes} passes"
    culprit = worst(state.results)
    named = "" if culprit is None else f"; {culprit.name}: {culprit.message} ({culprit.reason})"
    return f"analysis: {state.verdict}, {checks}{named}{_stall(definition, state, now)}"


def _stall(definition: CanaryAnalysis, state: CanaryState, now: float) -> str:
    at = stalls_at(definition, state)
    return "" if at is None else f"; it stalls in {duration(at - now)}"


def worst(results: Sequence[MetricResult]) -> MetricResult | None:
    """The first required metric that decided the verdict: one that failed, else one that is inconclusive."""
    for verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE):
        for result in results:
            if result.required and result.verdict is verdict:
                return result
    return None
