"""Tables for a terminal, made from the JSON of the API: deployments by role, targets, and one metrics document.

What is not known is shown as ``-``, never as 0. Every function takes plain JSON values and returns something to print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from exporters.grid import UNKNOWN, cells_of, columns_of, grid

Json = Mapping[str, Any]

_STYLES = {
    "Complete": "green",
    "Partial": "yellow",
    "Unavailable": "red",
    "Up": "green",
    "Failing": "red",
    "Pending": "yellow",
    "Shed": "magenta",
    "Fresh": "",
    "Stale": "yellow",
    "Ready": "green",
    "Degraded": "yellow",
    "Starting": "yellow",
    "Deleting": "magenta",
}


def number(value: float | None) -> str:
    """A count or level: whole below 10,000, then with k, M or G."""
    if value is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f}{unit}"
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def seconds(value: float | None) -> str:
    """A time: microseconds to hours, two or three digits."""
    if value is None:
        return UNKNOWN
    if value < 0.001:
        return f"{value * 1e6:.0f}µs" if value else "0s"
    if value < 1:
        return f"{value * 1e3:.0f}ms" if value >= 0.01 else f"{value * 1e3:.1f}ms"
    if value < 100:
        return f"{value:.1f}s" if value < 10 else f"{value:.0f}s"
    return f"{value / 60:.0f}m" if value < 6000 else f"{value / 3600:.0f}h"


def percent(value: float | None) -> str:
    """A fraction as a percentage."""
    return UNKNOWN if value is None else f"{value * 100:.1f}%" if value < 0.1 else f"{value * 100:.0f}%"


def size(value: float | None) -> str:
    """Bytes with a binary unit."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f}{unit}" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}GiB"


def amount(value: float, unit: str) -> str:
    """A value of a document in its unit."""
    if unit == "seconds":
        return seconds(value)
    if unit == "milliseconds":
        return seconds(value / 1e3)
    if unit == "fraction":
        return percent(value)
    return f"{number(value)}/s" if unit.endswith("/second") and not unit.startswith("GB") else number(value)


def state(name: str) -> Text:
    """A state in its colour."""
    return Text(name, _STYLES.get(name, ""))


def _of(observed: int | None, desired: int | None) -> Text:
    text = f"{number(observed)}/{number(desired)}"
    return Text(text, "yellow" if observed is not None and desired is not None and observed < desired else "")


def _quantile(entry: Json | None, name: str) -> float | None:
    estimate = (entry or {}).get(name)
    return estimate["value"] if estimate else None


DEPLOYMENTS = columns_of(
    "NAMESPACE 2, DEPLOYMENT, PHASE, ROLES 8, ROLE, SOFTWARE 7, REPLICAS>, ELIGIBLE>, SERVING> 3, RUNNING> 1, "
    "WAITING> 1, KV> 8, TTFT P50> 5, P90> 6, REQ/S> 4, ERRORS> 4, AGE> 9, STATE 2"
)
DEPLOYMENTS_WIDE = (*DEPLOYMENTS, *columns_of("KIND 8, MODEL 8, ITL P50> 8, P90> 8, TARGETS UP> 8, WHY~"))


def deployments(items: Sequence[Json], *, wide: bool = False, width: int | None = None) -> Table:
    """Deployments (summaries as ``/api/v1/deployments`` lists them), a line for each role and for the router."""
    rows = []
    for item in items:
        names: list[str | Text] = [item["namespace"], item["name"], _phase(item), item["roleSummary"] or UNKNOWN]
        ends: list[str | Text] = [seconds(item["ageSeconds"]), state(item["state"])]
        targets = item["targets"]
        about = [f"{targets['Up']}/{sum(targets.values())}", item["message"]]
        for line in _lines(item):
            more = [line["kind"], item["model"] or UNKNOWN, line["itl50"], line["itl90"], *about] if wide else []
            rows.append(cells_of([*names, *line["cells"], *ends, *more]))
            names, ends, about = [""] * 4, ["", ""], ["", ""]
    return grid(DEPLOYMENTS_WIDE if wide else DEPLOYMENTS, rows, width)


def _phase(item: Json) -> Text:
    """The phase, and in a word why it is not all well."""
    answer = item["answer"]
    text = item["phase"] or UNKNOWN
    return Text(f"{text}: {answer['reason']}" if answer else text, _STYLES.get(text, ""))


def _eligible(role: Json) -> Text:
    eligible, desired = role["eligible"], role["desired"]
    return Text(number(eligible), "yellow" if None not in {eligible, desired} and eligible < desired else "")


def _serving(role: Json) -> str | Text:
    """How many endpoints the routers confirm; empty without a router."""
    serving = role["serving"]
    if serving is None or serving["state"] == "Unknown":
        return UNKNOWN
    if serving["state"] == "NotConfigured":
        return ""
    return number(serving["value"]) if serving["state"] == "Confirmed" else Text(serving["state"], "yellow")


def _lines(item: Json) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for role in item["roles"]:
        ttft, itl = role["ttft"], role["itl"]
        cells: list[str | Text] = [
            role["name"],
            role["engine"] or UNKNOWN,
            _of(role["observed"], role["desired"]),
            _eligible(role),
            _serving(role),
            number(role["running"]),
            number(role["waiting"]),
            percent(role["kvCacheUsage"]),
            seconds(_quantile(ttft, "p50")),
            seconds(_quantile(ttft, "p90")),
            "",
            "",
        ]
        itls = {"itl50": seconds(_quantile(itl, "p50")), "itl90": seconds(_quantile(itl, "p90"))}
        lines.append({"cells": cells, "kind": role["kind"], **itls})
    router = item["router"]
    if router:
        lines.append({"cells": _routercells_of(router), "kind": "Router", "itl50": "", "itl90": ""})
    return lines


def _routercells_of(router: Json) -> list[str | Text]:
    pods = _of(router["observed"], router["desired"])
    traffic = [number(router["requestsPerSecond"]), percent(router["errorRatio"])]
    return [router["name"], router["software"], pods, "", "", number(router["running"]), *("",) * 4, *traffic]


TARGETS = columns_of(
    "NAMESPACE 1, DEPLOYMENT 2, POD, SOFTWARE 4, STATE, AGE>, TOOK> 5, SIZE> 6, KEPT> 7, DROPPED> 7, DUE> 5, ERROR~"
)
TARGETS_WIDE = (*TARGETS[:-1], *columns_of("ROLE 8, VERSION 8, READS> 8, FAILED> 8, RESETS> 8, URL 8, ERROR~"))


def targets(items: Sequence[Json], *, wide: bool = False, width: int | None = None) -> Table:
    """Targets (as ``/api/v1/targets`` lists them), a line each; the error is that of a target that fails now."""
    rows = []
    for item in items:
        error = f"{item['lastErrorKind']}: {item['lastError']}" if item["state"] == "Failing" else ""
        cells = [
            item["namespace"],
            item["deployment"],
            item["pod"],
            item["software"] or UNKNOWN,
            state(item["state"]),
            seconds(item["ageSeconds"]),
            seconds(item["durationSeconds"]),
            size(item["bodyBytes"] or None),
            number(item["samplesKept"]) if item["lastSuccess"] else UNKNOWN,
            number(item["samplesDropped"]) if item["lastSuccess"] else UNKNOWN,
            seconds(item["nextDueSeconds"]),
        ]
        if wide:
            counts = (number(item[name]) for name in ("reads", "failures", "resets"))
            cells += [item["role"] or item["component"], item["version"] or UNKNOWN, *counts, item["url"]]
        rows.append(cells_of([*cells, Text(error, "red")]))
    return grid(TARGETS_WIDE if wide else TARGETS, rows, width)


LEVELS = columns_of("LEVEL, SCOPE, VALUE>, UNIT 2, PODS> 4, AGE> 3, STATE, SOURCE~ 1")
WINDOWS = columns_of("WINDOW, POD, VALUE>, P50> 1, P90> 1, P99> 1, SAMPLES> 2, OVER> 4, AGE> 5, STATE 3, SOURCE~ 6")
CACHES = columns_of("CACHE, POD, RATE>, HITS> 1, QUERIES> 1, OVER> 3, AGE> 4, STATE 2, SOURCE~ 5")
MISSING = columns_of("MISSING, POD, SOURCE~, REASON~")


def document(made: Json, *, width: int | None = None) -> list[Table | Text]:
    """One `ModelDeploymentMetrics` document: a heading, then a table for each kind of entry that it has."""
    meta, coverage = made["metadata"], made.get("coverage") or {}
    heading = Text.assemble(
        (f"{meta['namespace']}/{meta['name']}", "bold"),
        "  ",
        state("Partial" if made["partial"] else "Complete"),
        f"  {coverage.get('read', UNKNOWN)} of {coverage.get('expected', UNKNOWN)} Pods read",
        f", {coverage['skipped']} skipped" if coverage.get("skipped") else "",
        f"  at {made['timestamp']}",
    )
    parts: list[Table | Text] = [heading]
    levels = [_level(entry) for name in ("processing", "queueing") for entry in made.get(name, ())]
    windows = [_window(e, e["pod"]) for name in ("latency", "traffic", "transfer") for e in made.get(name, ())]
    windows += [_window(e, f"all of {role['role']}") for role in made.get("roles", ()) for e in role["latency"]]
    caches = [_cache(hit) for hit in made.get("cacheHits", ())]
    lacks = [_lack(gap) for gap in made.get("missing", ())]
    for columns, rows in ((LEVELS, levels), (WINDOWS, windows), (CACHES, caches), (MISSING, lacks)):
        if rows:
            parts.append(grid(columns, rows, width))
    return parts


def _level(entry: Json) -> list[Text]:
    value = amount(entry["value"], entry["unit"])
    cells = [entry["name"], entry["scope"], value, entry["unit"], number(entry["podCount"])]
    return cells_of([*cells, *_freshness(entry), entry["source"]])


def _cache(hit: Json) -> list[Text]:
    counts = [percent(hit["rate"]), number(hit["hits"]), number(hit["queries"]), seconds(hit["windowSeconds"])]
    return cells_of([hit["scope"], hit["pod"], *counts, *_freshness(hit), hit["source"]])


def _lack(gap: Json) -> list[Text]:
    return cells_of([Text(gap.get("code", ""), "yellow"), gap["pod"] or UNKNOWN, gap["source"], gap["reason"]])


def _freshness(entry: Json) -> list[str | Text]:
    return [seconds(entry.get("ageSeconds")), state(entry.get("state", UNKNOWN))]


def _window(entry: Json, pod: str) -> list[Text]:
    latency = entry["unit"] == "seconds"
    quantiles = [seconds(_quantile(entry, q)) if latency else "" for q in ("p50", "p90", "p99")]
    over = seconds(entry["windowSeconds"]) + (" lossy" if entry.get("lossy") else "")
    value = ("≤ " if "atLeast" in entry else "") + amount(entry["value"], entry["unit"])
    counts = [number(entry["samples"]), over]
    return cells_of([entry["name"], pod, value, *quantiles, *counts, *_freshness(entry), entry["source"]])


SIGNALS = columns_of("SIGNAL, LABELS~, VALUE>, UNIT, STATE 1")


def signals(answer: Json, *, wide: bool = False, width: int | None = None) -> Group:
    """What `observer read` answers: a line for each series; ``wide`` also names what is absent and what is unknown."""
    rows = []
    for name, entries in answer["signals"].items():
        for entry in entries:
            labels = ",".join(f"{label}={text}" for label, text in entry["labels"].items())
            value = entry["value"]
            shown = f"n={number(value['count'])} mean={_mean(value)}" if isinstance(value, Mapping) else number(value)
            labels = labels if wide or len(labels) <= 60 else f"{labels[:59]}…"
            rows.append(cells_of([name, labels, shown, entry["unit"], state(entry["state"])]))
    counts = f"{len(answer['absent'])} signals of the table absent, {len(answer['unknown'])} families unknown"
    parts: list[Table | Text] = [
        grid(SIGNALS, rows, width),
        Text(""),
        Text(counts + ("" if wide else " (-o wide names them)")),
    ]
    if wide:
        parts += [Text("absent: " + ", ".join(answer["absent"])), Text("unknown: " + ", ".join(answer["unknown"]))]
    return Group(*parts)


def _mean(histogram: Json) -> str:
    count, total = histogram["count"], histogram["sum"]
    return UNKNOWN if not count or total is None else f"{total / count:.4g}"
