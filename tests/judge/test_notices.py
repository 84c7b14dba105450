"""What a platform's records call for stands in the explanation: in its words, with its advice, in its place."""

from __future__ import annotations

import pytest

from observer.judge.notices import of_notices
from router_contract.platform_facts import PlatformFacts
from router_contract.platform_records import NoticeFact, PlatformRecords
from router_contract.platform_words import ReasonFact
from router_contract.targets import Ready
from tests.judge.build import NOW, deployment, facts, inputs, member, replica, role, run

WAITING = NoticeFact(
    type="Operation engine/1", status="False", reason="QuotaExceeded", message="Update waits", since=NOW.wall - 90
)
KNOWN = ReasonFact(condition="Operation", reason="QuotaExceeded", course="Act", whose="cluster", hint="free some")
ANY = ReasonFact(condition="Operation", reason="", course="WaitThenAct", whose="operator", hint="see its Event")
OTHER = ReasonFact(condition="Home", reason="QuotaExceeded", course="Over", whose="x", hint="no")

ADVICE = {
    "of the reason": ((ANY, KNOWN, OTHER), "Act", "free some"),
    "of any reason of its type": ((ANY, OTHER), "WaitThenAct", "see its Event"),
    "none": ((OTHER,), "", ""),
}


@pytest.mark.parametrize("case", ADVICE, ids=str)
def test_the_advice(case: str) -> None:
    reasons, course, hint = ADVICE[case]
    said = PlatformFacts(reasons=reasons, records=PlatformRecords(notices=(WAITING,)))
    (found,) = of_notices(said, NOW)
    assert (found.type, found.reason, found.advice, found.hint) == ("Operation engine/1", "QuotaExceeded", course, hint)
    assert found.age_seconds == 90
    assert found.message == "Update waits (as the operator says)"


def told(*notices: NoticeFact) -> list[str]:
    down = deployment(role(replica(member(ready=Ready.FALSE))))
    explanation = run(inputs(down, facts=facts(records=PlatformRecords(notices=notices)))).explanation
    main = explanation.main
    assert main is not None
    return [f"{main.type}/{main.reason}", *(f"{each.type}/{each.reason}" for each in explanation.others)]


def test_what_waits_outside_is_the_main_answer() -> None:
    hold = NoticeFact(type="RolloutHold engine", status="False", reason="Budget")
    found = told(hold, WAITING)
    assert found[0] == "Operation engine/1/QuotaExceeded"
    assert "RolloutHold engine/Budget" in found[1:]


def test_what_is_not_known_is_never_called_wrong() -> None:
    stale = NoticeFact(type="Home west", status="Unknown", reason="ObservationFailing")
    explanation = run(inputs(facts=facts(records=PlatformRecords(notices=(stale,))))).explanation
    assert ("Home west", "ObservationFailing") in [(each.type, each.reason) for each in explanation.unknown]
    assert "Home west" not in [each.type for each in explanation.others]
