"""Tables for a terminal, made from the JSON of the API: deployments by role, targets, and one metrics document.

What is not known is shown as ``-``, never as 0. Every function takes plain JSON values and returns something to print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group, JustifyMethod
from rich.table import Table
from rich.text import Text

Json = Mapping[str, Any]

UNKNOWN = "-"
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


_COLUMN = re.compile(r"^(.*?)([>~]?)(?: (\d))?$")


class Column(NamedTuple):
    """A column: its title, whether it holds numbers, whether its text may be broken into lines, and when it goes.

    Where the width does not do, columns with the highest ``drop`` go first; 0 stays.
    """

    title: str
    numeric: bool = False
    breaks: bool = False
    drop: int = 0


def _columns(text: str) -> tuple[Column, ...]:
    """Columns from titles with commas between: ``>`` marks numbers, ``~`` text that may break, a last digit ``drop``."""
    found = []
    for part in text.split(","):
        title, marks, drop = _COLUMN.findall(part.strip())[0]
        found.append(Column(title, ">" in marks, "~" in marks, int(drop or 0)))
    return tuple(found)


def _table(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None) -> Table:
    """A table without lines, of the columns that fit into ``width`` characters (``None``: all of them)."""
    needs = [max([len(c.title), *(cell.cell_len for cell in cells)]) for c, cells in _transposed(columns, rows)]
    needs = [min(need, 30) if column.breaks else need for column, need in zip(columns, needs, strict=True)]
    kept = list(range(len(columns)))
    while width is not None and sum(needs[i] + 2 for i in kept) - 2 > width and any(columns[i].drop for i in kept):
        kept.remove(max(kept, key=lambda i: (columns[i].drop, i)))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index in kept:
        column = columns[index]
        justify: JustifyMethod = "right" if column.numeric else "left"
        table.add_column(column.title, justify=justify, no_wrap=not column.breaks, overflow="fold")
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    return table


def _transposed(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> Iterator[tuple[Column, tuple[Text, ...]]]:
    cells = zip(*rows, strict=True) if rows else (() for _ in columns)
    return zip(columns, cells, strict=True)


def _cells(values: Iterable[str | Text]) -> list[Text]:
    """Values as they are (no markup), the unknown ones dimmed."""
    texts = [value if isinstance(value, Text) else Text(value) for value in values]
    return [Text(UNKNOWN, "dim") if text.plain == UNKNOWN else text for text in texts]


def _of(observed: int | None, desired: int | None) -> Text:
    text = f"{number(observed)}/{number(desired)}"
    return Text(text, "yellow" if observed is not None and desired is not None and observed < desired else "")


def _quantile(entry: Json | None, name: str) -> float | None:
    estimate = (entry or {}).get(name)
    return estimate["value"] if estimate else None


DEPLOYMENTS = _columns(
    "NAMESPACE 1, DEPLOYMENT, ROLE, SOFTWARE 5, REPLICAS>, RUNNING>, WAITING>, KV> 6, TTFT P50> 3, P90> 4, "
    "REQ/S> 2, ERRORS> 2, AGE> 7, STATE"
)
DEPLOYMENTS_WIDE = (*DEPLOYMENTS, *_columns("KIND 8, MODEL 8, ITL P50> 8, P90> 8, TARGETS UP> 8, WHY~"))


def deployments(items: Sequence[Json], *, wide: bool = False, width: int | None = None) -> Table:
    """Deployments (summaries as ``/api/v1/deployments`` lists them), a line for each role and for the router."""
    rows = []
    for item in items:
        names = [item["namespace"], item["name"]]
        ends: list[str | Text] = [seconds(item["ageSeconds"]), state(item["state"])]
        targets = item["targets"]
        about = [f"{targets['Up']}/{sum(targets.values())}", item["message"]]
        for line in _lines(item):
            more = [line["kind"], item["model"] or UNKNOWN, line["itl50"], line["itl90"], *about] if wide else []
            rows.append(_cells([*names, *line["cells"], *ends, *more]))
            names, ends, about = ["", ""], ["", ""], ["", ""]
    return _table(DEPLOYMENTS_WIDE if wide else DEPLOYMENTS, rows, width)


def _lines(item: Json) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for role in item["roles"]:
        ttft, itl = role["ttft"], role["itl"]
        cells: list[str | Text] = [
            role["name"],
            role["engine"] or UNKNOWN,
            _of(role["observed"], role["desired"]),
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
        lines.append({"cells": _router_cells(router), "kind": "Router", "itl50": "", "itl90": ""})
    return lines


def _router_cells(router: Json) -> list[str | Text]:
    pods = _of(router["observed"], router["desired"])
    traffic = [number(router["requestsPerSecond"]), percent(router["errorRatio"])]
    return [router["name"], router["software"], pods, number(router["running"]), *("",) * 4, *traffic]


TARGETS = _columns(
    "NAMESPACE 1, DEPLOYMENT 2, POD, SOFTWARE 4, STATE, AGE>, TOOK> 5, SIZE> 6, KEPT> 7, DROPPED> 7, DUE> 5, ERROR~"
)
TARGETS_WIDE = (*TARGETS[:-1], *_columns("ROLE 8, VERSION 8, READS> 8, FAILED> 8, RESETS> 8, URL 8, ERROR~"))


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
        rows.append(_cells([*cells, Text(error, "red")]))
    return _table(TARGETS_WIDE if wide else TARGETS, rows, width)


LEVELS = _columns("LEVEL, SCOPE, VALUE>, UNIT 2, PODS> 4, AGE> 3, STATE, SOURCE~ 1")
WINDOWS = _columns("WINDOW, POD, VALUE>, P50> 1, P90> 1, P99> 1, SAMPLES> 2, OVER> 4, AGE> 5, STATE 3, SOURCE~ 6")
CACHES = _columns("CACHE, POD, RATE>, HITS> 1, QUERIES> 1, OVER> 3, AGE> 4, STATE 2, SOURCE~ 5")
MISSING = _columns("MISSING, POD, SOURCE~, REASON~")


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
            parts.append(_table(columns, rows, width))
    return parts


def _level(entry: Json) -> list[Text]:
    value = amount(entry["value"], entry["unit"])
    cells = [entry["name"], entry["scope"], value, entry["unit"], number(entry["podCount"])]
    return _cells([*cells, *_freshness(entry), entry["source"]])


def _cache(hit: Json) -> list[Text]:
    counts = [percent(hit["rate"]), number(hit["hits"]), number(hit["queries"]), seconds(hit["windowSeconds"])]
    return _cells([hit["scope"], hit["pod"], *counts, *_freshness(hit), hit["source"]])


def _lack(gap: Json) -> list[Text]:
    return _cells([Text(gap.get("code", ""), "yellow"), gap["pod"] or UNKNOWN, gap["source"], gap["reason"]])


def _freshness(entry: Json) -> list[str | Text]:
    return [seconds(entry.get("ageSeconds")), state(entry.get("state", UNKNOWN))]


def _window(entry: Json, pod: str) -> list[Text]:
    latency = entry["unit"] == "seconds"
    quantiles = [seconds(_quantile(entry, q)) if latency else "" for q in ("p50", "p90", "p99")]
    over = seconds(entry["windowSeconds"]) + (" lossy" if entry.get("lossy") else "")
    value = amount(entry["value"], entry["unit"])
    counts = [number(entry["samples"]), over]
    return _cells([entry["name"], pod, value, *quantiles, *counts, *_freshness(entry), entry["source"]])


SIGNALS = _columns("SIGNAL, LABELS~, VALUE>, UNIT, STATE 1")


def signals(answer: Json, *, wide: bool = False, width: int | None = None) -> Group:
    """What `observer read` answers: a line for each series; ``wide`` also names what is absent and what is unknown."""
    rows = []
    for name, entries in answer["signals"].items():
        for entry in entries:
            labels = ",".join(f"{label}={text}" for label, text in entry["labels"].items())
            value = entry["value"]
            shown = f"n={number(value['count'])} mean={_mean(value)}" if isinstance(value, Mapping) else number(value)
            labels = labels if wide or len(labels) <= 60 else f"{labels[:59]}…"
            rows.append(_cells([name, labels, shown, entry["unit"], state(entry["state"])]))
    counts = f"{len(answer['absent'])} signals of the table absent, {len(answer['unknown'])} families unknown"
    parts: list[Table | Text] = [
        _table(SIGNALS, rows, width),
        Text(""),
        Text(counts + ("" if wide else " (-o wide names them)")),
    ]
    if wide:
        parts += [Text("absent: " + ", ".join(answer["absent"])), Text("unknown: " + ", ".join(answer["unknown"]))]
    return Group(*parts)


def _mean(histogram: Json) -> str:
    count, total = histogram["count"], histogram["sum"]
    return UNKNOWN if not count or total is None else f"{total / count:.4g}"
