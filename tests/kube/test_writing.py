"""What is written into a status and when: pure decisions, step by step on a clock of the test's own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from observer.kube.answers import Answer, Outcome
from observer.kube.intent import (
    LONGEST_MESSAGE,
    Intent,
    Stored,
    WantedCondition,
    bounded,
    listed,
    percent,
    rfc3339,
    rounded,
)
from observer.kube.resources import Resource
from observer.kube.writing import AFTER, Action, After, Ledger, WritingRules, answered, decide, observed
from router_contract.readings import Instant

MD = Resource(group="worker.gpustack.ai", version="v1alpha1", plural="modeldeployments", kind="ModelDeployment")
PREFIX = "observer.modeldeployment.io/"
SERVING = PREFIX + "Serving"
RULES = WritingRules()
WALL = 1_700_000_000.0


def at(mono: float) -> Instant:
    return Instant(mono, WALL + mono)


def intent(
    status: str = "True",
    message: str = "all serve",
    *,
    uid: str = "u1",
    reason: str = "Serves",
    types: tuple[str, ...] = (SERVING,),
) -> Intent:
    wanted = tuple(WantedCondition(type=each, status=status, reason=reason, message=message) for each in types)
    return Intent(
        resource=MD, namespace="ns", name="md", uid=uid, observed_generation=3, conditions=wanted, prefix=PREFIX
    )


def condition(
    status: str = "True", message: str = "all serve", since: str = "2026-01-01T00:00:00Z", **more: Any
) -> dict[str, Any]:
    return {
        "type": SERVING,
        "status": status,
        "reason": "Serves",
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": 3,
        **more,
    }


def stored(*conditions: dict[str, Any], version: str = "10", uid: str = "u1", **status: Any) -> Stored:
    return Stored(uid=uid, resource_version=version, status={**status, "conditions": list(conditions)})


FOREIGN = {
    "type": "Ready",
    "status": "True",
    "reason": "X",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_the_first_write_is_made_at_once_and_bound_to_the_version() -> None:
    decision, _ = decide(intent(), stored(FOREIGN), Ledger(uid="u1"), at(100.0), RULES)
    assert decision.action is Action.WRITE
    assert decision.body == {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "md", "namespace": "ns", "resourceVersion": "10"},
        "status": {"conditions": [condition(since=rfc3339(WALL + 100.0))]},
    }, "only what is ours"


def test_nothing_is_written_while_nothing_changed() -> None:
    decision, _ = decide(intent(), stored(FOREIGN, condition()), Ledger(uid="u1"), at(1.0), RULES)
    assert (decision.action, decision.body) == (Action.NOTHING, None)


def test_a_failover_keeps_the_transition_time_of_what_is_stored() -> None:
    decision, _ = decide(intent(message="other words"), stored(condition()), Ledger(uid="u1"), at(1.0), RULES)
    assert decision.body is not None
    assert decision.body["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("before", "after", "dwell"),
    [
        ("True", "False", 60.0),
        ("True", "Unknown", 60.0),
        ("False", "True", 15.0),
        ("Unknown", "True", 15.0),
        ("Unknown", "False", 0.0),
    ],
)
def test_a_flip_is_written_once_it_was_wanted_for_its_dwell(before: str, after: str, dwell: float) -> None:
    ledger, held = Ledger(uid="u1"), stored(condition(before))
    if dwell:
        decision, ledger = decide(intent(after), held, ledger, at(100.0), RULES)
        assert (decision.action, decision.wait) == (Action.WAIT, dwell)
        decision, ledger = decide(intent(after), held, ledger, at(100.0 + dwell - 0.5), RULES)
        assert (decision.action, decision.wait) == (Action.WAIT, 0.5)
    decision, _ = decide(intent(after), held, ledger, at(100.0 + dwell), RULES)
    assert decision.body is not None
    (written,) = decision.body["status"]["conditions"]
    assert (written["status"], written["lastTransitionTime"]) == (after, rfc3339(WALL + 100.0 + dwell))


def test_a_flip_that_goes_back_starts_its_dwell_again() -> None:
    held = stored(condition("True"))
    _, ledger = decide(intent("False"), held, Ledger(uid="u1"), at(0.0), RULES)
    decision, ledger = decide(intent("True"), held, ledger, at(50.0), RULES)
    assert (decision.action, ledger.pending) == (Action.NOTHING, ())
    decision, _ = decide(intent("False"), held, ledger, at(59.0), RULES)
    assert decision.wait == 60.0


def test_a_flip_that_dwells_does_not_keep_its_neighbour_from_being_written() -> None:
    other = PREFIX + "Other"
    both = intent("False", types=(SERVING, other))
    decision, _ = decide(both, stored(condition("True")), Ledger(uid="u1"), at(0.0), RULES)
    assert decision.body is not None
    found = {each["type"]: each["status"] for each in decision.body["status"]["conditions"]}
    assert found == {SERVING: "True", other: "False"}


def test_words_wait_for_the_interval_and_a_transition_does_not() -> None:
    ledger = Ledger(uid="u1", written_at=100.0)
    decision, _ = decide(intent(message="new"), stored(condition()), ledger, at(110.0), RULES)
    assert (decision.action, decision.wait) == (Action.WAIT, 20.0)
    decision, _ = decide(intent(message="new"), stored(condition()), ledger, at(130.0), RULES)
    assert decision.action is Action.WRITE
    decision, _ = decide(intent("False"), stored(condition("Unknown")), ledger, at(110.0), RULES)
    assert decision.action is Action.WRITE


def test_a_condition_that_is_no_longer_meant_is_dropped_by_the_next_apply() -> None:
    old = condition(type=PREFIX + "Old")
    decision, _ = decide(intent(), stored(condition(), old), Ledger(uid="u1"), at(1.0), RULES)
    assert decision.body is not None
    assert [each["type"] for each in decision.body["status"]["conditions"]] == [SERVING]


@pytest.mark.parametrize(
    ("held", "reason"),
    [(None, "not known"), (stored(uid="u2"), "re-created")],
    ids=["unknown object", "stale write on re-created object"],
)
def test_what_was_not_judged_is_not_written(held: Stored | None, reason: str) -> None:
    decision, _ = decide(intent(), held, Ledger(uid="u1"), at(1.0), RULES)
    assert decision.action is Action.NOTHING
    assert reason in decision.reason


def own(phase: str, last: str = "t1", **fields: Any) -> Intent:
    return Intent(
        resource=MD,
        namespace="ns",
        name="md",
        uid="u1",
        observed_generation=None,
        conditions=(),
        fields={"phase": phase, **fields},
        riders={"lastObserved": last},
    )


def test_riders_are_written_along_and_never_cause_a_write() -> None:
    held = Stored(uid="u1", resource_version="10", status={"phase": "Ready", "lastObserved": "t0"})
    assert decide(own("Ready"), held, Ledger(uid="u1"), at(1.0), RULES)[0].action is Action.NOTHING
    decision, _ = decide(own("Degraded"), held, Ledger(uid="u1"), at(1.0), RULES)
    assert decision.body is not None
    assert decision.body["status"] == {"phase": "Degraded", "lastObserved": "t1", "conditions": []}


def test_a_field_of_our_own_kind_that_is_no_longer_meant_is_dropped() -> None:
    held = Stored(uid="u1", resource_version="10", status={"phase": "Ready", "roles": []})
    assert decide(own("Ready"), held, Ledger(uid="u1"), at(1.0), RULES)[0].action is Action.WRITE


BODY = {"metadata": {"resourceVersion": "10"}, "status": {"conditions": [condition()]}}


def after(ledger: Ledger, answer: Answer, version: str = "", now: float = 100.0) -> Ledger:
    return answered(ledger, BODY, answer, version, now, RULES, 0.5)


OK = Answer(outcome=Outcome.OK, status=200)


def refused(outcome: Outcome, retry_after: float | None = None) -> Answer:
    return Answer(outcome=outcome, message="said so", retry_after=retry_after)


def test_our_own_write_is_not_repeated_while_its_event_is_on_its_way() -> None:
    ledger = after(Ledger(uid="u1"), OK, "11")
    decision, _ = decide(intent(message="newer"), stored(version="10"), ledger, at(200.0), RULES)
    assert decision.action is Action.WAIT
    decision, _ = decide(intent(message="newer"), stored(condition(), version="11"), ledger, at(200.0), RULES)
    assert decision.action is Action.WRITE


def test_an_apply_that_changed_nothing_waits_for_no_event() -> None:
    assert after(Ledger(uid="u1"), OK, "10").outdated == ""


def test_a_conflict_is_decided_anew_from_the_newer_object_three_times() -> None:
    ledger = after(Ledger(uid="u1"), refused(Outcome.CONFLICT))
    assert decide(intent(), stored(version="10"), ledger, at(100.0), RULES)[0].action is Action.WAIT
    assert decide(intent(), stored(version="11"), ledger, at(100.0), RULES)[0].action is Action.WRITE
    ledger = after(after(ledger, refused(Outcome.CONFLICT)), refused(Outcome.CONFLICT))
    decision, _ = decide(intent(), stored(version="12"), ledger, at(100.0), RULES)
    assert (decision.action, decision.wait) == (Action.WAIT, 30.0)


@pytest.mark.parametrize("outcome", [outcome for outcome, kind in AFTER.items() if kind is After.HOLD])
def test_a_refusal_is_not_argued_with(outcome: Outcome) -> None:
    ledger = after(Ledger(uid="u1"), refused(outcome))
    assert (ledger.hold_until, ledger.trouble) == (700.0, f"{outcome}: said so")
    assert decide(intent(), stored(), ledger, at(699.0), RULES)[0].action is Action.WAIT
    assert decide(intent(), stored(), ledger, at(700.0), RULES)[0].action is Action.WRITE


@pytest.mark.parametrize("outcome", [outcome for outcome, kind in AFTER.items() if kind is After.RETRY])
def test_what_may_pass_is_tried_again_after_growing_pauses(outcome: Outcome) -> None:
    one = after(Ledger(uid="u1"), refused(outcome))
    two = after(one, refused(outcome))
    assert (one.hold_until, two.hold_until) == (100.4, 100.8)
    assert after(one, refused(outcome, retry_after=9.0)).hold_until == 109.0
    assert after(two, OK, "11").failures == 0


def test_every_outcome_has_its_row() -> None:
    assert AFTER.keys() == set(Outcome)


def written(version: str = "11") -> Ledger:
    return after(Ledger(uid="u1"), OK, version)


def test_owner_put_wiping_our_condition_twice_stops_us() -> None:
    ledger = observed(written(), stored(condition(), version="11"), PREFIX, 101.0, RULES)
    assert ledger.confirmed
    ledger = observed(ledger, stored(FOREIGN, version="12"), PREFIX, 102.0, RULES)
    assert (len(ledger.vanished), ledger.stopped) == (1, "")
    ledger = observed(ledger, stored(FOREIGN, version="13"), PREFIX, 103.0, RULES)
    assert len(ledger.vanished) == 1, "one wipe is counted once"
    decision, ledger = decide(intent(), stored(FOREIGN, version="13"), ledger, at(129.0), RULES)
    assert (decision.action, decision.wait) == (Action.WAIT, 1.0), "not at once: that would be the duel"
    decision, ledger = decide(intent(), stored(FOREIGN, version="13"), ledger, at(130.0), RULES)
    assert decision.body is not None
    assert decision.body["status"]["conditions"] == [condition()], "with the transition time it had"
    ledger = answered(ledger, decision.body, OK, "14", 130.0, RULES, 0.5)
    ledger = observed(ledger, stored(FOREIGN, version="15"), PREFIX, 131.0, RULES)
    assert "vanished 2 times" in ledger.stopped
    assert decide(intent("False"), stored(FOREIGN, version="15"), ledger, at(9999.0), RULES)[0].action is Action.NOTHING


def test_wipes_far_apart_are_no_duel() -> None:
    ledger = observed(written(), stored(version="12"), PREFIX, 102.0, RULES)
    ledger = answered(ledger, BODY, OK, "13", 710.0, RULES, 0.5)
    ledger = observed(ledger, stored(version="14"), PREFIX, 711.0, RULES)
    assert (ledger.vanished, ledger.stopped) == ((711.0,), "")


def test_the_version_before_our_write_is_no_wipe() -> None:
    assert observed(written(), stored(version="10"), PREFIX, 101.0, RULES).vanished == ()
    assert observed(Ledger(uid="u1"), stored(version="10"), PREFIX, 101.0, RULES).vanished == ()


def test_another_object_of_the_name_starts_a_new_ledger() -> None:
    ledger = msgspec.structs.replace(written(), stopped="duel")
    assert observed(ledger, stored(uid="u2"), PREFIX, 1.0, RULES) == Ledger(uid="u2")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prefix": "x/"}, "wanted a type that begins with"),
        ({"fields": {"phase": "x"}}, "only conditions are ours"),
        ({"conditions": (WantedCondition(type=SERVING, status="Maybe", reason="R"),)}, "found status 'Maybe'"),
        ({"conditions": (WantedCondition(type=SERVING, status="True", reason=""),)}, "found no reason"),
    ],
)
def test_an_intent_beyond_our_rights_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        msgspec.structs.replace(intent(), **changes)


@pytest.mark.parametrize("status", [{}, {"conditions": None}, {"conditions": [7, {}, {"type": None}]}])
def test_a_status_of_any_shape_has_no_conditions_of_ours(status: dict[str, Any]) -> None:
    assert Stored(uid="u", resource_version="1", status=status).conditions(PREFIX) == {}


def test_texts_and_numbers_do_not_change_without_meaning() -> None:
    assert [rounded(value) for value in (0.0, 1234.0, 0.03456, 99.6)] == [0.0, 1200.0, 0.035, 100.0]
    assert percent(0.956) == 96
    assert listed(["b", "a"]) == "a, b"
    assert listed("edcba", most=2) == "a, b, +3 more"
    assert bounded("short") == "short"
    cut = bounded("ä" * LONGEST_MESSAGE)
    assert len(cut.encode()) <= LONGEST_MESSAGE
    assert cut.endswith("ä…")
