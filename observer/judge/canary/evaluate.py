"""The order of things for one look at a canary: start afresh, verbs, holds, the sample counted once, the decision.

`evaluate` is called whenever something may have changed, with or without a sample: at a completed sample, at a change of
the rollout, and on a timer, which is what makes stalls independent of samples. Its state must be stored, by
compare-and-set, before anything of its outcome is published: so two replicas never count one sample each.
"""

from __future__ import annotations

from typing import Final

import msgspec

from observer.judge.canary.clocks import baked_at, stalled, stalls_at, warm_at, watched
from observer.judge.canary.decide import Choice, on_stall, on_verdict
from observer.judge.canary.plan import plan_of
from observer.judge.canary.sample import judge_sample, slow_metrics
from observer.judge.canary.sentence import sentence, worst
from router_contract.canary import Analysis, CanaryAnalysis, Step
from router_contract.canary_inputs import Observations, Run, Sample
from router_contract.canary_results import (
    CanaryState,
    Decision,
    Outcome,
    Park,
    Reason,
    SampleFate,
    Verdict,
)
from router_contract.readings import Instant

_replace = msgspec.structs.replace
_HOLDS: Final = frozenset({Reason.CAPACITY, Reason.PAUSED, Reason.PRE_STEP_HOLD})
_COMPLETED: Final = (Decision.ADVANCE, Reason.COMPLETED)


def evaluate(
    definition: CanaryAnalysis,
    state: CanaryState | None,
    observations: Observations,
    now: Instant,
) -> Outcome:
    """One look. ``state`` is the stored one, ``None`` for a first look."""
    run = observations.run
    state = _current(definition, state, run, now.wall)
    gate = definition.steps[state.step] if state.step < len(definition.steps) else None
    state = _released(watched(None if gate is None else gate.analysis, state, now.wall), run, now.wall)
    step, fate = state.step, None
    choice = _settled(state, run, gate) or _gated(gate, state, run, now.wall)
    if choice is None and gate is not None and gate.analysis is not None:
        fate = _fate(gate.analysis, state, observations.sample)
        if fate is SampleFate.COUNTED and observations.sample is not None:
            state = _count(gate.analysis, state, observations.sample)
        choice = _analysed(definition, gate, gate.analysis, state, run, now.wall, sampled=fate is SampleFate.COUNTED)
    state, decision, reason = _apply(definition, state, run, choice or _COMPLETED, now.wall)
    text = sentence(definition, state, run, step, now.wall)
    counted = fate is SampleFate.COUNTED
    going = gate is not None and state.step == step and decision not in {Decision.ROLLBACK, Decision.FAILED}
    left = stalls_at(definition, state) if going else None
    moved = state if state.step == step else _entered(definition, state, state.step, now.wall)
    return Outcome(
        state=moved,
        decision=decision,
        reason=reason,
        sentence=text,
        step=step,
        fate=fate,
        verdict=state.verdict if counted else None,
        verdicts=state.results if counted else (),
        config_invalid=any(result.permanent for result in state.results),
        warnings=() if left is None else slow_metrics(state.results, max(0.0, left - now.wall)),
    )


def _current(definition: CanaryAnalysis, state: CanaryState | None, run: Run, now: float) -> CanaryState:
    """The stored state, or a fresh one for another target or revision; re-entered for another step or plan.

    The id of the last counted sample outlives all of these, so that no old sample can ever count.
    """
    step = run.step if run.step is not None else (0 if state is None else state.step)
    step = min(step, len(definition.steps))
    entered = now if run.step_entered is None else run.step_entered
    if state is None or (state.target, state.canary) != (run.target, run.canary):
        step = 0 if run.step is None else step
        fresh = CanaryState(
            target=run.target,
            canary=run.canary,
            plan="",
            counted=0 if state is None else state.counted,
            watched_from=now,
            watched_until=now,
        )
        return _entered(definition, fresh, step, entered)
    if state.step != step:
        return _entered(definition, state, step, entered)
    if run.step_entered is not None and run.step_entered != state.step_entered:
        state = _replace(state, step_entered=run.step_entered)
    if state.plan != plan_of(definition, step):
        return _entered(definition, state, step, state.step_entered)
    return state if run.promote else _replace(state, promoted="")


def _released(state: CanaryState, run: Run, now: float) -> CanaryState:
    """The state once what held samples back is over: a hold that outlasts the stall time must not end the step before
    there was time for one. Where nobody else says when the step began to serve, its clocks begin with its first Pods.
    """
    if state.reason is Reason.CAPACITY and run.serving and run.step_entered is None and state.evaluated_at is None:
        state = _replace(state, step_entered=now)
    held = run.paused or run.pre_step_hold or not run.serving
    return _replace(state, watched_from=now) if state.reason in _HOLDS and not held else state


def _entered(definition: CanaryAnalysis, state: CanaryState, step: int, entered: float) -> CanaryState:
    """The state at the beginning of a step. After the last one the results of that stay readable."""
    clean = _replace(state, step=step, step_entered=entered, plan=plan_of(definition, step))
    if step >= len(definition.steps):
        return clean
    return _replace(
        clean,
        failed_checks=0,
        consecutive_failures=0,
        passes=0,
        evaluated_at=None,
        conclusive_at=None,
        verdict=None,
        results=(),
        bounds=(),
        decision=state.decision if state.rejected or state.park else Decision.HOLD,
        reason=state.reason if state.rejected or state.park else Reason.AWAITING_SAMPLE,
    )


def _settled(state: CanaryState, run: Run, gate: Step | None) -> Choice | None:
    """What needs no gate: an end that was reached before, and the verbs of people."""
    if state.rejected and state.rejected == run.canary:
        return Decision.ROLLBACK, state.reason
    if state.park is not None:
        if run.rollback and state.park.reason is not Reason.STABLE_REVISION_MISSING:
            return Decision.ROLLBACK, Reason.ROLLBACK_REQUESTED
        return Decision.FAILED, state.park.reason
    if gate is None:
        return None
    if run.rollback:
        return Decision.ROLLBACK, Reason.ROLLBACK_REQUESTED
    if run.paused:
        return Decision.HOLD, Reason.PAUSED
    # The step that a promote advanced keeps that answer until its controller moves; the next one needs a new promote.
    used = state.promoted == run.promote and state.reason is not Reason.PROMOTED
    return (Decision.ADVANCE, Reason.PROMOTED) if run.promote == run.canary and not used else None


def _gated(gate: Step | None, state: CanaryState, run: Run, now: float) -> Choice | None:
    """What comes before an analysis, and the gates of steps without one."""
    if gate is None:
        return None
    if run.pre_step_hold:
        return Decision.HOLD, Reason.PRE_STEP_HOLD
    if not run.serving:
        return Decision.HOLD, Reason.CAPACITY
    if gate.analysis is not None:
        return None
    if gate.pause is None:
        return Decision.ADVANCE, Reason.NO_GATE
    if gate.pause.seconds is None:
        return Decision.HOLD, Reason.MANUAL
    if now < baked_at(gate.pause.seconds, state, run):
        return Decision.HOLD, Reason.BAKE
    return Decision.ADVANCE, Reason.PAUSE_ELAPSED


def _fate(analysis: Analysis, state: CanaryState, sample: Sample | None) -> SampleFate | None:
    """Whether a sample counts: begun for what is judged now, after warm-up, and never counted before."""
    if sample is None:
        return None
    if (sample.step, sample.canary, sample.plan) != (state.step, state.canary, state.plan):
        return SampleFate.SUPERSEDED
    if sample.id <= state.counted:
        return SampleFate.DUPLICATE
    return SampleFate.NOT_ASKED if sample.started < warm_at(analysis, state) else SampleFate.COUNTED


def _count(analysis: Analysis, state: CanaryState, sample: Sample) -> CanaryState:
    """The state with a sample counted. Its times never run backwards, whatever the clock does."""
    at = max(sample.completed, state.evaluated_at or sample.completed)
    judged = judge_sample(analysis, sample.observations, state.bounds, state.step_entered, at)
    conclusive = judged.verdict is not Verdict.INCONCLUSIVE
    failed, passed = judged.verdict is Verdict.FAILED, judged.verdict is Verdict.PASSED
    return _replace(
        state,
        counted=sample.id,
        evaluated_at=at,
        conclusive_at=at if conclusive else state.conclusive_at,
        failed_checks=state.failed_checks + failed,
        consecutive_failures=0 if passed else state.consecutive_failures + failed,
        passes=state.passes + passed,
        verdict=judged.verdict,
        results=judged.results,
        bounds=judged.bounds,
    )


def _analysed(
    definition: CanaryAnalysis,
    gate: Step,
    analysis: Analysis,
    state: CanaryState,
    run: Run,
    now: float,
    *,
    sampled: bool,
) -> Choice:
    """The decision of an analysis step, with the sample just counted or without one."""
    late = stalled(definition, state, now, sampled=sampled)
    if not sampled and late:
        return on_stall(analysis)
    if state.verdict is None:
        return Decision.HOLD, (Reason.WARMING_UP if now < warm_at(analysis, state) else Reason.AWAITING_SAMPLE)
    culprit = worst(state.results)
    why = Reason.NO_METRICS if culprit is None else culprit.reason
    at = now if sampled or state.evaluated_at is None else state.evaluated_at
    pause = None if gate.pause is None else gate.pause.seconds
    baked = at >= baked_at(pause, state, run)
    return on_verdict(analysis, state, state.verdict, why, baked=baked, is_stalled=late)


def _apply(
    definition: CanaryAnalysis, state: CanaryState, run: Run, choice: Choice, now: float
) -> tuple[CanaryState, Decision, Reason]:
    """The state after a decision, which a missing stable revision may turn into a park."""
    decision, reason = choice
    if decision is Decision.ROLLBACK and state.rejected != run.canary and not run.stable:
        decision, reason = Decision.FAILED, Reason.STABLE_REVISION_MISSING
    if (decision, reason) != (state.decision, state.reason):
        state = _replace(state, decided_at=now)
    if decision is Decision.ROLLBACK:
        state = _replace(state, rejected=run.canary, park=None)
    if decision is Decision.FAILED and (state.park is None or state.park.reason is not reason):
        state = _replace(state, park=Park(reason=reason, time=now))
    if reason is Reason.PROMOTED:
        state = _replace(state, promoted=run.promote)
    if reason is Reason.PAUSED and state.reason is Reason.PROMOTED:
        state = _replace(state, promoted="")  # paused before its controller moved: it was not used
    moves = decision is Decision.ADVANCE and run.step is None and state.step < len(definition.steps)
    step = state.step + 1 if moves else state.step
    return _replace(state, decision=decision, reason=reason, step=step), decision, reason
