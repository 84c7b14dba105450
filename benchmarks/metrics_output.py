"""Our ``/metrics`` against ``prometheus_client.generate_latest`` over the same 100,000 series, in one interleaved run.

    python -m benchmarks.metrics_output [--rounds N] [--series N]

50 families of gauges with three labels. Before anything is timed, the bytes of both are compared, for usual numbers and
for those that Prometheus writes in a way of its own. `again`: new numbers, the same series. `changed`: since the last
rendering one series came and another left in one family; `all changed`: in every family. The last line is JSON.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from benchmarks.measuring import Report, interleaved, spread
from exporters.family import Family, Row
from exporters.prometheus import Renderer
from exporters.snapshot import Snapshot
from observer.collect.allocator import tune_allocator

FAMILIES = 50
LABELS = ("deployment", "namespace", "pod")
ODD = (0.0, 1e-5, 1e6, 123456789.25, float("inf"), float("-inf"), float("nan"), 1.0, 0.1 + 0.2, 2**53)
NOTHING = Snapshot((), (), ())


class World:
    """The series of every family and their numbers; both sides read the same lists."""

    def __init__(self, series: int) -> None:
        self._source = random.Random(4)
        each = series // FAMILIES
        self.labels = [
            [(f"chat-{n % 97}", f"team-{n % 11}", f"chat-{n % 97}-{n:05d}") for n in range(each)]
            for _ in range(FAMILIES)
        ]
        self._numbers = [
            [[round(self._source.uniform(0, 5000), self._source.randrange(4)) for _ in range(each)] for _ in range(4)]
            for _ in range(FAMILIES)
        ]
        self.step = 0
        self._new = 0

    def rows(self, family: int) -> Iterable[Row]:
        return zip(self.labels[family], self.numbers(family))  # noqa: B905 - made of equal length

    def numbers(self, family: int) -> list[float]:
        return self._numbers[family][self.step % 4]

    def change(self, families: Iterable[int]) -> None:
        """In each of these families the first series leaves and a new one comes."""
        for family in families:
            self._new += 1
            self.labels[family] = [*self.labels[family][1:], ("chat-new", "team-new", f"chat-new-{self._new}")]


class Peer(Collector):
    """The collector that a user of the library writes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterator[Metric]:
        for number in range(FAMILIES):
            family = GaugeMetricFamily(f"load_{number}", f"Load number {number}.", labels=LABELS)
            for labels, value in self._world.rows(number):
                family.add_metric(labels, value)  # type: ignore[arg-type]  # rows of gauges hold numbers only
            yield family


def family(world: World, number: int) -> Family:
    return Family(
        name=f"load_{number}", help=f"Load number {number}.", labels=LABELS, rows=lambda _: world.rows(number)
    )


def check_equal(renderer: Renderer, registry: CollectorRegistry, world: World) -> None:
    """Both must write the same bytes, for odd numbers too. Exits where they differ."""
    for family_numbers in (None, ODD):
        if family_numbers is not None:
            kept = world.numbers(0)[: len(ODD)]
            world.numbers(0)[: len(ODD)] = ODD
        ours, theirs = renderer.render(NOTHING).body, generate_latest(registry)
        if family_numbers is not None:
            world.numbers(0)[: len(ODD)] = kept
        if ours != theirs:
            place = next(n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
            sys.exit(
                f"bytes differ at {place}: {ours[place - 60 : place + 40]!r} and {theirs[place - 60 : place + 40]!r}"
            )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--series", type=int, default=100_000)
    chosen = options.parse_args()
    tune_allocator()  # as the observer does when it starts; it holds for both sides
    world = World(chosen.series)
    renderer = Renderer([family(world, number) for number in range(FAMILIES)])
    registry = CollectorRegistry()
    registry.register(Peer(world))
    check_equal(renderer, registry, world)

    def ours(changing: Iterable[int]) -> Callable[[], object]:
        def run() -> object:
            world.step += 1
            world.change(changing)
            return renderer.render(NOTHING)

        return run

    jobs = {
        "prometheus_client": (lambda: generate_latest(registry), 1),
        "again": (ours(()), 8),
        "changed": (ours((7,)), 4),
        "all changed": (ours(range(FAMILIES)), 2),
    }
    times = interleaved(jobs, max(chosen.rounds, 3), "metrics output")
    check_equal(renderer, registry, world)
    report = Report("metrics_output", "prometheus_client", "orjson", "numpy")
    base = statistics.median(times["prometheus_client"])
    report.line("generate_latest", f"{spread(times['prometheus_client'])} ms", base * 1e3)
    for name, limit in (("again", 30.0), ("changed", 5.0), ("all changed", 5.0)):
        ratio = base / statistics.median(times[name])
        title = f"/metrics, {chosen.series:,} series, {name}"
        report.line(title, f"{spread(times[name])} ms, bytes equal: x{ratio:.1f}", ratio, limit)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
