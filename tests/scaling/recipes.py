"""The shipped scaling files, parsed, and the queries in them as a Prometheus is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "scaling"


def load(name: str) -> dict[str, Any]:
    """One file as plain dicts and lists."""
    found = YAML(typ="safe").load((FOLDER / name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def keda_query() -> str:
    """The trigger's query."""
    return str(load("keda.yaml")["spec"]["triggers"][0]["metadata"]["query"])


def adapter_query() -> str:
    """What prometheus-adapter asks for the metric of hpa.yaml, whose selector and namespace it fills in."""
    autoscaler = load("hpa.yaml")
    (rule,) = load("prometheus-adapter.yaml")["rules"]["external"]
    (metric,) = autoscaler["spec"]["metrics"]
    wanted = metric["external"]["metric"]
    assert wanted["name"] == rule["name"]["as"]
    labels = {"namespace": autoscaler["metadata"]["namespace"], **wanted["selector"]["matchLabels"]}
    return str(rule["metricsQuery"]).replace("<<.LabelMatchers>>", ",".join(f'{k}="{v}"' for k, v in labels.items()))
