"""Writes what was measured last into the documentation: `docs/speed.md` and the curves of the scale runs, `docs/speed.svg`.

    python -m benchmarks.speed_page

It reads `artifacts/benchmarks.jsonl` and `artifacts/scale-N.jsonl` of `python -m benchmarks.run` and measures nothing. The page
is a record of one machine on one day; nothing compares it with a later run.
"""

from __future__ import annotations

import itertools
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.pictures import Scale, cost
from benchmarks.processes import ROOT
from benchmarks.run import kept, noted, scales
from benchmarks.targets import Line, table

PAGE = ROOT / "docs" / "speed.md"
PICTURE = ROOT / "docs" / "speed.svg"
HEAD = """# Speed

What `make bench` measured on {machine}, beginning {begun}. It is a record of that run: nothing compares it with a later one.
`make prove-speed` measures all of it again and judges it; `artifacts/benchmarks.html` then has every figure and curve. Ratios are
from one interleaved run in CPU time, medians with quartiles. [Scale](scale.md) says what to do with the figures.

**{met} of {all} targets met.** A target that was missed is told with what was tried.

| hot path | target | measured | |
|---|---|---|---|
"""
SCALE = """
## Ten minutes at each size

![cost over time at each size](speed.svg)

| targets | core | CPU a read, all in | resident | a target | reads | failed | overruns | step p99.9 | late p99 | lag p99 |
|---|---|---|---|---|---|---|---|---|---|---|
"""
CURVES = (
    ("core used", ("cpu",), 1.0),
    ("resident, MB", ("resident",), 1e-6),
    ("our steps' CPU, p99.9, ms", ("interval", "steps", "p999"), 1.0),
    ("loop lag, p99, ms", ("interval", "lag", "p99"), 1.0),
)


def cell(text: str) -> str:
    """Text that stands in one cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def targets_rows(lines: Sequence[Line]) -> list[str]:
    """A row for each target."""
    return [
        f"| {cell(each.target.path)} | {cell(each.target.wanted)} | "
        f"{cell(each.measured).replace('; ', '<br>') or 'not measured'} | {each.verdict} |"
        for each in lines
    ]


def scale_row(scale: Scale) -> str:
    """A row for one size."""
    head, samples = scale[0], scale[1:]
    targets, last = int(head["targets"]), samples[-1]
    core, resident = cost(scale)
    read = core / targets * head["period"] * 1e6
    each = (resident * 1e6 - head["before"]) / targets / 1e3
    warm = [sample["interval"] for sample in samples if sample["seconds"] >= 2 * head["period"]]
    middle = len(warm) // 2

    def of(name: str, key: str) -> float:
        return float(sorted(part[name][key] for part in warm)[middle])

    return (
        f"| {targets:,} | {core:.3f} | {read:.0f} µs | {resident:.0f} MB | {each:.0f} kB | {last['reads']:,} | "
        f"{last['failures']} | {last['overruns']} | {of('steps', 'p999'):.1f} ms | {of('late', 'p99'):.0f} ms | "
        f"{of('lag', 'p99'):.1f} ms |"
    )


def values(scale: Scale, path: tuple[str, ...]) -> list[float]:
    """One curve; that of the CPU is its slope."""
    samples = scale[1:]
    if path == ("cpu",):
        pairs = itertools.pairwise(samples)
        return [(now["cpu"] - before["cpu"]) / (now["seconds"] - before["seconds"]) for before, now in pairs]
    found = []
    for sample in samples[1:]:
        value: Any = sample
        for name in path:
            value = value[name]
        found.append(float(value))
    return found


def picture(found: Sequence[Scale]) -> Figure:
    """A row for each size, a column for each curve."""
    drawn = Figure(figsize=(13, 2.3 * len(found)), layout="constrained")
    axes = drawn.subplots(len(found), len(CURVES), squeeze=False)
    for row, scale in zip(axes, found, strict=True):
        times = [sample["seconds"] / 60 for sample in scale[2:]]
        for axis, (title, path, scaled) in zip(row, CURVES, strict=True):
            axis.plot(times, [value * scaled for value in values(scale, path)], color="#2f6f4f", linewidth=1.5)
            axis.set_ylim(bottom=0)
            axis.set_title(f"{scale[0]['targets']:,} targets: {title}", fontsize=9)
            axis.set_xlabel("minutes", fontsize=8)
            axis.tick_params(labelsize=8)
            axis.grid(visible=True, alpha=0.3)
    return drawn


def main() -> int:
    lines, found = kept(), [each for each in scales() if len(each) > 3]
    judged = table({name: line["rows"] for name, line in lines.items()})
    missed = [each for each in judged if each.verdict == "MISSED"]
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    begun = min((line["at"] for line in lines.values()), default="at no time")
    met = sum(each.verdict == "met" for each in judged)
    text = HEAD.format(machine=machine, begun=begun, met=met, all=len(judged))
    text += "\n".join(targets_rows(judged)) + "\n"
    notes = noted()
    silent = [each.target.path for each in missed if each.target.path not in notes]
    if silent:
        sys.exit(f"benchmarks/notes.yaml has no note on a missed target: {'; '.join(silent)}")
    if missed:
        text += "\n## What was missed\n"
        text += "".join(f"\n- **{each.target.path}**: {notes[each.target.path].strip()}\n" for each in missed)
    if found:
        text += SCALE + "\n".join(map(scale_row, found)) + "\n"
        mpl.rcParams["svg.hashsalt"] = "speed"
        picture(found).savefig(PICTURE, format="svg", metadata={"Date": None})
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}" + (f" and {PICTURE.relative_to(ROOT)}" if found else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
