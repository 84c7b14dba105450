"""What an object does not say, or says in another shape, is not known: never a 0, a no, or an all clear."""

from __future__ import annotations

from typing import Any

import pytest

from observer.discover.feeds import _kept
from observer.discover.platforms.load import built_in
from observer.discover.platforms.members import MemberBuilder
from observer.discover.platforms.roles import RoleBuilder
from observer.judge.judgement import judge
from router_contract.judging import DeploymentInputs, JudgePolicy, Stored
from router_contract.platform_facts import BindingFact, RouterContract, RouterObjectsFact, WeightsFact
from router_contract.platform_records import CanaryHold
from router_contract.readings import Instant
from router_contract.targets import Member, Ready
from tests.discover.platforms import ome_shapes
from tests.discover.platforms.shapes import deployment, find, gpustack, md, pod, raw, replica_set, router_pod, thing
from tests.discover.platforms.test_ome import canary, two

ROUTER = {"router": {"name": "sglang-gateway"}}
READY_REPLICAS: dict[str, tuple[Any, int | None]] = {
    "a number": ({"observedGeneration": 2, "readyReplicas": 1}, 1),
    "a 0 that its writer left out": ({"observedGeneration": 2, "replicas": 1}, 0),
    "nobody has reported yet": ({}, None),
    "no status at all": (None, None),
    "a text": ({"observedGeneration": 2, "readyReplicas": "many"}, None),
    "below nothing": ({"observedGeneration": 2, "readyReplicas": -1}, None),
}


def front(status: Any, *pods: Any) -> Any:
    """A routed deployment whose router's Deployment has this status."""
    made = deployment()
    made.pop("status")
    return find(md(spec=ROUTER), *pods, replica_set(), made | ({} if status is None else {"status": status})).discovered


def judged(found: Any) -> Any:
    inputs = DeploymentInputs(deployment=found.deployment, facts=found.facts)
    return judge(inputs, Stored(), Instant(1000.0, 2000.0), JudgePolicy())


@pytest.mark.parametrize("case", READY_REPLICAS, ids=str)
def test_ready_replicas_of_a_router(case: str) -> None:
    status, wanted = READY_REPLICAS[case]
    assert front(status).facts.router_objects == RouterObjectsFact(ready=wanted)


@pytest.mark.parametrize(
    ("ready", "wanted"), [("True", "True/Ready"), ("False", "False/NoReadyReplicas"), (None, "Unknown/NotObservable")]
)
def test_a_router_that_nobody_has_reported_on_is_what_its_pods_say(ready: str | None, wanted: str) -> None:
    verdict = judged(front({}, router_pod(ready=ready)))
    said = next(each for each in verdict.conditions if each.type == "RouterReady")
    assert f"{said.status.value}/{said.reason}" == wanted


def test_what_tells_a_zero_from_a_silence_is_kept_without_being_named() -> None:
    for platform in built_in():
        for source in platform.document.sources:
            workload = platform.document.router.workload if platform.document.router is not None else None
            keep = platform.document.kept(source)
            if workload is not None and workload.source == source.name and source.keep:
                assert set(keep) == {*source.keep, "status.observedGeneration"}
            else:
                assert keep == source.keep
    source = next(each for each in gpustack().document.sources if each.name == "deployments")
    whole = {**deployment(), "status": {"observedGeneration": 1, "readyReplicas": 1, "conditions": []}}
    assert _kept(gpustack().document.kept(source))(raw(whole)).body["status"] == {
        "readyReplicas": 1,
        "observedGeneration": 1,
    }


@pytest.mark.parametrize(
    ("status", "ready", "answer"),
    [
        ({"phase": "Ready"}, True, "True/Registered"),
        ({"phase": "Failed"}, False, "False/BindingNotReady"),
        ({}, None, "Unknown/NotObservable"),
        (None, None, "Unknown/NotObservable"),
    ],
    ids=["ready", "another phase", "no phase", "no status"],
)
def test_a_binding_without_a_phase_is_not_called_not_ready(status: Any, ready: bool | None, answer: str) -> None:
    body = {"spec": {"domain": {"name": "d"}}} | ({} if status is None else {"status": status})
    binding = thing("worker.gpustack.ai/v1alpha1", "KVCachePoolBinding", "g", **body)
    found = find(md(spec={"kvCache": {"poolRef": {"name": "g"}}}), binding).discovered
    assert found.facts.binding == BindingFact(name="g", ready=ready)
    said = next(each for each in judged(found).conditions if each.type == "DomainRegistered")
    assert f"{said.status.value}/{said.reason}" == answer


DOWNLOADS: dict[str, tuple[list[Any], bool | None]] = {
    "ready": ([pod("a")], True),
    "not ready": ([pod("a"), pod("b", ordinal=1, ready="False")], False),
    "one tells nothing": ([pod("a"), pod("b", ordinal=1, ready=None)], None),
    "one that leaves is not ready for another reason": (
        [pod("a"), pod("b", ordinal=1, ready="False", deleting=True)],
        True,
    ),
    "only one that leaves": ([pod("b", ready="False", deleting=True)], None),
}


@pytest.mark.parametrize("case", DOWNLOADS, ids=str)
def test_weights_are_missing_only_where_a_pod_that_stays_says_so(case: str) -> None:
    pods, wanted = DOWNLOADS[case]
    target = md(spec={"model": {"name": "m", "artifactRef": {"name": "w"}}}, status={"model": {"delivery": "Engine"}})
    artifact = thing("worker.gpustack.ai/v1alpha1", "ModelArtifact", "w", status={"resolved": {"revision": "x"}})
    weights = find(target, artifact, *pods).discovered.facts.weights
    assert isinstance(weights, WeightsFact)
    assert weights.pods_have_them is wanted


@pytest.mark.parametrize("said", ["Maybe", "", "true"])
def test_a_pod_condition_in_a_word_of_its_own_is_not_known(said: str) -> None:
    made = ome_shapes.pod("a", serving=said)
    found = ome_shapes.find(ome_shapes.isvc(), ome_shapes.replica(ome_shapes.row(0)), made)
    assert ome_shapes.role(found).replicas[0].members[0].ready is Ready.UNKNOWN


@pytest.mark.parametrize("said", ["two", -1, True, 1.5, [], {}], ids=repr)
def test_a_step_that_is_no_step_is_not_the_first(said: Any) -> None:
    run = ome_shapes.component(two(ome_shapes.row(0), ome_shapes.row(1), status=canary(currentStep=said))).canary
    assert run is not None
    assert (run.step, run.open, run.held_by) == (None, True, CanaryHold.UNKNOWN)


def test_a_step_that_is_left_out_is_the_first() -> None:
    run = ome_shapes.component(two(ome_shapes.row(0), ome_shapes.row(1), status=canary(currentStep=None))).canary
    assert run is not None
    assert (run.step, run.held_by) == (0, CanaryHold.ANALYSIS)


def test_instances_of_an_object_that_is_being_deleted_retire() -> None:
    gone = ome_shapes.replica(ome_shapes.row(0), deletionTimestamp="2026-11-02T00:00:00Z")
    found = ome_shapes.find(ome_shapes.isvc(), gone, ome_shapes.pod("a"))
    first = ome_shapes.role(found).replicas[0]
    assert (first.retiring, first.retiring_reason) == (True, "the InferenceReplica chat-engine is being deleted")


@pytest.mark.parametrize(
    ("revisions", "complete", "wanted"),
    [
        (["new"], True, False),
        (["new", "old"], True, True),
        (["old", None], True, True),
        (["new", None], True, None),
        ([None], True, None),
        (["new"], False, None),
        (["old"], False, True),
    ],
)
def test_a_pod_without_a_revision_is_not_of_the_newest(
    revisions: list[str | None], complete: bool, wanted: bool | None
) -> None:
    plain = next(each for each in built_in() if each.name == "deployments").document
    members = MemberBuilder(plain.replicas, plain.ready, lambda _: None)
    builder = RoleBuilder(plain, members, [], complete=complete)
    held = [Member(uid=str(place), name="x", revision=each) for place, each in enumerate(revisions)]
    assert builder._replacing(held, "new") is wanted


def test_a_pod_that_is_not_offered_yet_is_withheld_by_the_operator_and_not_missed_by_the_selector() -> None:
    eligible = "modeldeployment.gpustack.ai/endpoint-eligible"
    selector = {"app.kubernetes.io/component": "server", eligible: "true"}
    entry = {"name": "server", "kind": "Server", "selector": selector, "endpoint": "http://chat-server.llm.svc:8000"}
    status = {"router": {"name": "sglang-gateway", "endpoint": "http://chat-router.llm.svc:8081", "roles": [entry]}}
    pods = (pod("a"), pod("b", ordinal=1, labels={eligible: None}))
    facts = find(md(spec=ROUTER, status=status), *pods).discovered.facts
    assert isinstance(facts.contract, RouterContract)
    (told,) = facts.contract.roles
    assert (told.selected, told.withheld) == (("uid-a",), ("uid-b",))
