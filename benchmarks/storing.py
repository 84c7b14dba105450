"""What a read costs after its layout was read, what showing it costs, and what is kept of it.

    python -m benchmarks.storing [--rounds N] [--targets N] [--body BYTES]

Targets with bodies of about 191 kB (a recorded vLLM with its engine repeated), each read several times; every number of a
body grows from read to read. `after its layout` is `Store.on_body` without the reader's own part; `all values` are those
of a target that was read since they were made last, `signals` only those that /metrics has. Bytes are those that a
target's reads and windows keep, as Python counts them, without what all targets share. `own label values` are targets
that each have another number of blocks in the labels of their info lines, one for each engine of a body; `their labels
change` is a read in which these are not what they were before. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.collector import POLICY, Nothing, deployment
from benchmarks.exposition import SIZE
from benchmarks.measuring import Report, spread
from benchmarks.target_server import body_of, grown
from observer.clock import SystemClock
from observer.collect.allocator import tune_allocator
from observer.measure import extract
from observer.measure.exposition import Limits, NotRead, Reader, Reading, Shape
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import Target

PERIOD = 15.0
BEFORE = 4
"""Times that every target is read before anything is measured."""
BLOCKS = b'num_gpu_blocks="16384"'
OWN = 20_000
SHOWN = frozenset(
    {
        "requests-running",
        "requests-waiting",
        "kv-cache-usage",
        "prompt-tokens",
        "generation-tokens",
        "prefix-cache-queries",
        "prefix-cache-hits",
        "requests-finished",
        "time-to-first-token",
        "inter-token-latency",
        "request-duration",
        "queue-time",
    }
)
"""The signals that the families of /metrics have."""


class World:
    """A store and its targets, read one after the other.

    With ``own`` each has another number of blocks in its labels, from that on; with ``changes`` another after two reads.
    """

    def __init__(self, targets: int, bodies: list[bytes], own: int = 0, *, changes: bool = False) -> None:
        self.store = Store(SystemClock(), POLICY, Limits(), Nothing())
        of = deployment(0, targets)
        self.store.set_deployments([of], Instant(0.0, 0.0))
        self.targets: list[Target] = list(of.targets())
        self.bodies = bodies
        self.own = own
        self.changes = changes
        self.reads = 0
        self.now = Instant(0.0, 0.0)
        self.body = b""

    def read(self) -> Target:
        """Read the next target."""
        turn, place = divmod(self.reads, len(self.targets))
        moment = PERIOD * turn + PERIOD * place / len(self.targets)
        self.now = Instant(moment, moment)
        self.body = self.bodies[turn % len(self.bodies)]
        if self.own:
            blocks = b"%d" % (self.own + place + turn // 2 * len(self.targets) * self.changes)
            self.body = self.body.replace(BLOCKS, BLOCKS.replace(b"16384", blocks))
        self.store.on_body(self.targets[place], self.body, "text/plain", self.now, 0.01)
        self.reads += 1
        return self.targets[place]


def kept(bodies: list[bytes], targets: int, reads: int, own: int = 0) -> float:
    """Bytes of a target after so many reads, without what all targets share; the labels from ``own`` on are their own."""
    world = World(targets, bodies, own)
    for _ in range(2):
        world.read()
    gc.collect()
    tracemalloc.start()
    for _ in range(reads * targets - 2):
        world.read()
    gc.collect()
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return now / targets


class Clocked(Reader):
    """A reader that tells the CPU seconds of its last read."""

    seconds = 0.0

    def read(self, body: bytes, *, hint: Shape | None = None, openmetrics: bool = False) -> Reading | NotRead:
        """As the reader does."""
        begun = time.thread_time()
        reading = super().read(body, hint=hint, openmetrics=openmetrics)
        Clocked.seconds = time.thread_time() - begun
        return reading


def measure(world: World, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each part of each read: a round reads every target once."""
    times: dict[str, list[float]] = {name: [] for name in ("after", "layout", "all values", "signals", "shown again")}
    for number in range(rounds * len(world.targets)):
        moments = [time.thread_time()]
        target = world.read()
        moments.append(time.thread_time())
        signals = SHOWN if number % 2 else None
        for _ in range(2):
            world.store.target_report(target.key, world.now, signals)
            moments.append(time.thread_time())
        parts = [later - earlier for earlier, later in pairwise(moments)]
        times["after"].append(parts[0] - Clocked.seconds)
        times["layout"].append(Clocked.seconds)
        times["signals" if number % 2 else "all values"].append(parts[1])
        if not number % 2:
            times["shown again"].append(parts[2])
    return times


def reads_of_own(bodies: list[bytes], targets: int) -> tuple[list[float], list[float]]:
    """CPU seconds of reads of targets with own labels, as those were before and changed."""
    world = World(targets, bodies, OWN, changes=True)
    times: list[float] = []
    for _ in range(len(bodies) * targets):
        begun = time.thread_time()
        world.read()
        times.append(time.thread_time() - begun)
    turns = [times[start : start + targets] for start in range(2 * targets, len(times), targets)]
    return [each for turn in turns[1::2] for each in turn], [each for turn in turns[::2] for each in turn]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=8, help="times that every target is read while it is measured")
    options.add_argument("--targets", type=int, default=64)
    options.add_argument("--body", type=int, default=SIZE, help="bytes of a body")
    chosen = options.parse_args()
    tune_allocator()
    rounds = max(2, chosen.rounds)
    bodies = [grown(body_of(chosen.body), step) for step in range(BEFORE + rounds)]
    report = Report("storing", "numpy", "msgspec")
    title = f"body of {len(bodies[0]):,} bytes"
    vars(extract)["Reader"] = Clocked  # what extractors read with is measured apart
    bytes_each = kept(bodies, chosen.targets, 6)
    own_each = kept(bodies, chosen.targets, 6, OWN)
    same, changed = reads_of_own(bodies[:6], chosen.targets)
    world = World(chosen.targets, bodies)
    for _ in range(BEFORE * chosen.targets):
        world.read()
    times = measure(world, rounds)
    median = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    report.line(f"{title}: a read after its layout, ms", spread(times["after"]), median["after"], 0.12, at_least=False)
    report.line(f"{title}: its layout, ms", spread(times["layout"]), median["layout"])
    report.line(f"{title}: all values, ms", spread(times["all values"]), median["all values"], 0.8, at_least=False)
    report.line(f"{title}: {len(SHOWN)} signals, ms", spread(times["signals"]), median["signals"])
    report.line(f"{title}: all values again, ms", spread(times["shown again"]), median["shown again"])
    report.line(f"{title}: bytes a target, kB", f"{bytes_each / 1e3:.1f}", bytes_each / 1e3, 22.0, at_least=False)
    own = f"{title} with own label values"
    more = (own_each - bytes_each) / 1e3
    report.line(f"{own}: bytes a target, kB", f"{own_each / 1e3:.1f}", own_each / 1e3, 60.0, at_least=False)
    report.line(f"{own}: bytes a target more than without, kB", f"{more:.1f}", more)
    report.line(f"{own}: a read, ms", spread(same), statistics.median(same) * 1e3)
    report.line(f"{own}: a read, their labels change, ms", spread(changed), statistics.median(changed) * 1e3)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
