"""One judging pass over many deployments: its CPU time, the longest step in which nothing else runs, and how it grows.

    python -m benchmarks.judging [--deployments N] [--rounds N]

Deployments of 100 members each, of which as many are read between two passes as in a second at a period of 15 s. The
first step holds fast what was read; each further one judges a deployment. The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.collector import MEMBERS, PERIOD, CpuClock, World
from benchmarks.measuring import Report, spread
from observer.app.judging import Judging
from observer.collect.allocator import tune_allocator
from observer.settings import Settings
from router_contract.readings import Instant


def passes(deployments: int, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """CPU seconds of each pass, of its first step, and of its longest later one."""
    world = World(deployments * MEMBERS, CpuClock())
    world.read(2 * len(world.targets))
    judging = Judging(world.store, Settings())
    whole: list[float] = []
    first: list[float] = []
    longest: list[float] = []
    for number in range(rounds + 2):
        world.read(round(len(world.targets) / PERIOD))
        now = Instant(2 * PERIOD + number, 2 * PERIOD + number)
        begun = time.thread_time()
        steps = judging.steps(now)
        moments = [begun, time.thread_time()]
        moments.extend(time.thread_time() for _ in steps)
        spells = [after - before for before, after in pairwise(moments)]
        if number >= 2:  # the first passes find everything new
            whole.append(moments[-1] - begun)
            first.append(spells[0])
            longest.append(max(spells[1:], default=0.0))
    return whole, first, longest


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--deployments", type=int, default=100)
    options.add_argument("--rounds", type=int, default=9)
    chosen = options.parse_args()
    tune_allocator()
    report = Report("judging", "msgspec")
    for deployments in sorted({max(1, chosen.deployments // 10), chosen.deployments}):
        whole, first, longest = passes(deployments, max(chosen.rounds, 3))
        name = f"{deployments} deployments x {MEMBERS}"
        median = statistics.median(whole)
        each = median / (deployments * MEMBERS) * 1e6
        report.line(f"{name}, one pass, ms", f"{spread(whole)}, {each:.0f} us a member", median * 1e3)
        step = statistics.median(first) * 1e3
        report.line(f"{name}, first step, ms", spread(first), step, 20.0, at_least=False)
        step = statistics.median(longest) * 1e3
        report.line(f"{name}, longest step, ms", spread(longest), step, 20.0, at_least=False)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
