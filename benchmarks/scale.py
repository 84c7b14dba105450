"""Many simulated targets and one observer: are rounds on time, does anything drift or grow, and what does a target cost.

    python -m benchmarks.scale [--targets N] [--minutes M] [--period SECONDS] [--processes P] [--profile]

The targets are listeners of several processes that share one growing body of about 192 kB (`benchmarks.target_server`); the
observer runs as it serves (`benchmarks.watching`) and tells every ten seconds what it used. Samples go into
`artifacts/scale-N.jsonl`. The first two periods (connecting, first reads) are not judged; growth compares the last
quarter of the time with the second. ``--profile`` writes `artifacts/profile-N.svg` and `.txt` with py-spy over the middle.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measuring import Report
from benchmarks.processes import ARTIFACTS, Servers, ended, fleet, line_of, module, settings, write

CORE = 0.6
BYTES_A_TARGET = 60_000
STEP_MS = 20.0
COLLECTION_MS = 10.0
LATE_MS = 1000.0
GROWTH = 1.02
JUDGED_TARGETS = 10_000
EVERY = 10.0
PROFILE_SECONDS = 30
Sample = dict[str, Any]


def run(targets: int, seconds: float, period: float, processes: int, *, profile: bool) -> tuple[Sample, list[Sample]]:
    """What the observer said at its start, and its samples."""
    samples: list[Sample] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="observer-scale-")))
        servers = stack.enter_context(Servers(targets, processes))
        timeout = min(10.0, 0.4 * period)  # the share of the period that it is by default
        sections = {
            "scrape": {"period": f"{period:g}s", "timeout": f"{timeout:g}s"},
            "limits": {"targets": max(targets, 1)},
        }
        if period * 2 >= 60:
            sections["windows"] = {"span": f"{period * 4:g}s"}
        files = [
            write(folder, "fleet.yaml", fleet(servers.ports)),
            write(folder, "settings.yaml", settings(**sections)),
        ]
        child = stack.enter_context(ended(module("benchmarks.watching", *map(str, files), "--every", str(EVERY))))
        begin = line_of(child)
        profiler: subprocess.Popen[bytes] | None = None
        while not samples or samples[-1]["seconds"] < seconds:
            samples.append(line_of(child))
            told(targets, samples, seconds)
            if profile and profiler is None and samples[-1]["seconds"] > seconds / 3:
                profiler = stack.enter_context(ended(profiled(child.pid, targets)))
        if profiler is not None:
            profiler.wait()
        begin["bytes"], begin["server_cpu"] = servers.bytes, servers.cpu()
    return begin, samples


def profiled(pid: int, targets: int) -> subprocess.Popen[bytes]:
    """py-spy over half a minute of a process; what it wrote is folded by `largest`."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        raise SystemExit("py-spy is not installed, wanted for --profile: pip install py-spy")
    ARTIFACTS.mkdir(exist_ok=True)
    out = ARTIFACTS / f"profile-{targets}.txt"
    command = [
        spy,
        "record",
        "--pid",
        str(pid),
        "-d",
        str(PROFILE_SECONDS),
        "-r",
        "100",
        "--nonblocking",
        "-f",
        "raw",
        "-o",
        str(out),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


PARTS = (
    ("extracting and windows", ("Store.on_body",)),
    ("asking engines' APIs", ("(observer/collect/api_probe.py",)),
    ("reading bodies over HTTP", ("(observer/collect/fetch.py", "_Loop._read (observer/collect/scrape.py")),
    ("judging", ("Watcher._pass",)),
    ("the page's board", ("(exporters/page/pages.py",)),
    ("KV events", ("(observer/collect/kv_collector.py", "(observer/collect/kv_socket.py")),
    ("collecting garbage", ("Pauses.run",)),
    ("this measurement", ("measure_lag", "Bins.add", "Costs.add")),
)
"""Parts of the work by frames that only they have; the first that fits is it."""


def largest(text: str) -> list[tuple[str, float]]:
    """The share of each part in a profile of folded stacks, the largest first; threads that wait are left out."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if "kv_socket.py" in stack and "_round" not in stack:
            continue  # the receiving thread in its poll: no work
        found[part_of(stack)] += int(count)
    whole = sum(found.values()) or 1
    return [(name, count / whole) for name, count in found.most_common()]


def part_of(stack: str) -> str:
    """Whose work a stack is."""
    found = (name for name, frames in PARTS if any(frame in stack for frame in frames))
    return next(found, "the event loop and the rest")


def told(targets: int, samples: list[Sample], seconds: float) -> None:
    """A line of progress."""
    last = samples[-1]
    before = samples[-2] if len(samples) > 1 else {"cpu": 0.0, "seconds": 0.0}
    core = (last["cpu"] - before["cpu"]) / (last["seconds"] - before["seconds"])
    parts = last["interval"]
    print(
        f"{targets} targets, {last['seconds']:.0f} of {seconds:.0f} s: {core:.2f} core, "
        f"{last['resident'] / 1e6:.0f} MB, {last['reads']} reads, {last['failures']} failed, "
        f"{last['overruns']} overruns, step p99.9 {parts['steps']['p999']:.1f} ms, "
        f"lag p99 {parts['lag']['p99']:.1f} ms, late p99 {parts['late']['p99']:.0f} ms, load {last['load']:.1f}",
        file=sys.stderr,
        flush=True,
    )


def judged(report: Report, targets: int, period: float, begin: Sample, samples: list[Sample]) -> None:
    """Judge a run; only that of 10,000 targets has the targets of the issue."""
    warm = [sample for sample in samples if sample["seconds"] >= 2 * period] or samples[-2:]
    first, last = warm[0], warm[-1]
    spent = max(last["seconds"] - first["seconds"], 1e-9)
    name = f"{targets:,} targets"
    big = targets >= JUDGED_TARGETS
    core = (last["cpu"] - first["cpu"]) / spent
    reads = last["reads"] - first["reads"]
    wanted = targets * spent / period
    figure = f"{core:.3f} core, {core / targets * period * 1e6:.0f} us a read and all that goes with it"
    report.line(f"{name}, core at {period:g} s", figure, core, CORE if big else None, at_least=False)
    memory = (last["resident"] - begin["before"]) / targets
    figure = f"{memory / 1e3:.1f} kB a target, {last['resident'] / 1e6:.0f} MB resident"
    report.line(f"{name}, memory", figure, memory, BYTES_A_TARGET if big else None, at_least=False)
    figure = f"{reads} of {wanted:.0f} due, {last['failures']} failed, {last['overruns']} overruns"
    # How many slots fall into a stretch that is no multiple of the period varies; what lacks beyond that was missed.
    lacking = max(0.0, wanted - reads - 3 * math.sqrt(wanted))
    missed = (lacking + last["failures"] + last["overruns"]) / wanted
    report.line(f"{name}, rounds not on time", figure, missed, 0.01, at_least=False)
    late = [sample["interval"]["late"]["p99"] for sample in warm]
    figure = f"reads begin {statistics.median(late):.0f} ms from their slot at p99 (at most {max(late):.0f})"
    report.line(f"{name}, late", figure, statistics.median(late), LATE_MS, at_least=False)
    drift = drifted([sample["interval"]["late"]["p50"] for sample in warm])
    report.line(f"{name}, drift", f"{drift:+.1f} ms at the median, last quarter to second", drift, 50.0, at_least=False)
    growth = grown([sample["resident"] for sample in samples])
    figure = f"memory of the last quarter is {growth:.3f} of the second's"
    report.line(f"{name}, growth", figure, growth, GROWTH if spent >= 240 else None, at_least=False)
    steps = quantiles(warm, "steps")
    figure = f"p99 {steps['p99']:.1f} ms, p99.9 {steps['p999']:.1f} ms, longest {steps['max']:.0f} ms of CPU"
    report.line(f"{name}, our own steps", figure, steps["p999"], STEP_MS if big else None, at_least=False)
    pauses = quantiles(warm, "collections")
    figure = f"p99.9 {pauses['p999']:.1f} ms, longest {pauses['max']:.0f} ms, {pauses['count']:.0f} collections"
    report.line(f"{name}, collector pauses", figure, pauses["p999"], COLLECTION_MS if big else None, at_least=False)
    lag = quantiles(warm, "lag")
    figure = f"p99 {lag['p99']:.1f} ms, p99.9 {lag['p999']:.1f} ms (load {last['load']:.1f} on this machine)"
    report.line(f"{name}, loop lag", figure, lag["p99"])


def quantiles(warm: list[Sample], name: str) -> dict[str, float]:
    """Medians over the intervals of their quantiles, and the longest of all."""
    parts = [sample["interval"][name] for sample in warm]
    found = {key: statistics.median(part[key] for part in parts) for key in ("p50", "p99", "p999")}
    return found | {"max": max(part["max"] for part in parts), "count": sum(part["count"] for part in parts)}


def quarters(values: list[float]) -> tuple[list[float], list[float]]:
    """The second and the last quarter."""
    part = max(1, len(values) // 4)
    return values[part : 2 * part] or values, values[-part:]


def grown(values: list[float]) -> float:
    second, last = quarters(values)
    return statistics.mean(last) / statistics.mean(second)


def drifted(values: list[float]) -> float:
    second, last = quarters(values)
    return statistics.mean(last) - statistics.mean(second)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, default=1000)
    options.add_argument("--minutes", type=float, default=2.0)
    options.add_argument("--period", type=float, default=15.0)
    options.add_argument("--processes", type=int, default=4, help="that answer for the targets")
    options.add_argument("--profile", action="store_true", help="py-spy of the middle, into artifacts/")
    chosen = options.parse_args()
    seconds = chosen.minutes * 60
    begin, samples = run(chosen.targets, seconds, chosen.period, chosen.processes, profile=chosen.profile)
    ARTIFACTS.mkdir(exist_ok=True)
    head = {"targets": chosen.targets, "period": chosen.period, **begin}
    lines = [json.dumps(each) for each in (head, *samples)]
    (ARTIFACTS / f"scale-{chosen.targets}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = Report("scale", "aiohttp", "uvloop")
    judged(report, chosen.targets, chosen.period, begin, samples)
    if chosen.profile:
        shares = largest((ARTIFACTS / f"profile-{chosen.targets}.txt").read_text(encoding="utf-8"))
        for part, share in shares[:6]:
            report.line(f"profile, {part}", f"{share:.1%} of the samples", share)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
