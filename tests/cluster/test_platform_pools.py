"""KServe, an llm-d pool with ranks, production-stack, plain Deployments and a platform of one own file, each with simulated
engines, behind a real kube-apiserver: found, read, judged, written, explained and shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
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
from tests.cluster.gpustack_world import OURS, define
from tests.cluster.observed import SETTINGS, Process
from tests.cluster.published import Json, Published, condition, engine, read

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
ENGINE = EngineSpec(software="vllm", model="tiny", token_seconds=0.0005)
EPP = RouterSpec(software="llm_d", health_interval=0.2)
NAMES = ("kserve", "llm-d", "production-stack", "deployments", "own")
OWN = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Platform
name: own
target: {group: own.example.com, version: v1alpha1, kind: Thing, plural: things}
model: spec.model
engine: {software: {fixed: vllm}}
pods: {labels: {own.example.com/thing: "{name}"}}
roles: [{name: {fixed: server}, desired: spec.replicas}]
api: {port: {port: http}}
metrics: {port: {port: http}}
facts: {order: [Warm]}
reasons: [{reason: Warming, course: WaitThenAct, whose: kettle, hint: it gets warm by itself}]
"""


def fleet() -> FleetSpec:
    pair = (
        RoleSpec(name="prefill", kind=RoleKind.PREFILL, engine=ENGINE),
        RoleSpec(name="decode", kind=RoleKind.DECODE, engine=ENGINE),
    )
    return FleetSpec(
        deployments=(
            DeploymentSpec(name="kserve", roles=pair, router=EPP, rate=5.0),
            DeploymentSpec(
                name="pool", roles=(RoleSpec(name="a-rank", replicas=2, engine=ENGINE),), router=EPP, rate=5.0
            ),
            DeploymentSpec(name="stack", roles=(RoleSpec(name="tiny", engine=ENGINE),), rate=2.0),
            DeploymentSpec(name="plain", roles=(RoleSpec(replicas=2, engine=ENGINE),), rate=2.0),
            DeploymentSpec(name="own", roles=(RoleSpec(engine=ENGINE),), rate=2.0),
        )
    )


class World:
    """All five, and who observes them."""

    def __init__(self, cluster: ControlPlane, simulated: dict[str, SimulatedDeployment], process: Process) -> None:
        self.cluster = cluster
        self.simulated = simulated
        self.process = process
        self.at = {name: Published(cluster, f"on-{name}") for name in NAMES}

    async def until(self, true: Callable[[], Any], what: str, seconds: float = 40.0) -> None:
        begun, last = time.monotonic(), None
        while time.monotonic() - begun < seconds:
            assert self.process.running, self.process.said[-3000:]
            with contextlib.suppress(OSError):
                last = await asyncio.to_thread(true)
                if last:
                    return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}: still {last!r} after {seconds:g} s\n{self.process.said[-2000:]}")

    def asked(self, platform: str, name: str, what: str) -> Json:
        code, text = self.process.ask(f"/api/v1/namespaces/on-{platform}/modeldeployments/{name}/{what}")
        assert code == 200, text
        return read(text)

    def page(self, platform: str, name: str) -> str:
        code, text = self.process.ask(f"/deployments/on-{platform}/{name}")
        assert code == 200, text
        return text

    async def serves(self, platform: str, name: str, **summary: str) -> Json:
        def holds() -> Json | None:
            status = self.at[platform].status(f"{platform}-{name}")
            return status if summary.items() <= status.get("summary", {}).items() else None

        with contextlib.suppress(AssertionError):
            await self.until(holds, "")
        status = self.at[platform].status(f"{platform}-{name}")
        assert summary.items() <= status.get("summary", {}).items(), (status.get("summary"), status.get("roles"))
        return status


def kserve(at: Published, simulated: SimulatedDeployment) -> None:
    api = "serving.kserve.io/v1alpha2"
    part = {"app.kubernetes.io/part-of": "llminferenceservice", "app.kubernetes.io/name": "chat"}
    component = "llminferenceservice-workload"
    spec = {
        "model": {"uri": "hf://example/tiny", "name": "tiny"},
        "replicas": 1,
        "prefill": {"replicas": 1},
        "router": {"scheduler": {"replicas": 1}},
    }
    status = {
        "observedGeneration": 1,
        "url": "http://gateway.example.com/chat",
        "conditions": [
            condition("PresetsCombined", "True"),
            condition("WorkloadsReady", "False", "MinimumReplicasUnavailable", "Deployment is not available."),
        ],
    }
    owner = at.put(api, "llminferenceservices", {"kind": "LLMInferenceService", "metadata": {"name": "chat"}, "spec": spec}, status)  # fmt: skip
    for replica in simulated.replicas:
        prefill = replica.role.name == "prefill"
        labels = {
            **part,
            "app.kubernetes.io/component": f"{component}-prefill" if prefill else component,
            "kserve.io/component": "workload",
            "llm-d.ai/role": replica.role.name,
        }
        kept = at.deployment(f"chat-kserve{'-prefill' if prefill else ''}", labels, owner, 1)
        at.pod(replica.engine.name, labels, engine(replica.engine, "main"), kept)
    labels = {**part, "app.kubernetes.io/component": "llminferenceservice-router-scheduler"}
    kept = at.deployment("chat-kserve-router-scheduler", labels, owner, 1)
    _picker(at, simulated, labels, "main", kept)


def _picker(at: Published, simulated: SimulatedDeployment, labels: Json, container: str, owner: Json | None) -> None:
    for router in simulated.routers:
        ports = [{"name": "metrics", "containerPort": router.metrics.port}]
        at.pod(router.name, labels, {"name": container, "image": "epp:1", "ports": ports}, owner)


def pool(at: Published, simulated: SimulatedDeployment) -> None:
    ports = [replica.engine.listener.port for replica in simulated.replicas]
    spec = {
        "selector": {"matchLabels": {"app": "dp"}},
        "targetPorts": [{"number": port} for port in ports],
        "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
    }
    parents = [{"parentRef": {"name": "gateway"}, "conditions": [condition("ResolvedRefs", "False", "InvalidExtensionRef", "service picker was not found")]}]  # fmt: skip
    at.put("inference.networking.k8s.io/v1", "inferencepools", {"kind": "InferencePool", "metadata": {"name": "pool"}, "spec": spec}, {"parents": parents})  # fmt: skip
    service = {"selector": {"epp": "pool"}, "clusterIP": "None", "ports": [{"port": 9002}]}
    at.put("v1", "services", {"kind": "Service", "metadata": {"name": "picker"}, "spec": service})
    at.pod("pool-a", {"app": "dp"}, engine(simulated.replicas[0].engine, "vllm", *ports))
    _picker(at, simulated, {"epp": "pool"}, "epp", None)


def stack(at: Published, simulated: SimulatedDeployment) -> None:
    (replica,) = simulated.replicas
    labels = {"model": "tiny", "helm-release-name": "stack", "environment": "test"}
    owner = at.deployment("stack-tiny-deployment-vllm", labels, None, 1)
    at.pod("stack-tiny-a", labels, engine(replica.engine, "vllm", port_name="container-port"), owner)
    router = {"environment": "router", "release": "router"}
    owner = at.deployment("stack-deployment-router", router, None, 1)
    ports = [{"name": "router-cport", "containerPort": 1}]
    at.pod("stack-router-a", router, {"name": "router-container", "image": "router:1", "ports": ports}, owner)


def plain(at: Published, simulated: SimulatedDeployment) -> None:
    mark = "observer.modeldeployment.io/"
    owner = at.deployment("plain", {"app": "plain"}, None, 2, labels={mark + "engine": "vllm", mark + "model": "tiny"})
    at.deployment("web", {"app": "web"}, None, 1)
    for replica in simulated.replicas:
        at.pod(replica.engine.name, {"app": "plain"}, engine(replica.engine, "server"), owner)


def own(at: Published, simulated: SimulatedDeployment) -> None:
    status = {"conditions": [condition("Warm", "False", "Warming", "the water is cold")]}
    body = {"kind": "Thing", "metadata": {"name": "tea"}, "spec": {"model": "tiny", "replicas": 1}}
    at.put("own.example.com/v1alpha1", "things", body, status)
    at.pod("tea-a", {"own.example.com/thing": "tea"}, engine(simulated.replicas[0].engine, "x"))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose kinds are those of this module's tests."""
    yield from _running(tmp_path_factory.mktemp("pools"))


@contextlib.asynccontextmanager
async def observed(plane: ControlPlane) -> AsyncIterator[World]:
    for file in (OURS, HERE / "llminferenceservices.yaml", HERE / "inferencepools.yaml"):
        define(plane, file)
    plane.define("own.example.com", "things", "Thing", conditions="atomic")
    file = plane.folder / "own.yaml"
    file.write_text(OWN)
    settings = SETTINGS.replace("NAMESPACE", ", ".join(f"on-{name}" for name in NAMES)) + f"  platforms: [{file}]\n"
    process = Process(plane.folder, plane.admin, "pools", settings)
    async with SimulatedFleet(fleet(), clock=SystemClock()) as running:
        world = World(plane, {each.spec.name: each for each in running.deployments.values()}, process)
        makers = {"kserve": kserve, "pool": pool, "stack": stack, "plain": plain, "own": own}
        for (name, make), at in zip(makers.items(), world.at.values(), strict=True):
            await asyncio.to_thread(make, at, world.simulated[name])
        process.start()
        try:
            yield world
        finally:
            await asyncio.to_thread(process.stop)


CASES = (
    # platform, deployment, what its observation sums up, a word of its own, and the advice for it
    ("kserve", "chat", {"eligible": "2", "serving": "2"}, "MinimumReplicasUnavailable", "too few Pods are ready"),
    ("llm-d", "pool", {"eligible": "1", "serving": "2"}, "InvalidExtensionRef", "does not exist or cannot be used"),
    ("production-stack", "stack", {"eligible": "Unknown", "serving": "Unknown"}, "", ""),
    ("deployments", "plain", {"eligible": "2", "serving": "NotConfigured"}, "", ""),
    ("own", "tea", {"eligible": "1", "serving": "NotConfigured"}, "Warming", "it gets warm by itself"),
)


async def test_each_platform_is_found_read_judged_written_explained_and_shown(plane: ControlPlane) -> None:
    async with observed(plane) as world:
        begun = time.monotonic()
        found = {platform: await world.serves(platform, name, **summary) for platform, name, summary, _, _ in CASES}
        print(f"figure: five platforms judged and written {time.monotonic() - begun:.1f} s after the observer began")
        for platform, name, _, word, hint in CASES:
            _conditions(found[platform])
            await asyncio.to_thread(_in_its_own_words, world, platform, name, word, hint)
        _ranks(found["llm-d"], await asyncio.to_thread(world.asked, "llm-d", "pool", "metrics"))
        _without_a_table(found["production-stack"])
        await _only_what_is_marked(world)
        await _a_rank_that_dies_takes_its_replica_along(world)


def _conditions(status: Json) -> None:
    """What nobody could look at is Unknown on each, never True or False; what is read is read."""
    by_type = {each["type"]: each for each in status["conditions"]}
    assert by_type["MetricsFresh"]["status"] == "True"
    assert by_type["RoleKindsReady"]["status"] == "True"
    for kind in ("CacheAttached", "DomainRegistered", "QuotaReserved", "WeightsReady"):
        assert (kind, by_type[kind]["status"], by_type[kind]["reason"]) == (kind, "Unknown", "NotObservable")
    assert by_type["KVEventsPublishing"]["status"] != "False", "no platform here says who publishes"


def _in_its_own_words(world: World, platform: str, name: str, word: str, hint: str) -> None:
    """The explanation and the page tell the platform's word and what its document advises."""
    told = " ".join(world.asked(platform, name, "explain")["sentences"])
    assert f"on-{platform}/{name}" in told
    page = world.page(platform, name)
    assert word in told
    assert word in page
    assert hint in told
    assert hint in page


def _ranks(status: Json, metrics: Json) -> None:
    (role,) = status["roles"]
    (group,) = role["groups"]
    assert [member["name"] for member in group["members"]] == ["pool-a-rank-0", "pool-a-rank-1"]
    legs = {leg["name"]: leg["state"] for leg in group["legs"]}
    assert legs["GroupForward"] == "Verified", "both ranks were seen to carry requests"
    assert "pool-a-rank-1" in json.dumps(metrics)


def _without_a_table(status: Json) -> None:
    (view,) = status["routerViews"]
    assert view["failure"]["kind"] == "UnknownSoftware"


async def _only_what_is_marked(world: World) -> None:
    path = "/apis/observer.modeldeployment.io/v1alpha1/namespaces/{}/modeldeploymentobservations"
    for platform, name, *_ in CASES:
        held = await asyncio.to_thread(world.cluster.call, "GET", path.format(f"on-{platform}"))
        assert [each["metadata"]["name"] for each in held["items"]] == [f"{platform}-{name}"]


async def _a_rank_that_dies_takes_its_replica_along(world: World) -> None:
    await world.simulated["pool"].replicas[1].engine.die()
    await world.serves("llm-d", "pool", eligible="0")
    (role,) = world.at["llm-d"].status("llm-d-pool")["roles"]
    assert role["groups"][0]["state"] != "Eligible", "the Pod is ready still, one of its ranks answers nothing"
