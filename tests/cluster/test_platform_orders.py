"""Modelplane and Deckhouse with simulated engines behind a real kube-apiserver: found, read, judged, written, explained."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from observer.clock import SystemClock
from observer.simulate.deployment import SimulatedDeployment
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import DeploymentSpec, EngineSpec, FleetSpec, RoleSpec, RouterSpec
from router_contract.targets import RoleKind
from tests.cluster.conftest import _running
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import MERGE, OURS, define, now
from tests.cluster.observed import SETTINGS, Process
from tests.cluster.published import Json, Published, condition, engine, read

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
ENGINE = EngineSpec(software="vllm", model="tiny", token_seconds=0.0005)
MODELPLANE, DECKHOUSE = "modelplane.ai/v1alpha1", "ai-inference.deckhouse.io/v1alpha1"
MARK = "ai-inference.deckhouse.io/managed"


def fleet() -> FleetSpec:
    pair = (
        RoleSpec(name="prefill", kind=RoleKind.PREFILL, engine=ENGINE),
        RoleSpec(name="decode", kind=RoleKind.DECODE, engine=ENGINE),
    )
    picker = RouterSpec(software="llm_d", health_interval=0.2)
    return FleetSpec(
        deployments=(
            DeploymentSpec(name="qwen", roles=pair, router=picker, rate=5.0),
            DeploymentSpec(name="chat", roles=(RoleSpec(engine=ENGINE),), rate=5.0),
        )
    )


class InDefault(Published):
    """The namespace of that name, which every cluster has: Modelplane puts Pods of workload clusters there."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self.namespace = "default"
        cluster.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})


class World:
    """Both platforms, and who observes them."""

    def __init__(self, cluster: ControlPlane, simulated: dict[str, SimulatedDeployment], process: Process) -> None:
        self.cluster = cluster
        self.simulated = simulated
        self.process = process
        self.ml = Published(cluster, "ml")
        self.team = Published(cluster, "team")
        self.pods = InDefault(cluster)

    async def until(self, true: Callable[[], Any], what: str, seconds: float = 40.0) -> Any:
        begun, last = time.monotonic(), None
        while time.monotonic() - begun < seconds:
            assert self.process.running, self.process.said[-3000:]
            with contextlib.suppress(OSError, KeyError):
                last = await asyncio.to_thread(true)
                if last:
                    return last
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}: still {last!r} after {seconds:g} s\n{self.process.said[-2000:]}")

    def asked(self, namespace: str, name: str, what: str) -> Json:
        code, text = self.process.ask(f"/api/v1/namespaces/{namespace}/modeldeployments/{name}/{what}")
        return read(text) if code == 200 else {"code": code}

    def explained(self, namespace: str, name: str) -> Json:
        return self.asked(namespace, name, "explain")

    async def explains(self, namespace: str, name: str) -> Json:
        """Asked beside the loop: the simulated engines answer on it."""
        return await asyncio.to_thread(self.explained, namespace, name)


def model_deployment(at: Published, name: str, replicas: int, engines: list[Json], status: Json, **spec: Any) -> Json:
    body = {
        "kind": "ModelDeployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"spec": {"engines": engines, **spec}}},
    }
    return at.put(MODELPLANE, "modeldeployments", body, status)


def wanted(name: str, **more: Any) -> Json:
    container = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.32.0",
        "ports": [{"name": "http", "containerPort": 8000}],
    }
    return {"name": name, "members": [{"template": {"spec": {"containers": [container]}}}], **more}


def between(at: Published, owner: Json, name: str, cluster: str, url: str) -> None:
    """A ModelReplica and its ModelEndpoint."""
    labels = {"modelplane.ai/deployment": owner["name"], "modelplane.ai/cluster": cluster}
    meta = {"name": name, "labels": labels, "ownerReferences": [owner]}
    at.put(MODELPLANE, "modelreplicas", {"kind": "ModelReplica", "metadata": meta, "spec": {}})
    at.put(MODELPLANE, "modelendpoints", {"kind": "ModelEndpoint", "metadata": meta, "spec": {"url": url}})


def modelplane(world: World) -> None:
    """One deployment that runs here, one in another cluster, one parked."""
    simulated = world.simulated["qwen"]
    fine = [
        condition("ReplicasScheduled", "True", "ReplicasCreated"),
        condition("ReplicasReady", "True", "AllReplicasReady"),
    ]
    pair = [wanted("prefill", phase="Prefill"), wanted("decode", phase="Decode")]
    serving = {"mode": "PrefillDecode", "router": "EndpointPicker"}
    status = {"replicas": {"ready": 1, "total": 1}, "conditions": fine}
    owner = model_deployment(world.ml, "qwen", 1, pair, status, serving=serving)
    url = f"http://127.0.0.1:{simulated.replicas[0].engine.listener.port}"
    between(world.ml, owner, "qwen-a", "here", url)
    for replica in simulated.replicas:
        labels = {
            "modelplane.ai/serving": "qwen-a",
            "modelplane.ai/workload": f"qwen-a-{replica.role.name}",
            "llm-d.ai/role": replica.role.name,
        }
        world.pods.pod(replica.engine.name, labels, engine(replica.engine, "engine"))
    for router in simulated.routers:
        ports = [{"name": "metrics", "containerPort": router.metrics.port}]
        world.pods.pod(router.name, {"app": "qwen-a-epp"}, {"name": "epp", "image": "epp:1", "ports": ports})
    short = [condition("ReplicasScheduled", "False", "InsufficientCapacity", "1 of 2 replicas scheduled")]
    owner = model_deployment(world.ml, "far", 2, [wanted("far")], {"replicas": {"ready": 1, "total": 1}, "conditions": short})  # fmt: skip
    between(world.ml, owner, "far-w", "west", url)
    parked = [condition(kind, "True", "NoReplicasDesired") for kind in ("ReplicasScheduled", "ReplicasReady")]
    model_deployment(world.ml, "parked", 0, [wanted("parked")], {"replicas": {"ready": 0, "total": 0}, "conditions": parked})  # fmt: skip


def deckhouse(world: World) -> None:
    """An order that serves on the plan it holds and cannot grow, and one that waits for capacity."""
    replica = world.simulated["chat"].replicas[0]
    held = {
        "phase": "Ready",
        "conditions": [
            condition("ClassResolved", "True", "Resolved"),
            condition("ModelResolved", "True", "Resolved"),
            condition("Planned", "True", "LaunchPlanInForce", "NoCapacity: nothing free beyond what it holds"),
            condition("WorkloadReady", "True", "Ready"),
            condition("Ready", "True", "Ready"),
        ],
        "model": {"endpointType": "Chat"},
        "constraints": {"minReplicas": 1, "maxReplicas": 2},
    }
    spec = {"inferenceServiceClassName": "default-llm", "model": {"source": "tiny"}}
    body = {"kind": "InferenceService", "metadata": {"name": "chat"}, "spec": spec}
    owner = world.team.put(DECKHOUSE, "inferenceservices", body, held)
    template = {"metadata": {"labels": {MARK: "true"}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
    kept = {
        "kind": "StatefulSet",
        "metadata": {"name": "chat", "ownerReferences": [owner]},
        "spec": {
            "replicas": 1,
            "serviceName": "chat",
            "selector": {"matchLabels": {MARK: "true"}},
            "template": template,
        },
    }
    kept_by = world.team.put("apps/v1", "statefulsets", kept)
    world.team.pod("chat-0", {MARK: "true"}, engine(replica.engine, "runtime"), kept_by)
    event = {
        "kind": "Event",
        "metadata": {"name": "chat.1"},
        "eventTime": now().replace("Z", ".000000Z"),
        "reportingController": "ai-inference",
        "reportingInstance": "one",
        "action": "Grow",
        "type": "Warning",
        "reason": "GrowthClaimUnplaced",
        "note": "claim chat-1 got no device",
        "regarding": {
            "apiVersion": DECKHOUSE,
            "kind": "InferenceService",
            "namespace": "team",
            "name": "chat",
            "uid": owner["uid"],
        },
    }
    world.team.put("events.k8s.io/v1", "events", event)
    waits = {
        "phase": "Pending",
        "conditions": [condition("Planned", "False", "NoCompatiblePlacement", "no share fits now")],
    }
    world.team.put(DECKHOUSE, "inferenceservices", {**body, "metadata": {"name": "waits"}}, waits)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose kinds are those of this module's tests."""
    yield from _running(tmp_path_factory.mktemp("orders"))


@contextlib.asynccontextmanager
async def observed(plane: ControlPlane) -> AsyncIterator[World]:
    for file in (OURS, HERE / "modelplane.yaml", HERE / "deckhouse.yaml"):
        define(plane, file)
    for plural, kind in (("modelreplicas", "ModelReplica"), ("modelendpoints", "ModelEndpoint")):
        plane.define("modelplane.ai", plural, kind)
    process = Process(plane.folder, plane.admin, "ml", SETTINGS.replace("[NAMESPACE]", "[ml, team, default]"))
    async with SimulatedFleet(fleet(), clock=SystemClock()) as running:
        world = World(plane, {each.spec.name: each for each in running.deployments.values()}, process)
        await asyncio.to_thread(modelplane, world)
        await asyncio.to_thread(deckhouse, world)
        process.start()
        try:
            yield world
        finally:
            await asyncio.to_thread(process.stop)


async def test_modelplane_and_deckhouse_are_found_read_judged_written_and_explained(plane: ControlPlane) -> None:
    async with observed(plane) as world:
        begun = time.monotonic()
        await _a_deployment_that_runs_here(world)
        await _one_that_runs_elsewhere(world)
        await _one_that_is_parked(world)
        await _an_order_that_serves(world)
        await _an_order_that_waits(world)
        await _counts_that_differ(world)
        print(f"figure: Modelplane and Deckhouse observed and explained in {time.monotonic() - begun:.1f} s")


async def _a_deployment_that_runs_here(world: World) -> None:
    def stored() -> Json | None:
        status = world.ml.status("modelplane-qwen")
        return status if status.get("summary", {}).get("eligible") == "2" and status["phase"] == "Ready" else None

    status = await world.until(stored, "qwen serves")
    assert [(role["name"], role["kind"], role["desired"]) for role in status["roles"]] == [
        ("prefill", "Prefill", 1),
        ("decode", "Decode", 1),
    ]
    conditions = {each["type"]: each for each in status["conditions"]}
    assert conditions["RouterReady"]["status"] == "True"
    assert conditions["CacheAttached"]["reason"] == "NotObservable", "nobody says whether a cache is declared"
    assert conditions["MetricsFresh"]["status"] == "True"
    metrics = await asyncio.to_thread(world.asked, "ml", "qwen", "metrics")
    assert metrics["coverage"]["read"] == 3, "two engines and the picker"
    (look,) = [each for each in (await world.explains("ml", "qwen"))["looks"] if each["kind"] == "URL"]
    assert (look["name"], look["reason"]) == ("qwen-a", "Answered")


async def _one_that_runs_elsewhere(world: World) -> None:
    status = await world.until(lambda: world.asked("ml", "far", "status").get("status"), "far is judged")
    assert [(each["kind"], each["why"]) for each in status["sources"] if each["kind"] == "Pod"] == [
        ("Pod", "Elsewhere")
    ]
    assert status["roles"][0]["endpoints"]["eligible"] is None
    assert status["phase"] == "Unknown"
    told = await world.explains("ml", "far")
    assert (told["main"]["type"], told["main"]["reason"]) == ("ReplicasScheduled", "InsufficientCapacity")
    assert told["main"]["advice"] == "WaitThenAct"
    assert [each["reason"] for each in told["looks"]] == ["Answered"]


async def _one_that_is_parked(world: World) -> None:
    status = await world.until(lambda: world.asked("ml", "parked", "status").get("status"), "parked is judged")
    assert (status["phase"], status["roles"][0]["desired"], status["roles"][0]["endpoints"]["eligible"]) == (
        "Ready",
        0,
        0,
    )
    assert not [each for each in status["conditions"] if each["status"] == "False"], "no alert"
    assert not (await asyncio.to_thread(world.asked, "ml", "parked", "metrics")).get("missing")
    told = await world.explains("ml", "parked")
    assert "main" not in told
    assert {each["reason"] for each in told["notices"]} == {"NoReplicasDesired"}


async def _an_order_that_serves(world: World) -> None:
    def stored() -> Json | None:
        status = world.team.status("deckhouse-chat")
        return status if status.get("summary", {}).get("eligible") == "1" and status["phase"] == "Ready" else None

    await world.until(stored, "chat serves")
    told = await world.explains("team", "chat")
    assert [(each["type"], each["reason"]) for each in told["notices"]] == [("Planned", "LaunchPlanInForce")]
    (event,) = told["looks"]
    assert (event["kind"], event["reason"], event["said"]) == (
        "Event",
        "GrowthClaimUnplaced",
        "claim chat-1 got no device",
    )
    assert event["advice"] == "ClearsByItself"
    assert any("maxReplicas" in each["says"] for each in told["notes"])


async def _an_order_that_waits(world: World) -> None:
    told = await world.until(
        lambda: world.explained("team", "waits").get("main") and world.explained("team", "waits"), ""
    )
    assert (told["main"]["type"], told["main"]["reason"]) == ("Planned", "NoCompatiblePlacement")
    assert "no share fits now" in told["sentences"][1]
    assert "two causes" in told["sentences"][2]


async def _counts_that_differ(world: World) -> None:
    """An engine ends, its kubelet says so, and the operator goes on counting it."""
    broken = world.simulated["qwen"].replicas[0].engine
    await broken.die()
    await asyncio.to_thread(world.pods.pod_says, broken.name, "engine", ready=False)

    def told() -> Json | None:
        found = world.explained("ml", "qwen")
        findings = [found["main"], *found["others"]] if "main" in found else []
        return next((each for each in findings if each["type"] == "ReadyCount"), None)

    found = await world.until(told, "the counts differ")
    assert found["reason"] == "CountsDisagree"
    assert found["message"] == "the operator counts 1 of 1 ready; by its Pods 0 of 1 serve"
    path = "/apis/modelplane.ai/v1alpha1/namespaces/ml/modeldeployments/qwen/status"
    status = {"status": {"replicas": {"ready": 0, "total": 1}}}
    await asyncio.to_thread(world.cluster.call, "PATCH", path, status, MERGE)
    await world.until(lambda: told() is None, "they agree again")
