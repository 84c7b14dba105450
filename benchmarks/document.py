"""The metrics document of a deployment with 64 members, made fresh after every scrape, in its parts.

    python -m benchmarks.document [--rounds N]

Before each document one member is read anew and time goes on, so every age and one member's numbers differ. `kept` is the
way from the store to the bytes that is served: what did not change of a Pod is kept as bytes. Its peer makes everything:
`report` is what was read as it stands at that instant, `document` its entries, `bytes` their JSON. In one round of eight
the peer's is made too, from the same store at the same instant, and the bytes of both are compared. `orjson` is the same JSON written from plain dictionaries, as the least that any way of writing the whole costs.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec
import orjson

from benchmarks.collector import POLICY, Nothing, deployment
from benchmarks.exposition import SEED, moved
from benchmarks.measuring import Report, spread
from exporters.document import metrics_document
from exporters.encoding import encode
from exporters.kept_documents import KeptDocuments
from observer.app.judging import Judging
from observer.app.source import Source
from observer.collect.allocator import tune_allocator
from observer.measure.exposition import Limits
from observer.settings import Settings
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, TargetKey

MEMBERS = 64
PERIOD = 5.0
PEER_EVERY = 8


def not_due(_: TargetKey) -> tuple[float | None, bool]:
    """Nobody schedules here."""
    return None, False


class Hand:
    """A clock that is set."""

    moment = Instant(0.0, 0.0)

    def now(self) -> Instant:
        return self.moment


class NoPool:
    """Nobody reads here."""

    shed: tuple[TargetKey, ...] = ()

    def schedule(self, _: TargetKey) -> None:
        return None

    async def refresh(self, _: Iterable[TargetKey]) -> None:
        return None


def source_of(store: Store, clock: Hand) -> Source:
    """What the observer's listener is handed, over a store that a benchmark fills."""
    settings = Settings()
    return Source(store, NoPool(), Judging(store, settings), clock, settings)


def everything(store: Store, key: DeploymentKey, at: Instant, times: dict[str, list[float]]) -> bytes:
    """The document made of a whole report; what its parts cost is added to ``times``."""
    moments = [time.process_time()]
    report = store.report(key, at, not_due)
    moments.append(time.process_time())
    if report is None:
        sys.exit("the deployment is gone")
    document = metrics_document(report)
    moments.append(time.process_time())
    made = encode(document)
    moments.append(time.process_time())
    plain = msgspec.to_builtins(document)
    begun = time.process_time()
    orjson.dumps(plain)
    times["orjson"].append(time.process_time() - begun)
    for name, first, last in (("report", 0, 1), ("document", 1, 2), ("bytes", 2, 3), ("whole", 0, 3)):
        times[name].append(moments[last] - moments[first])
    return made


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=240, help="documents made")
    chosen = options.parse_args()
    tune_allocator()
    clock = Hand()
    store = Store(clock, POLICY, Limits(), Nothing())
    served = KeptDocuments(source_of(store, clock))
    of = deployment(0, MEMBERS)
    store.set_deployments([of], Instant(0.0, 0.0))
    targets = list(of.targets())
    bodies = [moved(SEED.read_bytes(), step) for step in range(8)]
    times: dict[str, list[float]] = {name: [] for name in ("kept", "report", "document", "bytes", "whole", "orjson")}
    size = 0
    for number in range(4 * MEMBERS + max(chosen.rounds, 4 * PEER_EVERY)):
        turn, place = divmod(number, MEMBERS)
        at = clock.moment = Instant(PERIOD * number / MEMBERS, PERIOD * number / MEMBERS)
        store.on_body(targets[place], bodies[turn % 8], "text/plain", at, 0.01)
        if number < 4 * MEMBERS:
            continue
        begun = time.process_time()
        kept = served.document(of.key)
        times["kept"].append(time.process_time() - begun)
        if number % PEER_EVERY == 0:
            made = everything(store, of.key, at, times)
            if kept != made:
                sys.exit("the bytes differ")
            size = len(made)
    told = Report("document", "orjson", "msgspec")
    kept_ms = statistics.median(times["kept"]) * 1e3
    told.line(f"document of {MEMBERS} members, {size:,} bytes, ms", spread(times["kept"]), kept_ms, 1.0, at_least=False)
    for name in ("whole", "report", "document", "bytes", "orjson"):
        told.line(f"  {name}, ms", spread(times[name]), statistics.median(times[name]) * 1e3)
    return told.end()


if __name__ == "__main__":
    sys.exit(main())
