"""Our own kind: what it is called, whose it is, and what a restart reads back from it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from observer.kube.observations import (
    MANAGED_BY,
    MANAGER_LABEL,
    about,
    observation,
    observation_name,
    ours,
    owned_uid,
    recalled,
    replaceable,
    resource_of,
    target_of,
)
from observer.kube.records import Document
from router_contract.discovered import Discovered, ObjectReference
from router_contract.judging import GroupRecord, Stored, StoredCondition
from router_contract.platform_facts import PlatformFacts
from router_contract.status import GroupState, Transition
from router_contract.targets import Deployment, DeploymentKey
from router_contract.verdicts import Status

MD = ObjectReference(
    group="worker.gpustack.ai",
    version="v1alpha1",
    kind="ModelDeployment",
    plural="modeldeployments",
    namespace="prod",
    name="chat",
    uid="uid-chat",
)
STORED = Stored(
    groups=(
        GroupRecord(role="server", ordinal=0, generation="a", state=GroupState.ELIGIBLE, qualified_at=1_700_000_000.25),
        GroupRecord(role="server", ordinal=None, generation="b", state=GroupState.NOT_READY),
    ),
    conditions=(StoredCondition(type="RouterReady", status=Status.TRUE, reason="Ready", last_transition=1.5),),
    disagreements=(("RouterReady", 2.5),),
    transitions=(Transition(at=3.5, what="RouterReady", before="False", after="True"),),
)


def found(name: str = "chat", target: ObjectReference | None = MD) -> Discovered:
    deployment = Deployment(key=DeploymentKey("prod", name), uid="uid-deployment")
    return Discovered(deployment=deployment, facts=PlatformFacts(platform="gpustack"), target=target)


def document(status: Any = None, **spec: Any) -> Document:
    body = {**observation(found()), **({"status": status} if status is not None else {})}
    body["spec"] = {**body["spec"], **spec}
    return Document(
        uid="uid-mdo", namespace="prod", name="gpustack-chat", resource_version="7", generation=1, body=body
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("chat", "gpustack-chat"), ("a" * 253, None)],
    ids=["short", "longer than a name may be"],
)
def test_the_name_says_platform_and_deployment(name: str, wanted: str | None) -> None:
    made = observation_name(found(name))
    assert len(made) <= 253
    assert made == wanted or wanted is None
    assert made != observation_name(found(name + "b"))


@pytest.mark.parametrize(
    "name",
    ["Qwen_2.5", "chat_", "a.-b", "x" * 235 + "." + "y" * 30, "x" * 234 + "-." + "y" * 30, "Ünïcode", "_", "a" * 2000],
)
def test_whatever_a_label_holds_makes_a_name_that_the_server_takes(name: str) -> None:
    made = observation_name(found(name, target=None))
    assert len(made) <= 253
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", part) for part in made.split("."))
    assert made != observation_name(found(name.swapcase(), target=None)) or name == name.swapcase()


@pytest.mark.parametrize("conditions", [3, "x", {"type": "a"}, [None, 3, []], True])
def test_conditions_of_any_shape_are_read_as_none(conditions: Any) -> None:
    assert recalled(document({"phase": "Ready", "conditions": conditions}), "uid-chat").stored is None


@pytest.mark.parametrize(
    ("followed", "labels", "may"),
    [
        ({"uid-new"}, {MANAGED_BY: MANAGER_LABEL}, True),
        ({"uid-new", "uid-chat"}, {MANAGED_BY: MANAGER_LABEL}, False),
        ({"uid-new"}, {}, False),
        ({"uid-new"}, None, False),
    ],
    ids=["of a deployment that is gone", "of one that is there", "somebody's own", "without labels"],
)
def test_what_stands_in_the_way_goes_only_when_it_is_ours_and_about_nothing(
    followed: set[str], labels: Any, may: bool
) -> None:
    held = document()
    held.body["metadata"]["labels"] = labels
    assert replaceable(held, followed) is may


def test_it_belongs_to_what_it_is_about() -> None:
    made = observation(found())
    (owner,) = made["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-chat"
    assert "blockOwnerDeletion" not in owner, "nothing of ours delays a deletion"
    assert made["metadata"]["labels"] == {MANAGED_BY: MANAGER_LABEL}
    held = document()
    assert target_of(held) == MD
    assert about(held) == "uid-chat" == owned_uid(found())
    assert ours(held)
    assert resource_of(MD).full_name == "modeldeployments.v1alpha1.worker.gpustack.ai"


def test_what_has_no_object_has_no_owner() -> None:
    made = observation(found(target=None))
    assert "ownerReferences" not in made["metadata"]
    assert "targetRef" not in made["spec"]
    assert owned_uid(found(target=None)) == "uid-deployment"


def test_everything_is_read_back() -> None:
    held = document({"memory": msgspec.json.decode(msgspec.json.encode(STORED))})
    assert recalled(held, "uid-chat").stored == STORED


PUBLISHED = {
    "type": "RouterReady",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2023-11-14T22:13:20Z",
}
REMEMBERED = Stored(
    conditions=(
        StoredCondition(type="RouterReady", status=Status.TRUE, reason="Ready", last_transition=1_700_000_000.0),
    )
)


@pytest.mark.parametrize(
    ("status", "stored", "trouble"),
    [
        (None, None, False),
        ({}, None, False),
        ({"phase": "Ready"}, None, False),
        ({"conditions": [PUBLISHED]}, REMEMBERED, False),
        ({"conditions": [PUBLISHED], "memory": {"groups": "nonsense"}}, REMEMBERED, True),
        ({"conditions": [PUBLISHED, {"type": "Half"}, "nonsense"]}, REMEMBERED, False),
        ({"memory": {"groups": "nonsense"}}, None, True),
        ({"memory": {"newer": 1}}, Stored(), False),
    ],
    ids=[
        "no status", "empty", "no memory", "conditions only", "damaged memory", "damaged conditions",
        "damaged and nothing else", "fields of a newer release",
    ],
)  # fmt: skip
def test_what_can_be_read_is_and_the_rest_is_said(status: Any, stored: Stored | None, trouble: bool) -> None:
    memory = recalled(document(status), "uid-chat")
    assert memory.stored == stored
    assert bool(memory.trouble) is trouble


def test_another_deployment_of_the_name_has_no_past() -> None:
    assert recalled(document({"conditions": [PUBLISHED]}), "uid-of-the-next").stored is None


@pytest.mark.parametrize("spec", [{"targetRef": None}, {"targetRef": {"kind": 1}}, {"deployment": "x"}], ids=str)
def test_a_spec_that_somebody_changed_is_nobodys(spec: dict[str, Any]) -> None:
    held = document(**spec)
    assert target_of(held) is None or about(held) == ""
