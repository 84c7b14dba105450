"""Windowed quantiles of many members at once: our bucket-major arrays against loops over single histograms, interleaved.

    python -m benchmarks.quantiles [--rounds N] [--members N]

10,000 members with 20 histograms of 23 buckets: p50, p90 and p99 of the delta of two cumulative snapshots. Every value is
compared with that of the single histogram first (some without an observation, some beyond the last bound). The longest
slice is what the event loop would wait for when the work is done in slices. The last line is JSON.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import Report, interleaved, spread
from observer.collect.allocator import tune_allocator
from observer.measure.histograms import QUANTILES, estimate, quantiles_of_many
from router_contract.readings import Histogram

Floats = npt.NDArray[np.float64]
_SMALL = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
BOUNDS = (*_SMALL, 80.0, 160.0, 640.0, 2560.0, math.inf)
HISTOGRAMS = 20
LOOPED = 4_000
"""Histograms that the loops do; their time is scaled up."""
SLICE = 8_192


def snapshots(columns: int) -> tuple[Floats, Floats]:
    """Two cumulative snapshots, shape (buckets, columns)."""
    source = np.random.default_rng(6)
    before = np.cumsum(source.integers(0, 1000, (len(BOUNDS), columns)), axis=0).astype(np.float64)
    moved = source.integers(0, 40, (len(BOUNDS), columns)) * (source.random((len(BOUNDS), columns)) < 0.4)
    moved[:, ::17] = 0
    moved[:-1, 5::19] = 0
    return before, before + np.cumsum(moved, axis=0)


def looped(delta: Floats) -> list[tuple[float, ...]]:
    """What loops over single histograms give, NaN for no value."""
    found = []
    for counts in delta.T.tolist():
        histogram = Histogram(bounds=BOUNDS, counts=tuple(counts), sum=0.0)
        each = (estimate(histogram, q) for q in QUANTILES)
        found.append(tuple(math.nan if one is None else one.value for one in each))
    return found


def check(before: Floats, after: Floats) -> None:
    """Exits where the two ways differ."""
    delta = after[:, :LOOPED] - before[:, :LOOPED]
    if not np.allclose(quantiles_of_many(BOUNDS, delta), np.array(looped(delta)).T, rtol=1e-12, equal_nan=True):
        sys.exit("the two ways give other quantiles")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--members", type=int, default=10_000)
    chosen = options.parse_args()
    tune_allocator()  # as the observer does when it starts
    columns = chosen.members * HISTOGRAMS
    before, after = snapshots(columns)
    check(before, after)

    def sliced() -> None:
        for start in range(0, columns, SLICE):
            part = slice(start, start + SLICE)
            quantiles_of_many(BOUNDS, after[:, part] - before[:, part])

    some = after[:, :LOOPED] - before[:, :LOOPED]
    jobs: dict[str, tuple[Callable[[], object], int]] = {
        "loops": (lambda: looped(some), 1),
        "ours": (lambda: quantiles_of_many(BOUNDS, after - before), 1),
        "sliced": (sliced, 1),
        "slice": (lambda: quantiles_of_many(BOUNDS, after[:, :SLICE] - before[:, :SLICE]), 10),
    }
    times = interleaved(jobs, max(chosen.rounds, 3), "quantiles")
    report = Report("quantiles", "numpy")
    ours, loops = statistics.median(times["sliced"]), statistics.median(times["loops"]) * columns / LOOPED
    title = f"quantiles, {chosen.members:,} members x {HISTOGRAMS}"
    report.line(f"{title}, at once", f"{spread(times['ours'])} ms", statistics.median(times["ours"]) * 1e3)
    report.line(f"{title}, slices", f"{spread(times['sliced'])} ms", ours * 1e3, 50.0, at_least=False)
    report.line("one slice", f"{spread(times['slice'])} ms", statistics.median(times["slice"]) * 1e3)
    figure = f"{spread(times['loops'], 1e3 * columns / LOOPED)} ms: x{loops / ours:.1f}"
    report.line("loops over single histograms", figure, loops / ours, 8.0)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
