"""The ``Fleet`` document of a running simulation: the same static targets a user would write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from observer.simulate.deployment import SimulatedDeployment, SimulatedReplica
from observer.simulate.spec import RoleSpec

API_VERSION = "observer.modeldeployment.io/v1alpha1"
HOST = "127.0.0.1"
ROUTER_NAMES = {"vllm_router": "vllm-router", "sglang_gateway": "sglang-gateway", "llm_d": "llm-d"}


def _replica(replica: SimulatedReplica) -> dict[str, Any]:
    engine = replica.engine
    leader: dict[str, Any] = {"name": engine.name, "address": f"{HOST}:{engine.listener.port}"}
    leader["revision"] = replica.revision
    sources = engine.hook.sources()
    if sources:
        leader["kvEvents"] = [
            {"endpoint": source.endpoint, "rank": source.rank, "topic": source.topic}
            | ({"replayEndpoint": source.replay_endpoint} if source.replay_endpoint else {})
            for source in sources
        ]
    if replica.role.size > 1:
        leader["seat"] = 0
    followers = [
        {"name": f"{engine.name}-m{seat}", "address": f"{HOST}:{port}", "seat": seat, "serves": False}
        for seat, port in replica.follower_ports().items()
    ]
    entry: dict[str, Any] = {"ordinal": replica.ordinal, "members": [leader, *followers]}
    flags = {"retiring": replica.retiring, "replacing": replica.replacing}
    return entry | {name: True for name, flag in flags.items() if flag}


def _arguments(role: RoleSpec) -> list[str]:
    """What the engines of a role would have been started with, as far as it says how they are parallel."""
    vllm = role.engine.software == "vllm"
    tensor, data = ("--tensor-parallel-size", "--data-parallel-size") if vllm else ("--tp-size", "--dp-size")
    degrees = [tensor, str(max(role.engine.tp_size, role.size)), data, str(role.engine.dp_size)]
    return [*degrees, "--nnodes", str(role.size)] if role.size > 1 else degrees


def _role(deployment: SimulatedDeployment, role: RoleSpec) -> dict[str, Any]:
    replicas = sorted(
        (replica for replica in deployment.replicas if replica.role.name == role.name),
        key=lambda replica: replica.ordinal,
    )
    entry: dict[str, Any] = {
        "name": role.name,
        "kind": str(role.kind),
        "engine": {"name": role.engine.software, "version": role.engine.shown_version},
        "desired": role.replicas,
        "arguments": _arguments(role),
        "replicas": [_replica(replica) for replica in replicas],
    }
    return entry | {"size": role.size} if role.size > 1 else entry


def _deployment(deployment: SimulatedDeployment) -> dict[str, Any]:
    spec = deployment.spec
    document: dict[str, Any] = {
        "namespace": spec.namespace,
        "name": spec.name,
        "model": spec.model,
        "roles": [_role(deployment, role) for role in spec.roles],
    }
    if spec.router is not None:
        document["router"] = {
            "name": ROUTER_NAMES[spec.router.software],
            "version": spec.router.shown_version,
            "replicas": spec.router.replicas,
            "members": [
                {
                    "name": router.name,
                    "address": f"{HOST}:{router.api.port}",
                    "metricsPort": router.metrics.port,
                }
                for router in deployment.routers
            ],
        }
    return document


def fleet_document(deployments: Iterable[SimulatedDeployment]) -> dict[str, Any]:
    """The document as plain values, ready to be written as YAML or JSON (JSON is YAML too)."""
    return {"apiVersion": API_VERSION, "kind": "Fleet", "deployments": [_deployment(each) for each in deployments]}


def analysis_documents(deployments: Iterable[SimulatedDeployment]) -> list[dict[str, Any]]:
    """A ``CanaryAnalysis`` of each deployment that has a canary, quick enough to be watched."""
    return [_analysis(each) for each in deployments if each.canary]


def _analysis(deployment: SimulatedDeployment) -> dict[str, Any]:
    spec = deployment.spec
    errors = {
        "name": "errors",
        "operator": "LT",
        "threshold": "0.05",
        "native": {
            "kind": "ratio",
            "signal": "router-worker-outcomes",
            "total": "router-worker-outcomes",
            "where": {"outcome": "failure"},
        },
    }
    beside = {"name": "errors-beside-stable", "relative": {"margin": 2.0}, "native": errors["native"]}
    latency = {
        "name": "first-token",
        "relative": {"margin": 2.0},
        "native": {"kind": "quantile", "signal": "time-to-first-token", "quantile": 0.9},
    }
    gate = {"interval": "5s", "failureLimit": 1, "stallTimeout": "10m", "metrics": [errors, beside, latency]}
    return {
        "apiVersion": API_VERSION,
        "kind": "CanaryAnalysis",
        "metadata": {"namespace": spec.namespace, "name": f"{spec.name}-2"},
        "spec": {
            "targetRef": {"kind": "ModelDeployment", "name": spec.name},
            "component": "engine",
            "stable": {"revision": "1"},
            "canary": {"revision": "2"},
            "steps": [{"traffic": 30, "analysis": gate}, {"traffic": 100}],
        },
    }
