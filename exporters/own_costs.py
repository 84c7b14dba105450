"""What the observer costs, over HTTP and as metrics: loop lag, parse time, collections, queues, memory by part.

Durations are read from the histograms of `exporters.self_metrics`, so that they are the same there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from exporters.encoding import encode
from exporters.family import Family
from exporters.snapshot import Snapshot
from router_contract.own_costs import MemoryPart, QueueDepth

SELF_PATH = "/api/v1/self"
DURATIONS = {
    "loopLag": "observer_loop_lag_seconds",
    "parse": "observer_parse_duration_seconds",
    "scrape": "observer_scrape_duration_seconds",
    "collectorPause": "observer_collector_pause_seconds",
}
"""The durations shown, by the histogram that counts them."""
_SHARES = (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))


class OwnCostSource(Protocol):
    """Reads memory and queues at the moment of the call."""

    def memory(self) -> Sequence[MemoryPart]:
        """The parts in a stable order; they do not overlap."""
        ...

    def queues(self) -> Sequence[QueueDepth]:
        """Every queue."""
        ...


class OwnCostApi:
    """The handler."""

    def __init__(self, source: OwnCostSource, registry: CollectorRegistry) -> None:
        self._source = source
        self._registry = registry

    def routes(self) -> list[web.AbstractRouteDef]:
        """Its one path."""
        return [web.get(SELF_PATH, self._costs)]

    async def _costs(self, _: web.Request) -> web.Response:
        return web.Response(body=encode(own_costs(self._source, self._registry)), content_type="application/json")


def own_costs(source: OwnCostSource, registry: CollectorRegistry) -> dict[str, Any]:
    """The document: ``durations`` since the process began, ``queues`` and ``memory`` now (bytes)."""
    return {
        "durations": {name: durations(registry, family) for name, family in DURATIONS.items()},
        "queues": [msgspec.to_builtins(each) for each in source.queues()],
        "memory": [msgspec.to_builtins(each) for each in source.memory()],
    }


def durations(registry: CollectorRegistry, family: str) -> dict[str, float | int | None]:
    """Count, mean and quantiles (seconds) of a histogram over all of its label sets.

    A quantile is the upper bound of the bucket that holds it, so that the true one is at most that; ``None`` without
    any count, or beyond the last bound.
    """
    buckets: dict[float, float] = {}
    total = count = 0.0
    for metric in registry.collect():
        for sample in metric.samples if metric.name == family else ():
            if sample.name.endswith("_bucket"):
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
            elif sample.name.endswith("_sum"):
                total += sample.value
            elif sample.name.endswith("_count"):
                count += sample.value
    found: dict[str, float | int | None] = {"count": int(count), "meanSeconds": total / count if count else None}
    for name, share in _SHARES:
        found[f"{name}AtMostSeconds"] = _bound(buckets, share * count) if count else None
    return found


def _bound(buckets: dict[float, float], wanted: float) -> float | None:
    held = (bound for bound, below in sorted(buckets.items()) if below >= wanted and bound != float("inf"))
    return next(held, None)


def own_cost_families(source: OwnCostSource) -> tuple[Family, ...]:
    """Our metric families about memory and queues; what nobody can tell has no series."""

    def family(name: str, text: str, label: str, rows: Callable[[], Iterable[tuple[str, int | None]]]) -> Family:
        def told(_: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
            for part, number in rows():
                if number is not None:
                    yield (part,), float(number)

        return Family(name=name, help=text, labels=(label,), rows=told)

    return (
        family(
            "observer_memory_part_bytes",
            "Memory of our own by part; rest is what no other part explains.",
            "part",
            lambda: ((each.name, each.bytes) for each in source.memory()),
        ),
        family(
            "observer_queue_depth",
            "What waits in each of our queues.",
            "queue",
            lambda: ((each.name, each.depth) for each in source.queues()),
        ),
    )
