"""OME on a real API server: discovery, metrics, eligibility, cache, status and explanation of a simulated service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import now
from tests.cluster.observed import Observed
from tests.cluster.ome_world import OmeService, observed_service

pytestmark = pytest.mark.cluster

LONG_AGO = "2026-11-01T00:10:00.000Z"


def asked(world: Observed, part: str) -> dict[str, Any]:
    status, body = world.process.ask(f"/api/v1/namespaces/ome/modeldeployments/chat/{part}")
    assert status == 200, body
    return dict(json.loads(body))


async def test_a_service_is_observed(cluster: ControlPlane) -> None:
    async with observed_service(cluster, "ome") as (world, service):
        took = await world.settled()
        print(f"figure: an OME service observed {took:.1f} s after the observer began")
        _in_the_cluster(world, service)
        await world.until(lambda: asked(world, "metrics").get("cacheHits"), "its cache is measured")
        document = asked(world, "metrics")
        assert document["coverage"] == {"expected": 3, "read": 3, "failed": 0, "skipped": 0}
        await _an_operation_by_columns(world, service)
        await _homes_a_scaler_and_a_run(world, service)
        await _the_serving_gate(world, service)


def _in_the_cluster(world: Observed, service: OmeService) -> None:
    stored = service.observation
    assert stored is not None
    assert stored["spec"]["platform"] == "ome"
    status = stored["status"]
    assert status["sources"] == []
    assert status["model"] == "tiny"
    assert [each["name"] for each in status["components"]] == ["engine", "router"]
    assert status["components"][0]["phases"] == [{"phase": "Ready", "instances": 2}]
    target = world.cluster.call("GET", service.path)["status"]
    assert {each["type"] for each in target["conditions"]} == {"EngineReady", "IngressReady", "Ready", "RouterReady"}


async def _an_operation_by_columns(world: Observed, service: OmeService) -> None:
    operation = {
        "id": "a", "type": "Update", "step": "Recreate", "startedAt": LONG_AGO, "lastProgressAt": LONG_AGO,
        "waiting": "QuotaExceeded", "capacityRefusedAt": now(), "deadline": None,
    }  # fmt: skip
    columns = {
        "members": "0-1",
        "phases": [{"value": "Ready", "indexes": "0"}, {"value": "Updating", "indexes": "1"}],
        "podCounts": [{"value": 1, "indexes": "0-1"}],
        "entries": [{"index": 1, "operation": operation}],
    }
    hold = {"gate": "Budget", "reason": "no unavailability left", "target": "bbb", "since": LONG_AGO}
    told = {"instanceStatusEncoding": "ColumnarV2", "instanceStatusColumns": columns, "rolloutHold": hold}
    await asyncio.to_thread(lambda: service.rows("engine", **told))
    took = await world.until(lambda: service.status["summary"]["eligible"] == "1", "the Instance's replica is revoked")
    print(f"figure: an operation written by columns revoked its replica after {took:.1f} s")
    groups = {group["ordinal"]: group["state"] for group in service.status["roles"][0]["groups"]}
    assert groups == {0: "Eligible", 1: "Replacing"}
    found = asked(world, "explain")
    assert (found["main"]["type"], found["main"]["reason"]) == ("Operation engine/1", "QuotaExceeded")
    assert "its clock stands still" in found["main"]["hint"]
    assert ("RolloutHold engine", "Budget") in {(each["type"], each["reason"]) for each in found["others"]}
    assert service.status["components"][0]["encoding"] == "ColumnarV2"
    rows = [{"index": index, "phase": "Ready", "podCount": 1} for index in range(2)]
    await asyncio.to_thread(lambda: service.rows("engine", instanceStatuses=rows))
    await world.until(lambda: service.status["summary"]["eligible"] == "2", "it is over")


async def _homes_a_scaler_and_a_run(world: Observed, service: OmeService) -> None:
    engine = {
        "rolloutPhase": "Pending",
        "autoscaler": {"class": "KEDA", "managedBy": "external", "currentReplicas": 0, "desiredReplicas": 0},
        "canary": {
            "targetID": "t", "canaryRevisionHash": "new", "stableRevisionHash": "old", "currentStep": 0,
            "stepEnteredTime": LONG_AGO, "observedTrafficWeight": 0, "capacityWaitSince": now(),
        },
    }  # fmt: skip
    steps = [{"traffic": 10, "pause": {"duration": "5m"}}, {"traffic": 100}]
    plan = {"groups": [{"group": {"components": ["engine"], "canary": {"steps": steps}}}]}
    homes = [
        {"cluster": "east", "observationKnown": True, "admittedReplicas": 2, "readyReplicas": 2},
        {"cluster": "west", "observationKnown": False, "observationFailingSince": LONG_AGO, "readyReplicas": 3},
    ]
    status = {
        "components": {"engine": engine},
        "rollout": {"activeRun": {"runID": "r", "plan": plan}},
        "placement": {"phase": "Placed", "candidates": homes},
    }
    await asyncio.to_thread(lambda: service.operator_writes(**status))
    await world.until(lambda: "placement" in service.status, "homes are stored")
    placed = service.status["placement"]
    assert placed["totals"] == {"homes": 2, "homesKnown": 1, "admitted": None, "ready": 5}
    assert (placed["homes"][1]["state"], placed["homes"][1]["since"]) == ("Stale", LONG_AGO)
    first = service.status["components"][0]
    assert (first["autoscaler"]["currentReplicas"], first["autoscaler"]["desiredReplicas"]) == (None, None)
    assert first["canaryRun"]["heldBy"] == "Capacity"
    assert first["canaryRun"]["stepEnteredTime"] == LONG_AGO != first["canaryRun"]["capacityWaitSince"]
    found = asked(world, "explain")
    told = {(each["type"], each["reason"]) for each in (found["main"], *found["others"], *found["unknown"])}
    assert {("CanaryRun engine", "CapacityWait"), ("Home west", "ObservationFailing")} <= told
    page = world.process.ask("/deployments/ome/chat")[1]
    assert "1 of 2 homes are read now" in page
    assert "which is no part of the soak" in page
    await _our_analysis_of_the_run(world, first["canaryRun"]["analysis"])
    await asyncio.to_thread(service.operator_writes)
    await world.until(lambda: "placement" not in service.status, "it is over")


async def _our_analysis_of_the_run(world: Observed, name: str) -> None:
    """Ours of the same run stands beside OME's, made from the pinned plan; its facade is a Prometheus to OME."""
    path = f"/apis/observer.modeldeployment.io/v1alpha1/namespaces/ome/canaryanalyses/{name}"
    await world.until(lambda: world.cluster.call("GET", path)["spec"]["canary"]["revision"] == "new", "it is there")
    await world.until(
        lambda: name in world.process.ask("/deployments/ome/chat")[1], "the deployment's page leads to it"
    )
    status, body = world.process.ask("/prometheus/api/v1/query?query=up")
    assert json.loads(body)["status"] in {"success", "error"}, (status, body)


async def _the_serving_gate(world: Observed, service: OmeService) -> None:
    name = service.simulated.replicas[0].engine.name
    await asyncio.to_thread(lambda: service.pod_says(name, ready=True, serving=False))
    await world.until(lambda: service.status["summary"]["eligible"] == "1", "a shut gate is not ready")
