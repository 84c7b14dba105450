"""Cluster objects in GPUStack's published shape, small and changed by keyword: for tables of cases and a cluster dump."""

from __future__ import annotations

from typing import Any

import msgspec

from observer.discover.platforms.engine import Found, discover
from observer.discover.platforms.load import Platform, built_in
from observer.discover.platforms.world import World
from observer.kube.records import PodDecoder, document

NOW = 1_700_000_000.0
Object = dict[str, Any]
MD_UID = "uid-md"
LABEL = "modeldeployment.gpustack.ai/"


def gpustack() -> Platform:
    return next(each for each in built_in() if each.name == "gpustack")


def owner(kind: str, name: str, uid: str, api: str = "apps/v1") -> Object:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}


def md(
    name: str = "chat", namespace: str = "llm", spec: Object | None = None, status: Object | None = None, **meta: Any
) -> Object:
    base = {
        "model": {"name": "qwen3"},
        "engine": {"name": "vLLM", "version": "0.11.0"},
        "roles": [{"name": "server", "kind": "Server", "replicas": 2, "size": 1}],
    }
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": MD_UID,
            "generation": 3,
            "creationTimestamp": "2026-11-01T00:00:00Z",
            **meta,
        },
        "spec": {**base, **(spec or {})},
        **({"status": status} if status is not None else {}),
    }


def pod(name: str, role: str = "server", ordinal: int | None = 0, seat: int | None = 0, **changes: Any) -> Object:
    """``labels``, ``annotations`` (``None`` removes one), ``ip``, ``ready``, ``phase``, ``total``, ``owners``, ``port``."""
    labels = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": changes.get("instance", "chat"),
        "app.kubernetes.io/component": role,
        LABEL + "role-kind": changes.get("kind", "server"),
        LABEL + "pod-ordinal": None if ordinal is None else str(ordinal),
        LABEL + "member-index": None if seat is None else str(seat),
        LABEL + "endpoint-eligible": "true",
        **changes.get("labels", {}),
    }
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "8000",
        "prometheus.io/scheme": "http",
        "kueue.x-k8s.io/pod-group-total-count": changes.get("total"),
        **changes.get("annotations", {}),
    }
    container = {
        "name": "main",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "/weights", "--served-model-name", "qwen3"],
        "ports": [{"containerPort": 8000, "name": "http"}, {"containerPort": 5557, "name": "kv-events"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
        **changes.get("container", {}),
    }
    phase = changes.get("phase", "Running")
    ready = changes.get("ready", "True")
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": changes.get("namespace", "llm"),
            "uid": changes.get("uid", f"uid-{name}"),
            "labels": {key: value for key, value in labels.items() if value is not None},
            "annotations": {key: value for key, value in annotations.items() if value is not None},
            "ownerReferences": changes.get(
                "owners", [owner("ModelDeployment", "chat", MD_UID, "worker.gpustack.ai/v1alpha1")]
            ),
        },
        "spec": {"nodeName": "node-a", "containers": [container, *changes.get("beside", [])]},
        "status": {
            "phase": phase,
            "podIP": changes.get("ip", f"10.1.0.{len(name) + sum(map(ord, name)) % 200}"),
            "conditions": [] if ready is None else [{"type": "Ready", "status": ready}],
            "containerStatuses": [
                {"name": "main", "restartCount": 1, "state": {"running": {"startedAt": "2026-11-01T00:05:00Z"}}}
            ]
            if phase == "Running"
            else [],
        },
    }
    if changes.get("deleting"):
        made["metadata"]["deletionTimestamp"] = "2026-11-02T00:00:00Z"
    return made


def router_pod(name: str = "chat-router-x", router: str = "sglang-gateway", **changes: Any) -> Object:
    epp = router == "llm-d-router"
    containers = (
        [
            {"name": "envoy", "image": "envoy", "ports": [{"containerPort": 8081, "name": "http"}]},
            {
                "name": "epp",
                "image": "r",
                "ports": [{"containerPort": 9002, "name": "grpc"}, {"containerPort": 9090, "name": "metrics"}],
            },
        ]
        if epp
        else [
            {
                "name": "router",
                "image": "r",
                "ports": [{"containerPort": 8081, "name": "http"}, {"containerPort": 9090, "name": "metrics"}],
            }
        ]
    )
    made = pod(name, **{"owners": [owner("ReplicaSet", "chat-router-rs", "uid-rs")], **changes})
    made["metadata"]["labels"] = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        LABEL + "router": router,
        **changes.get("labels", {}),
    }
    made["metadata"]["annotations"] = {"prometheus.io/port": "9090", **changes.get("annotations", {})}
    made["spec"]["containers"] = containers
    return made


def replica_set(uid: str = "uid-rs", deployment: str = "uid-deploy") -> Object:
    meta = {
        "name": "chat-router-rs",
        "namespace": "llm",
        "uid": uid,
        "ownerReferences": [owner("Deployment", "chat-router", deployment)],
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta}


def deployment(uid: str = "uid-deploy", md_uid: str = MD_UID, ready: int | None = 1) -> Object:
    owners = [owner("ModelDeployment", "chat", md_uid, "worker.gpustack.ai/v1alpha1")]
    meta = {"name": "chat-router", "namespace": "llm", "uid": uid, "ownerReferences": owners}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "status": {} if ready is None else {"readyReplicas": ready},
    }


def thing(api: str, kind: str, name: str, namespace: str | None = "llm", **body: Any) -> Object:
    meta: Object = {"name": name, "uid": f"uid-{kind}-{name}".lower(), **body.pop("meta", {})}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": meta, **body}


def workload(
    name: str, *pods: str, spec: Object | None = None, conditions: list[Object] | None = None, **status: Any
) -> Object:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": each, "uid": f"uid-{each}"} for each in pods]
    held = (
        [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}] if conditions is None else conditions
    )
    return thing(
        "kueue.x-k8s.io/v1beta1",
        "Workload",
        name,
        meta={"ownerReferences": owners},
        spec=spec or {},
        status={"conditions": held, **status},
    )


def raw(value: Object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def world_of(platform: Platform, *objects: Object) -> World:
    """A world with these objects beside the target; every source is readable."""
    kinds = {source.kind: source.name for source in platform.document.sources}
    world = World(kinds.values())
    for each in objects:
        if each["kind"] == "Pod":
            world.put_pod(PodDecoder()(raw(each)))
        elif each["kind"] in kinds:
            world.put(kinds[each["kind"]], document(raw(each)))
    return world


def find(
    target: Object,
    *objects: Object,
    platform: Platform | None = None,
    world: World | None = None,
    refusal=lambda _: None,
) -> Found:
    platform = platform or gpustack()
    world = world or world_of(platform, *objects)
    return discover(platform, document(raw(target)), world, now=NOW, refusal=refusal)
