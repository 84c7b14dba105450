"""The committed dashboards as tests read them: panels, queries with variables filled, names and labels in PromQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import promql_parser
from prometheus_client import ProcessCollector

from dashboards import dashboard_names, dashboard_text
from exporters.canary_families import canary_families
from exporters.families import FAMILIES
from exporters.family import FamilyType
from exporters.kv_families import kv_families
from exporters.self_metrics import SelfMetrics
from tests.exporters.canaries import Source as Canaries
from tests.exporters.test_kv import Source

VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
PLAIN = {
    "cluster": ".*",
    "ns_label": "namespace",
    "pod_label": "pod",
    "namespace": ".*",
    "deployment": ".*",
    "role": ".*",
    "pod": ".*",
    "ttft_objective": "1.0",
    "__rate_interval": "1m",
}
"""Values for reading a query, not for asking it."""
SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(frozen=True)
class Panel:
    """One panel of one dashboard."""

    uid: str
    document: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.uid} / {self.document['title']}"

    @property
    def queries(self) -> list[str]:
        return [target["expr"] for target in self.document["targets"]]


def documents() -> dict[str, dict[str, Any]]:
    return {uid: json.loads(dashboard_text(uid)) for uid in dashboard_names()}


def panels() -> list[Panel]:
    return [
        Panel(uid, panel)
        for uid, document in documents().items()
        for panel in document["panels"]
        if panel["type"] != "row"
    ]


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its variables replaced; an unknown one is a `KeyError`."""
    return VARIABLE.sub(lambda match: values[match.group(1) or match.group(2)], text)


def selectors(query: str) -> Iterator[tuple[str, set[str]]]:
    """Every selector of a query: the series name and the labels it matches. A query that is no PromQL is an error."""
    found: list[Any] = []
    promql_parser.walk(promql_parser.parse(query), found.append)
    for node in found:
        if isinstance(node, promql_parser.VectorSelector):
            yield node.name, {matcher.name for matcher in node.matchers.matchers} - {"__name__"}


def base(series: str) -> str:
    """The family of a series name."""
    known = labels_of_families()
    if series in known:
        return series
    return next((series.removesuffix(end) for end in SUFFIXES if series.endswith(end)), series)


def labels_of_families() -> dict[str, set[str]]:
    """Every family that can be exposed, by the name of its series, with its labels."""
    found: dict[str, set[str]] = {}
    for family in (*FAMILIES, *kv_families(Source()), *canary_families(Canaries())):
        found[family.name] = {*family.labels, *({"le"} if family.type is FamilyType.HISTOGRAM else ())}
    tally = SelfMetrics("0", "3")
    ProcessCollector(registry=tally.registry)
    for collector in tally.registry._collector_to_names:
        for metric in collector.describe() if hasattr(collector, "describe") else collector.collect():
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            labels = set(getattr(collector, "_labelnames", ()))
            found[name] = {*labels, *({"le"} if metric.type == "histogram" else ())}
    return found
