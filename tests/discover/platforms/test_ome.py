"""OME as data and records: tables of cases, each changing one healthy service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from observer.discover.platforms.dump import explain, read_dump
from router_contract.platform_records import CanaryHold, HomeState
from router_contract.targets import Ready
from tests.discover.platforms.ome_shapes import (
    TIME,
    component,
    find,
    isvc,
    ome,
    operation,
    pod,
    replica,
    role,
    row,
    told,
)
from tests.discover.platforms.shapes import NOW

WALL = 1793491800.0
"""`TIME` in wall seconds."""
BOTH = {"engine": {"minReplicas": 1}, "decoder": {"minReplicas": 1}}


def two(*rows: Any, status: Any = None, spec: Any = None, status_of: Any = None, **more: Any) -> Any:
    """A service of two Instances with these rows. ``status_of`` is more of its InferenceReplica's status."""
    return find(isvc(status=status, spec=spec), replica(*rows, status=status_of, **more), pod("a"), pod("b", 1))


def test_a_healthy_service_is_filled_in() -> None:
    found = two(row(0), row(1))
    made = found.discovered.deployment
    engine = role(found)
    assert (made.platform, made.model, engine.engine, engine.engine_version) == ("ome", "qwen3", "vllm", "0.11.0")
    assert (engine.kind, engine.desired, engine.size) == ("Server", 2, 1)
    assert [(each.ordinal, each.size, each.retiring, each.replacing) for each in engine.replicas] == [
        (0, 1, False, False), (1, 1, False, False),
    ]  # fmt: skip
    member = engine.replicas[0].members[0]
    assert (member.ready, member.serves, member.declared_total, member.revision) == (Ready.TRUE, True, 1, "aaa")
    assert member.metrics is not None
    assert member.metrics.port == 8080
    assert found.discovered.conditions_map is False, "nothing of ours may stand on the target"
    assert found.discovered.facts.declared is False
    held = component(found)
    assert (held.mode, held.contract, held.objects, held.encoding) == ("OMENative", True, ("chat-engine",), "DenseV1")
    assert held.phases == (("Ready", 2),)
    assert told(found) == []


OPERATIONS = {
    "none": ({}, False, False, ""),
    "an update": ({"operation": operation("Update")}, False, True, ""),
    "a restart": ({"operation": operation("Restart")}, False, True, ""),
    "a deletion": (
        {"operation": operation("Delete", reason="ScaleDown")},
        True,
        False,
        "operation Delete (ScaleDown, Drain)",
    ),
    "a migration": ({"operation": operation("Migrate", step="")}, True, False, "operation Migrate"),
    "a creation": ({"operation": operation("Create")}, False, False, ""),
    "a phase without an operation yet": ({"phase": "Updating"}, False, True, ""),
    "a phase that goes": ({"phase": "Deleting"}, True, False, "Instance 0 is Deleting"),
}


@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_operations_feed_the_legs(case: str) -> None:
    more, retiring, replacing, why = OPERATIONS[case]
    first = role(two(row(0, **more), row(1))).replicas[0]
    assert (first.retiring, first.replacing, first.retiring_reason) == (retiring, replacing, why)


NOT_PROVEN = {
    "no row of it": (lambda: two(row(1)), (None, None)),
    "rows of an older generation": (lambda: two(row(0), row(1), status=None, generation=6), (None, None)),
    "rows that contradict themselves": (
        lambda: find(isvc(), replica(status={"instanceStatusEncoding": "ColumnarV9"}), pod("a")),
        (None, None),
    ),
    "nobody may read them": (lambda: find(isvc(), pod("a"), unread="Forbidden"), (None, None)),
    "none is there": (lambda: find(isvc(), pod("a")), (None, None)),
    "one of that name that is somebody else's": (
        lambda: find(isvc(), replica(row(0), owned=False), pod("a")),
        (None, None),
    ),
    "an operation in rows of an older generation counts at once": (
        lambda: two(row(0, operation=operation("Update")), row(1), generation=6),
        (None, True),
    ),
}


@pytest.mark.parametrize("case", NOT_PROVEN, ids=str)
def test_what_was_not_read_proves_nothing(case: str) -> None:
    made, wanted = NOT_PROVEN[case]
    first = role(made()).replicas[0]
    assert (first.retiring, first.replacing) == wanted


READY = {
    "ready and in rotation": ({}, Ready.TRUE),
    "the gate is shut though the kubelet has not drawn the conclusion": ({"serving": "False"}, Ready.FALSE),
    "ready without the gate's condition": ({"serving": None}, Ready.TRUE),
    "a container that is not ready": ({"containers": "False"}, Ready.FALSE),
    "nothing said": ({"ready": None, "containers": None, "serving": None}, Ready.UNKNOWN),
}


@pytest.mark.parametrize("case", READY, ids=str)
def test_ready_needs_the_containers_and_the_serving_gate(case: str) -> None:
    changes, wanted = READY[case]
    found = find(isvc(), replica(row(0)), pod("a", **changes))
    assert role(found).replicas[0].members[0].ready is wanted


def test_a_gang_has_the_size_of_its_runners_and_its_leader_serves() -> None:
    runners = [{"name": "leader", "size": 1}, {"name": "worker", "size": 3}]
    gang = [pod("l", runner="leader"), *(pod(f"w{n}", runner="worker") for n in range(3))]
    found = find(isvc(), replica(row(0), spec={"runners": runners}), *gang)
    engine = role(found)
    assert (engine.size, engine.replicas[0].size) == (4, 4)
    assert [member.name for member in engine.replicas[0].members if member.serves] == ["l"]


def test_a_gang_of_a_runtime_has_no_known_size() -> None:
    found = find(isvc(), replica(row(0), spec={"runners": None}), pod("l", runner="leader"))
    assert role(found).replicas[0].size is None
    assert role(found).replicas[0].members[0].declared_total is None


def test_prefill_and_decode_with_a_router() -> None:
    spec = {**BOTH, "router": {"minReplicas": 2}}
    image = {"container": {"image": "lmsysorg/smg:v0.3.1", "args": ["--port", "9000", "--prometheus-port", "29001"]}}
    found = find(
        isvc(spec=spec), replica(row(0)), replica(row(0), name="chat-decoder", component="decoder"),
        replica(row(0), row(1), row(2), name="chat-router", component="router"),
        pod("a"), pod("d", component="decoder"), pod("r", component="router", **image),
    )  # fmt: skip
    made = found.discovered.deployment
    assert [(each.name, each.kind) for each in made.roles] == [("engine", "Prefill"), ("decoder", "Decode")]
    router = made.router
    assert router is not None
    assert (router.software, router.desired, [member.name for member in router.members]) == ("sglang_gateway", 3, ["r"])
    front = router.members[0]
    assert front.api is not None
    assert front.metrics is not None
    assert (front.api.port, front.metrics.port) == (9000, 29001)
    assert [each.name for each in found.discovered.facts.records.components] == ["engine", "decoder", "router"]


REFS = {"engine": None, "model": None, "deploymentMode": None}


def test_references_front_standalone_replicas() -> None:
    spec = {**REFS, "replicaRefs": {"engine": ["pool-a", "pool-b"]}}
    found = find(
        isvc(spec=spec),
        replica(row(0, operation=operation("Update")), name="pool-a", owned=False),
        replica(row(0), row(1), name="pool-b", owned=False),
        pod("a0", of="pool-a", by="pool-a"), pod("b0", of="pool-b", by="pool-b"), pod("b1", 1, of="pool-b", by="pool-b"),
        pod("x", of="pool-c", by="pool-c"),
    )  # fmt: skip
    engine = role(found)
    assert engine.desired == 3
    held = {each.members[0].name: (each.ordinal, each.replacing) for each in engine.replicas}
    assert held == {"a0": (None, True), "b0": (None, False), "b1": (None, False)}, (
        "numbers of two pools are no ordinals"
    )
    assert component(found).objects == ("pool-a", "pool-b")


def test_a_reference_to_nothing_is_told() -> None:
    found = find(isvc(spec={**REFS, "replicaRefs": {"engine": ["gone"]}}), pod("a", of="gone", by="gone"))
    assert [(each.type, each.reason) for each in told(found)] == [("ReplicaRef engine", "NotFound")]
    assert role(found).replicas == (), "nobody says which Pods are its"


MODES = {
    "the service's own": ({"deploymentMode": "RawDeployment"}, {}, "RawDeployment", False),
    "an annotation of the component goes first": (
        {"deploymentMode": "OMENative", "engine": {"annotations": {"ome.io/deploymentMode": "MultiNode"}}},
        {},
        "MultiNode",
        False,
    ),
    "what is scaled": (
        {"deploymentMode": None},
        {"components": {"engine": {"scaleTargetRef": {"kind": "Deployment", "name": "x"}}}},
        "RawDeployment",
        False,
    ),
    "nothing": ({"deploymentMode": None}, {}, "", None),
}


@pytest.mark.parametrize("case", MODES, ids=str)
def test_modes_without_a_rollout_contract_are_said(case: str) -> None:
    spec, status, mode, contract = MODES[case]
    found = find(isvc(spec=spec, status=status), pod("a", None), pod("b", None))
    held = component(found)
    assert (held.mode, held.contract) == (mode, contract)
    reason = "ModeNotKnown" if contract is None else "NoRolloutContract"
    assert [(each.type, each.status, each.reason) for each in told(found)] == [
        ("RolloutContract engine", "Unknown", reason)
    ]
    assert len(role(found).replicas) == 2, "Pods that nothing numbers are replicas by themselves"
    assert found.discovered.facts.declared is (mode == "RawDeployment")


SCALERS: dict[str, tuple[Any, Any]] = {
    "OME's own that reports": (
        {"managedBy": "ome", "class": "HPA", "currentReplicas": 2, "desiredReplicas": 3},
        (2, 3, ""),
    ),
    "a zero of one that reports": (
        {
            "managedBy": "ome",
            "currentReplicas": 0,
            "desiredReplicas": 0,
            "conditions": [{"type": "Active", "status": "False"}],
        },
        (0, 0, ""),
    ),
    "a zero of one that does not": (
        {"managedBy": "ome", "currentReplicas": 0, "desiredReplicas": 0},
        (None, None, "the scaler has not reported yet"),
    ),
    "nothing of one that reports is not zero": (
        {"managedBy": "ome", "lastScaleTime": TIME, "desiredReplicas": 1},
        (None, 1, ""),
    ),
    "somebody else's zero": (
        {"managedBy": "external", "currentReplicas": 0, "desiredReplicas": 0},
        (None, None, "somebody else's scaler: OME cannot read it"),
    ),
    "none": ({"managedBy": "none", "currentReplicas": 0}, (None, None, "no scaler")),
    "nobody": ({"currentReplicas": 4}, (None, None, "nothing says who manages the scaler")),
}


@pytest.mark.parametrize("case", SCALERS, ids=str)
def test_a_zero_is_a_number_only_of_a_scaler_that_reports(case: str) -> None:
    status, wanted = SCALERS[case]
    scaler = component(two(row(0), row(1), status={"components": {"engine": {"autoscaler": status}}})).scaler
    assert scaler is not None
    assert (scaler.current, scaler.desired, scaler.why) == wanted


def home(name: str, **more: Any) -> Any:
    return {
        "cluster": name,
        "phase": "Admitted",
        "observationKnown": True,
        "admittedReplicas": 2,
        "readyReplicas": 2,
        **more,
    }


HOMES: dict[str, tuple[Any, Any, Any]] = {
    "read now": (
        [home("a"), home("b", readyReplicas=1)],
        [(HomeState.FRESH, 2, 2), (HomeState.FRESH, 2, 1)],
        (2, 4, 3),
    ),
    "retained counts are stale": (
        [home("a"), home("b", observationKnown=False, observationFailingSince=TIME)],
        [(HomeState.FRESH, 2, 2), (HomeState.STALE, 2, 2)],
        (1, 4, 4),
    ),
    "a zero after the grace is no evidence": (
        [home("a"), home("b", observationKnown=False, observationFailingSince=TIME, readyReplicas=0)],
        [(HomeState.FRESH, 2, 2), (HomeState.STALE, 2, None)],
        (1, 4, None),
    ),
    "nothing of one": (
        [home("a"), {"cluster": "b", "phase": "Placed"}],
        [(HomeState.FRESH, 2, 2), (HomeState.UNKNOWN, None, None)],
        (1, None, None),
    ),
    "an observed zero": ([home("a", readyReplicas=0)], [(HomeState.FRESH, 2, 0)], (1, 2, 0)),
    "no home at all": ([], [], (0, None, None)),
    "what is no count": (
        [home("a", readyReplicas=-1, admittedReplicas=10**20)],
        [(HomeState.FRESH, None, None)],
        (1, None, None),
    ),
}


@pytest.mark.parametrize("case", HOMES, ids=str)
def test_homes(case: str) -> None:
    candidates, wanted, (known, admitted, ready) = HOMES[case]
    found = find(isvc(status={"placement": {"phase": "Placed", "candidates": candidates}}))
    placed = found.discovered.facts.records.placement
    assert placed is not None
    assert [(each.state, each.admitted, each.ready) for each in placed.homes] == wanted
    assert (placed.known, placed.admitted, placed.ready) == (known, admitted, ready)
    stale = [each for each in placed.homes if each.state is HomeState.STALE]
    assert all(each.since == WALL for each in stale)


def test_pods_of_a_placed_service_are_elsewhere() -> None:
    found = find(isvc(status={"placement": {"candidates": [home("east"), home("west")]}}))
    assert found.discovered.deployment.complete is False, "no Pod here says nothing of those there"
    assert [(each.kind, each.why) for each in found.discovered.facts.sources] == [("Pod", "Elsewhere")]
    assert "east, west" in found.discovered.facts.sources[0].detail
    beside = find(isvc(status={"placement": {"candidates": [home("east")]}}), replica(row(0)), pod("a"))
    assert beside.discovered.deployment.complete is True


def test_where_every_home_drains_replicas_retire() -> None:
    drains = home("a", allocation={"drainRequested": True})
    found = two(row(0), row(1), status={"placement": {"candidates": [drains]}})
    assert {each.retiring for each in role(found).replicas} == {True}
    assert ("Home a", "Draining") in [(each.type, each.reason) for each in told(found)]
    found = two(row(0), row(1), status={"placement": {"candidates": [drains, home("b")]}})
    assert {each.retiring for each in role(found).replicas} == {False}, "one of two does not tell which Pods"


STEPS = [
    {"traffic": 10, "analysis": {}},
    {"traffic": 50, "pause": {"duration": "5m"}},
    {"traffic": 90, "pause": {}},
    {"traffic": 100},
]
RUN = {"activeRun": {"plan": {"groups": [{"group": {"components": ["engine"], "canary": {"steps": STEPS}}}]}}}


def canary(phase: str = "Paused", *, run: Any = RUN, **state: Any) -> Any:
    base = {"targetID": "t", "canaryRevisionHash": "new", "stableRevisionHash": "old", "currentStep": 0}
    held = {"rolloutPhase": phase, "canary": {**base, "stepEnteredTime": TIME, "observedTrafficWeight": 10, **state}}
    return {"components": {"engine": held}, **({"rollout": run} if run else {})}


HOLDS: dict[str, tuple[Any, CanaryHold, str]] = {
    "its analysis": (canary(), CanaryHold.ANALYSIS, ""),
    "its soak": (canary(currentStep=1), CanaryHold.SOAK, ""),
    "a person": (canary(currentStep=2), CanaryHold.PROMOTION, "AwaitingPromotion"),
    "nothing": (canary("Promoting", currentStep=3), CanaryHold.NOTHING, ""),
    "capacity, whatever the step": (
        canary("Pending", currentStep=1, capacityWaitSince=TIME),
        CanaryHold.CAPACITY,
        "CapacityWait",
    ),
    "a repin": (canary(preStepHold=True), CanaryHold.PRE_STEP, "PreStepHold"),
    "a rejected target": (canary("RolledBack", rolledBackRevisionHash="new"), CanaryHold.REJECTED, "TargetRejected"),
    "no capacity in time": (
        canary("Failed", failed={"reason": "CapacityTimeout", "time": TIME}),
        CanaryHold.FAILED,
        "CapacityTimeout",
    ),
    "an analysis without answers": (
        canary("Failed", failed={"reason": "AnalysisStalled", "time": TIME}),
        CanaryHold.FAILED,
        "AnalysisStalled",
    ),
    "nothing to go back to": (
        canary("Failed", failed={"reason": "StableRevisionMissing"}),
        CanaryHold.FAILED,
        "StableRevisionMissing",
    ),
    "a finished run": (canary("Stable", run=None, currentStep=4), CanaryHold.NOTHING, ""),
}


@pytest.mark.parametrize("case", HOLDS, ids=str)
def test_what_holds_a_canary_run(case: str) -> None:
    status, held_by, reason = HOLDS[case]
    found = two(row(0), row(1), status=status)
    run = component(found).canary
    assert run is not None
    assert run.held_by is held_by
    assert [each.reason for each in told(found)] == ([reason] if reason else [])
    assert run.analysis == ("ome-chat-engine" if run.open else ""), "ours of the same run, by name"


@pytest.mark.parametrize(
    ("said", "wanted"), [({}, None), ({"analysisFailedChecks": "many"}, None), ({"analysisFailedChecks": 0}, 0)]
)
def test_failed_checks_that_nobody_counts_are_not_zero(said: Any, wanted: int | None) -> None:
    run = component(two(row(0), row(1), status=canary(**said))).canary
    assert run is not None
    assert run.failed_checks == wanted


def test_waiting_for_capacity_is_apart_from_the_soak() -> None:
    run = component(two(row(0), row(1), status=canary(currentStep=1, capacityWaitSince="2026-11-01T00:20:00Z"))).canary
    assert run is not None
    assert (run.step_entered, run.capacity_wait_since) == (WALL, WALL + 600)


FAILED = {
    "podName": "p",
    "containerName": "c",
    "reason": "OOMKilled",
    "exitCode": 137,
    "message": "killed",
    "time": TIME,
}
HOLD = {"gate": "Budget", "reason": "no surge left", "target": "bbb", "since": TIME}
NOTICES: dict[str, tuple[Any, list[tuple[str, str, str]]]] = {
    "an operation that waits for quota": (
        lambda: two(row(0, operation=operation("Update", waiting="QuotaExceeded")), row(1)),
        [("Operation engine/0", "False", "QuotaExceeded")],
    ),
    "a failure of an Instance that is not well": (
        lambda: two(row(0, "Restarting", lastFailure=FAILED), row(1)),
        [("LastFailure engine/0", "False", "OOMKilled")],
    ),
    "a failure that is over": (lambda: two(row(0, lastFailure=FAILED), row(1)), []),
    "a rollout that is held": (
        lambda: two(row(0), row(1), status_of={"rolloutHold": HOLD}),
        [("RolloutHold engine", "False", "Budget")],
    ),
    "attempts that are used up": (
        lambda: two(row(0), row(1), status_of={"retryBlocks": [{"targetRevision": "bbb", "state": "Held", "attemptsStarted": 3}]}),
        [("RetryBlock engine", "False", "Held")],
    ),
    "a stuck operation": (
        lambda: two(row(0), row(1), status_of={"conditions": [{"type": "OperationStuck", "status": "True", "reason": "Deadline"}]}),
        [("OperationStuck engine", "False", "Deadline")],
    ),
    "rows that cannot be read": (
        lambda: two(status_of={"instanceStatusEncoding": "ColumnarV3", "instanceStatuses": None}),
        [("Instances engine", "Unknown", "Unreadable")],
    ),
    "a model that does not load": (
        lambda: two(row(0), row(1), status={"modelStatus": {"transitionStatus": "BlockedByFailedLoad"}}),
        [("ModelStatus", "False", "BlockedByFailedLoad")],
    ),
    "a scaler without its metric": (
        lambda: two(row(0), row(1), status={"components": {"engine": {"autoscaler": {
            "managedBy": "ome", "conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetMetric"}]}}}}),
        [("Autoscaler engine", "False", "FailedGetMetric")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTICES, ids=str)
def test_what_calls_for_words(case: str) -> None:
    made, wanted = NOTICES[case]
    assert [(each.type, each.status, each.reason) for each in told(made())] == wanted


def test_a_dump_is_explained() -> None:
    """`observer check --platform ome --dump`, with everything that a service may be."""
    dump = read_dump(Path(__file__).with_name("ome"))
    found = {
        each.discovered.deployment.key.name: each
        for each in explain(ome(), dump, now=NOW, refusal=lambda _: None).found
    }
    assert sorted(found) == ["chat", "everywhere", "plain"]
    roles = found["chat"].discovered.deployment.roles
    assert [(each.name, each.kind, each.size, len(each.replicas)) for each in roles] == [
        ("engine", "Prefill", 1, 2), ("decoder", "Decode", 2, 1),
    ]  # fmt: skip
    assert [each.replacing for role in roles for each in role.replicas] == [False, True, True]
    assert {(each.type, each.reason) for each in told(found["chat"])} == {
        ("Operation engine/1", "QuotaExceeded"), ("RolloutHold engine", "Budget"),
        ("LastFailure decoder/0", "OOMKilled"), ("CanaryRun engine", "CapacityWait"),
    }  # fmt: skip
    assert found["everywhere"].discovered.deployment.complete is False
    assert [each.reason for each in told(found["plain"])] == ["NoRolloutContract"]


def test_what_is_left_out_is_said_and_no_total_is_made_of_a_part() -> None:
    rows = [row(index, "Updating", operation=operation("Update", waiting="QuotaExceeded")) for index in range(70)]
    found = find(isvc(), replica(*rows), pod("a"))
    held = component(found)
    assert (len(held.instances), held.more, held.phases) == (64, 6, (("Updating", 70),))
    assert (told(found)[-1].type, told(found)[-1].reason) == ("Records", "TooMany")
    homes = [home(f"h{number}") for number in range(300)]
    placed = find(isvc(status={"placement": {"candidates": homes}})).discovered.facts.records.placement
    assert placed is not None
    assert (len(placed.homes), placed.more, placed.admitted, placed.ready) == (256, 44, None, None)
