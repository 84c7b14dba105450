"""The targets of speed and scale, each with where its figure comes from, and what was measured in their words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Rows = Mapping[str, list[dict[str, Any]]]
"""By run: its figures, each with ``name``, ``figure``, ``value``, ``target`` and ``good`` (``None``: not judged)."""


class Target(NamedTuple):
    """One line: the hot path, what is wanted, and the figures (run, pattern of their names) that show it."""

    path: str
    wanted: str
    figures: tuple[tuple[str, str], ...]


class Line(NamedTuple):
    """One line with what was measured. ``verdict`` is ``met``, ``MISSED``, ``not judged`` or ``not measured``."""

    target: Target
    measured: str
    verdict: str
    missed: tuple[str, ...]


TARGETS = (
    Target(
        "read one vLLM body again, 20 / all wanted families",
        "at least 150 / 45 times prometheus_client; first read or changed layout at least 50 / 12 times",
        (("exposition", r"(20|all) families, (again|changed|first)"),),
    ),
    Target(
        "whole-process CPU per scraped MB, 200 targets x 192 kB every 5 s, windows and quantiles included",
        "at most 0.70 of vmagent (all) and of Prometheus (same kept series)",
        (("peers", r"of (vmagent|prometheus), "),),
    ),
    Target("cost to the engine", "nothing compressed by the engine", (("peers", r"compression asked .* observer"),)),
    Target(
        "10,000 targets at 15 s in one process, ten minutes",
        "at most 0.6 core, at most 60 kB a target, p99.9 of our own step's CPU under 20 ms; on time, no drift, no growth",
        (("scale-10000", r"10,000 targets, (core|memory|our own|rounds|late|drift|growth)"),),
    ),
    Target(
        "msgpack decode",
        "at least 2 times msgpack.unpackb at 16 blocks an event, 5 M blocks/s",
        (("kv_events", r"decode( 1 event x 16|, million)"),),
    ),
    Target(
        "index apply, decode included",
        "at least 1.3 times RadixTree; entry at most 125 B; a member leaves in slices of at most 5 ms",
        (("kv_events", r"apply |bytes|a member leaves|entry|memory"),),
    ),
    Target(
        "longest prefix of 1,000 hashes over 64 members",
        "at most 200 us and 2.5 times Dynamo's",
        (("kv_events", r"longest prefix"),),
    ),
    Target(
        "event pipeline over ZMQ, whole process, 64 publishers, 3,000 messages/s",
        "at most 0.85 of dynamo.indexer, no message lost",
        (("kv_events", r"pipeline"),),
    ),
    Target("ZMQ receive", "at most 0.6 of zmq.asyncio a message", (("kv_events", r"receive"),)),
    Target(
        "our /metrics, 100,000 series",
        "at least 30 times generate_latest, byte-equal; at least 5 times when the set of series changed",
        (("metrics_output", r"/metrics"),),
    ),
    Target("quantiles, 10,000 members x 20 histograms", "at most 50 ms, in slices", (("quantiles", r"slices"),)),
    Target("64-Pod metrics document", "under 1 ms of CPU at the median", (("document", r"."),)),
    Target("collector pauses", "p99.9 under 10 ms", (("collector", r"ours|pauses"), ("scale-10000", r"collector"))),
    Target(
        "loop lag at 1,000 targets and 20,000 KV messages/s", "p99 under 50 ms", (("loop_lag", r"loop lag|messages"),)
    ),
)


def line(target: Target, rows: Rows) -> Line:
    """What the runs say of one target."""
    found = [
        row
        for run, pattern in target.figures
        for row in rows.get(run, ())
        if re.search(pattern, row["name"]) and (row["good"] is not None or len(rows[run]) == 1)
    ]
    if not found:
        return Line(target, "", "not measured", ())
    missed = tuple(row["name"] for row in found if row["good"] is False)
    verdicts = {row["good"] for row in found}
    verdict = "MISSED" if missed else "met" if True in verdicts else "not judged"
    return Line(target, "; ".join(f"{row['name']}: {row['figure']}" for row in found), verdict, missed)


def table(rows: Rows) -> list[Line]:
    """Every target."""
    return [line(target, rows) for target in TARGETS]


def printed(lines: Iterable[Line], notes: Mapping[str, str]) -> str:
    """The table for a terminal: a paragraph for each target."""
    out = []
    for each in lines:
        out.append(f"{each.verdict:<13}{each.target.path}\n{'':13}want {each.target.wanted}")
        out += [f"{'':13}{part}" for part in each.measured.split("; ") if part]
        if each.verdict == "MISSED":
            out.append(f"{'':13}note: {notes.get(each.target.path, 'no note is written on it yet')}")
    return "\n".join(out)


def normalised(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The figures of any benchmark's JSON line in one form."""
    if document.get("benchmark") == "exposition":
        return [row for result in document["results"] for row in _of_exposition(result)]
    if document.get("benchmark") == "canary_statistics":
        return []
    return [_row(row) for row in document.get("rows", ())]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    target = row.get("target", "")
    limit = row.get("limit")
    if limit is not None:
        target = f"want at {'least' if row.get('at_least', True) else 'most'} {limit:g}"
    value = row.get("value")
    figure = row.get("figure") or (f"{value:.4g}" if isinstance(value, int | float) else "")
    return {"name": row["name"], "figure": figure, "value": value, "target": target, "good": row.get("good")}


def _of_exposition(result: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for way, ratio in result["ratios"].items():
        wanted = result["targets"].get(way)
        yield {
            "name": f"{result['body']}, {way}",
            "figure": f"x{ratio:g} of prometheus_client",
            "value": ratio,
            "target": "" if wanted is None else f"want at least {wanted}",
            "good": None if wanted is None else ratio >= wanted,
        }
