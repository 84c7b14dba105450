"""The metrics document of a deployment with 64 members, made fresh after every scrape, in its parts.

    python -m benchmarks.document [--rounds N]

Before each document one member is read anew and time goes on, so every age and one member's numbers differ. `report` is
what was read as it stands at that instant, `document` its entries, `bytes` their JSON; `orjson` is the same JSON written
from plain dictionaries, as the least that any way of writing the whole costs. The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec
import orjson

from benchmarks.collector import POLICY, Nothing, deployment
from benchmarks.exposition import SEED, moved
from benchmarks.measuring import Report, spread
from exporters.document import metrics_document
from exporters.encoding import encode
from observer.clock import SystemClock
from observer.collect.allocator import tune_allocator
from observer.measure.exposition import Limits
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import TargetKey

MEMBERS = 64
PERIOD = 5.0


def not_due(_: TargetKey) -> tuple[float | None, bool]:
    """Nobody schedules here."""
    return None, False


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=120, help="documents made")
    chosen = options.parse_args()
    tune_allocator()
    store = Store(SystemClock(), POLICY, Limits(), Nothing())
    of = deployment(0, MEMBERS)
    store.set_deployments([of], Instant(0.0, 0.0))
    targets = list(of.targets())
    bodies = [moved(SEED.read_bytes(), step) for step in range(8)]
    times: dict[str, list[float]] = {name: [] for name in ("report", "document", "bytes", "whole", "orjson")}
    size = 0
    for number in range(4 * MEMBERS + max(chosen.rounds, 4)):
        turn, place = divmod(number, MEMBERS)
        at = Instant(PERIOD * number / MEMBERS, PERIOD * number / MEMBERS)
        store.on_body(targets[place], bodies[turn % 8], "text/plain", at, 0.01)
        if number < 4 * MEMBERS:
            continue
        moments = [time.process_time()]
        report = store.report(of.key, at, not_due)
        moments.append(time.process_time())
        if report is None:
            sys.exit("the deployment is gone")
        document = metrics_document(report)
        moments.append(time.process_time())
        size = len(encode(document))
        moments.append(time.process_time())
        plain = msgspec.to_builtins(document)
        begun = time.process_time()
        orjson.dumps(plain)
        times["orjson"].append(time.process_time() - begun)
        for name, first, last in (("report", 0, 1), ("document", 1, 2), ("bytes", 2, 3), ("whole", 0, 3)):
            times[name].append(moments[last] - moments[first])
    told = Report("document", "orjson", "msgspec")
    whole = statistics.median(times["whole"]) * 1e3
    told.line(f"document of {MEMBERS} members, {size:,} bytes, ms", spread(times["whole"]), whole, 1.0, at_least=False)
    for name in ("report", "document", "bytes", "orjson"):
        told.line(f"  {name}, ms", spread(times[name]), statistics.median(times[name]) * 1e3)
    return told.end()


if __name__ == "__main__":
    sys.exit(main())
