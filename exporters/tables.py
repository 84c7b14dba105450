"""Tables for a terminal, made from the JSON of the API: deployments by role, targets, and one metrics document.

What is not known is shown as ``-``, never as 0. Every function takes plain JSON values and returns something to print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from exporters.grid import UNKNOWN, Column, cells_of, columns_of, grid
from exporters.timestamps import rfc3339

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


MOMENT = "unix-seconds"
"""The unit of values that are moments."""
_STALE = "~"
_LEGEND = "~ partly stale: it holds the last value of something that does not answer now"


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
    """A value of a document in its unit; a moment as a time."""
    if unit == MOMENT:
        return moment(value)
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


def moment(value: float) -> str:
    """Wall seconds as a time of day; a number where no calendar has it."""
    try:
        return rfc3339(value)
    except (ValueError, OverflowError, OSError):
        return number(value)


def unit_name(unit: str) -> str:
    """A unit as a column shows it."""
    return "time" if unit == MOMENT else unit


def _marked(text: str, state: str | None) -> str | Text:
    """A number with a mark where a part of it is stale."""
    return Text(text + _STALE, "yellow") if state == "Stale" and text != UNKNOWN else text


def _ready(ready: int | None, observed: int | None, desired: int | None) -> Text:
    """Ready of desired; what is not known is ``?``, and of nothing nothing is ready."""
    ready = 0 if ready is None and observed == 0 else ready
    text = "/".join("?" if count is None else number(count) for count in (ready, desired))
    return Text(text, "yellow" if ready is not None and desired is not None and ready < desired else "")


def _quantile(entry: Json | None, name: str) -> float | None:
    estimate = (entry or {}).get(name)
    return estimate["value"] if estimate else None


DEPLOYMENTS = columns_of(
    "NAMESPACE^ 6, DEPLOYMENT^, PHASE/, ROLES 8, ROLE^, SOFTWARE 7, READY>, ELIGIBLE>, SERVING> 3, RUNNING> 1, "
    "WAITING> 1, KV> 6, TTFT P50> 5, P90> 7, REQ/S> 4, ERRORS> 4, AGE> 6, STATE"
)
DEPLOYMENTS_WIDE = (*DEPLOYMENTS, *columns_of("OBSERVED> 8, KIND 8, MODEL 8, ITL P50> 8, P90> 8, TARGETS UP> 8, WHY~"))


def deployments(
    items: Sequence[Json], *, wide: bool = False, width: int | None = None, everywhere: bool = False
) -> Table:
    """Deployments (summaries as ``/api/v1/deployments`` lists them), a line for each role and for the router.

    ``everywhere`` keeps the namespace where the width does not do for all columns.
    """
    rows = []
    for item in items:
        names: list[str | Text] = [item["namespace"], item["name"], _phase(item), item["roleSummary"] or UNKNOWN]
        ends: list[str | Text] = [seconds(item["ageSeconds"]), state(item["state"])]
        targets = item["targets"]
        about = [f"{targets['Up']}/{sum(targets.values())}", item["message"]]
        for line in _lines(item):
            shown = [line["observed"], line["kind"], item["model"] or UNKNOWN, line["itl50"], line["itl90"], *about]
            rows.append(cells_of([*names, *line["cells"], *ends, *(shown if wide else [])]))
            names, ends, about = [""] * 4, ["", ""], ["", ""]
    table = grid(_with_namespace(DEPLOYMENTS_WIDE if wide else DEPLOYMENTS, everywhere), rows, width)
    if any(cell.plain.endswith(_STALE) for row in rows for cell in row):
        table.caption, table.caption_justify, table.caption_style = Text(_LEGEND, "dim"), "left", "dim"
    return table


def _with_namespace(columns: Sequence[Column], everywhere: bool) -> Sequence[Column]:
    return (columns[0]._replace(drop=0), *columns[1:]) if everywhere else columns


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
            _ready(role["ready"], role["observed"], role["desired"]),
            _eligible(role),
            _serving(role),
            _marked(number(role["running"]), role.get("runningState")),
            _marked(number(role["waiting"]), role.get("waitingState")),
            _marked(percent(role["kvCacheUsage"]), role.get("kvCacheUsageState")),
            _latency(ttft, "p50"),
            _latency(ttft, "p90"),
            "",
            "",
        ]
        itls = {"itl50": _latency(itl, "p50"), "itl90": _latency(itl, "p90")}
        lines.append({"cells": cells, "observed": number(role["observed"]), "kind": role["kind"], **itls})
    router = item["router"]
    if router:
        observed = number(router["observed"])
        lines.append({"cells": _router(router), "observed": observed, "kind": "Router", "itl50": "", "itl90": ""})
    return lines


def _latency(entry: Json | None, name: str) -> str | Text:
    return _marked(seconds(_quantile(entry, name)), (entry or {}).get("state"))


def _router(router: Json) -> list[str | Text]:
    pods = _ready(None, router["observed"], router["desired"])
    traffic = (number(router["requestsPerSecond"]), percent(router["errorRatio"]))
    running = _marked(number(router["running"]), router.get("runningState"))
    marked = [_marked(text, router.get("requestsState")) for text in traffic]
    return [router["name"], router["software"], pods, "", "", running, *("",) * 4, *marked]


TARGETS = columns_of(
    "NAMESPACE^ 6, DEPLOYMENT^ 2, POD^, SOFTWARE 4, STATE, AGE>, TOOK> 5, SIZE> 6, KEPT> 7, DROPPED> 7, DUE> 5, ERROR~"
)
TARGETS_WIDE = (*TARGETS[:-1], *columns_of("ROLE 8, VERSION 8, READS> 8, FAILED> 8, RESETS> 8, URL 8, ERROR~"))


def targets(items: Sequence[Json], *, wide: bool = False, width: int | None = None, everywhere: bool = False) -> Table:
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
    return grid(_with_namespace(TARGETS_WIDE if wide else TARGETS, everywhere), rows, width)


LEVELS = columns_of("LEVEL, SCOPE, VALUE>, UNIT 2, PODS> 4, AGE> 3, STATE, SOURCE~ 1")
WINDOWS = columns_of("WINDOW, POD^, VALUE>, P50> 1, P90> 1, P99> 1, SAMPLES> 2, OVER> 4, AGE> 5, STATE, SOURCE~ 6")
CACHES = columns_of("CACHE, POD^, RATE>, HITS> 1, QUERIES> 1, OVER> 3, AGE> 4, STATE, SOURCE~ 5")
MISSING = columns_of("MISSING, SIGNAL, POD^, SOURCE^, REASON/")
ALL = "everything"
"""What is missing where nothing of a Pod or role was read."""


def document(made: Json, *, wide: bool = False, width: int | None = None) -> list[Table | Text]:
    """One `ModelDeploymentMetrics` document: a heading, then a table for each kind of entry that it has.

    What is missing is one line for each reason; ``wide`` has one for each Pod, and breaks lines instead of cutting them.
    """
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
    gaps = made.get("missing", ())
    lacks = [_lack(gap, gap["pod"]) for gap in gaps] if wide else _grouped(gaps)
    missing = columns_of("MISSING, SIGNAL, POD, SOURCE~, REASON~") if wide else MISSING
    hint = [Text("-o wide has a line for each Pod, and every reason whole", "dim")] if lacks and not wide else []
    for columns, rows in ((LEVELS, levels), (WINDOWS, windows), (CACHES, caches), (missing, lacks)):
        if rows:
            parts.append(grid(columns, rows, width))
    return [*parts, *hint]


def _level(entry: Json) -> list[Text]:
    value = amount(entry["value"], entry["unit"])
    cells = [entry["name"], entry["scope"], value, unit_name(entry["unit"]), number(entry["podCount"])]
    return cells_of([*cells, *_freshness(entry), entry["source"]])


def _cache(hit: Json) -> list[Text]:
    counts = [percent(hit["rate"]), number(hit["hits"]), number(hit["queries"]), seconds(hit["windowSeconds"])]
    return cells_of([hit["scope"], hit["pod"], *counts, *_freshness(hit), hit["source"]])


def _grouped(gaps: Sequence[Json]) -> list[list[Text]]:
    """A line for each reason: the Pod it holds for, or how many they are."""
    pods: dict[tuple[str, ...], list[str]] = {}
    first: dict[tuple[str, ...], Json] = {}
    for gap in gaps:
        key = (gap.get("code", ""), gap.get("name", ""), gap["source"], gap["reason"])
        pods.setdefault(key, []).append(gap["pod"])
        first.setdefault(key, gap)
    return [_lack(first[key], named[0] if len(named) == 1 else f"{len(named)} Pods") for key, named in pods.items()]


def _lack(gap: Json, pods: str) -> list[Text]:
    code, name = Text(gap.get("code", ""), "yellow"), gap.get("name", ALL)
    return cells_of([code, name, pods or UNKNOWN, gap["source"], gap["reason"]])


def _freshness(entry: Json) -> list[str | Text]:
    return [seconds(entry.get("ageSeconds")), state(entry.get("state", UNKNOWN))]


def _window(entry: Json, pod: str) -> list[Text]:
    latency = entry["unit"] == "seconds"
    quantiles = [seconds(_quantile(entry, q)) if latency else "" for q in ("p50", "p90", "p99")]
    over = seconds(entry["windowSeconds"]) + (" lossy" if entry.get("lossy") else "")
    value = ("≤ " if "atLeast" in entry else "") + amount(entry["value"], entry["unit"])
    counts = [number(entry["samples"]), over]
    return cells_of([entry["name"], pod, value, *quantiles, *counts, *_freshness(entry), entry["source"]])
