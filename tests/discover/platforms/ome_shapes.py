"""Objects in OME's published shape, small and changed by keyword."""

from __future__ import annotations

from typing import Any

from observer.discover.platforms.engine import Found, discover
from observer.discover.platforms.load import Platform, built_in
from observer.kube.records import document
from router_contract.platform_facts import SourceFault
from router_contract.platform_records import ComponentRecord, NoticeFact
from router_contract.targets import Role
from tests.discover.platforms.shapes import NOW, Object, owner, raw, world_of

API = "ome.io/v1beta1"
UID = "uid-isvc"
TIME = "2026-11-01T00:10:00Z"


def ome() -> Platform:
    return next(each for each in built_in() if each.name == "ome")


def isvc(spec: Object | None = None, status: Object | None = None, **meta: Any) -> Object:
    base = {"model": {"name": "qwen3"}, "engine": {"minReplicas": 2}, "deploymentMode": "OMENative"}
    return {
        "apiVersion": API,
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "llm", "uid": UID, "generation": 3, **meta},
        "spec": {key: value for key, value in {**base, **(spec or {})}.items() if value is not None},
        **({"status": status} if status is not None else {}),
    }


def row(index: int, phase: str = "Ready", **more: Any) -> Object:
    return {"index": index, "phase": phase, "podCount": 1, "servingPodCount": 1, "admitted": True, **more}


def operation(kind: str, **more: Any) -> Object:
    return {"id": "a", "type": kind, "step": "Drain", "startedAt": TIME, "lastProgressAt": TIME, **more}


def replica(
    *rows: Object, name: str = "chat-engine", spec: Object | None = None, status: Object | None = None, **meta: Any
) -> Object:
    """An InferenceReplica with dense rows; ``owned=False`` makes it a standalone one."""
    owned = meta.pop("owned", True)
    component = meta.pop("component", "engine")
    owners = [owner("InferenceService", "chat", UID, API)] if owned else []
    of = "chat" if owned else name
    told = {
        "observedGeneration": 5,
        "instanceStatuses": list(rows),
        "labelSelector": f"ome.io/inferenceservice={of},component={component}",
        **(status or {}),
    }
    base = {"component": component, "replicas": len(rows), "runners": [{"name": "default", "size": 1}]}
    return {
        "apiVersion": API,
        "kind": "InferenceReplica",
        "metadata": {
            "name": name,
            "namespace": "llm",
            "uid": f"uid-{name}",
            "generation": 5,
            "ownerReferences": owners,
            **meta,
        },
        "spec": {key: value for key, value in {**base, **(spec or {})}.items() if value is not None},
        "status": {key: value for key, value in told.items() if value is not None},
    }


def pod(name: str, index: int | None = 0, component: str = "engine", **changes: Any) -> Object:
    """``of`` (the service's name in the label), ``by`` (its InferenceReplica), ``runner``, ``serving``, ``ready``, ``labels``."""
    by = changes.get("by", f"chat-{component}")
    labels = {
        "ome.io/inferenceservice": changes.get("of", "chat"),
        "component": component,
        "ome.io/revision-hash": changes.get("revision", "aaa"),
        "ome.io/instance-index": None if index is None else str(index),
        "ome.io/runner": None if index is None else changes.get("runner", "default"),
        **changes.get("labels", {}),
    }
    ready, serving = changes.get("ready", "True"), changes.get("serving", "True")
    held = {"Ready": ready, "ContainersReady": changes.get("containers", ready), "ome.io/serving": serving}
    kind = "InferenceReplica" if index is not None else "ReplicaSet"
    container = {
        "name": "ome-container",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--port", "8080", "--served-model-name", "qwen3"],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8080}},
        **changes.get("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "llm",
            "uid": f"uid-{name}",
            "labels": {key: value for key, value in labels.items() if value is not None},
            "ownerReferences": [owner(kind, by, f"uid-{by}", API)],
        },
        "spec": {"nodeName": "node-a", "containers": [container]},
        "status": {
            "phase": "Running",
            "podIP": changes.get("ip", f"10.1.0.{sum(map(ord, name)) % 200 + 1}"),
            "conditions": [{"type": key, "status": value} for key, value in held.items() if value is not None],
            "containerStatuses": [
                {"name": "ome-container", "restartCount": 0, "state": {"running": {"startedAt": TIME}}}
            ],
        },
    }


def find(target: Object, *objects: Object, unread: str = "") -> Found:
    """What is found. ``unread`` is why InferenceReplicas cannot be read."""
    platform = ome()
    world = world_of(platform, *objects)
    if unread:
        world.faults["replicas", ""] = SourceFault(kind="InferenceReplica", why=unread, since=NOW)
    return discover(platform, document(raw(target)), world, now=NOW, refusal=lambda _: None)


def role(found: Found, name: str = "engine") -> Role:
    return next(each for each in found.discovered.deployment.roles if each.name == name)


def component(found: Found, name: str = "engine") -> ComponentRecord:
    return next(each for each in found.discovered.facts.records.components if each.name == name)


def told(found: Found) -> list[NoticeFact]:
    return list(found.discovered.facts.records.notices)
