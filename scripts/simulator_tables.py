"""Derive the simulator's family tables from the recordings: run it again when a recording is added.

Writes observer/simulate/data/<software>-<version>-<variant>.json: families in the recorded order with type, bounds,
scope (``rank``: the labels of a rank are added; ``model``: those of the model; ``process``: none), label sets and the
value of a fresh start. ``lazy`` families and series appear only with their first event.
"""

from __future__ import annotations

import json
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "tests" / "recordings"
DATA = ROOT / "observer" / "simulate" / "data"

VARIANTS = {
    "vllm-0.32.0-single": ("vllm-0.32.0/metrics-02-warm.prom", "vllm-0.32.0/metrics-01-fresh.prom", ()),
    "vllm-0.32.0-multi": ("vllm-0.32.0/metrics-13-dp2-idle.prom", "vllm-0.32.0/metrics-10-dp2-fresh.prom", ()),
    "sglang-0.5.23-multi": (
        "sglang-0.5.23/metrics-05-after-abort-flush.prom",
        "sglang-0.5.23/metrics-01-fresh.prom",
        (("sglang-old-modules/sglang-0.5.23-collector-prefill.prom", "sglang:kv_transfer_"),),
    ),
}
RANK_LABELS = {"engine", "model_name", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank", "dp_rank"}
DYNAMIC = ("http_", "sglang:http_")
MEASURED = ("time", "tokens", "reqs", "latency", "usage", "ratio", "hit", "throughput", "seq_lens", "cpu")


def read(path: Path) -> dict[str, dict]:
    families: dict[str, dict] = {}
    for line in path.read_text().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            families[name] = {"name": name, "type": kind, "bounds": [], "rows": {}}
    owner = {}
    for name, family in families.items():
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}.get(
            family["type"], ("",)
        )
        owner.update({name + suffix: family for suffix in suffixes})
    for parsed in text_string_to_metric_families(path.read_text()):
        for sample in parsed.samples:
            family = owner[sample.name]
            labels = dict(sample.labels)
            if sample.name.endswith("_bucket") and family["type"] == "histogram":
                text = labels.pop("le")
                if text not in family["bounds"]:
                    family["bounds"].append(text)
            family["rows"].setdefault(tuple(sorted(labels.items())), sample.value)
    return families


def scope_of(rows: dict) -> str:
    names = {name for labels in rows for name, _ in labels}
    if "engine" in names or "tp_rank" in names:
        return "rank"
    return "model" if "model_name" in names else "process"


def entry(family: dict, fresh: dict | None) -> dict:
    scope = scope_of(family["rows"])
    if not family["rows"]:
        scope = "rank"
    dynamic = family["name"].startswith(DYNAMIC) and family["name"] not in (
        "http_request_duration_highr_seconds",
        "http_request_duration_highr_seconds_created",
    )
    series: dict[tuple, dict] = {}
    for labels in family["rows"]:
        extra = tuple((n, v) for n, v in labels if scope == "process" or n not in RANK_LABELS)
        if extra in series or dynamic:
            continue
        extra_text = {n: ("<pid>" if n == "pid" else v) for n, v in extra}
        row = {"labels": extra_text}
        seen = fresh is not None and any(
            set(extra) - {("pid", dict(extra).get("pid"))} <= set(other) for other in fresh["rows"]
        )
        if not seen:
            row["lazy"] = True
        if family["type"] == "gauge" and family["rows"] and not row.get("lazy"):
            start = next(
                v for other, v in fresh["rows"].items() if set(extra) - {("pid", dict(extra).get("pid"))} <= set(other)
            )
            if start:
                row["value"] = "NaN" if start != start else start
        series[extra] = row
    result = {"name": family["name"], "type": family["type"], "scope": scope}
    if family["bounds"]:
        result["bounds"] = family["bounds"]
    if dynamic:
        result["dynamic"] = True
    elif series and list(series.values()) != [{"labels": {}}]:
        result["series"] = list(series.values())
    base = sorted({n for labels in family["rows"] for n, _ in labels} & RANK_LABELS)
    if scope == "rank" and base and "model_name" not in base:
        result["base"] = base
    if fresh is None:
        result["lazy"] = True
        result.pop("series", None)
    return result


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for name, (warm_path, fresh_path, additions) in VARIANTS.items():
        warm, fresh = read(RECORDINGS / warm_path), read(RECORDINGS / fresh_path)
        created = {f for f in warm if f.endswith("_created")}
        families = [entry(family, fresh.get(n)) for n, family in warm.items() if n not in created]
        for family in families:
            base = family["name"].removesuffix("_total") if family["type"] == "counter" else family["name"]
            if base + "_created" in created:
                family["created"] = True
        for path, prefix in additions:
            families += [
                entry(family, None) | {"pd": True}
                for n, family in read(RECORDINGS / path).items()
                if n.startswith(prefix)
            ]
        target = DATA / f"{name}.json"
        body = ",\n".join(json.dumps(family, separators=(",", ":")) for family in families)
        target.write_text(f'{{"families":[\n{body}\n]}}\n')
        print(f"{target.relative_to(ROOT)}: {len(families)} families")


if __name__ == "__main__":
    main()
