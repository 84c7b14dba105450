"""From a judged report and what is stored to what is written and told."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from observer.app.publishing import (
    PREFIX,
    notices,
    observation_intent,
    reference_to,
    target_intent,
    unseen,
)
from observer.kube.intent import Stored as Held
from router_contract.discovered import Discovered
from router_contract.judging import Stored, StoredCondition
from router_contract.platform_facts import PlatformFacts
from router_contract.status import Phase, Transition
from router_contract.verdicts import Condition, DeploymentReport, Status
from tests.exporters.judged import EVERYTHING, judged
from tests.exporters.reports import WALL
from tests.kube.test_observations import MD

EMPTY = Held(uid="uid-mdo", resource_version="1", status={})
REPORT = judged()


def found(report: DeploymentReport = REPORT, **more: Any) -> Discovered:
    fields: dict[str, Any] = {"target": MD, "conditions_map": True}
    return Discovered(deployment=report.deployment, facts=PlatformFacts(platform="gpustack"), **(fields | more))


def test_the_observation_says_the_whole_verdict() -> None:
    intent = observation_intent(found(), REPORT, Stored(converged="True/Converged"), EMPTY, "observer-0")
    assert intent.uid == "uid-mdo"
    assert intent.observed_generation == 4
    assert [each.type for each in intent.conditions] == [each.type for each in REPORT.conditions]
    assert {each.type: each.provenance for each in intent.conditions}["WeightsReady"] == "Mirrored"
    assert intent.fields["phase"] == "Degraded"
    assert intent.fields["observedGeneration"] == 4
    assert intent.fields["memory"]["converged"] == "True/Converged"
    assert intent.riders["observer"] == "observer-0"
    assert intent.conditions[0].last_transition == WALL - 30
    assert [each.type for each in intent.conditions if each.prompt] == ["EndpointEligibility", "RouterConverged"]


def test_what_is_stored_already_is_wanted_again_word_by_word() -> None:
    first = observation_intent(found(), REPORT, Stored(), EMPTY, "observer-0")
    conditions = [{"type": each.type, "status": each.status, "message": each.message} for each in first.conditions]
    held = Held(uid="uid-mdo", resource_version="2", status={**first.fields, "conditions": conditions})
    later = replace(REPORT, at=replace(REPORT.at, mono=REPORT.at.mono + 9, wall=REPORT.at.wall + 9))
    again = observation_intent(found(), later, Stored(), held, "observer-0")
    assert again.fields == first.fields
    assert again.conditions == first.conditions
    assert again.riders != first.riders, "when it was observed rides along and causes no write"


def test_whether_a_healthy_engine_has_work_is_no_news() -> None:
    def progressing(reason: str, message: str) -> DeploymentReport:
        item = Condition(type="EngineProgressing", status=Status.TRUE, reason=reason, message=message)
        return replace(REPORT, conditions=(item,))

    def memory(reason: str, since: float) -> Stored:
        kept = StoredCondition(
            type="EngineProgressing", status=Status.TRUE, reason=reason, last_transition=1.0, reason_since=since
        )
        return Stored(conditions=(kept,))

    idle = observation_intent(found(), progressing("Idle", "no work"), memory("Idle", 1.0), EMPTY, "o")
    conditions = [
        {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
        for each in idle.conditions
    ]
    held = Held(uid="uid-mdo", resource_version="2", status={**idle.fields, "conditions": conditions})
    busy = observation_intent(found(), progressing("Progressing", "3 run"), memory("Progressing", 2.0), held, "o")
    assert busy.fields == idle.fields
    assert busy.conditions == idle.conditions
    stalled = observation_intent(found(), progressing("Stalled", "still"), memory("Stalled", 3.0), held, "o")
    assert stalled.fields != idle.fields
    assert stalled.conditions[0].reason == "Stalled"


def test_what_is_wanted_equals_what_a_server_gives_back() -> None:
    memory = Stored(disagreements=(("RouterReady", 1.25),), transitions=(change(1),), eligible_set=("a", "b"))
    fields = observation_intent(found(), EVERYTHING, memory, EMPTY, "observer-0").fields
    assert orjson.loads(orjson.dumps(fields)) == fields


def test_on_the_target_stand_only_our_own_answers_under_our_names() -> None:
    intent = target_intent(found(), REPORT, EMPTY)
    assert intent is not None
    assert {each.type for each in intent.conditions} == {PREFIX + "EndpointEligibility", PREFIX + "RouterConverged"}
    assert intent.prefix == PREFIX
    assert intent.uid == "uid-chat"
    assert not intent.fields
    assert not intent.riders
    assert not any(each.provenance for each in intent.conditions), "its schema does not declare it"


@pytest.mark.parametrize(
    ("more", "report"),
    [
        ({"conditions_map": False}, REPORT),
        ({"conditions_map": None}, REPORT),
        ({"target": None}, REPORT),
        ({}, replace(REPORT, phase=Phase.DELETING)),
    ],
    ids=["an atomic list", "not known", "no object", "being deleted"],
)
def test_nothing_is_written_where_conditions_do_not_merge(more: dict[str, Any], report: DeploymentReport) -> None:
    assert target_intent(found(report, **more), report, EMPTY) is None


def test_while_it_is_deleted_what_was_said_stays_under_that_phase() -> None:
    status = {
        "phase": "Ready",
        "summary": {"eligible": "2", "serving": "2"},
        "memory": {"converged": "x"},
        "lastObserved": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "RouterReady", "status": "True", "reason": "Ready", "provenance": "Computed"}],
    }
    held = Held(uid="uid-mdo", resource_version="2", status=status)
    deleting = replace(REPORT, phase=Phase.DELETING, phase_message="it goes", conditions=(), role_status=())
    intent = observation_intent(found(), deleting, Stored(), held, "observer-0")
    assert intent.fields["phase"] == "Deleting"
    assert intent.fields["summary"] == {"eligible": "Unknown", "serving": "Unknown"}
    assert intent.fields["memory"] == {"converged": "x"}
    assert [(each.type, each.status, each.provenance) for each in intent.conditions] == [
        ("RouterReady", "True", "Computed")
    ]
    assert intent.pressing


def change(number: int, **more: Any) -> Transition:
    fields = {
        "at": WALL + number,
        "what": "EndpointEligibility",
        "before": "True",
        "after": "False",
        "reason": "Revoked",
    }
    return Transition(**(fields | more))


@pytest.mark.parametrize(
    ("seen", "now", "fresh"),
    [
        ((), (), ()),
        ((), (1,), (1,)),
        ((1,), (1,), ()),
        ((1, 2), (1, 2, 3), (3,)),
        ((1, 2), (2, 3, 4), (3, 4)),
        ((1, 2), (8, 9), (8, 9)),
    ],
    ids=["nothing", "the first", "nothing new", "one more", "the oldest fell away", "all fell away"],
)
def test_only_what_came_since_is_news(seen: tuple[int, ...], now: tuple[int, ...], fresh: tuple[int, ...]) -> None:
    assert unseen([change(n) for n in now], [change(n) for n in seen]) == tuple(change(n) for n in fresh)


def test_a_change_is_told_with_its_reason_and_sentence() -> None:
    (notice,) = notices((change(1),), REPORT, MD, reference_to(found(), EMPTY))
    assert (notice.reason, notice.warning) == ("Revoked", True)
    assert notice.note == "EndpointEligibility was True, is False: 1 of 2"
    assert notice.related is not None
    assert notice.related.name == "gpustack-chat"


@pytest.mark.parametrize(
    ("item", "told", "warning"),
    [
        (change(1, what="WeightsReady"), 0, False),
        (change(1, after="Unknown", reason="NotObserved"), 1, False),
        (change(1, after="True", reason="Qualified"), 1, False),
        (change(1, what="group server/0", before="Eligible", after="NotReady", reason="MembersReady"), 1, True),
        (change(1, what="group server/0", before="NotReady", after="Eligible", reason=""), 1, False),
    ],
    ids=["the operator's own", "not known is no fault", "well again", "a group that fell", "a group without a reason"],
)
def test_what_is_told_and_how_loudly(item: Transition, told: int, warning: bool) -> None:
    made = notices((item,), REPORT, MD, None)
    assert len(made) == told
    assert all(each.warning is warning and each.reason for each in made)
