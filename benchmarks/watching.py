"""The observer as it serves, in a process that also tells what it costs: a JSON line every few seconds.

    python -m benchmarks.watching FILE... [--every SECONDS] [--listen ADDRESS]

Beside the application itself run a clock of the loop's lag (a sleep of 10 ms, how late it wakes) and a stop watch around
one in sixteen steps (thread CPU time, collections of garbage included): of the tasks that live long every sixteenth, of
those that are made for one read all steps of every sixteenth task. So the figures are a little too high rather than too
low. It ends with its input.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processes import cpu_of, load, resident_of
from observer.app.pauses import Pauses
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.allocator import raise_file_limit, tune_allocator
from observer.collect.fetch import Fetched
from observer.collect.schedule import offset
from observer.settings import load_files
from router_contract.readings import Instant, ScrapeFailed
from router_contract.targets import Target, TargetKey

LAG_PERIOD = 0.01
ONE_IN = 16
"""One of so many steps of tasks is timed, in turn."""


class Bins:
    """Durations counted in bins of 0.1 ms up to 2 s, so that ten minutes of them need no more memory than one."""

    WIDTH = 1e-4
    COUNT = 20_000

    def __init__(self) -> None:
        self.counts = np.zeros(self.COUNT + 1, dtype=np.int64)
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        self.counts[min(int(seconds / self.WIDTH), self.COUNT)] += 1
        self.longest = max(self.longest, seconds)

    def told(self) -> dict[str, float]:
        """Quantiles in milliseconds (upper ends of bins), and since the start of this interval."""
        count = int(self.counts.sum())
        sums = np.cumsum(self.counts)
        found = {"count": float(count), "max": self.longest * 1e3}
        for name, part in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
            place = int(np.searchsorted(sums, part * count)) + 1 if count else 0
            found[name] = min(place * self.WIDTH, self.longest) * 1e3
        return found


class Stopwatch(Coroutine[Any, Any, Any]):
    """A coroutine, one in ``every`` of whose steps is timed: reading a thread's clock is a call into the kernel."""

    __slots__ = ("_every", "_inner", "_number", "_tell")

    def __init__(self, inner: Coroutine[Any, Any, Any], tell: Callable[[float], None], number: int, every: int) -> None:
        self._inner = inner
        self._tell = tell
        self._number = number
        self._every = every

    def send(self, value: Any) -> Any:
        self._number += 1
        if self._number % self._every:
            return self._inner.send(value)
        begun = time.thread_time()
        try:
            return self._inner.send(value)
        finally:
            self._tell(time.thread_time() - begun)

    def throw(self, *error: Any) -> Any:
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self._inner.__await__())


class Costs:
    """Everything measured since the start, and since the last line."""

    def __init__(self) -> None:
        self.total = {name: Bins() for name in ("steps", "lag", "late", "collections")}
        self.part = {name: Bins() for name in self.total}
        self.reads = self.failures = 0
        self._collecting = 0.0

    def add(self, name: str, seconds: float) -> None:
        self.total[name].add(seconds)
        self.part[name].add(seconds)

    def collection(self, phase: str, _: dict[str, int]) -> None:
        """For ``gc.callbacks``."""
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self.add("collections", time.perf_counter() - self._collecting)

    def told(self) -> dict[str, Any]:
        found = {
            "interval": {name: bins.told() for name, bins in self.part.items()},
            "total": {name: bins.told() for name, bins in self.total.items()},
        }
        self.part = {name: Bins() for name in self.total}
        return found


class Watched(Watcher):
    """The application, that also tells how late reads begin."""

    costs: Costs
    period: float

    def on_body(self, target: Target, body: Fetched, at: Instant, duration_seconds: float) -> None:
        self._count(target, at)
        super().on_body(target, body, at, duration_seconds)

    def on_failure(self, target: Target, failure: ScrapeFailed) -> None:
        self.costs.failures += 1
        self._count(target, failure.at)
        super().on_failure(target, failure)

    def overruns(self) -> dict[TargetKey, int]:
        """Slots that passed while a read still ran, by target."""
        return self._overruns

    def _count(self, target: Target, at: Instant) -> None:
        self.costs.reads += 1
        half = self.period / 2
        # A timer may wake a little early too: what counts is how far from its slot a read begins.
        self.costs.add("late", abs((at.mono - offset(target.key, self.period) + half) % self.period - half))


class Timing:
    """For ``set_task_factory``: tasks whose steps are timed.

    While ``starting`` tasks are taken for those that live as long as the observer; later ones are made for a read.
    """

    def __init__(self, tell: Callable[[float], None]) -> None:
        self.starting = True
        self._tell = tell
        self._numbers = itertools.count()

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        number = next(self._numbers)
        if self.starting:
            coro = Stopwatch(coro, self._tell, number, ONE_IN)
        elif not number % ONE_IN:
            coro = Stopwatch(coro, self._tell, 0, 1)
        return asyncio.Task(coro, loop=loop, **options)


async def measure_lag(costs: Costs) -> None:
    """How late a sleep wakes; for ever."""
    while True:
        due = time.perf_counter() + LAG_PERIOD
        await asyncio.sleep(LAG_PERIOD)
        costs.add("lag", max(0.0, time.perf_counter() - due))


async def run(files: list[Path], every: float, listen: str) -> None:
    """Observe until the input ends."""
    costs = Costs()
    pid = os.getpid()
    configuration = load_files(files)
    gc.collect()
    begin_memory = resident_of(pid)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), lambda: ended.set() if not sys.stdin.readline() else None)
    gc.callbacks.append(costs.collection)
    timing = Timing(lambda seconds: costs.add("steps", seconds))
    loop.set_task_factory(timing)
    async with Watched(configuration.settings, SystemClock(), listen=listen) as watcher:
        watcher.costs, watcher.period = costs, configuration.settings.scrape.period
        watcher.supervise("keep collections short", Pauses(SystemClock(), watcher.tally).run)
        watcher.supervise("measure the lag beside the observer", lambda: measure_lag(costs))
        await watcher.watch(configuration.deployments)
        timing.starting = False
        begun, targets = time.monotonic(), sum(1 for each in configuration.deployments for _ in each.targets())
        print(json.dumps({"url": watcher.url, "targets": targets, "before": begin_memory}), flush=True)
        while not ended.is_set():
            try:
                async with asyncio.timeout(every):
                    await ended.wait()
            except TimeoutError:
                pass
            line = {
                "seconds": time.monotonic() - begun,
                "cpu": cpu_of(pid),
                "resident": resident_of(pid),
                "load": load(),
                "reads": costs.reads,
                "failures": costs.failures,
                "overruns": sum(watcher.overruns().values()),
                "messages": watcher.kv.kv_receiver().received_messages,
                "queued": watcher.kv.kv_receiver().queued_bytes,
                "pauses": watcher.kv.kv_receiver().pauses,
                "gaps": sum(stream.counters.gaps for stream in watcher.kv.kv_streams()),
                **costs.told(),
            }
            print(json.dumps(line), flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="+", type=Path)
    options.add_argument("--every", type=float, default=5.0)
    options.add_argument("--listen", default="127.0.0.1:0")
    chosen = options.parse_args()
    tune_allocator()
    raise_file_limit()
    uvloop.run(run(chosen.files, chosen.every, chosen.listen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
