"""How long garbage collections stop the observer with many targets: Python's own thresholds against ours, in one run.

    python -m benchmarks.collector [--targets N] [--reads N]

A store with so many targets, each read twice (bodies of a small vLLM), is read further while every collection is measured:
first as Python would collect, then as `observer.app.pauses` has it, with the values of each target looked up after each
read as a page or a judge does. Pauses are CPU time of the
collecting thread, so that the turns of other processes are not in them. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.exposition import SEED, moved
from benchmarks.measuring import Report
from observer import fleet
from observer.app.pauses import LOOK_SECONDS, Pauses
from observer.clock import Clock
from observer.collect.allocator import tune_allocator
from observer.measure.exposition import Limits
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import Address, Deployment, DeploymentKey, Member, Replica, Role, Target

MEMBERS = 100
PERIOD = 15.0
"""Seconds in which every target is read once."""
POLICY = fleet.Policy()


class Nothing:
    """A tally that keeps nothing."""

    def scraped(self, *_: Any) -> None:
        """One read ended."""

    def discarded(self, *_: Any) -> None:
        """Samples were dropped."""


class Told:
    """Collections as `Pauses` tells them."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []

    def paused(self, generation: int, seconds: float, _found: int) -> None:
        """One collection."""
        self.rows.append((generation, seconds))


def deployment(number: int, size: int) -> Deployment:
    """One role of so many members."""
    replicas = []
    for place in range(size):
        address = Address(host=f"10.{number % 200}.0.{place}", port=8000)
        name = f"chat-{number}-{place}"
        member = Member(uid=name, name=name, host=address.host, metrics=address, api=address)
        replicas.append(Replica(ordinal=place, members=(member,)))
    role = Role(name="server", engine="vllm", engine_version="0.32.0", desired=size, replicas=tuple(replicas))
    return Deployment(key=DeploymentKey("bench", f"chat-{number:03d}"), uid=f"uid-{number}", roles=(role,))


class CpuClock:
    """CPU time of this thread as a clock."""

    def now(self) -> Instant:
        """CPU seconds so far."""
        return Instant(time.thread_time(), 0.0)


class World:
    """The store and its targets, read one after the other."""

    def __init__(self, targets: int, clock: Clock) -> None:
        self.store = Store(clock, POLICY, Limits(), Nothing())
        deployments = [deployment(number, MEMBERS) for number in range(max(1, targets // MEMBERS))]
        self.store.set_deployments(deployments, Instant(0.0, 0.0))
        self.targets: list[Target] = [target for each in deployments for target in each.targets()]
        seed = SEED.read_bytes()
        self.bodies = [moved(seed, step) for step in range(4)]
        self.reads = 0

    def read(self, count: int) -> None:
        """Read so many further targets and look at what they tell."""
        for _ in range(count):
            turn, place = divmod(self.reads, len(self.targets))
            at = Instant(15.0 * turn + 0.0015 * place, 15.0 * turn)
            target = self.targets[place]
            self.store.on_body(target, self.bodies[turn % 4], "text/plain", at, 0.01)
            record = self.store.record(target.key)
            if record is not None:
                fleet.values(record, at, POLICY)
            self.reads += 1


def measured(run: Callable[[], None]) -> list[tuple[int, float]]:
    """Every collection while something runs: generation and seconds."""
    rows: list[tuple[int, float]] = []
    begun = 0.0

    def collected(phase: str, info: dict[str, Any]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.thread_time()
        else:
            rows.append((info["generation"], time.thread_time() - begun))

    gc.callbacks.append(collected)
    try:
        run()
    finally:
        gc.callbacks.remove(collected)
    return rows


def told(report: Report, name: str, rows: list[tuple[int, float]], limit: float | None) -> None:
    """The pauses of one way of collecting."""
    pauses = sorted(seconds * 1e3 for _, seconds in rows)
    last = pauses[min(len(pauses) - 1, int(len(pauses) * 0.999))] if pauses else 0.0
    kinds = [sum(generation == each for generation, _ in rows) for each in range(3)]
    figure = (
        f"longest {max(pauses, default=0.0):.2f} ms, {len(pauses)} collections {kinds}, {sum(pauses):.0f} ms in all"
    )
    report.line(f"{name}: p99.9 of pauses, ms", f"{last:.2f}; {figure}", last, limit, at_least=False)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, default=10_000)
    options.add_argument("--reads", type=int, default=10_000, help="reads measured with each way of collecting")
    chosen = options.parse_args()
    tune_allocator()
    clock = CpuClock()
    world = World(chosen.targets, clock)
    print(f"reading {len(world.targets)} targets twice", file=sys.stderr, flush=True)
    world.read(2 * len(world.targets))
    report = Report("collector", "msgspec")
    title = f"{len(world.targets):,} targets"
    told(report, f"{title}, Python's thresholds", measured(lambda: world.read(chosen.reads)), None)
    begun = time.thread_time()
    gc.collect()
    full = (time.thread_time() - begun) * 1e3
    counted = Told()
    pauses = Pauses(clock, counted)
    each = max(1, round(len(world.targets) / PERIOD * LOOK_SECONDS))

    def looking() -> None:
        for _ in range(chosen.reads // each):
            world.read(each)
            pauses.look()

    with pauses.short():
        gc.freeze()
        looking()
    pauses.tell()
    told(report, f"{title}, ours", counted.rows, 10.0)
    report.line(f"{title}, one look through everything, ms", f"{full:.0f} (once an hour)", full)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
