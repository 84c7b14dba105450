"""The decision table, the life of a run, exactly-once counting and the clocks."""

from __future__ import annotations

import msgspec
import pytest

from observer.judge.canary.clocks import due_in
from observer.judge.canary.evaluate import evaluate
from observer.judge.canary.plan import plan_of
from observer.judge.canary.status import status_of
from router_contract.canary import NativeKind, OnInconclusive, Pause, Step, TargetRef, WarmUp
from router_contract.canary_inputs import Observations, Run, Sample
from router_contract.canary_results import Decision, Outcome, Reason, SampleFate, Verdict
from router_contract.readings import Instant
from tests.judge.canary.build import (
    T0,
    Canary,
    analysis,
    answer,
    asked,
    definition,
    hist,
    latencies,
    measured,
    native,
    promql,
    relative,
    trouble,
    window,
)
from tests.judge.canary.reader import read

R, D = Reason, Decision
GOOD, BAD, NONE = asked(answer(0.01)), asked(answer(0.9)), asked(answer())
SEEN = {"P": GOOD, "F": BAD, "I": NONE}


def play(canary: Canary, letters: str, after: float = 60.0) -> Outcome:
    outcome = canary.tick()
    for letter in letters:
        outcome = canary.sample(SEEN[letter], after=after)
    return outcome


H, RB, S = OnInconclusive.HOLD, OnInconclusive.ROLLBACK, OnInconclusive.ROLLBACK_ON_STALL
TABLE: dict[str, tuple[dict[str, object], float | None, str, Decision, Reason]] = {
    "failed at the limit": ({}, None, "FFF", D.ROLLBACK, R.THRESHOLD_BREACHED),
    "failed below": ({}, None, "FF", D.HOLD, R.FAILURES_BELOW_LIMIT),
    "a pass resets nothing": ({"min_passes": 9}, None, "FPFPF", D.ROLLBACK, R.THRESHOLD_BREACHED),
    "limit of one": ({"failure_limit": 1}, None, "F", D.ROLLBACK, R.THRESHOLD_BREACHED),
    "passed": ({}, None, "P", D.ADVANCE, R.STEP_PASSED),
    "passed, baking": ({}, 300.0, "PP", D.HOLD, R.BAKE),
    "passed, baked": ({}, 300.0, "PPPPP", D.ADVANCE, R.STEP_PASSED),
    "baked, but inconclusive": ({}, 120.0, "PIII", D.HOLD, R.NO_DATA),
    "inconclusive": ({}, None, "III", D.HOLD, R.NO_DATA),
    "inconclusive, Rollback": ({"on_inconclusive": RB}, None, "I", D.ROLLBACK, R.ROLLED_BACK_ON_INCONCLUSIVE),
    "stalled, Hold": ({}, None, "I" * 15, D.FAILED, R.ANALYSIS_STALLED),
    "not yet stalled": ({}, None, "I" * 14, D.HOLD, R.NO_DATA),
    "stalled, RollbackOnStall": ({"on_inconclusive": S}, None, "I" * 15, D.ROLLBACK, R.ANALYSIS_STALLED),
    "a conclusive sample restarts the stall": ({"min_passes": 9}, None, "I" * 10 + "P" + "I" * 10, D.HOLD, R.NO_DATA),
    "own stall time": ({"stall_timeout": 120.0}, None, "II", D.FAILED, R.ANALYSIS_STALLED),
    "fewer passes than asked": ({"min_passes": 3}, None, "PP", D.HOLD, R.MIN_PASSES),
    "as many passes as asked": ({"min_passes": 3}, None, "PPP", D.ADVANCE, R.STEP_PASSED),
    # Report 42: a blip rolls back.
    "consecutive, not in a row": (
        {"failure_limit": 9, "consecutive_failure_limit": 3, "min_passes": 9},
        None,
        "FPFPF",
        D.HOLD,
        R.FAILURES_BELOW_LIMIT,
    ),
    "consecutive, in a row": (
        {"failure_limit": 9, "consecutive_failure_limit": 3, "min_passes": 9},
        None,
        "FPFFF",
        D.ROLLBACK,
        R.THRESHOLD_BREACHED,
    ),
    "no data is no pass between failures": (
        {"failure_limit": 9, "consecutive_failure_limit": 3},
        None,
        "FIFIF",
        D.ROLLBACK,
        R.THRESHOLD_BREACHED,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_decision_table(case: str) -> None:
    changes, pause, letters, decision, reason = TABLE[case]
    gate = analysis(promql(), **changes)
    canary = Canary(definition(gate, analysis(promql(), min_passes=99), pause=pause))
    outcome = play(canary, letters)
    assert (outcome.decision, outcome.reason) == (decision, reason)
    assert read(status_of(canary.definition, canary.run, outcome), gate) in {
        "Unobserved",
        "Passing",
        "Failing",
        "Inconclusive",
    }


def test_no_sample_at_all_past_the_stall_time_stalls() -> None:
    for on, decision in ((H, D.FAILED), (S, D.ROLLBACK), (RB, D.ROLLBACK)):
        canary = Canary(definition(analysis(promql(), on_inconclusive=on)))
        outcomes = [canary.tick(30.0) for _ in range(31)]
        assert outcomes[28].decision is D.HOLD
        assert (outcomes[30].decision, outcomes[30].reason) == (decision, R.ANALYSIS_STALLED)


def test_an_absence_of_the_observer_does_not_stall_a_step_before_it_could_sample() -> None:
    canary = Canary(definition(analysis(promql())))
    play(canary, "I")
    back = canary.tick(3600.0)
    assert back.decision is D.HOLD, "nobody watched for an hour"
    assert canary.sample(GOOD, after=10.0).decision is D.ADVANCE
    canary = Canary(definition(analysis(promql())))
    canary.tick(3600.0)
    assert canary.tick(60.0).decision is D.HOLD
    assert canary.tick(30.0).reason is R.ANALYSIS_STALLED, "there was time for a sample, and none came"
    canary = Canary(definition(analysis(promql())))
    assert canary.sample(NONE, after=3600.0).reason is R.ANALYSIS_STALLED, "asked, and still no data"


HELD: dict[str, dict[str, object]] = {
    "no Pods yet": {"serving": False},
    "paused": {"paused": True},
    "a pre-step hold": {"pre_step_hold": True},
}


@pytest.mark.parametrize("hold", HELD)
@pytest.mark.parametrize("on", [H, S])
def test_a_hold_longer_than_the_stall_time_ends_no_step_before_it_could_sample(hold: str, on: OnInconclusive) -> None:
    canary = Canary(definition(analysis(promql(), on_inconclusive=on)))
    free = canary.run
    canary.run = msgspec.structs.replace(free, **HELD[hold])
    for _ in range(40):
        canary.tick(30.0)
    canary.run = free
    assert [canary.tick(seconds).decision for seconds in (10.0, 30.0, 20.0)] == [D.HOLD] * 3
    assert canary.sample(GOOD, after=5.0).decision is D.ADVANCE
    canary = Canary(definition(analysis(promql(), on_inconclusive=on)))
    canary.run = msgspec.structs.replace(free, **HELD[hold])
    canary.tick(1200.0)
    canary.run = free
    outcomes = [canary.tick(30.0) for _ in range(40)]
    assert outcomes[-1].reason is R.ANALYSIS_STALLED, "no sample came, and there was time for many"


def test_warm_up_and_bake_count_from_the_first_pods_and_not_from_when_the_analysis_was_made() -> None:
    for gate in (Step(pause=Pause(seconds=300.0)), Step(analysis=analysis(promql(), initial_delay=300.0))):
        canary = Canary(definition(gate))
        free = canary.run
        canary.run = msgspec.structs.replace(free, serving=False)
        canary.tick(600.0)
        canary.run = free
        assert canary.tick(30.0).reason in {R.BAKE, R.WARMING_UP}
        assert canary.tick(290.0).reason in {R.BAKE, R.WARMING_UP}
        assert canary.tick(20.0).reason in {R.PAUSE_ELAPSED, R.AWAITING_SAMPLE}
    canary = Canary(definition(analysis(promql())))
    free = canary.run
    canary.sample(BAD)
    entered = canary.state
    canary.run = msgspec.structs.replace(free, serving=False)
    canary.tick(60.0)
    canary.run = free
    canary.tick(60.0)
    assert entered is not None
    assert canary.state is not None
    assert canary.state.step_entered == entered.step_entered, "a dip later in the step moves no clock"


def test_a_promote_that_a_pause_overtook_is_used_after_it() -> None:
    canary = Canary(
        definition(analysis(promql()), analysis(promql())), Run(target="t1", canary="new", stable="old", step=0)
    )
    told = canary.run = msgspec.structs.replace(canary.run, promote="new")
    assert canary.tick(1.0).reason is R.PROMOTED
    canary.run = msgspec.structs.replace(told, paused=True)
    assert [canary.tick(1.0).reason for _ in range(2)] == [R.PAUSED] * 2
    canary.run = told
    assert canary.tick(1.0).reason is R.PROMOTED
    canary.run = msgspec.structs.replace(told, step=1)
    assert canary.tick(1.0).reason is R.AWAITING_SAMPLE, "one value advances one step"


def test_without_a_ready_timeout_nothing_stalls() -> None:
    canary = Canary(definition(analysis(promql()), ready_timeout=None))
    assert play(canary, "I" * 100).reason is R.NO_DATA


def test_warm_up_takes_no_sample_and_native_steps_do_not_pay_for_it_in_stall_time() -> None:
    warm = WarmUp(seconds=60.0)
    for metric, stalls in ((promql(), 900.0), (native(), 900.0 + 600.0 + 60.0)):
        canary = Canary(definition(analysis(metric, initial_delay=600.0, warm_up=warm)))
        early = canary.sample(GOOD, after=100.0)
        assert (early.fate, early.reason, early.verdict) == (SampleFate.NOT_ASKED, R.WARMING_UP, None)
        assert "warm-up: 8m20s left" in early.sentence
        last = early
        while last.decision is D.HOLD:
            last = canary.tick(30.0)
        assert (last.reason, canary.now - T0) == (R.ANALYSIS_STALLED, pytest.approx(stalls, abs=30.0))


def test_a_sample_counts_once_however_often_it_comes() -> None:
    canary = Canary(definition(analysis(promql())))
    first = canary.sample(BAD)
    assert (first.fate, first.state.failed_checks) == (SampleFate.COUNTED, 1)
    for _ in range(5):
        canary.ids -= 1
        again = canary.sample(BAD, after=0.7)
        assert (again.fate, again.decision, again.state.failed_checks) == (SampleFate.DUPLICATE, D.HOLD, 1)
        assert again.verdict is None


@pytest.mark.parametrize("change", [{"step": 1}, {"canary": "other"}, {"plan": "other"}])
def test_samples_begun_for_something_else_are_dropped(change: dict[str, object]) -> None:
    canary = Canary(definition(analysis(promql()), analysis(promql())))
    outcome = canary.sample(BAD, **change)
    assert (outcome.fate, outcome.state.failed_checks, outcome.decision) == (SampleFate.SUPERSEDED, 0, D.HOLD)
    assert canary.sample(BAD).state.failed_checks == 1, "its id was not used up"


def test_a_sample_begun_for_another_deployment_is_dropped() -> None:
    """Whoever edits the reference leaves revisions and steps as they are, and a query in flight asked for the old one."""
    before = definition(analysis(promql()))
    now = msgspec.structs.replace(before, target=TargetRef(kind="ModelDeployment", name="another"))
    run = Run(target="t", canary=before.canary, stable="old")
    state = evaluate(now, None, Observations(run=run), Instant(0.0, T0)).state
    for made, fate in ((before, SampleFate.SUPERSEDED), (now, SampleFate.COUNTED)):
        sample = Sample(
            id=1, step=0, canary=run.canary, plan=plan_of(made, 0), started=T0 + 1, completed=T0 + 1, observations=()
        )
        assert evaluate(now, state, Observations(run=run, sample=sample), Instant(1.0, T0 + 1)).fate is fate


def test_two_replicas_with_a_store_that_compares_never_both_count() -> None:
    """Both hold the same state and take sample 1; the one whose write is refused reads the other's state and tries again."""
    one, other = Canary(definition(analysis(promql()))), Canary(definition(analysis(promql())))
    other.state = one.state
    stored = one.state
    won, lost = one.sample(BAD), other.sample(BAD)
    assert won.state.failed_checks == lost.state.failed_checks == 1, "both counted in their own copy"
    stored = won.state
    other.state, other.ids = stored, other.ids - 1
    retried = other.sample(BAD, after=0.0)
    assert (retried.fate, retried.state.failed_checks) == (SampleFate.DUPLICATE, 1)


def test_steps_are_entered_clean_and_the_last_results_stay_readable() -> None:
    canary = Canary(definition(analysis(promql()), analysis(promql())))
    moved = play(canary, "FFP")
    assert (moved.decision, moved.step, moved.state.step) == (D.ADVANCE, 0, 1)
    assert (moved.state.failed_checks, moved.state.results, moved.state.conclusive_at) == (0, (), None)
    assert moved.verdicts[0].passed
    assert play(canary, "FF").decision is D.HOLD, "two failures, and two of the step before"
    done = canary.sample(GOOD)
    assert (done.decision, done.state.step) == (D.ADVANCE, 2)
    after = canary.tick(60.0)
    assert (after.decision, after.reason) == (D.ADVANCE, R.COMPLETED)
    assert after.state.results[0].passed
    assert "is the new stable revision" in after.sentence


def test_a_new_revision_starts_afresh_and_old_samples_cannot_count() -> None:
    """Report 41: failures 2 of 3, then another revision."""
    canary = Canary(definition(analysis(promql())))
    play(canary, "FF")
    outcome = canary.change(canary="newer", target="t2")
    assert (outcome.state.failed_checks, outcome.state.counted, outcome.state.canary) == (0, 2, "newer")
    canary.ids = 0
    assert canary.sample(BAD).fate is SampleFate.DUPLICATE


def test_an_edited_plan_starts_the_step_afresh_but_not_its_clock() -> None:
    canary = Canary(definition(analysis(promql())))
    play(canary, "FF")
    canary.definition = definition(analysis(promql(limit=2.0)))
    outcome = canary.tick()
    assert (outcome.state.failed_checks, outcome.state.step_entered) == (0, T0)


def test_a_rolled_back_revision_stays_rejected_until_another_target() -> None:
    canary = Canary(definition(analysis(promql())))
    play(canary, "FFF")
    for outcome in (canary.tick(60.0), canary.sample(GOOD), canary.change(promote="new")):
        assert (outcome.decision, outcome.reason) == (D.ROLLBACK, R.THRESHOLD_BREACHED)
        assert "was rejected" in outcome.sentence
    assert canary.change(target="t2", canary="newer", promote="").decision is D.HOLD


def test_without_a_stable_revision_a_rollback_parks() -> None:
    canary = Canary(definition(analysis(promql())), Run(target="t1", canary="new", stable=None))
    outcome = play(canary, "FFF")
    assert (outcome.decision, outcome.reason) == (D.FAILED, R.STABLE_REVISION_MISSING)
    assert canary.change(rollback=True).reason is R.STABLE_REVISION_MISSING, "the request cannot be met"
    assert status_of(canary.definition, canary.run, outcome).failed is not None


def test_parks_end_by_rollback_or_a_new_target() -> None:
    canary = Canary(definition(analysis(promql())))
    assert play(canary, "I" * 15).decision is D.FAILED
    assert "parked" in canary.tick(60.0).sentence
    assert canary.sample(GOOD).decision is D.FAILED, "a park does not end by itself"
    assert canary.change(rollback=True).reason is R.ROLLBACK_REQUESTED
    canary = Canary(definition(analysis(promql())))
    play(canary, "I" * 15)
    assert canary.change(target="t2").decision is D.HOLD


def test_verbs_and_holds() -> None:
    canary = Canary(definition(analysis(promql()), Step(pause=Pause()), Step(pause=Pause(seconds=60.0)), Step()))
    assert canary.change(paused=True).reason is R.PAUSED
    assert canary.change(paused=False, pre_step_hold=True).reason is R.PRE_STEP_HOLD
    assert canary.change(pre_step_hold=False, serving=False).reason is R.CAPACITY
    assert canary.change(serving=True).reason is R.AWAITING_SAMPLE
    assert canary.change(promote="something else").decision is D.HOLD
    promoted = canary.change(promote="new")
    assert (promoted.decision, promoted.reason, promoted.state.step) == (D.ADVANCE, R.PROMOTED, 1)
    assert (canary.tick().reason, canary.tick().reason) == (R.MANUAL, R.MANUAL), "one value advances one step"
    canary.change(promote="")
    assert canary.change(promote="new").state.step == 2
    assert canary.change(promote="").reason is R.BAKE
    assert (canary.tick(60.0).reason, canary.tick().reason) == (R.PAUSE_ELAPSED, R.NO_GATE)
    assert canary.tick().reason is R.COMPLETED
    other = Canary(definition(analysis(promql())))
    assert other.change(rollback=True).reason is R.ROLLBACK_REQUESTED


def test_the_step_of_a_controller_is_followed_and_an_answer_stays_until_it_moves() -> None:
    run = Run(target="t1", canary="new", stable="old", step=0, step_entered=T0)
    canary = Canary(definition(analysis(promql()), analysis(promql())), run)
    assert play(canary, "P").decision is D.ADVANCE
    assert canary.tick(5.0).decision is D.ADVANCE
    assert canary.sample(NONE).decision is D.HOLD, "a later inconclusive sample takes it back"
    moved = canary.change(step=1, step_entered=canary.now)
    assert (moved.state.step, moved.state.results, moved.decision) == (1, (), D.HOLD)
    promoted = canary.change(promote="new")
    assert (promoted.decision, promoted.state.step) == (D.ADVANCE, 1)
    assert canary.tick().decision is D.ADVANCE
    assert canary.change(step=2).reason is R.COMPLETED


def test_a_restarted_canary_pod_starts_the_bake_again() -> None:
    canary = Canary(definition(analysis(promql()), pause=120.0))
    play(canary, "P")
    canary.change(restarted_at=T0 + 100.0)
    assert canary.sample(GOOD).reason is R.BAKE
    assert "bake: 1m40s left" in canary.tick().sentence
    assert play(canary, "PP").decision is D.ADVANCE


def test_every_metric_is_needed_for_a_pass() -> None:
    """Report 39: metric A answers now, metric B later."""
    gate = analysis(promql("a"), promql("b"))
    canary = Canary(definition(gate))
    outcome = canary.sample(asked(answer(0.0), "a"))
    assert (outcome.verdict, outcome.reason) == (Verdict.INCONCLUSIVE, R.NOT_MEASURED)
    both = canary.sample(asked(answer(0.0), "a"), asked(answer(0.9), "b"))
    assert both.verdict is Verdict.FAILED, "a breach wins over what is not known"
    assert canary.sample(asked(trouble(), "a"), asked(answer(0.9), "b")).verdict is Verdict.FAILED


def test_dry_runs_are_told_and_decide_nothing() -> None:
    gate = analysis(promql("a"), promql("b", required=False))
    canary = Canary(definition(gate))
    outcome = canary.sample(asked(answer(0.0), "a"), asked(answer(0.9), "b"))
    assert outcome.decision is D.ADVANCE
    status = status_of(canary.definition, canary.run, outcome)
    assert [each.name for each in status.dry_run_results] == ["b"]
    only = Canary(definition(analysis(promql("a", required=False))))
    nothing = only.sample(asked(answer(0.0), "a"))
    assert (nothing.verdict, nothing.reason) == (Verdict.INCONCLUSIVE, R.NO_METRICS), "nothing required is no pass"


def test_a_configuration_error_says_so_at_once_and_costs_nothing() -> None:
    """Report 25: a template's name is mistyped, ten times."""
    canary = Canary(definition(analysis(promql())))
    for _ in range(10):
        outcome = canary.sample(asked(trouble(R.QUERY_INVALID, permanent=True)))
        assert (outcome.decision, outcome.state.failed_checks, outcome.config_invalid) == (D.HOLD, 0, True)
    assert status_of(canary.definition, canary.run, outcome).config_invalid


def test_slow_traffic_is_warned_of() -> None:
    canary = Canary(definition(analysis(native(limit=0.01))))
    outcome = canary.sample(measured(window((0, 10))))
    assert outcome.reason is R.INSUFFICIENT_SAMPLES
    assert outcome.warnings == (
        "m has 10 of 500 samples; the rest take 49m00s at this rate, and the step stalls in 14m00s",
    )
    enough = canary.sample(measured(window((0, 400))))
    assert enough.warnings == ()
    assert enough.verdicts[0].message.endswith("400/500 samples")


def test_nobody_is_warned_of_slow_traffic_to_a_revision_that_was_rejected() -> None:
    canary = Canary(definition(analysis(native(limit=0.01), failure_limit=1)))
    outcome = canary.sample(measured(window((10, 10))))
    assert outcome.decision is Decision.ROLLBACK
    assert outcome.warnings == ()


def test_sentences_name_what_holds() -> None:
    canary = Canary(definition(analysis(promql())))
    assert canary.tick().sentence == "Step 1 of 1 is held by analysis: no sample yet; it stalls in 15m00s."
    said = canary.sample(BAD).sentence
    assert said.startswith("Step 1 of 1 is held by analysis: Failed, 1/3 failed checks; errors: 0.9 is not LT 0.05")
    assert "(NoData)" in canary.sample(NONE).sentence


def test_when_samples_are_due() -> None:
    made = definition(analysis(promql(), initial_delay=30.0), Step(pause=Pause()))
    canary = Canary(made)

    def due(wall: float, mono: float = 0.0, taken: float | None = None, run: Run | None = None) -> float | None:
        assert canary.state is not None
        return due_in(made, canary.state, run or canary.run, Instant(mono, wall), taken)

    assert due(T0) == 30.0
    assert due(T0 + 40) == 0.0
    assert due(T0 + 40, mono=100.0, taken=90.0) == 50.0, "the interval counts on the monotonic clock"
    canary.sample(NONE)
    assert due(T0 + 70) == 50.0, "after a restart the stored time counts"
    assert due(T0 + 50) == 0.0, "a clock that went back delays nothing for ever"
    assert due(T0, run=msgspec.structs.replace(canary.run, paused=True)) is None
    assert due(T0, run=msgspec.structs.replace(canary.run, serving=False)) is None
    play(canary, "P")
    assert due(T0 + 999) is None, "a step without analysis"


def test_a_clock_that_goes_back_breaks_no_promise_of_the_status() -> None:
    canary = Canary(definition(analysis(promql(), min_passes=9)))
    play(canary, "PF")
    canary.now -= 7200.0
    for letter in "IFPI":
        outcome = play(canary, letter)
        read(status_of(canary.definition, canary.run, outcome), analysis(promql()))
    assert outcome.decision is D.HOLD


def test_the_status_document_has_the_fields_and_names_of_ome() -> None:
    canary = Canary(definition(analysis(promql()), Step(pause=Pause())), None)
    first = msgspec.json.decode(msgspec.json.encode(status_of(canary.definition, canary.run, canary.tick())))
    assert first == {
        "targetID": "t1",
        "canaryRevisionHash": "new",
        "stableRevisionHash": "old",
        "currentStep": 0,
        "stepEnteredTime": int(T0),
        "decision": "Hold",
        "reason": "AwaitingSample",
        "message": "Step 1 of 2 is held by analysis: no sample yet; it stalls in 15m00s.",
        "failureLimit": 3,
        "steps": 2,
    }
    outcome = canary.sample(BAD, after=60.7)
    later = msgspec.json.decode(msgspec.json.encode(status_of(canary.definition, canary.run, outcome, 10)))
    assert later["observedTrafficWeight"] == 10
    assert later["analysisFailedChecks"] == 1
    assert later["lastEvaluationTime"] == later["lastConclusiveEvaluationTime"] == int(T0) + 60
    (result,) = later["metricResults"]
    wanted = {
        "name": "errors",
        "value": "0.9",
        "threshold": "0.05",
        "operator": "LT",
        "passed": False,
        "time": int(T0) + 60,
    }
    assert wanted.items() <= result.items()
    assert (later["sampleID"], later["verdict"]) == (1, "Failed")


def test_long_lists_are_cut_and_counted() -> None:
    canary = Canary(definition(analysis(native())))
    seen = measured(window((0, 500)), expected=500, missing=tuple(f"p{place}" for place in range(400)))
    (result,) = canary.sample(seen).verdicts
    assert (len(result.missing_pods), result.missing_count, result.expected_pods) == (20, 400, 500)
    assert "p2 and 397 more" in result.message


def test_a_stable_side_beyond_its_buckets_survives_storing() -> None:
    top = latencies(*[hist(0, 0, 0, 0, 0, 90)] * 3)
    canary = Canary(definition(analysis(relative(NativeKind.QUANTILE, quantile=0.95))))
    outcome = canary.sample(measured(top, top))
    assert outcome.reason is R.BUCKET_OVERFLOW
