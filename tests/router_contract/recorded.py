"""The recordings by program and version, and what they hold, read with prometheus_client only."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from router_contract.catalog import lookup
from router_contract.signals import SIGNALS, Kind
from router_contract.targets import Component
from router_contract.vocabulary import Term, Vocabulary

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"


class Body(NamedTuple):
    """One recorded exposition: whose it is, of which release, and whether a real program wrote it."""

    path: Path
    table: Vocabulary
    version: str | None
    real: bool = True

    @property
    def label(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


class Family(NamedTuple):
    """A family by the name on its TYPE line, its type, and (sample name, labels, value) of each sample."""

    name: str
    type: str
    samples: tuple[tuple[str, dict[str, str], float], ...]


_SOURCES: tuple[tuple[str, str, Component, str, str | None, bool], ...] = (
    ("vllm-0.32.0", "*.prom", Component.ENGINE, "vllm", "0.32.0", True),
    ("vllm-old-modules", "vllm-0.9.0.1-*.prom", Component.ENGINE, "vllm", "0.9.0.1", True),
    ("vllm-old-modules", "vllm-0.10.2-*.prom", Component.ENGINE, "vllm", "0.10.2", True),
    ("lmcache-0.5.6", "vllm-*.prom", Component.ENGINE, "vllm", "0.32.0", True),
    ("sglang-0.5.23", "*.prom", Component.ENGINE, "sglang", "0.5.23", True),
    ("sglang-old-modules", "sglang-0.4.6.post5.prom", Component.ENGINE, "sglang", "0.4.6.post5", True),
    ("sglang-old-modules", "sglang-0.4.10.post2.prom", Component.ENGINE, "sglang", "0.4.10.post2", True),
    ("sglang-old-modules", "sglang-0.5.23-*.prom", Component.ENGINE, "sglang", "0.5.23", True),
    ("sglang-router-0.1.9", "*.prom", Component.ROUTER, "sglang_gateway", "0.1.9", True),
    ("sglang-router-0.2.4", "*.prom", Component.ROUTER, "sglang_gateway", "0.2.4", True),
    ("sglang-router-0.3.2", "*.prom", Component.ROUTER, "sglang_gateway", "0.3.2", True),
    ("vllm-router-0.1.17", "*.prom", Component.ROUTER, "vllm_router", "0.1.17", True),
    ("synthetic", "epp-v0.8-*.prom", Component.ROUTER, "llm_d", "v0.8", False),
    ("synthetic", "epp-v0.10-*.prom", Component.ROUTER, "llm_d", "v0.10", False),
    ("mooncake-0.3.13.post1", "*.prom", Component.STORE, "mooncake", "0.3.13.post1", True),
    ("lmcache-0.5.6", "metrics-*.prom", Component.STORE, "lmcache", "0.5.6", True),
)

BODIES = tuple(
    Body(path, lookup(component, name), version, real)
    for folder, pattern, component, name, version, real in _SOURCES
    for path in sorted((RECORDINGS / folder).glob(pattern))
)


@cache
def families(path: Path) -> tuple[Family, ...]:
    """Every family of a body, TYPE-only ones included."""
    found = []
    for metric in text_string_to_metric_families(path.read_text()):
        samples = tuple((sample.name, dict(sample.labels), sample.value) for sample in metric.samples)
        wire = f"{metric.name}_total" if any(name == f"{metric.name}_total" for name, _, _ in samples) else metric.name
        found.append(Family(wire, metric.type, samples))
    return tuple(found)


def wire_kind(term: Term) -> Kind:
    return SIGNALS[term.signal].kind if term.kind is None else term.kind


_TYPES = {Kind.GAUGE: {"gauge"}, Kind.INFO: {"gauge", "info"}, Kind.COUNTER: {"counter"}, Kind.HISTOGRAM: {"histogram"}}


def matched(term: Term, path: Path) -> list[tuple[dict[str, str], float]]:
    """The samples of a body that the row reads as a value of the right type, with every label that it keeps."""
    kind = wire_kind(term)
    # prometheus_client gives every counter's sample `_total`, also where the wire has none.
    names = {f"{term.name}_count"} if kind is Kind.HISTOGRAM else {term.name}
    if kind is Kind.COUNTER:
        names.add(f"{term.name.removesuffix('_total')}_total")
    hits = []
    for family in families(path):
        if family.type not in _TYPES[kind] or not family.name.startswith(term.name.removesuffix("_total")):
            continue
        for sample, labels, value in family.samples:
            if sample not in names or not all(m.accepts(labels.get(m.label, "")) for m in term.match):
                continue
            if not all(wire in labels for _, wire in term.keep) or value in term.sentinels:
                continue
            if term.value_label is not None and not labels.get(term.value_label, "").replace(".", "", 1).isdigit():
                continue
            hits.append((labels, value))
    return hits
