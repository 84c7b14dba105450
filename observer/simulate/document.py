"""The ``Fleet`` document of a running simulation: the same static targets a user would write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from observer.simulate.deployment import SimulatedDeployment, SimulatedReplica
from observer.simulate.spec import ROUTER_VERSIONS

API_VERSION = "observer.modeldeployment.io/v1alpha1"


def _member(replica: SimulatedReplica) -> dict[str, Any]:
    engine = replica.engine
    member: dict[str, Any] = {"name": engine.name, "host": "127.0.0.1", "port": engine.listener.port}
    sources = engine.hook.sources()
    if sources:
        member["kvEvents"] = [
            {"endpoint": source.endpoint, "rank": source.rank, "topic": source.topic}
            | ({"replayEndpoint": source.replay_endpoint} if source.replay_endpoint else {})
            for source in sources
        ]
    return member


def _deployment(deployment: SimulatedDeployment) -> dict[str, Any]:
    spec = deployment.spec
    roles = []
    for role in spec.roles:
        replicas = [replica for replica in deployment.replicas if replica.role.name == role.name]
        entry: dict[str, Any] = {
            "name": role.name,
            "kind": str(role.kind),
            "engine": role.engine.software,
            "engineVersion": role.engine.shown_version,
            "desired": role.replicas,
            "replicas": [
                {"ordinal": replica.ordinal, "members": [_member(replica)]}
                for replica in sorted(replicas, key=lambda replica: replica.ordinal)
            ],
        }
        if role.size > 1:
            entry["size"] = role.size
        roles.append(entry)
    document: dict[str, Any] = {"namespace": spec.namespace, "name": spec.name, "model": spec.model, "roles": roles}
    if spec.router is not None:
        document["router"] = {
            "name": deployment.routers[0].name.rsplit("-", 1)[0],
            "software": spec.router.software,
            "version": ROUTER_VERSIONS[spec.router.software],
            "desired": spec.router.replicas,
            "members": [
                {
                    "name": router.name,
                    "host": "127.0.0.1",
                    "port": router.api.port,
                    "metricsPort": router.metrics.port,
                }
                for router in deployment.routers
            ],
        }
    return document


def fleet_document(deployments: Iterable[SimulatedDeployment]) -> dict[str, Any]:
    """The document as plain values, ready to be written as YAML or JSON."""
    return {"apiVersion": API_VERSION, "kind": "Fleet", "deployments": [_deployment(each) for each in deployments]}
