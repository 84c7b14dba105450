"""Objects in Modelplane's published shape, small and changed by keyword."""

from __future__ import annotations

from typing import Any

from observer.discover.platforms import built_in
from observer.discover.platforms.engine import Found
from observer.discover.platforms.load import Platform
from tests.discover.platforms.shapes import Object, find, owner, thing

API = "modelplane.ai/v1alpha1"
UID = "uid-modeldeployment-qwen"
LWS = "leaderworkerset.sigs.k8s.io/"


def modelplane() -> Platform:
    return next(each for each in built_in() if each.name == "modelplane")


def engine(name: str = "qwen", nodes: int | None = None, **more: Any) -> Object:
    """An engine: one Standalone member, or with ``nodes`` a Leader and that many workers."""
    roles = ["Standalone"] if nodes is None else ["Leader", "Worker"]
    members: list[Object] = [{"role": role, "template": {"spec": {"containers": []}}} for role in roles]
    if nodes:
        members[1]["worker"] = {"nodes": nodes}
    return {"name": name, "members": members, **more}


def target(
    *engines: Object, replicas: int = 1, serving: Object | None = None, status: Object | None = None, **meta: Any
) -> Object:
    spec: Object = {"engines": list(engines or (engine(),)), **({"serving": serving} if serving else {})}
    made = {"replicas": replicas, "template": {"spec": spec}}
    return thing(API, "ModelDeployment", "qwen", "ml", meta=meta, spec=made, status=status or {})


def between(name: str = "qwen-a", cluster: str = "east", kind: str = "ModelReplica", **body: Any) -> Object:
    """A ModelReplica (or ModelEndpoint) that the deployment owns."""
    labels = {"modelplane.ai/deployment": "qwen", "modelplane.ai/cluster": cluster, "modelplane.ai/replica-index": "0"}
    meta = {
        "labels": labels,
        "ownerReferences": [owner("ModelDeployment", "qwen", UID, API)],
        "creationTimestamp": "2026-11-01T00:00:00Z",
    }
    return thing(API, kind, name, "ml", meta=meta, **body)


def endpoint(name: str = "qwen-a", url: str = "http://10.9.0.1/ml/qwen-a") -> Object:
    return between(name, kind="ModelEndpoint", spec={"url": url})


def pod(name: str, labels: Object, **changes: Any) -> Object:
    """An engine's Pod in the namespace of a workload cluster; ``beside`` are further containers."""
    ports = changes.pop("ports", [{"name": "http", "containerPort": 8000}])
    container = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.23.0",
        "args": ["--model=Qwen/Qwen3-8B"],
        "ports": ports,
    }
    ready = changes.pop("ready", "True")
    return thing(
        "v1",
        "Pod",
        name,
        changes.pop("namespace", "default"),
        meta={"labels": labels},
        spec={"containers": [*changes.pop("beside", []), container]},
        status={
            "phase": "Running",
            "podIP": changes.pop("ip", "10.1.0.1"),
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [
                {"name": "engine", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-01T00:05:00Z"}}}
            ],
        },
    )


def standalone(name: str, replica: str = "qwen-a", engine: str = "qwen", **changes: Any) -> Object:
    labels = {"modelplane.ai/serving": replica, "modelplane.ai/workload": f"{replica}-{engine}-1a2b3"}
    return pod(name, labels, **changes)


def gang(replica: str = "qwen-a", engine: str = "qwen", nodes: int = 1, group: str = "0") -> list[Object]:
    """A leader and its workers; workers carry labels of their LeaderWorkerSet only."""
    name = f"{replica}-{engine}"
    made = []
    for seat in range(nodes + 1):
        labels = {LWS + "name": name, LWS + "group-key": f"{name}-{group}", LWS + "worker-index": str(seat)}
        if seat == 0:
            labels |= {"modelplane.ai/serving": replica, "modelplane.ai/lws-role": "leader"}
        made.append(pod(f"{name}-{group}-{seat}", labels, ip=f"10.1.1.{seat + 1}"))
    return made


def picker(replica: str = "qwen-a", **changes: Any) -> Object:
    made = pod(f"{replica}-epp-x", {"app": f"{replica}-epp"}, ip="10.1.2.1", **changes)
    made["spec"]["containers"] = [
        {"name": "epp", "image": "picker:1", "ports": [{"name": "grpc", "containerPort": 9002}]}
    ]
    return made


def found(of: Object, *objects: Object, **more: Any) -> Found:
    return find(of, *objects, platform=modelplane(), **more)
