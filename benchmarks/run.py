"""All benchmarks with one command, and a report: `artifacts/benchmarks.jsonl` and `artifacts/benchmarks.html`.

    python -m benchmarks.run [--quick] [--only NAME ...] [--list] [--report]

Each runs by itself, one after the other, in a process of its own; each compares itself with its peer in one interleaved
run. ``--quick`` takes fewer rounds, shorter windows and no run of 10,000 targets; figures of it say so. ``--only`` runs
some and keeps what earlier runs measured of the others; ``--report`` runs none. Peers that are not Python packages come
from Debian: `apt-get install prometheus victoria-metrics`. Exits 1 when a target is missed; what was found out about a
missed one stands in `benchmarks/notes.yaml` and is printed beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ruamel.yaml import YAML

from benchmarks.pictures import page
from benchmarks.processes import ARTIFACTS, ROOT, load
from benchmarks.targets import normalised, printed, table

LINES = ARTIFACTS / "benchmarks.jsonl"
PAGE = ARTIFACTS / "benchmarks.html"
NOTES = ROOT / "benchmarks" / "notes.yaml"
TIMEOUT = 3600.0


class Benchmark(NamedTuple):
    """One run: its module with arguments; ``quick`` are those of a short one (``None``: it is left out then)."""

    name: str
    module: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()


BENCHMARKS = (
    Benchmark("exposition", "exposition", quick=("--rounds", "5")),
    Benchmark("kv_events", "kv_events", quick=("--short",)),
    Benchmark("metrics_output", "metrics_output", quick=("--rounds", "5")),
    Benchmark("quantiles", "quantiles", quick=("--rounds", "5")),
    Benchmark("document", "document"),
    Benchmark("metrics_fleet", "metrics_fleet"),
    Benchmark("storing", "storing"),
    Benchmark("fetching", "fetching"),
    Benchmark("judging", "judging"),
    Benchmark("collector", "collector", quick=("--reads", "3000")),
    Benchmark("peers", "peers", ("--windows", "8", "--seconds", "30"), ("--windows", "4", "--seconds", "15")),
    Benchmark("loop_lag", "loop_lag", ("--seconds", "60"), ("--seconds", "30")),
    Benchmark("scale-100", "scale", ("--targets", "100", "--minutes", "10"), ("--targets", "100", "--minutes", "1")),
    Benchmark(
        "scale-1000",
        "scale",
        ("--targets", "1000", "--minutes", "10", "--profile"),
        ("--targets", "1000", "--minutes", "1.5", "--profile"),
    ),
    Benchmark("scale-10000", "scale", ("--targets", "10000", "--minutes", "10"), None),
)


def known() -> list[Benchmark]:
    """Those whose module is here."""
    return [each for each in BENCHMARKS if importlib.util.find_spec(f"benchmarks.{each.module}") is not None]


def run(benchmark: Benchmark, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Run one, its progress shown as it goes; its line of JSON with when, how long, and on how busy a machine."""
    begun, wall = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    command = [sys.executable, "-m", f"benchmarks.{benchmark.module}", *arguments]
    before = load()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
    print(done.stdout, end="", flush=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]
    document: dict[str, Any] = json.loads(told[-1]) if told else {"benchmark": benchmark.module, "rows": []}
    return {
        "run": benchmark.name,
        "arguments": list(arguments),
        "at": wall,
        "seconds": round(time.monotonic() - begun, 1),
        "load": [round(before, 1), round(load(), 1)],
        "exit": done.returncode,
        "document": document,
        "rows": normalised(document),
    }


def kept() -> dict[str, dict[str, Any]]:
    """The lines of the runs before, by name."""
    if not LINES.exists():
        return {}
    lines = [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines() if line]
    return {line["run"]: line for line in lines}


def scales() -> list[list[dict[str, Any]]]:
    """The samples of scale runs, the smallest first."""
    found = [
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in ARTIFACTS.glob("scale-*.jsonl")
    ]
    return sorted((each for each in found if len(each) > 1), key=lambda each: int(each[0]["targets"]))


def noted() -> dict[str, str]:
    """What is known of targets that were missed, by their paths."""
    return {str(key): str(text) for key, text in (YAML(typ="safe").load(NOTES.read_text("utf-8")) or {}).items()}


def report(lines: dict[str, dict[str, Any]]) -> int:
    """Write both files and print the table; how many targets are missed."""
    ARTIFACTS.mkdir(exist_ok=True)
    order = [each.name for each in BENCHMARKS]
    lines = {name: lines[name] for name in sorted(lines, key=lambda name: order.index(name) if name in order else 99)}
    LINES.write_text("".join(json.dumps(line) + "\n" for line in lines.values()), encoding="utf-8")
    rows = {name: line["rows"] for name, line in lines.items()}
    notes = noted()
    judged = table(rows)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.platform()}"
    runs = "; ".join(
        f"{name} {' '.join(line['arguments'])} at {line['at']}, load {line['load']}" for name, line in lines.items()
    )
    PAGE.write_text(page(rows, judged, notes, scales(), f"{machine}. Runs: {runs}."), encoding="utf-8")
    print(printed(judged, notes))
    missed = sum(each.verdict == "MISSED" for each in judged)
    met = sum(each.verdict == "met" for each in judged)
    open_ = len(judged) - missed - met
    print(
        f"figure: {met} of {len(judged)} targets met, {missed} missed, {open_} not measured; {PAGE.relative_to(ROOT)}"
    )
    return missed


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options.add_argument("--list", action="store_true", help="the names")
    options.add_argument("--report", action="store_true", help="run none, write the report of earlier runs")
    chosen = options.parse_args()
    there = known()
    if chosen.list:
        print("\n".join(each.name for each in there))
        return 0
    unknown = sorted(set(chosen.only) - {each.name for each in there})
    if unknown:
        options.error(f"--only: found {', '.join(unknown)}, want some of {', '.join(each.name for each in there)}")
    picked = [each for each in there if not chosen.only or each.name in chosen.only]
    picked = [] if chosen.report else [each for each in picked if not chosen.quick or each.quick is not None]
    lines = kept()
    for number, each in enumerate(picked, 1):
        print(f"[{number}/{len(picked)}] {each.name}", file=sys.stderr, flush=True)
        lines[each.name] = run(each, (each.quick or ()) if chosen.quick else each.full)
    return 1 if report(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
