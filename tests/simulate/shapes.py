"""What an exposition is made of, values aside: families with types, label names, enumerated label values, buckets."""

from __future__ import annotations

from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

ENUMERATED = (
    "finished_reason", "reason", "source", "sleep_state", "generation", "stage", "mode", "category", "phase", "kind",
    "rank_state", "is_streaming", "cache_source", "component", "gt", "outcome", "from", "to", "result", "error_type",
    "status_code", "error_code", "worker_type", "backend_type", "connection_mode", "router_type", "endpoint",
    "streaming", "policy", "transport", "rank", "engine", "dp_rank", "tp_rank", "engine_type", "status",
)  # fmt: skip
HTTP_FAMILIES = ("http_", "sglang:http_")


def types_of(text: str) -> dict[str, str]:
    return dict(line.split(" ")[2:4] for line in text.splitlines() if line.startswith("# TYPE "))


def owner(sample: str, types: dict[str, str]) -> str:
    if sample in types:
        return sample
    for suffix in ("_bucket", "_sum", "_count"):
        if sample.removesuffix(suffix) in types:
            return sample.removesuffix(suffix)
    raise AssertionError(f"sample {sample} belongs to no TYPE line")


def shape(text: str) -> set[str]:
    """One line for each fact about the shape of an exposition."""
    types = types_of(text)
    facts = {f"family {name} {kind}" for name, kind in types.items()}
    buckets: dict[str, list[str]] = defaultdict(list)
    for parsed in text_string_to_metric_families(text):
        for sample in parsed.samples:
            family = owner(sample.name, types)
            labels = dict(sample.labels)
            if sample.name.endswith("_bucket") and types[family] == "histogram":
                bound = labels["le"]
                if bound not in buckets[family]:
                    buckets[family].append(bound)
            facts.add(f"labels {sample.name} {','.join(sorted(labels))}")
            if family.startswith(HTTP_FAMILIES):
                continue
            facts |= {f"value {family} {name}={labels[name]}" for name in ENUMERATED if name in labels}
    return facts | {f"buckets {family} {' '.join(bounds)}" for family, bounds in buckets.items()}


def differences(recorded: str, simulated: str) -> set[str]:
    """Facts that hold for one of the two only, each marked with the side it holds for."""
    ours, theirs = shape(simulated), shape(recorded)
    return {f"recording only: {fact}" for fact in theirs - ours} | {f"simulator only: {fact}" for fact in ours - theirs}
