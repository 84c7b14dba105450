"""The event loop's lag with a thousand targets and twenty thousand KV messages a second.

    python -m benchmarks.loop_lag [--targets N] [--rate MESSAGES] [--seconds S] [--period SECONDS]

64 of the targets publish: their sockets are in one child that sends messages made beforehand (a BlockStored of 16 blocks
and, once warm, a BlockRemoved of 16), paced. The observer runs as it serves. The lag is how late a sleep of 10 ms wakes, so
on a machine with other work it holds the waiting for a core too; the machine's load is told beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import zmq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.kv_pipeline import PUBLISHERS, batches, free_ports
from benchmarks.measuring import Report
from benchmarks.processes import Servers, ended, fleet, line_of, module, settings, write

PREPARED = PUBLISHERS * 320
CHUNK = 100
EVERY = 5.0
WARM_SAMPLES = 3
LAG_MS = 50.0


def publish(addresses: list[str], rate: float) -> None:
    """Send for ever, ``rate`` messages a second over all sockets together."""
    context: Any = zmq.Context()
    sockets = []
    for address in addresses:
        pub = context.socket(zmq.PUB)
        pub.setsockopt(zmq.LINGER, 0)
        pub.setsockopt(zmq.SNDHWM, 100_000)
        pub.bind(address)
        sockets.append(pub)
    prepared = list(itertools.islice(batches(), PREPARED))
    print(json.dumps({"ready": True}), flush=True)
    sequences = [0] * len(sockets)
    begun = time.monotonic()
    for number, (publisher, payload) in enumerate(itertools.cycle(prepared), 1):
        sockets[publisher].send_multipart((b"", sequences[publisher].to_bytes(8, "big"), payload))
        sequences[publisher] += 1
        if number % CHUNK == 0:
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))


def run(targets: int, rate: float, seconds: float, period: float) -> list[dict[str, Any]]:
    """What the observer told."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="observer-lag-")))
        servers = stack.enter_context(Servers(targets, 2))
        addresses = [f"tcp://127.0.0.1:{port}" for port in free_ports(PUBLISHERS)]
        publisher = stack.enter_context(ended(module("benchmarks.loop_lag", "--publish", str(rate), *addresses)))
        line_of(publisher)
        files = [
            write(folder, "fleet.yaml", fleet(servers.ports, events=addresses)),
            write(folder, "settings.yaml", settings(scrape={"period": f"{period:g}s"})),
        ]
        child = stack.enter_context(ended(module("benchmarks.watching", *map(str, files), "--every", str(EVERY))))
        line_of(child)
        samples: list[dict[str, Any]] = []
        while not samples or samples[-1]["seconds"] < seconds:
            samples.append(line_of(child))
            lag = samples[-1]["interval"]["lag"]
            said = f"{samples[-1]['seconds']:.0f} of {seconds:.0f} s: lag p99 {lag['p99']:.1f} ms"
            last = samples[-1]
            waits = f"{last['queued'] / 1e6:.1f} MB waiting, {last['pauses']} pauses, {last['gaps']} gaps"
            print(f"{said}, {last['messages']} messages, {waits}, load {last['load']:.1f}", file=sys.stderr, flush=True)
        return samples


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, default=1000)
    options.add_argument("--rate", type=float, default=20_000)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--period", type=float, default=15.0)
    options.add_argument("--publish", nargs="+", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.publish:
        publish(chosen.publish[1:], float(chosen.publish[0]))
    samples = run(chosen.targets, chosen.rate, chosen.seconds, chosen.period)
    warm = samples[WARM_SAMPLES:] or samples[-1:]
    first, last = (samples[WARM_SAMPLES - 1], warm[-1]) if len(samples) > WARM_SAMPLES else (samples[0], samples[-1])
    spent = max(last["seconds"] - first["seconds"], 1e-9)
    rate = (last["messages"] - first["messages"]) / spent
    core = (last["cpu"] - first["cpu"]) / spent
    p99 = [sample["interval"]["lag"]["p99"] for sample in warm]
    report = Report("loop_lag", "pyzmq", "uvloop")
    figure = f"{rate:,.0f} a second received of {chosen.rate:,.0f} asked of the publishers, {last['gaps']} gaps"
    report.line("messages", figure, rate, 0.95 * chosen.rate)
    report.line("core", f"{core:.2f} of a core, load {last['load']:.1f} on this machine", core)
    figure = f"p99 {statistics.median(p99):.1f} ms (between {min(p99):.1f} and {max(p99):.1f} in 5 s each)"
    name = f"loop lag, {chosen.targets:,} targets, {chosen.rate:,.0f} messages/s"
    report.line(name, figure, statistics.median(p99), LAG_MS, at_least=False)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
