"""Discovery of GPUStack's objects on a real kube-apiserver: found, replaced, a watch cut, rights missing, a late kind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from observer.clock import SystemClock
from observer.discover.kubernetes import DiscoveryTuning, KubernetesDiscovery
from observer.discover.platforms import Platform, built_in, read_platform
from observer.kube.client import ApiClient
from observer.supervise import Supervisor
from router_contract.discovered import Discovered, ObjectReference
from router_contract.targets import DeploymentKey
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import MERGE, ROOT, define
from tests.cluster.running import QUICK, client_for
from tests.kube.steady import until

pytestmark = pytest.mark.cluster

GPUSTACK = next(each for each in built_in() if each.name == "gpustack")
TUNING = DiscoveryTuning(debounce=0.02, tick=0.1, grace=0.5)
API = "worker.gpustack.ai/v1alpha1"


class Heard:
    """What discovery hands on."""

    def __init__(self) -> None:
        self.applied: list[Sequence[Discovered]] = []
        self.objects: list[ObjectReference] = []

    async def apply(self, found: Sequence[Discovered]) -> None:
        self.applied.append(found)

    def named(self, namespace: str, name: str = "chat") -> Discovered | None:
        last = self.applied[-1] if self.applied else ()
        return next((each for each in last if each.deployment.key == DeploymentKey(namespace, name)), None)

    def members(self, namespace: str) -> list[str]:
        found = self.named(namespace)
        return [member.name for role in found.deployment.roles for member in role.members()] if found else []


@contextlib.asynccontextmanager
async def discovering(
    client: ApiClient, *namespaces: str, platforms: Sequence[Platform] = (GPUSTACK,), **more: Any
) -> AsyncIterator[tuple[KubernetesDiscovery, Heard]]:
    heard, clock = Heard(), SystemClock()
    async with Supervisor(clock) as supervisor:
        discovery = KubernetesDiscovery(
            client,
            platforms,
            namespaces=namespaces,
            clock=clock,
            supervisor=supervisor,
            allow=("127.0.0.0/8",),
            apply=heard.apply,
            on_object=heard.objects.append,
            tuning=TUNING,
            watching=QUICK,
            **more,
        )
        supervisor.start("discovery", discovery.run)
        yield discovery, heard


class World:
    """A namespace with one ModelDeployment of two replicas."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        define(cluster, ROOT / "tests" / "cluster" / "modeldeployments.yaml")
        self.cluster = cluster
        self.namespace = cluster.namespace(namespace)
        self.path = f"/apis/{API}/namespaces/{namespace}/modeldeployments"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        spec = {
            "model": {"name": "qwen3"},
            "engine": {"name": "vLLM"},
            "roles": [{"name": "server", "kind": "Server", "replicas": 2, "size": 1}],
            "router": {"name": "sglang-gateway"},
        }
        made = cluster.call(
            "POST",
            self.path,
            {"apiVersion": API, "kind": "ModelDeployment", "metadata": {"name": "chat"}, "spec": spec},
        )
        self.uid = made["metadata"]["uid"]

    def pod(self, name: str, ordinal: int, host: str) -> str:
        labels = {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "chat",
            "app.kubernetes.io/component": "server",
            "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
            "modeldeployment.gpustack.ai/member-index": "0",
        }
        owner = {"apiVersion": API, "kind": "ModelDeployment", "name": "chat", "uid": self.uid, "controller": True}
        return self._pod(name, labels, owner, host, "8000")

    def router(self, name: str, host: str) -> str:
        labels = {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "chat",
            "modeldeployment.gpustack.ai/router": "sglang-gateway",
        }
        owner = {"apiVersion": API, "kind": "ModelDeployment", "name": "chat", "uid": self.uid, "controller": True}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "router", "image": "r:1"}]}}
        base = f"/apis/apps/v1/namespaces/{self.namespace}"
        for kind, plural in (("Deployment", "deployments"), ("ReplicaSet", "replicasets")):
            meta = {"name": "chat-router", "ownerReferences": [owner]}
            spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
            made = self.cluster.call(
                "POST", f"{base}/{plural}", {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}
            )
            owner = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": "chat-router",
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        return self._pod(name, labels, owner, host, "9090")

    def _pod(self, name: str, labels: dict[str, str], owner: dict[str, Any], host: str, port: str) -> str:
        meta = {
            "name": name,
            "labels": labels,
            "annotations": {
                "prometheus.io/port": port,
                "prometheus.io/scheme": "http",
                "prometheus.io/path": "/metrics",
            },
            "ownerReferences": [owner],
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"containers": [{"name": "main", "image": "e:1"}]},
        }
        uid = self.cluster.call("POST", self.pods, body)["metadata"]["uid"]
        status = {"phase": "Running", "podIP": host, "conditions": [{"type": "Ready", "status": "True"}]}
        self.cluster.call("PATCH", f"{self.pods}/{name}/status", {"status": status}, MERGE)
        return str(uid)

    def remove(self, name: str) -> None:
        self.cluster.call("DELETE", f"{self.pods}/{name}?gracePeriodSeconds=0")


async def test_found_replaced_and_gone(cluster: ControlPlane) -> None:
    world = World(cluster, "found")
    first = world.pod("a", 0, "127.0.0.2")
    world.pod("b", 1, "127.0.0.3")
    world.router("front", "127.0.0.4")
    async with client_for(cluster.admin) as client, discovering(client) as (discovery, heard):
        await until(lambda: discovery.synced and heard.members("found") == ["a", "b"])
        found = heard.named("found")
        assert found is not None
        assert found.target is not None
        assert found.target.uid == world.uid
        assert [target.address.url for target in found.deployment.targets()] == [
            "http://127.0.0.2:8000/metrics",
            "http://127.0.0.3:8000/metrics",
            "http://127.0.0.4:9090/metrics",
        ]
        assert found.deployment.complete
        assert {fault.why for fault in found.facts.sources} == {"NotInstalled"}
        assert {fault.kind for fault in discovery.sources()} == {
            "Workload", "KVCachePoolBinding", "ModelArtifact", "KVCachePool", "ModelDeploymentScaler",
        }  # fmt: skip
        # other tests of the session may have left objects of theirs in this cluster
        (reference, *_) = [each for each in heard.objects if each.uid == world.uid]
        await until(lambda: (found := heard.named("found")) is not None and found.conditions_map is True)
        key = DeploymentKey("found", "chat")
        proof = await discovery.prove(key)
        assert proof is not None
        assert proof.members is not None
        assert {each.uid for each in proof.members} == {member.uid for member in found.deployment.roles[0].members()}
        assert await discovery.prove(DeploymentKey("found", "nobody")) is None
        world.remove("a")
        proof = await discovery.prove(key)
        assert proof is not None
        assert [each.uid == first for each in proof.members or ()] == [False], "the list is not the cache's"
        await until(lambda: heard.members("found") == ["b"])
        second = world.pod("a", 0, "127.0.0.5")
        await until(lambda: heard.members("found") == ["a", "b"])
        found = heard.named("found")
        assert found is not None
        member = next(found.deployment.roles[0].members())
        assert (member.uid, member.uid == first, member.host) == (second, False, "127.0.0.5")
        cluster.call("PATCH", f"{world.path}/chat", {"spec": {"roles": [{"name": "server", "replicas": 5}]}}, MERGE)
        await until(lambda: (found := heard.named("found")) is not None and found.deployment.roles[0].desired == 5)
        ignore = {"metadata": {"annotations": {"observer.modeldeployment.io/ignore": "true"}}}
        cluster.call("PATCH", f"{world.path}/chat", ignore, MERGE)
        await until(lambda: heard.named("found") is None)
        assert discovery.target(reference) is None
        cluster.call("PATCH", f"{world.path}/chat", {"metadata": {"annotations": None}}, MERGE)
        await until(lambda: heard.members("found") == ["a", "b"])
        cluster.call("DELETE", f"{world.path}/chat")
        await until(lambda: heard.named("found") is None)


async def test_a_watch_cut_with_a_delete_missed(breakable_cluster: ControlPlane) -> None:
    """While we cannot hear, one Pod goes, one comes: what is held stays, is called incomplete, and then is right."""
    cluster = breakable_cluster
    world = World(cluster, "cut")
    world.pod("a", 0, "127.0.0.2")
    world.pod("b", 1, "127.0.0.3")
    async with client_for(cluster.admin) as client, discovering(client, "cut") as (discovery, heard):
        await until(lambda: discovery.synced and heard.members("cut") == ["a", "b"])
        cluster.apiserver.kill()
        await until(lambda: (found := heard.named("cut")) is not None and not found.deployment.complete)
        assert heard.members("cut") == ["a", "b"]
        assert ("Pod", "Failing") in {(fault.kind, fault.why) for fault in discovery.sources()}
        cluster.apiserver.start()
        await asyncio.to_thread(cluster.wait_ready)
        world.remove("a")
        world.pod("c", 0, "127.0.0.4")
        await until(lambda: heard.members("cut") == ["c", "b"], 30)
        await until(lambda: (found := heard.named("cut")) is not None and found.deployment.complete, 30)


async def test_namespaces_with_roles_only(cluster: ControlPlane) -> None:
    """Who may read two namespaces sees those, each by an informer of its own; what is forbidden there is named."""
    worlds = [World(cluster, name) for name in ("only-a", "only-b", "only-c")]
    for world in worlds:
        world.pod("a", 0, "127.0.0.2")
    user = cluster.user("bounded")
    for name in ("only-a", "only-b"):
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}"
        verbs = ["get", "list", "watch"]
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
            {"apiGroups": ["worker.gpustack.ai"], "resources": ["modeldeployments"], "verbs": verbs},
        ]
        cluster.call("POST", f"{base}/roles", {"metadata": {"name": "observer"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "observer"}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bounded"}]
        cluster.call(
            "POST", f"{base}/rolebindings", {"metadata": {"name": "observer"}, "roleRef": role, "subjects": subjects}
        )
    async with (
        client_for(user) as client,
        discovering(client, "only-a", "only-b", sources=("deployments",)) as (discovery, heard),
    ):
        await until(lambda: discovery.synced and heard.members("only-a") == heard.members("only-b") == ["a"])
        assert {each.deployment.key.namespace for each in heard.applied[-1]} == {"only-a", "only-b"}
        found = heard.named("only-a")
        assert found is not None
        said = {fault.kind: (fault.why, fault.detail) for fault in found.facts.sources}
        assert said["Deployment"][0] == "Forbidden"
        assert said["Workload"] == ("Forbidden", "the source workloads is switched off")
        assert found.deployment.complete


LATE = """
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Platform
name: late
target: {group: late.discovery.example.com, version: v1alpha1, kind: Late, plural: lates, statusPolicy: Never}
model: spec.model
engine: {software: {fixed: vllm}}
pods: {labels: {late: "{name}"}}
roles: [{name: {fixed: server}, desired: spec.replicas}]
metrics: {port: {fixed: "8000"}}
"""


async def test_a_kind_that_is_not_installed_is_named_and_found_once_it_is(cluster: ControlPlane) -> None:
    late = read_platform(LATE)
    async with client_for(cluster.admin) as client, discovering(client, platforms=(late,)) as (discovery, heard):
        await until(lambda: discovery.synced)
        assert [(fault.kind, fault.why) for fault in discovery.sources()] == [("Late", "NotInstalled")]
        assert heard.applied == [()]
        cluster.define("late.discovery.example.com", "lates", "Late", conditions="atomic")
        cluster.namespace("late")
        body = {
            "apiVersion": "late.discovery.example.com/v1alpha1",
            "kind": "Late",
            "metadata": {"name": "chat"},
            "spec": {"replicas": 1},
        }
        cluster.call("POST", "/apis/late.discovery.example.com/v1alpha1/namespaces/late/lates", body)
        await until(lambda: heard.named("late") is not None, 20)
        assert discovery.sources() == ()
        meta = {"name": "a", "labels": {"late": "chat"}}
        spec = {"containers": [{"name": "main", "image": "e"}]}
        cluster.call("POST", "/api/v1/namespaces/late/pods", {"metadata": meta, "spec": spec})
        await until(lambda: heard.members("late") == ["a"])
        found = heard.named("late")
        assert found is not None
        assert found.conditions_map is False
