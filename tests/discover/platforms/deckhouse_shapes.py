"""Orders of Deckhouse's ai-inference module, small and changed by keyword, and what is told of one."""

from __future__ import annotations

from typing import Any

from observer.discover.platforms import built_in
from observer.discover.platforms.engine import Found
from observer.discover.platforms.load import Platform
from observer.judge.judgement import judge
from router_contract.judging import DeploymentInputs, JudgePolicy, MemberEvidence, Stored
from router_contract.readings import Instant
from router_contract.status import Explanation
from tests.discover.platforms.shapes import NOW, Object, find, owner, thing

API = "ai-inference.deckhouse.io/v1alpha1"
UID = "uid-inferenceservice-chat"
ORDER = ("ClassResolved", "ModelResolved", "Planned", "WorkloadReady", "Ready", "ScalingHealthy")


def deckhouse() -> Platform:
    return next(each for each in built_in() if each.name == "deckhouse")


def condition(kind: str, status: str = "True", reason: str = "Ok", message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def conditions(**changed: tuple[str, str, str]) -> list[Object]:
    """The six in their order, True where nothing else is said: ``Planned=(status, reason, message)``."""
    return [condition(kind, *changed.get(kind, ("True", "Ok", ""))) for kind in ORDER]


def order(phase: str = "Ready", status: Object | None = None, *, spec: Object | None = None, **changed: Any) -> Object:
    base = {
        "phase": phase,
        "conditions": conditions(**changed),
        "model": {"endpointType": "Chat"},
        "constraints": {"minReplicas": 1, "maxReplicas": 2, "priorityClassName": "batch"},
        "resolved": {"replanCount": 3},
    }
    return thing(
        API,
        "InferenceService",
        "chat",
        "team",
        meta={"generation": 1},
        spec={"inferenceServiceClassName": "default-llm", "model": {"huggingFace": "Qwen/Qwen3-8B"}, **(spec or {})},
        status={**base, **(status or {})},
    )


def keeps(kind: str = "StatefulSet", replicas: int = 1, name: str = "chat", of: str = "InferenceService") -> Object:
    """What keeps Pods, owned by the order (or a ReplicaSet by its Deployment)."""
    uid = UID if of == "InferenceService" else f"uid-{of}-{name}".lower()
    meta = {"ownerReferences": [owner(of, "chat", uid, API if of == "InferenceService" else "apps/v1")]}
    return thing("apps/v1", kind, name, "team", meta=meta, spec={"replicas": replicas})


def pod(
    name: str = "chat-0", kind: str = "StatefulSet", ready: str = "True", ip: str = "10.1.0.1", **labels: str
) -> Object:
    meta = {
        "labels": {"ai-inference.deckhouse.io/managed": "true", **labels},
        "ownerReferences": [owner(kind, "chat", f"uid-{kind}-chat".lower())],
    }
    container = {"name": "runtime", "image": "registry/vllm-openai:v0.11.0", "args": ["--model", "/m"], "ports": [{"name": "http", "containerPort": 8000}], "readinessProbe": {}}  # fmt: skip
    status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": ready}]}
    return thing("v1", "Pod", name, "team", meta=meta, spec={"containers": [container]}, status=status)


def found(of: Object, *objects: Object) -> Found:
    return find(of, *objects, platform=deckhouse())


def told(of: Object, *objects: Object) -> Explanation:
    """The explanation of an order whose Pods all answered a second ago."""
    made = found(of, *objects or (keeps(), pod())).discovered
    now = Instant(1000.0, NOW)
    at = Instant(999.0, NOW - 1)
    seen = tuple(
        MemberEvidence(uid=member.uid, first_seen=Instant(500.0, NOW - 500), incarnation="1", answered_at=at)
        for role in made.deployment.roles
        for member in role.members()
    )
    inputs = DeploymentInputs(deployment=made.deployment, facts=made.facts, members=seen)
    return judge(inputs, Stored(), now, JudgePolicy()).explanation
