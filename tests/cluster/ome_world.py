"""A simulated deployment as OME's objects in a real cluster: an InferenceService, its InferenceReplicas, Pods on loopback.

Nothing here judges: it writes what OME's controllers and a kubelet would have written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from observer.clock import SystemClock
from observer.simulate.deployment import SimulatedReplica
from observer.simulate.fleet import SimulatedFleet
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import MERGE, OURS, Operated, define, now
from tests.cluster.observed import Observed, Process
from tests.whole.world import small_fleet

Json = dict[str, Any]
VERSION = "ome.io/v1beta1"
HERE = Path(__file__).parent


class OmeService(Operated):
    """One InferenceService ``chat`` of OMENative components behind a router."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        base = f"/apis/{VERSION}/namespaces/{self.namespace}"
        self.path = f"{base}/inferenceservices/{self.name}"
        self.services = f"{base}/inferenceservices"
        self.replicas = f"{base}/inferencereplicas"
        self._owners: dict[str, Json] = {}

    def create_target(self) -> None:
        count = len(self.simulated.replicas)
        spec = {
            "deploymentMode": "OMENative",
            "model": {"name": "tiny-base"},
            "engine": {"minReplicas": count},
            "router": {"minReplicas": len(self.simulated.routers)},
        }
        body = {"apiVersion": VERSION, "kind": "InferenceService", "metadata": {"name": self.name}, "spec": spec}
        self.uid = str(self.cluster.call("POST", self.services, body)["metadata"]["uid"])
        for component, number in (("engine", count), ("router", len(self.simulated.routers))):
            self._create_replica(component, number)

    def _create_replica(self, component: str, count: int) -> None:
        name = f"{self.name}-{component}"
        owner = {
            "apiVersion": VERSION, "kind": "InferenceService", "name": self.name, "uid": self.uid, "controller": True,
        }  # fmt: skip
        spec = {
            "parentRef": {"name": self.name},
            "component": component,
            "replicas": count,
            "runners": [{"name": "default", "size": 1}],
        }
        meta = {"name": name, "ownerReferences": [owner]}
        made = self.cluster.call(
            "POST", self.replicas, {"apiVersion": VERSION, "kind": "InferenceReplica", "metadata": meta, "spec": spec}
        )
        self._owners[component] = {
            "apiVersion": VERSION, "kind": "InferenceReplica", "name": name, "uid": made["metadata"]["uid"],
        }  # fmt: skip
        rows = [{"index": index, "phase": "Ready", "podCount": 1, "servingPodCount": 1} for index in range(count)]
        self.rows(component, instanceStatuses=rows)

    def rows(self, component: str, **status: Any) -> None:
        """What OME writes of a component's Instances, the whole of it."""
        path = f"{self.replicas}/{self.name}-{component}"
        current = self.cluster.call("GET", path)
        told = {
            "observedGeneration": current["metadata"]["generation"],
            "labelSelector": f"ome.io/inferenceservice={self.name},component={component}",
            **status,
        }
        self.cluster.call("PUT", f"{path}/status", {**current, "status": told})

    def create_engine(self, replica: SimulatedReplica) -> None:
        port = replica.engine.listener.port
        words = ["--port", str(port), "--served-model-name", self.simulated.spec.model]
        self._member(replica.engine.name, "engine", replica.ordinal, "vllm-openai:test", words, port)

    def create_router(self) -> None:
        for ordinal, router in enumerate(self.simulated.routers):
            words = ["--port", str(router.api.port), "--prometheus-port", str(router.metrics.port)]
            self._member(router.name, "router", ordinal, "vllm-router:test", words, router.metrics.port)

    def _member(self, name: str, component: str, ordinal: int, image: str, words: list[str], port: int) -> None:
        labels = {
            "ome.io/inferenceservice": self.name,
            "component": component,
            "ome.io/revision-hash": "aaa",
            "ome.io/instance-index": str(ordinal),
            "ome.io/runner": "default",
        }
        container = {
            "name": "ome-container",
            "image": image,
            "args": words,
            "readinessProbe": {"httpGet": {"path": "/health", "port": port}},
        }
        self.pod(name, labels, self._owners[component], container, port)

    def pod_says(self, name: str, container: str = "ome-container", *, ready: bool, serving: bool = True) -> None:
        """What a kubelet writes of a Pod, and OME of its serving gate."""
        super().pod_says(name, container, ready=ready)
        word = "True" if ready else "False"
        kinds = {"Ready": word, "ContainersReady": word, "ome.io/serving": str(ready and serving)}
        conditions = [{"type": kind, "status": said, "lastTransitionTime": now()} for kind, said in kinds.items()]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self.cluster.call("PATCH", path, {"status": {"conditions": conditions}}, MERGE)

    def operator_writes(self, reason: str = "", **status: Any) -> None:
        """The whole status, as OME puts it."""
        current = self.cluster.call("GET", self.path)
        conditions = [
            {"type": kind, "status": "True"} for kind in ("EngineReady", "IngressReady", "Ready", "RouterReady")
        ]
        told = {"url": f"http://{self.name}.{self.namespace}.svc", "conditions": conditions, **status}
        self.cluster.call("PUT", f"{self.path}/status", {**current, "status": told})

    @property
    def observation(self) -> Json | None:
        return self._observation(f"ome-{self.name}")


@contextlib.asynccontextmanager
async def observed_service(cluster: ControlPlane, namespace: str) -> AsyncIterator[tuple[Observed, OmeService]]:
    """A simulated service with its objects in a namespace of its own, and an observer of that namespace."""
    for name in ("inferenceservices", "inferencereplicas", "rolloutpolicies"):
        define(cluster, HERE / f"{name}.yaml")
    define(cluster, OURS)
    define(cluster, OURS.with_name("canaryanalyses.yaml"))
    cluster.namespace(namespace)
    process = Process(cluster.folder, cluster.admin, namespace)
    async with SimulatedFleet(small_fleet(), clock=SystemClock()) as fleet:
        (simulated,) = fleet.deployments.values()
        service = OmeService(cluster, namespace, simulated)
        await asyncio.to_thread(service.create)
        process.start()
        try:
            yield Observed(cluster, fleet, service, process), service
        finally:
            await asyncio.to_thread(process.stop)
