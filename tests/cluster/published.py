"""Simulated deployments as the objects that KServe, a pool, a Helm chart or a plain Deployment would have in a cluster.

Nothing here judges: it writes what those controllers, a kubelet and a scheduler would have written.
"""

from __future__ import annotations

import json
from typing import Any

from observer.simulate.engine import SimulatedEngine
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import MERGE, now

Json = dict[str, Any]
OBSERVATIONS = "/apis/observer.modeldeployment.io/v1alpha1"
IMAGE = "vllm/vllm-openai:v0.32.0"


class Published:
    """One namespace and what is written into it."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace(namespace)

    def put(self, api: str, plural: str, body: Json, status: Json | None = None) -> Json:
        """Make an object, and its status. What the owner reference of its children is."""
        base = f"/api/{api}" if "/" not in api else f"/apis/{api}"
        path = f"{base}/namespaces/{self.namespace}/{plural}"
        made = self.cluster.call("POST", path, {"apiVersion": api, **body})
        name = made["metadata"]["name"]
        if status is not None:
            self.cluster.call("PATCH", f"{path}/{name}/status", {"status": status}, MERGE)
        uid = made["metadata"]["uid"]
        return {"apiVersion": api, "kind": body["kind"], "name": name, "uid": uid, "controller": True}

    def deployment(self, name: str, selected: Json, owner: Json | None, count: int, **meta: Any) -> Json:
        """A Deployment and its ReplicaSet. The owner reference of their Pods."""
        template = {"metadata": {"labels": selected}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
        spec = {"replicas": count, "selector": {"matchLabels": selected}, "template": template}
        for kind, plural in (("Deployment", "deployments"), ("ReplicaSet", "replicasets")):
            owners = {"ownerReferences": [owner]} if owner is not None else {}
            body = {"kind": kind, "metadata": {"name": name, **meta, **owners}, "spec": spec}
            owner = self.put("apps/v1", plural, body, {"replicas": count, "readyReplicas": count})
            meta = {}
        assert owner is not None
        return owner

    def pod(self, name: str, labels: Json, container: Json, owner: Json | None = None) -> None:
        """A running, ready Pod on loopback."""
        owners = {"ownerReferences": [owner]} if owner is not None else {}
        meta = {"name": name, "labels": labels, **owners}
        self.put("v1", "pods", {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], "nodeName": "n"}})
        self.pod_says(name, container["name"], ready=True)

    def pod_says(self, name: str, container: str, *, ready: bool) -> None:
        """What a kubelet writes of a Pod."""
        told = {"name": container, "image": IMAGE, "imageID": "", "ready": ready, "started": True, "restartCount": 0}
        status = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": now()}],
            "containerStatuses": [{**told, "state": {"running": {"startedAt": now()}}}],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self.cluster.call("PATCH", path, {"status": status}, MERGE)

    def status(self, name: str) -> Json:
        """The stored observation's status, empty while there is none."""
        found = self.cluster.call("GET", f"{OBSERVATIONS}/namespaces/{self.namespace}/modeldeploymentobservations")
        return next((dict(each.get("status") or {}) for each in found["items"] if each["metadata"]["name"] == name), {})


def engine(of: SimulatedEngine, name: str, *ports: int, port_name: str = "http", probe: bool = True) -> Json:
    """The container of a simulated engine."""
    port = of.listener.port
    made: Json = {
        "name": name,
        "image": IMAGE,
        "args": ["--served-model-name", "tiny", "--port", str(port)],
        "ports": [{"containerPort": each} for each in ports] or [{"name": port_name, "containerPort": port}],
    }
    return {**made, "readinessProbe": {"httpGet": {"path": "/health", "port": port}}} if probe else made


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Json:
    """A condition as controllers write it."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}


def read(text: str) -> Json:
    """A JSON document."""
    found = json.loads(text)
    assert isinstance(found, dict)
    return found
