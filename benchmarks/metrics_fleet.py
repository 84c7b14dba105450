"""Our ``/metrics`` of a real fleet: CPU a target, where nothing of what is shown was made since the targets were read.

    python -m benchmarks.metrics_fleet [--targets N] [--rounds N]

Deployments of 50 members, judged, with an earlier body four times a window. Before each rendering every target is read
anew (outside of the time), so that no value of it was ever made. What is timed is all that one answer costs: reports with
the signals that families look at, statuses, families, the process's own metrics, bytes. Its peer makes every value of
every target that the other did not; in the rounds in which it runs, the bytes of both are compared. Collections as the
observer runs them (`observer.app.pauses`), their looks left out. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from aiohttp.test_utils import make_mocked_request

from benchmarks.collector import POLICY, Nothing, deployment
from benchmarks.document import Hand, NoPool
from benchmarks.exposition import SEED, moved
from benchmarks.measuring import Report, spread
from exporters.api import Api
from exporters.families import FAMILIES
from exporters.prometheus import Renderer
from exporters.self_metrics import SelfMetrics
from exporters.snapshot import snapshot
from observer.app.judging import Judging
from observer.app.pauses import MIDDLE, NEVER, YOUNG
from observer.app.source import Source
from observer.collect.allocator import tune_allocator
from observer.measure.exposition import Limits
from observer.settings import Settings
from observer.store import Store
from router_contract.readings import Instant

MEMBERS = 50
PERIOD = 15.0
READS = 4
"""Reads of each target before the first rendering."""
PEER_EVERY = 3
LONGEST = 20.0
MOST = 0.25
"""Milliseconds of CPU a target."""


class World:
    """Deployments that are read, judged and shown."""

    def __init__(self, targets: int) -> None:
        self.clock = Hand()
        self.store = Store(self.clock, POLICY, Limits(), Nothing())
        settings = Settings()
        self.judging = Judging(self.store, settings)
        self.source = Source(self.store, NoPool(), self.judging, self.clock, settings)
        self.renderer = Renderer(FAMILIES, SelfMetrics("0", "3").registry)
        self._api = Api(self.source, self.renderer)
        self._api.prepare = self.source.prepare_many
        self.deployments = [deployment(number, MEMBERS) for number in range(targets // MEMBERS)]
        self.store.set_deployments(self.deployments, Instant(0.0, 0.0))
        self.targets = [target for each in self.deployments for target in each.targets()]
        self._bodies = [moved(SEED.read_bytes(), step) for step in range(8)]
        self._turn = 0

    def read(self) -> None:
        """Every target once more, over one period, and one judging pass."""
        for place, target in enumerate(self.targets):
            seconds = PERIOD * (self._turn + place / len(self.targets))
            at = self.clock.moment = Instant(seconds, seconds)
            self.store.on_body(target, self._bodies[self._turn % 8], "text/plain", at, 0.01)
        self._turn += 1
        self.judging.judge_all(self.clock.moment)

    def few(self) -> tuple[bytes, list[float]]:
        """The answer that is served, and the CPU seconds of each of its steps on the event loop."""
        answer = self._api.metrics(make_mocked_request("GET", "/metrics"))
        steps: list[float] = []
        while True:
            begun = time.process_time()
            try:
                answer.send(None)
            except StopIteration as end:
                steps.append(time.process_time() - begun)
                return bytes(end.value.body), steps
            steps.append(time.process_time() - begun)

    def all(self) -> bytes:
        """The same with every value made."""
        reports = [report for each in self.deployments if (report := self.source.deployment(each.key)) is not None]
        return self.renderer.render(snapshot(reports, self.source.targets())).body


def series(body: bytes) -> list[bytes]:
    """What is about the fleet: the process's own metrics move between two renderings."""
    return [line for line in body.split(b"\n") if line.startswith((b"modeldeployment_", b"observer_targets"))]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, default=200)
    options.add_argument("--rounds", type=int, default=12)
    chosen = options.parse_args()
    tune_allocator()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    world = World(max(chosen.targets, MEMBERS))
    for _ in range(READS):
        world.read()
    gc.collect()
    gc.freeze()
    times: dict[str, list[float]] = {"few": [], "all": []}
    lines, longest = 0, []
    for number in range(max(chosen.rounds, 2 * PEER_EVERY)):
        print(f"metrics of a fleet: round {number + 1}", file=sys.stderr, flush=True)
        world.read()
        gc.collect(1)
        body, steps = world.few()
        times["few"].append(sum(steps) / len(world.targets))
        longest.append(max(steps))
        if number % PEER_EVERY == 0:
            kept = world.clock.moment
            begun = time.process_time()
            whole = world.all()
            times["all"].append((time.process_time() - begun) / len(world.targets))
            if kept != world.clock.moment or series(body) != series(whole):
                sys.exit("what is shown differs")
            lines = len(series(body))
    report = Report("metrics_fleet", "prometheus_client", "orjson", "numpy")
    few = statistics.median(times["few"]) * 1e3
    name = f"/metrics of {len(world.targets):,} targets, all newly read, ms a target"
    report.line(name, f"{spread(times['few'])}, {lines:,} series", few, MOST, at_least=False)
    step = statistics.median(longest) * 1e3
    report.line("  the longest step on the event loop, ms", spread(longest), step, LONGEST, at_least=False)
    report.line("  with every value made", spread(times["all"]), statistics.median(times["all"]) * 1e3)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
