"""Modelplane as data: expected Pods, ports, pickers, gangs, parked deployments, Pods of other clusters."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from observer.discover.platforms.dump import explain, read_dump
from observer.judge.judgement import judge
from router_contract.judging import DeploymentInputs, JudgePolicy, Stored
from router_contract.platform_facts import OperatorStatus, SourceFault
from router_contract.platform_words import CountsFact, UrlFact
from router_contract.readings import Instant
from tests.discover.platforms.modelplane_shapes import (
    between,
    endpoint,
    engine,
    found,
    gang,
    modelplane,
    picker,
    pod,
    standalone,
    target,
)
from tests.discover.platforms.shapes import NOW, world_of

# replicas x the sum of copies x (Standalone 1, else 1 + nodes)
EXPECTED = {
    "one pod": (target(), 1),
    "replicas": (target(replicas=3), 3),
    "copies": (target(engine(copies=4), replicas=2), 8),
    "a gang": (target(engine(nodes=3), replicas=2), 8),
    "a gang of the default size": (target(engine(nodes=0), replicas=1), 2),
    "copies of gangs": (target(engine(nodes=2, copies=2), replicas=3), 18),
    "prefill and decode": (
        target(
            engine("prefill", copies=3, phase="Prefill"),
            engine("decode", nodes=1, copies=2, phase="Decode"),
            replicas=2,
            serving={"mode": "PrefillDecode", "router": "EndpointPicker"},
        ),
        2 * (3 * 1 + 2 * 2),
    ),
    "parked": (target(engine(nodes=3), replicas=0), 0),
}


@pytest.mark.parametrize(("of", "pods"), EXPECTED.values(), ids=EXPECTED)
def test_expected_pods(of, pods):
    made = found(of).discovered.deployment
    assert sum((role.desired or 0) * role.size for role in made.roles) == pods


def test_a_standalone_deployment_in_every_field():
    status = {"replicas": {"ready": 1, "total": 2}, "conditions": [{"type": "ReplicasReady", "status": "False", "reason": "ModelStarting"}]}  # fmt: skip
    got = found(
        target(replicas=2, status=status),
        between("qwen-a"),
        between("qwen-b"),
        standalone("a"),
        standalone("b", "qwen-b", ip="10.1.0.2"),
        picker("qwen-a"),
        picker("qwen-b"),
        standalone("stranger", "other"),
    )
    made, facts = got.discovered.deployment, got.discovered.facts
    assert (str(made.key), made.model, made.complete) == ("ml/qwen", "Qwen/Qwen3-8B", True)
    (role,) = made.roles
    assert (role.name, role.kind, role.desired, role.size, role.engine, role.engine_version) == (
        "qwen", "Server", 2, 1, "vllm", "0.23.0",
    )  # fmt: skip
    assert [(each.instance, [member.name for member in each.members]) for each in role.replicas] == [
        ("qwen-a", ["a"]),
        ("qwen-b", ["b"]),
    ]
    assert made.router is not None
    assert (made.router.software, made.router.desired, len(made.router.members)) == ("llm_d", 2, 2)
    assert [each.address.url for each in made.targets()] == [
        "http://10.1.0.1:8000/metrics", "http://10.1.0.2:8000/metrics",
        "http://10.1.2.1:9090/metrics", "http://10.1.2.1:9090/metrics",
    ]  # fmt: skip
    assert facts.counts == CountsFact(wanted=2, ready=1, total=2)
    assert isinstance(facts.operator, OperatorStatus)
    assert facts.ordered == ("ReplicasScheduled", "ReplicasReady")


SERVING = {
    "omitted": None,
    "unified": {"mode": "Unified"},
    "unified with a picker of its own": {"mode": "Unified", "router": "EndpointPicker"},
    "prefill and decode": {"mode": "PrefillDecode", "router": "EndpointPicker"},
}


@pytest.mark.parametrize("serving", SERVING.values(), ids=SERVING)
def test_the_endpoint_picker_is_always_the_router(serving):
    router = found(target(serving=serving), between(), standalone("a"), picker()).discovered.deployment.router
    assert router is not None
    assert [member.name for member in router.members] == ["qwen-a-epp-x"]


SIDECAR = {"name": "sidecar", "image": "proxy:1", "ports": [{"name": "http", "containerPort": 8000}]}
PORTS = {
    "the engine's port of that name": ([{"name": "http", "containerPort": 8200}], [], 8200),
    "not that of a container beside it": ([{"name": "http", "containerPort": 8200}], [SIDECAR], 8200),
    "no name: the usual one": ([{"containerPort": 8200}], [], 8000),
    "a sidecar's name says nothing of the engine": (
        [{"containerPort": 8001}],
        [{**SIDECAR, "ports": [{"name": "http", "containerPort": 9999}]}],
        8000,
    ),
}


@pytest.mark.parametrize(("ports", "beside", "wanted"), PORTS.values(), ids=PORTS)
def test_metrics_are_read_at_the_port_http_of_the_container_engine(ports, beside, wanted):
    made = found(target(), between(), standalone("a", ports=ports, beside=beside)).discovered.deployment
    address = made.roles[0].replicas[0].members[0].metrics
    assert address is not None
    assert address.port == wanted


def test_prefill_and_decode_are_roles_and_a_gang_brings_its_workers():
    of = target(
        engine("prefill", phase="Prefill", copies=2),
        engine("decode", nodes=2, phase="Decode"),
        serving={"mode": "PrefillDecode", "router": "EndpointPicker"},
    )
    got = found(
        of,
        between(),
        standalone("p0", engine="prefill"),
        standalone("p1", engine="prefill"),
        *gang(engine="decode", nodes=2),
        *gang("other-x", engine="decode", nodes=2),
    )
    prefill, decode = got.discovered.deployment.roles
    assert (prefill.kind, prefill.desired, prefill.size) == ("Prefill", 2, 1)
    assert (decode.kind, decode.desired, decode.size) == ("Decode", 1, 3)
    assert [member.name for member in prefill.members()] == ["p0", "p1"]
    (replica,) = decode.replicas
    assert replica.instance == "qwen-a"
    assert [(member.name, member.seat, member.serves) for member in replica.members] == [
        ("qwen-a-decode-0-0", 0, True),
        ("qwen-a-decode-0-1", 1, False),
        ("qwen-a-decode-0-2", 2, False),
    ]
    assert got.left == ()


def test_a_parked_deployment_is_complete_and_empty():
    reason = {"status": "True", "reason": "NoReplicasDesired"}
    conditions = [{"type": "ReplicasScheduled", **reason}, {"type": "ReplicasReady", **reason}]
    got = found(target(replicas=0, status={"conditions": conditions, "replicas": {"ready": 0, "total": 0}}))
    made = got.discovered.deployment
    assert (made.complete, made.router, [role.desired for role in made.roles]) == (True, None, [0])
    assert got.discovered.facts.sources == ()


def test_pods_of_other_clusters_are_not_observed_rather_than_absent():
    got = found(target(replicas=3), between("qwen-a", "east"), between("qwen-b", "west"), between("qwen-c", "west"), standalone("a"), endpoint("qwen-b"))  # fmt: skip
    made = got.discovered.deployment
    assert not made.complete
    (fault,) = got.discovered.facts.sources
    assert (fault.kind, fault.why, fault.since) == ("Pod", "Elsewhere", 1793491200.0)
    assert fault.detail == (
        "no Pod of qwen-b, qwen-c is here (clusters: west): "
        "it may run in another cluster, which needs an observer of its own"
    )
    assert got.discovered.facts.urls == (UrlFact(name="qwen-b", url="http://10.9.0.1/ml/qwen-a", path="/v1/models"),)


def test_replicas_that_cannot_be_read_make_nothing_absent():
    platform = modelplane()
    world = world_of(platform, standalone("a"))
    world.faults["modelreplicas", ""] = SourceFault(kind="ModelReplica", why="Forbidden", since=NOW)
    got = found(target(), world=world)
    assert not got.discovered.deployment.complete
    assert got.discovered.deployment.roles[0].replicas == ()


def test_pods_elsewhere_in_the_cluster_and_objects_of_others_are_left_alone():
    other = between("qwen-b")
    other["metadata"]["ownerReferences"][0]["uid"] = "uid-other"
    got = found(target(), between(), other, standalone("a", namespace="else"), standalone("b", "qwen-b"))
    assert got.discovered.deployment.roles[0].replicas == ()


def test_a_deployment_of_one_engine_takes_every_pod_whatever_its_workload_is_called():
    labels = {"modelplane.ai/serving": "qwen-a", "modelplane.ai/workload": "cut-1234"}
    assert found(target(), between(), pod("a", labels)).discovered.deployment.roles[0].replicas != ()


def test_the_dump_is_found():
    made = explain(modelplane(), read_dump(Path(__file__).parent / "modelplane"), now=NOW, refusal=lambda _: None)
    assert made.unread == ()
    found_ = {str(each.discovered.deployment.key): each for each in made.found}
    assert sorted(found_) == ["ml/far", "ml/parked", "ml/qwen"]
    qwen = found_["ml/qwen"].discovered.deployment
    assert [(role.name, role.kind, role.desired, role.size) for role in qwen.roles] == [
        ("prefill", "Prefill", 2, 1),
        ("decode", "Decode", 1, 2),
    ]
    assert qwen.complete
    assert not found_["ml/far"].discovered.deployment.complete
    assert found_["ml/parked"].discovered.deployment.complete
    msgspec.json.encode(qwen)


# Reasons of its conditions: the status they come with, whether waiting helps, whose it is.
REASONS = {
    "NoReplicasDesired": ("True", "Over", "deployment owner"),
    "InsufficientCapacity": ("False", "WaitThenAct", "cluster"),
    "NoClusters": ("False", "Act", "administrator"),
    "InvalidNodeSelector": ("False", "Act", "deployment owner"),
    "Scheduling": ("False", "ClearsByItself", "operator"),
    "NoReplicasScheduled": ("False", "ClearsByItself", "cluster"),
    "ModelStarting": ("False", "ClearsByItself", "engine"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_an_answer(reason):
    status, course, whose = REASONS[reason]
    kind = "ReplicasReady" if reason in {"NoReplicasScheduled", "ModelStarting"} else "ReplicasScheduled"
    said = [{"type": kind, "status": status, "reason": reason, "message": "words of Modelplane"}]
    replicas = 0 if reason == "NoReplicasDesired" else 1
    made = found(target(replicas=replicas, status={"conditions": said})).discovered
    told = judge(
        DeploymentInputs(deployment=made.deployment, facts=made.facts), Stored(), Instant(1000.0, NOW), JudgePolicy()
    ).explanation
    (item,) = told.notices if status == "True" else (told.main,)
    assert item is not None
    assert (item.type, item.reason, item.advice, item.whose) == (kind, reason, course, whose)
    assert "words of Modelplane" in item.message
    assert item.hint


def test_the_list_of_reasons_is_that_of_the_document():
    assert {row.reason for row in modelplane().document.reasons} == set(REASONS)


MODELS = {
    "no name": (["--model=Qwen/Qwen3-8B"], "Qwen/Qwen3-8B"),
    "a name of its own": (["--model=Qwen/Qwen3-8B", "--served-model-name=qwen"], "qwen"),
    "the injected name is not on the command line": (
        ["--model=Qwen/Qwen3-8B", "--served-model-name=$(MODELPLANE_SERVED_MODEL_NAME)"],
        None,
    ),
}


@pytest.mark.parametrize(("arguments", "model"), MODELS.values(), ids=MODELS)
def test_the_model_is_known_where_the_command_line_says_it(arguments, model):
    one = standalone("a")
    one["spec"]["containers"][0]["args"] = arguments
    assert found(target(), between(), one).discovered.deployment.model == model
