"""The report of the benchmarks as one HTML file that needs nothing else: the table of targets, bars, the scale runs."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column, gridplot
from bokeh.models import Div, Span
from bokeh.plotting import figure
from bokeh.resources import INLINE

from benchmarks.targets import Line, Rows

GOOD, BAD, PLAIN = "#2f6f4f", "#b03a2e", "#6c7a89"
WIDTH = 1100
SERIES = (
    ("resident, MB", ("resident",), 1e-6),
    ("our own steps' CPU, p99.9, ms", ("interval", "steps", "p999"), 1.0),
    ("loop lag, p99, ms", ("interval", "lag", "p99"), 1.0),
    ("reads begin from their slot, p50, ms", ("interval", "late", "p50"), 1.0),
    ("longest collection, ms", ("interval", "collections", "max"), 1.0),
)
"""What is drawn of a scale run beside the core: a title, where the value stands in a sample, and its scale."""
Scale = list[dict[str, Any]]
"""A scale run: its head, then its samples."""


def page(rows: Rows, lines: Sequence[Line], notes: Mapping[str, str], scales: Sequence[Scale], about: str) -> str:
    """The HTML."""
    parts: list[Any] = [Div(text=f"<h1>Benchmarks of the observer</h1><p>{html.escape(about)}</p>", width=WIDTH)]
    parts.append(Div(text=targets_table(lines, notes), width=WIDTH))
    parts += [bars(run, found) for run, found in rows.items() if any(_drawn(row) for row in found)]
    if len(scales) > 1:
        parts.append(growth(scales))
    parts += [course(scale) for scale in scales if len(scale) > 2]
    parts.append(Div(text=f"<h2>Every figure</h2>{every(rows)}", width=WIDTH))
    return file_html(column(*parts), INLINE, "Benchmarks of the observer")


def targets_table(lines: Sequence[Line], notes: Mapping[str, str]) -> str:
    """The targets with a measured column."""
    out = ["<table border=1 cellpadding=4 style='border-collapse:collapse'>"]
    out.append("<tr><th>hot path</th><th>target</th><th>measured</th><th></th></tr>")
    for each in lines:
        color = {"met": GOOD, "MISSED": BAD}.get(each.verdict, PLAIN)
        measured = "<br>".join(html.escape(part) for part in each.measured.split("; "))
        if each.verdict == "MISSED":
            note = notes.get(each.target.path, "no note is written on it yet")
            measured += f"<p><i>{html.escape(note)}</i></p>"
        cells = f"<td>{html.escape(each.target.path)}</td><td>{html.escape(each.target.wanted)}</td><td>{measured}</td>"
        out.append(f"<tr>{cells}<td style='color:{color}'><b>{each.verdict}</b></td></tr>")
    return "".join([*out, "</table>"])


def every(rows: Rows) -> str:
    """All figures as text."""
    out = ["<table cellpadding=3>"]
    for run, found in rows.items():
        for row in found:
            cells = (run, row["name"], row["figure"], row["target"], {True: "ok", False: "MISSED"}.get(row["good"], ""))
            out.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>")
    return "".join([*out, "</table>"])


def _limit(row: dict[str, Any]) -> tuple[float, bool] | None:
    told = re.fullmatch(r"want at (least|most) ([0-9.e+-]+)", row["target"])
    return None if told is None else (float(told[2]), told[1] == "least")


def _drawn(row: dict[str, Any]) -> bool:
    limit = _limit(row)
    return limit is not None and limit[0] > 0 and isinstance(row["value"], int | float) and row["value"] > 0


def bars(run: str, found: list[dict[str, Any]]) -> Any:
    """How many times better than its target each judged figure is; the line is the target."""
    drawn = [row for row in found if _drawn(row)]
    names = [row["name"] for row in drawn][::-1]
    ratios = []
    for row in drawn[::-1]:
        limit, least = _limit(row) or (1.0, True)
        ratios.append(row["value"] / limit if least else limit / row["value"])
    colors = [GOOD if ratio >= 1 else BAD for ratio in ratios]
    plot = figure(
        title=f"{run}: times better than the target",
        y_range=list(dict.fromkeys(names)),
        width=WIDTH,
        height=90 + 28 * len(names),
        toolbar_location=None,
    )
    plot.hbar(y=names, right=ratios, height=0.6, color=colors)
    plot.add_layout(Span(location=1.0, dimension="height", line_width=2, line_color="black"))
    plot.x_range.start = 0  # type: ignore[attr-defined]  # a range of numbers, made by `figure`
    return plot


def curve(title: str, times: list[float], values: list[float]) -> Any:
    """One value over time, from 0."""
    plot = figure(title=title, width=WIDTH // 2, height=210, x_axis_label="seconds", toolbar_location=None)
    plot.line(times, values, color=GOOD, line_width=2)
    plot.y_range.start = 0  # type: ignore[attr-defined]  # a range of numbers, made by `figure`
    return plot


def _at(sample: dict[str, Any], path: tuple[str, ...]) -> float:
    value: Any = sample
    for name in path:
        value = value[name]
    return float(value)


def course(scale: Scale) -> Any:
    """One scale run over time."""
    head, samples = scale[0], scale[1:]
    times = [sample["seconds"] for sample in samples[1:]]
    pairs = itertools.pairwise(samples)
    core = [(now["cpu"] - before["cpu"]) / (now["seconds"] - before["seconds"]) for before, now in pairs]
    plots = [curve("core used", times, core)]
    for title, path, scaled in SERIES:
        plots.append(curve(title, times, [_at(sample, path) * scaled for sample in samples[1:]]))
    heading = Div(text=f"<h2>{head['targets']:,} targets every {head['period']:g} s</h2>", width=WIDTH)
    rows = [plots[index : index + 2] for index in range(0, len(plots), 2)]
    return column(heading, gridplot(rows, toolbar_location=None))


def cost(scale: Scale) -> tuple[float, float]:
    """Core and resident megabytes of a run after its first two periods."""
    head, samples = scale[0], scale[1:]
    warm = [sample for sample in samples if sample["seconds"] >= 2 * head["period"]] or samples
    first, last = warm[0], warm[-1]
    spent = max(last["seconds"] - first["seconds"], 1e-9)
    return (last["cpu"] - first["cpu"]) / spent, last["resident"] / 1e6


def growth(scales: Sequence[Scale]) -> Any:
    """How cost grows with the number of targets: whole, and for each target."""
    ordered = sorted(scales, key=lambda scale: int(scale[0]["targets"]))
    counts = [int(scale[0]["targets"]) for scale in ordered]
    costs = [cost(scale) for scale in ordered]
    shown = (
        ("core", [core for core, _ in costs]),
        ("milli-core a target", [core / count * 1e3 for (core, _), count in zip(costs, counts, strict=True)]),
        ("resident, MB", [memory for _, memory in costs]),
        ("resident kB a target", [memory / count * 1e3 for (_, memory), count in zip(costs, counts, strict=True)]),
    )
    plots = []
    for title, values in shown:
        plot = figure(
            title=title,
            width=WIDTH // 2,
            height=230,
            x_axis_type="log",
            y_axis_type="log",
            x_axis_label="targets",
            toolbar_location=None,
        )
        plot.line(counts, values, color=PLAIN)
        plot.scatter(counts, values, size=9, color=GOOD)
        plots.append(plot)
    title = Div(text="<h2>How cost grows</h2>", width=WIDTH)
    return column(title, gridplot([plots[:2], plots[2:]], toolbar_location=None))
