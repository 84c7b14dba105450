"""Runs helm on the chart and gives what it renders as plain objects."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.cluster.control_plane import program

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "observer"
SERVER = "1.36.0"
"""The server's version that templates are rendered for, without one to ask."""

CLUSTER_WIDE: dict[str, Any] = {}
NAMESPACED: dict[str, Any] = {"watch": {"namespaces": ["team-a", "team-b"]}}
AGGREGATED: dict[str, Any] = {"apiService": {"enabled": True}}
GATE = {"name": "chat-canary", "namespace": "demo", "analysis": "chat-2", "component": "engine", "revision": "2"}
EVERYTHING: dict[str, Any] = {
    **AGGREGATED,
    "certificates": {"mode": "certManager"},
    "shards": 3,
    "platforms": {"ome": True},
    "extraConfig": {"fleet.yaml": "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\ndeployments: []\n"},
    "secretMounts": [{"name": "prometheus", "secretName": "prometheus-token"}],
    "serviceMonitor": {"enabled": True, "labels": {"release": "monitoring"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "monitoring"}},
    "dashboards": {"enabled": True},
    "gates": {"argoRollouts": [GATE], "examples": True},
    "networkPolicy": {"enabled": True},
    "priorityClassName": "system-cluster-critical",
    "settings": {
        "canary": {
            "secrets": [
                {"namespace": "team-a", "name": "prometheus"},
                {"namespace": "team-a", "name": "other"},
                {"namespace": "team-b", "name": "prometheus"},
            ]
        },
        "limits": {"targets": 1_000_000, "body": 33554432},
    },
}
MATRIX: dict[str, dict[str, Any]] = {
    "cluster-wide": CLUSTER_WIDE,
    "namespaced": NAMESPACED,
    "aggregated": AGGREGATED,
    "own certificate": {
        **AGGREGATED,
        "certificates": {"mode": "existingSecret", "existingSecret": {"name": "mine", "caBundle": "PEM"}},
    },
    "everything": EVERYTHING,
    "three shards": {"shards": 3},
    "one replica": {"replicas": 1},
    "nothing of ours made": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "theirs"},
        "auth": {"token": {"existingSecret": "theirs", "key": "bearer"}},
        "podDisruptionBudget": {"enabled": False},
        "antiAffinity": "none",
    },
    "required affinity": {"antiAffinity": "required", "hostNetwork": True},
}


class Refused(Exception):
    """helm did not render; the text is what it says."""


def helm(*arguments: str, values: dict[str, Any] | None = None) -> str:
    """What helm prints. Raises `Refused`."""
    given = [] if values is None else ["--values", "-"]
    done = subprocess.run(
        [program("helm"), *arguments, *given],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def rendered(
    values: dict[str, Any] | None = None, *, release: str = "observer", namespace: str = "observer", crds: bool = False
) -> list[dict[str, Any]]:
    """The objects of a release."""
    arguments = ["template", release, str(CHART), "--namespace", namespace, "--kube-version", SERVER]
    text = helm(*arguments, *(["--include-crds"] if crds else []), values=values or {})
    return [each for each in YAML(typ="safe").load_all(text) if each]


def of(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> list[dict[str, Any]]:
    """Those of a kind, and of a name where one is given."""
    return [each for each in objects if each["kind"] == kind and (name is None or each["metadata"]["name"] == name)]


def one(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The only one; `AssertionError` with what there is otherwise."""
    found = of(objects, kind, name)
    assert len(found) == 1, f"{kind} {name or ''}: found {[each['metadata']['name'] for each in found]}"
    return found[0]


def rules(objects: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Every rule with the role it stands in."""
    return [
        (f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}", rule)
        for kind in ("Role", "ClusterRole")
        for each in of(objects, kind)
        for rule in each["rules"]
    ]
