"""Orders of Deckhouse: who belongs to them, every reason, notice and Event with its advice, every question of its FAQ."""

from __future__ import annotations

from pathlib import Path

import pytest

from observer.discover.platforms.dump import explain, read_dump
from router_contract.targets import EndpointType
from tests.discover.platforms.deckhouse_shapes import (
    deckhouse,
    found,
    keeps,
    order,
    pod,
    told,
)
from tests.discover.platforms.shapes import NOW

KEPT = {
    "a set": (keeps(replicas=2), pod(), pod("chat-1", ip="10.1.0.2")),
    "a deployment": (
        keeps("Deployment", 2),
        keeps("ReplicaSet", 2, of="Deployment"),
        pod(kind="ReplicaSet"),
        pod("chat-1", "ReplicaSet", ip="10.1.0.2"),
    ),
}


@pytest.mark.parametrize("objects", KEPT.values(), ids=KEPT)
def test_pods_are_found_by_their_mark_and_their_owners(objects):
    stranger = pod("other-0")
    stranger["metadata"]["ownerReferences"][0]["uid"] = "uid-other"
    got = found(order(), *objects, stranger)
    made = got.discovered.deployment
    (role,) = made.roles
    assert (role.desired, [member.name for member in role.members()]) == (2, ["chat-0", "chat-1"])
    assert (role.engine, role.engine_version, made.complete, made.router) == ("vllm", "0.11.0", True, None)
    assert [left.pod for left in got.left] == ["other-0"]
    assert [target.address.url for target in made.targets()] == [
        "http://10.1.0.1:8000/metrics",
        "http://10.1.0.2:8000/metrics",
    ]


def test_how_many_are_wanted_is_not_known_without_what_keeps_them():
    assert found(order()).discovered.deployment.roles[0].desired is None
    assert found(order(), keeps(replicas=0)).discovered.deployment.roles[0].desired == 0


@pytest.mark.parametrize("kind", list(EndpointType))
def test_the_endpoint_type_is_what_the_order_got(kind):
    made = found(order(status={"model": {"endpointType": kind.value}})).discovered.deployment
    assert made.endpoint_type is kind


CLEARS, WAIT, ACT = "ClearsByItself", "WaitThenAct", "Act"
YOU, ADMIN, CLUSTER = "deployment owner", "administrator", "cluster"

# Every reason: the condition it is tried with, whether waiting helps, whose it is, and a word of the hint.
REASONS = {
    "ClassNotFound": ("ClassResolved", ACT, YOU, "inferenceServiceClassName"),
    "ClassNotReady": ("ClassResolved", ACT, ADMIN, "the class exists"),
    "NamespaceNotAllowed": ("ClassResolved", ACT, ADMIN, "another class may admit"),
    "ModelNotFound": ("ModelResolved", ACT, YOU, "repository id"),
    "ModelNotReady": ("ModelResolved", ACT, YOU, "not ready"),
    "InvalidModelSource": ("ModelResolved", ACT, YOU, "spec.model"),
    "AuthSecretNotFound": ("ModelResolved", ACT, YOU, "authSecretRef"),
    "EndpointTypePolicyConflict": ("ModelResolved", ACT, YOU, "another class"),
    "FormatNotAllowed": ("ModelResolved", ACT, YOU, "another model"),
    "ParameterCountNotAllowed": ("ModelResolved", ACT, YOU, "larger"),
    "CatalogDisabled": ("ModelResolved", ACT, YOU, "Hugging Face"),
    "CatalogLookupFailed": ("ModelResolved", CLEARS, "operator", "next pass"),
    "CatalogKindNotServed": ("ModelResolved", ACT, YOU, "correct the kind"),
    "NoCapacity": ("Planned", CLEARS, CLUSTER, "replanCount"),
    "NoAcceleratorWithEnoughMemory": ("Planned", CLEARS, CLUSTER, "largest"),
    "NoCompatiblePlacement": ("Planned", WAIT, "cluster or administrator", "two causes"),
    "PlannerRequestFailed": ("Planned", WAIT, ADMIN, "asked again"),
    "PlanningPreemptionFailed": ("Planned", WAIT, ADMIN, "tried again"),
    "LaunchPlanNotAPlacement": ("Planned", ACT, "deployment owner or the module", "delete the configuration"),
    "PriorityClassNotFound": ("Planned", ACT, ADMIN, "priority class"),
    "QuantizationMismatch": ("Planned", ACT, ADMIN, "recipe"),
    "NoCompatibleRuntimeAvailable": ("Planned", ACT, ADMIN, "recipe"),
    "ResourceClaimExhausted": ("Planned", WAIT, CLUSTER, "every device class"),
    "PlacementUndecidable": ("Planned", ACT, ADMIN, "never began"),
    "ResourceClaimPending": ("WorkloadReady", CLEARS, CLUSTER, "stage and no refusal"),
    "WorkloadNotReady": ("WorkloadReady", CLEARS, CLUSTER, "passes by itself"),
    "WorkloadError": ("WorkloadReady", ACT, YOU, "SettledRegionTooSmall"),
    "WorkloadStartupFailed": ("WorkloadReady", ACT, YOU, "last lines"),
    "HealthCheckFailed": ("Ready", WAIT, "engine", "probe"),
    "ServiceUnhealthy": ("Ready", ACT, "engine", "does not answer"),
    "ScaleUpBlocked": ("ScalingHealthy", WAIT, CLUSTER, "headroom"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_explained_with_whether_waiting_helps_and_whose_it_is(reason):
    kind, course, whose, word = REASONS[reason]
    made = told(order("Unheard", **{kind: ("False", reason, "words of the module")}))
    main = made.main
    assert main is not None
    assert (main.type, main.reason, main.advice, main.whose) == (kind, reason, course, whose)
    assert word in main.hint
    assert "words of the module" in made.sentences[1], "the message is quoted"
    assert whose in made.sentences[2]


def test_the_list_is_closed_and_the_document_has_nothing_else():
    assert {row.reason for row in deckhouse().document.reasons} == {*REASONS, "LaunchPlanInForce"}


def test_a_reason_that_is_new_is_shown_as_written():
    made = told(order(Planned=("False", "BrandNew", "text")))
    assert made.main is not None
    assert (made.main.type, made.main.reason, made.main.advice) == ("Planned", "BrandNew", "")


FIRST = {
    "the first that is False": ({"Planned": "False", "WorkloadReady": "False", "Ready": "False"}, "Planned"),
    "the first that is not True, also Unknown": ({"ModelResolved": "Unknown", "Planned": "False"}, "ModelResolved"),
    "growth comes last": ({"ScalingHealthy": "False", "Ready": "False"}, "Ready"),
    "growth alone": ({"ScalingHealthy": "False"}, "ScalingHealthy"),
}


@pytest.mark.parametrize(("states", "first"), FIRST.values(), ids=FIRST)
def test_the_conditions_answer_in_order(states, first):
    made = told(order(**{kind: (status, "NoCapacity", "") for kind, status in states.items()}))
    assert made.main is not None
    assert made.main.type == first


def test_all_true_is_nothing_wrong():
    made = told(order())
    assert (made.main, made.others, made.notices) == (None, (), ())


PHASED = {
    "never ready": ("HealthCheckFailed", "Pending", CLEARS, "never ready"),
    "was ready": ("ServiceUnhealthy", "Failed", ACT, "was ready"),
    "a phase that says nothing of it": ("HealthCheckFailed", "Odd", WAIT, "probe fails"),
}


@pytest.mark.parametrize(("reason", "phase", "course", "word"), PHASED.values(), ids=PHASED)
def test_health_reasons_are_read_with_the_phase(reason, phase, course, word):
    main = told(order(phase, Ready=("False", reason, ""))).main
    assert main is not None
    assert main.advice == course
    assert word in main.hint


def test_no_compatible_placement_states_both_causes_and_quotes_the_message():
    made = told(order("Pending", Planned=("False", "NoCompatiblePlacement", "memory profile of node-7 is incomplete")))
    assert "memory profile of node-7 is incomplete" in made.sentences[1]
    assert "without room now waiting helps" in made.sentences[2]
    assert "an administrator must complete it" in made.sentences[2]


def test_a_plan_in_force_is_a_notice_and_no_fault():
    made = told(order(Planned=("True", "LaunchPlanInForce", "NoCapacity: nothing free")))
    assert (made.main, made.others) == (None, ())
    (notice,) = made.notices
    assert (notice.type, notice.status, notice.advice) == ("Planned", "True", CLEARS)
    assert "nothing free" in notice.message
    assert "serves on the plan it holds" in notice.hint


def test_events_are_read_on_demand_and_have_advice():
    events = {row.reason: row for row in found(order()).discovered.facts.events}
    assert {name: (row.course, row.whose) for name, row in events.items()} == {
        "GrowthClaimUnplaced": (CLEARS, CLUSTER),
        "SettledRegionTooSmall": (ACT, YOU),
    }


def test_a_class_is_never_read_and_what_it_decided_is_shown():
    document = deckhouse().document
    assert not [source for source in document.sources if "class" in source.kind.lower()]
    notes = {note.topic: note.says for note in told(order()).notes}
    assert '"maxReplicas": 2' in notes["constraints"].replace("\n", " ").replace("  ", " ")
    assert '"endpointType"' in notes["model"]
    assert "may not read" in notes["class"]


# Every question of the users' FAQ, by what it is about, and where its answer stands: a reason, a notice, an Event, a note.
FAQ = {
    "choosing the accelerator": "note:accelerator",
    "no field for the runtime": "note:runtime",
    "which API contract": "note:API contract",
    "embedding model served as chat": "note:an embedding model served as chat",
    "reading the class": "note:class",
    "class not found": "reason:ClassNotFound",
    "class not ready": "reason:ClassNotReady",
    "namespace not allowed": "reason:NamespaceNotAllowed",
    "model not found": "reason:ModelNotFound",
    "model not ready": "reason:ModelNotReady",
    "invalid model source": "reason:InvalidModelSource",
    "auth secret not found": "reason:AuthSecretNotFound",
    "endpoint type policy conflict": "reason:EndpointTypePolicyConflict",
    "format not allowed": "reason:FormatNotAllowed",
    "parameter count not allowed": "reason:ParameterCountNotAllowed",
    "catalog disabled": "reason:CatalogDisabled",
    "catalog lookup failed": "reason:CatalogLookupFailed",
    "catalog kind not served": "reason:CatalogKindNotServed",
    "no capacity": "reason:NoCapacity",
    "no accelerator with enough memory": "reason:NoAcceleratorWithEnoughMemory",
    "no compatible placement": "reason:NoCompatiblePlacement",
    "planner request failed": "reason:PlannerRequestFailed",
    "planning preemption failed": "reason:PlanningPreemptionFailed",
    "launch plan is no placement": "reason:LaunchPlanNotAPlacement",
    "priority class not found": "reason:PriorityClassNotFound",
    "quantization mismatch": "reason:QuantizationMismatch",
    "no compatible runtime": "reason:NoCompatibleRuntimeAvailable",
    "claim exhausted": "reason:ResourceClaimExhausted",
    "placement undecidable": "reason:PlacementUndecidable",
    "claim pending": "reason:ResourceClaimPending",
    "workload not ready": "reason:WorkloadNotReady",
    "workload error": "reason:WorkloadError",
    "workload startup failed": "reason:WorkloadStartupFailed",
    "degraded and answering": "reason:ScaleUpBlocked",
    "launch plan in force": "notice:LaunchPlanInForce",
    "a second replica never arrives": "event:GrowthClaimUnplaced",
    "a volume that was outgrown": "event:SettledRegionTooSmall",
    "unhealthy after it was ready": "reason:ServiceUnhealthy",
    "health check failed before it was ready": "reason:HealthCheckFailed",
    "what a phase means": "note:phase",
    "where to look": "note:where to look",
    "only one replica": "note:one replica",
    "deleting": "note:deleting",
    "is ai-models needed": "note:ai-models",
    "before disabling the module": "note:disabling the module",
}


@pytest.mark.parametrize("question", FAQ)
def test_every_question_of_the_faq_is_answered(question):
    kind, _, name = FAQ[question].partition(":")
    if kind == "note":
        assert any(note.topic == name and len(note.says) > 40 for note in told(order()).notes)
    elif kind == "event":
        assert any(row.reason == name and row.hint for row in found(order()).discovered.facts.events)
    elif kind == "notice":
        assert any(item.reason == name for item in told(order(Planned=("True", name, ""))).notices)
    else:
        main = told(order(**{REASONS[name][0]: ("False", name, "")})).main
        assert main is not None
        assert (main.reason, bool(main.hint), main.advice != "") == (name, True, True)


NOTED = {
    "chat may be an embedding model": ("Chat", True),
    "an embedding model that is served as one": ("Embeddings", False),
    "rerank": ("Rerank", False),
}


@pytest.mark.parametrize(("kind", "noted"), NOTED.values(), ids=NOTED)
def test_a_note_is_told_only_where_it_has_something_to_say(kind, noted):
    topics = [note.topic for note in told(order(status={"model": {"endpointType": kind}})).notes]
    assert ("an embedding model served as chat" in topics) is noted


def test_an_order_that_is_being_deleted_is_told_what_goes():
    gone = order()
    gone["metadata"]["deletionTimestamp"] = "2026-11-02T00:00:00Z"
    assert "deleting" in [note.topic for note in told(gone).notes]


def test_the_dump_is_found():
    made = explain(deckhouse(), read_dump(Path(__file__).parent / "deckhouse"), now=NOW, refusal=lambda _: None)
    assert made.unread == ()
    assert [str(each.discovered.deployment.key) for each in made.found] == ["team/chat", "team/waiting"]
    chat, waiting = (each.discovered for each in made.found)
    assert [member.name for role in chat.deployment.roles for member in role.members()] == ["chat-0"]
    assert waiting.deployment.roles[0].replicas == ()
