"""What the benchmarks share: interleaved CPU times, their spread, and a report that judges and prints its JSON line."""

from __future__ import annotations

import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

Rounds = dict[str, list[float]]


def cpu(job: Callable[[], object], times: int = 1) -> float:
    """Mean CPU seconds of one of several calls."""
    begun = time.process_time()
    for _ in range(times):
        job()
    return (time.process_time() - begun) / times


def interleaved(jobs: dict[str, tuple[Callable[[], object], int]], rounds: int, label: str = "") -> Rounds:
    """Every job (with its number of calls) in every round, so that what disturbs the machine disturbs all.

    CPU seconds of one call. Garbage is collected before each job, outside of its time.
    """
    found: Rounds = {name: [] for name in jobs}
    for number in range(rounds):
        print(f"{label}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, (job, times) in jobs.items():
            gc.collect()
            found[name].append(cpu(job, times))
    return found


def spread(values: list[float], scale: float = 1e3) -> str:
    """The median with the quartiles, times ``scale``."""
    low, mid, high = statistics.quantiles([value * scale for value in values], n=4)
    return f"{mid:.4g} [{low:.4g} {high:.4g}]"


class Report:
    """Prints a line for each figure, remembers what was judged, and ends with a JSON line."""

    def __init__(self, benchmark: str, *packages: str) -> None:
        self.benchmark = benchmark
        self.rows: list[dict[str, Any]] = []
        self._versions = {name: version(name) for name in packages}

    def line(self, name: str, figure: str, value: float, limit: float | None = None, *, at_least: bool = True) -> None:
        """One figure; with a ``limit`` it is judged."""
        good = None if limit is None else value >= limit if at_least else value <= limit
        target = "" if limit is None else f"want at {'least' if at_least else 'most'} {limit:g}"
        print(f"{name:<44} {figure:<64} {target}{'' if good is None else '   ok' if good else '   MISSED'}", flush=True)
        row = {"name": name, "figure": figure, "value": value, "limit": limit, "at_least": at_least, "good": good}
        self.rows.append(row)

    def end(self) -> int:
        """Print the JSON line. The exit status: 1 when a judged figure missed its target."""
        told = {"benchmark": self.benchmark, "python": platform.python_version(), "versions": self._versions}
        print(json.dumps({**told, "rows": self.rows}))
        return 0 if all(row["good"] is not False for row in self.rows) else 1
