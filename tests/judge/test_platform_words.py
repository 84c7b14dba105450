"""Counts of an operator's own units beside what serves, notices on what holds, advice by phase, conditions in order."""

from __future__ import annotations

import pytest

from router_contract.operator_condition import OperatorCondition
from router_contract.platform_facts import OperatorStatus
from router_contract.platform_words import CountsFact, NoteFact, ReasonFact
from router_contract.targets import Ready
from tests.judge.build import NOW, OTHER, deployment, evidence, facts, inputs, member, replica, role, run


def units(*instances: tuple[str, str], ready: int | None, wanted: int = 2, complete: bool = True):
    """One replica of one Pod for each ``(unit, Pod)``; Pods of the name ``bad…`` stopped, ``new…`` never answered."""
    made, seen = [], []
    for unit, uid in instances:
        fine = not uid.startswith(("bad", "new"))
        pod = member(uid, seat=None, host=None, api=None, metrics=None, ready=Ready.TRUE if fine else Ready.UNKNOWN)
        if uid.startswith("bad"):
            pod = member(uid, seat=None, host=None, api=None, metrics=None, terminating=True)
        made.append(replica(pod, ordinal=None, instance=unit))
        seen.append(evidence(uid))
    target = deployment(role(*made, desired=wanted), complete=complete)
    own = facts(OTHER, counts=CountsFact(wanted=wanted, ready=ready, total=wanted))
    explanation = run(inputs(target, facts=own, members=tuple(seen))).explanation
    found = [item for item in (explanation.main, *explanation.others) if item is not None]
    return next((item.message for item in found if item.type == "ReadyCount"), None)


COUNTS = {
    "as the operator says": (units((("u1"), "a"), ("u2", "b"), ready=2), None),
    "more than serve": (
        units(("u1", "a"), ("u2", "bad"), ready=2),
        "the operator counts 2 of 2 ready; by its Pods 1 of 2 serve",
    ),
    "fewer than serve": (
        units(("u1", "a"), ("u2", "b"), ready=1),
        "the operator counts 1 of 2 ready; by its Pods 2 of 2 serve",
    ),
    "a unit that is not known may serve": (units(("u1", "a"), ("u2", "new"), ready=2), None),
    "or not": (units(("u1", "a"), ("u2", "new"), ready=1), None),
    "but no more than that": (
        units(("u1", "a"), ("u2", "new"), ready=0),
        "the operator counts 0 of 2 ready; by its Pods 1 to 2 of 2 serve",
    ),
    "Pods elsewhere prove nothing": (units(("u1", "a"), ready=2, complete=False), None),
    "the operator says nothing": (units(("u1", "bad"), ready=None), None),
    "parked": (units(ready=0, wanted=0), None),
}


@pytest.mark.parametrize(("told", "wanted"), COUNTS.values(), ids=COUNTS)
def test_counts_are_compared_where_both_are_known(told, wanted):
    assert told == wanted


def row(reason: str, hint: str, **changes) -> ReasonFact:
    return ReasonFact(**({"condition": "", "reason": reason, "course": "Act", "whose": "you", "hint": hint} | changes))


def said(*conditions: tuple[str, str, str], phase: str = "", ordered=(), reasons=(), notes=()):
    own = tuple(OperatorCondition(type=kind, status=status, reason=reason) for kind, status, reason in conditions)
    operator = OperatorStatus(read_at=NOW.wall, phase=phase, conditions=own)
    return run(inputs(facts=facts(operator=operator, ordered=ordered, reasons=reasons, notes=notes))).explanation


ADVICE = (
    row("R", "any"),
    row("R", "in P", phase="P"),
    row("R", "of C", condition="C"),
    row("R", "of C in P", condition="C", phase="P"),
)
PHASES = {
    "neither": ("D", "", "any"),
    "the phase": ("D", "P", "in P"),
    "the condition": ("C", "Q", "of C"),
    "both": ("C", "P", "of C in P"),
}


@pytest.mark.parametrize(("kind", "phase", "hint"), PHASES.values(), ids=PHASES)
def test_the_most_special_advice_is_given(kind, phase, hint):
    told = said((kind, "False", "R"), phase=phase, ordered=("C", "D"), reasons=ADVICE)
    assert told.main is not None
    assert told.main.hint == hint


def test_a_notice_stands_beside_and_is_nothing_wrong():
    reasons = (row("R", "know this", notice=True), row("S", "quiet"))
    told = said(("C", "True", "R"), ("D", "True", "S"), ordered=("C", "D"), reasons=reasons)
    assert told.main is None
    assert [(item.type, item.reason, item.hint) for item in told.notices] == [("C", "R", "know this")]
    assert "Nothing is wrong" in told.sentences[1]


ORDERED = {
    "the first that is False": ((("A", "True"), ("B", "False"), ("C", "False")), "B"),
    "an Unknown before it": ((("A", "Unknown"), ("B", "True"), ("C", "False")), "A"),
    "an Unknown after it": ((("A", "True"), ("B", "False"), ("C", "Unknown")), "B"),
}


@pytest.mark.parametrize(("states", "first"), ORDERED.values(), ids=ORDERED)
def test_ordered_conditions_are_read_from_the_first(states, first):
    told = said(*((kind, status, "R") for kind, status in states), ordered=("A", "B", "C"))
    assert told.main is not None
    assert told.main.type == first
    assert first not in {item.type for item in (*told.others, *told.unknown)}


def test_notes_are_told_also_of_what_is_being_deleted():
    notes = (NoteFact(topic="deleting", says="everything goes"),)
    assert said(notes=notes).notes == notes
    gone = inputs(deployment(deleting=True), facts=facts(notes=notes))
    assert run(gone).explanation.notes == notes
