"""A simulated deployment as its objects in a real cluster: the operator's object, Pods on loopback, the router's owners.

Nothing here judges: it writes what an operator, a kubelet and a scheduler would have written.
"""

from __future__ import annotations

import datetime as dt
import time
import urllib.error
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from observer.simulate.deployment import SimulatedDeployment, SimulatedReplica
from tests.cluster.control_plane import ControlPlane

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "charts" / "observer" / "crds" / "modeldeploymentobservations.yaml"
GROUP = "worker.gpustack.ai"
VERSION = f"{GROUP}/v1alpha1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


def define(cluster: ControlPlane, file: Path) -> str:
    """Make a definition of a file and wait until it is served. Its name."""
    body = YAML(typ="safe").load(file)
    name = str(body["metadata"]["name"])
    try:
        cluster.call("POST", CRDS, body)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = cluster.call("GET", f"{CRDS}/{name}").get("status", {}).get("conditions") or []
        if any(each["type"] == "Established" and each["status"] == "True" for each in found):
            wrong = [each for each in found if each["type"] == "NonStructuralSchema"]
            assert not wrong, wrong
            return name
        time.sleep(0.05)
    raise AssertionError(f"{name} is not established")


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Operated:
    """One simulated deployment in a namespace, under its own name; `create` makes every object of it."""

    def __init__(self, cluster: ControlPlane, namespace: str, simulated: SimulatedDeployment) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.simulated = simulated
        self.name = simulated.spec.name
        self.model_deployments = f"/apis/{VERSION}/namespaces/{namespace}/modeldeployments"
        self.observations = (
            f"/apis/observer.modeldeployment.io/v1alpha1/namespaces/{namespace}/modeldeploymentobservations"
        )
        self.path = f"{self.model_deployments}/{self.name}"
        self.uid = ""

    def create(self) -> None:
        self.create_target()
        for replica in self.simulated.replicas:
            self.create_engine(replica)
        self.create_router()
        self.operator_writes()

    @property
    def spec(self) -> Json:
        roles = [
            {"name": role.name, "kind": str(role.kind), "replicas": role.replicas, "size": role.size}
            for role in self.simulated.spec.roles
        ]
        return {
            "model": {"name": self.simulated.spec.model},
            "engine": {"name": "vLLM"},
            "roles": roles,
            "router": {"name": "vllm-router", "replicas": len(self.simulated.routers)},
        }

    @property
    def contract(self) -> Json:
        """What the operator publishes of the router."""
        roles = [
            {
                "name": role.name,
                "kind": str(role.kind),
                "selector": {
                    **self._labels(),
                    "app.kubernetes.io/component": role.name,
                    "modeldeployment.gpustack.ai/role-kind": str(role.kind).lower(),
                    "modeldeployment.gpustack.ai/member-index": "0",
                },
                "endpoint": f"http://{self.name}-{role.name}.{self.namespace}.svc:8000",
            }
            for role in self.simulated.spec.roles
        ]
        endpoint = f"http://{self.name}-router.{self.namespace}.svc:8081"
        return {"name": "vllm-router", "endpoint": endpoint, "roles": roles}

    def create_target(self) -> None:
        body = {
            "apiVersion": VERSION,
            "kind": "ModelDeployment",
            "metadata": {"name": self.name, "labels": {"team": "chat"}},
            "spec": self.spec,
        }
        self.uid = str(self.cluster.call("POST", self.model_deployments, body)["metadata"]["uid"])

    def create_engine(self, replica: SimulatedReplica) -> None:
        port = replica.engine.listener.port
        labels = {
            **self._labels(),
            "app.kubernetes.io/component": replica.role.name,
            "modeldeployment.gpustack.ai/role-kind": str(replica.role.kind).lower(),
            "modeldeployment.gpustack.ai/pod-ordinal": str(replica.ordinal),
            "modeldeployment.gpustack.ai/member-index": "0",
        }
        owner = {"apiVersion": VERSION, "kind": "ModelDeployment", "name": self.name, "uid": self.uid}
        probe = {"httpGet": {"path": "/health", "port": port}}
        container = {"name": "main", "image": "engine:1", "ports": [{"containerPort": port}], "readinessProbe": probe}
        self.pod(replica.engine.name, labels, owner, container, port)

    def create_router(self) -> None:
        """The router's Deployment, its ReplicaSet and its Pods, each owned by the one before."""
        name, base = f"{self.name}-router", f"/apis/apps/v1/namespaces/{self.namespace}"
        labels = {**self._labels(), "modeldeployment.gpustack.ai/router": "vllm-router"}
        owner = {"apiVersion": VERSION, "kind": "ModelDeployment", "name": self.name, "uid": self.uid}
        count = len(self.simulated.routers)
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "router", "image": "router:1"}]},
        }
        spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
        for kind, plural in (("Deployment", "deployments"), ("ReplicaSet", "replicasets")):
            body = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]},
                "spec": spec,
            }
            made = self.cluster.call("POST", f"{base}/{plural}", body)
            status = {"status": {"replicas": count, "readyReplicas": count}}
            self.cluster.call("PATCH", f"{base}/{plural}/{name}/status", status, MERGE)
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": made["metadata"]["uid"]}
        for router in self.simulated.routers:
            ports = [
                {"name": "http", "containerPort": router.api.port},
                {"name": "metrics", "containerPort": router.metrics.port},
            ]
            self.pod(
                router.name, labels, owner, {"name": "router", "image": "router:1", "ports": ports}, router.metrics.port
            )

    def pod(self, name: str, labels: Json, owner: Json, container: Json, metrics: int) -> None:
        """A running, ready Pod on loopback."""
        annotations = {
            "prometheus.io/scrape": "true",
            "prometheus.io/path": "/metrics",
            "prometheus.io/port": str(metrics),
            "prometheus.io/scheme": "http",
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"containers": [container], "nodeName": "node-1"},
        }
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.cluster.call("POST", pods, body)
        self.pod_says(name, container["name"], ready=True)

    def pod_says(self, name: str, container: str = "main", *, ready: bool) -> None:
        """What a kubelet writes of a Pod."""
        word = "True" if ready else "False"
        status = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": word, "lastTransitionTime": now()}],
            "containerStatuses": [
                {
                    "name": container,
                    "image": "image:1",
                    "imageID": "",
                    "ready": ready,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now()}},
                }
            ],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self.cluster.call("PATCH", path, {"status": status}, MERGE)

    def operator_writes(self, reason: str = "Reconciled") -> None:
        """The whole status, as an operator that rebuilds it each time puts it."""
        current = self.cluster.call("GET", self.path)
        count = sum(role.replicas for role in self.simulated.spec.roles)
        condition = {
            "type": "RoleKindsReady",
            "status": "True",
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": current["metadata"]["generation"],
        }
        roles = [
            {"name": role.name, "desired": role.replicas, "ready": role.replicas} for role in self.simulated.spec.roles
        ]
        status = {
            "phase": "Ready",
            "roleSummary": f"{len(self.simulated.routers)}R{count}S",
            "conditions": [condition],
            "roles": roles,
            "router": self.contract,
        }
        self.cluster.call("PUT", f"{self.path}/status", {**current, "status": status})

    def delete(self) -> None:
        """The object goes, and what the garbage collector would take with it, but not the observation: that is ours."""
        self.cluster.call("DELETE", self.path)
        for kind, selector in (("pods", "/api/v1"), ("deployments", "/apis/apps/v1"), ("replicasets", "/apis/apps/v1")):
            base = f"{selector}/namespaces/{self.namespace}/{kind}"
            query = f"labelSelector=app.kubernetes.io/instance={self.name}"
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            self.cluster.call("DELETE", f"{base}?{query}", body)

    @property
    def observation(self) -> Json | None:
        """The stored observation, ``None`` when there is none."""
        return self._observation(f"gpustack-{self.name}")

    def _observation(self, name: str) -> Json | None:
        try:
            return dict(self.cluster.call("GET", f"{self.observations}/{name}"))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    @property
    def status(self) -> Json:
        return dict((self.observation or {}).get("status") or {})

    @property
    def conditions(self) -> dict[str, Json]:
        return {each["type"]: each for each in self.status.get("conditions", ())}

    @property
    def target_conditions(self) -> dict[str, Json]:
        found = self.cluster.call("GET", self.path).get("status", {}).get("conditions", ())
        return {each["type"]: each for each in found}

    def events(self) -> list[Json]:
        """Every Event about the object or its observation."""
        items = self.cluster.call("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        return [each for each in items if self.name in each["regarding"]["name"]]

    def _labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": "model-deployment", "app.kubernetes.io/instance": self.name}
