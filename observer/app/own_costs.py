"""What this process keeps in memory and what waits in it, gathered from the parts that know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from observer.app.limits import resident
from observer.collect.fetch import Fetcher
from observer.loads import memory
from observer.store import Store
from router_contract.kv_streams import KvIndexSummary, ReceiverSummary
from router_contract.own_costs import MemoryPart, QueueDepth
from router_contract.targets import DeploymentKey


class Events(Protocol):
    """Tells what KV events hold and how many wait."""

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        """Deployments with streams."""
        ...

    def kv_size(self, deployment: DeploymentKey) -> KvIndexSummary:
        """What the index of one takes."""
        ...

    def kv_receiver(self) -> ReceiverSummary:
        """The receiving side."""
        ...


class OwnCosts:
    """Satisfies `exporters.own_costs.OwnCostSource`. ``kept`` gives the bytes of raw bodies that are kept for people.

    ``now`` tells monotonic seconds: at one instant the memory is told as one, however much telling it takes.
    """

    def __init__(
        self, store: Store, events: Events, fetcher: Fetcher, kept: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self._now = now
        self._told: tuple[float, tuple[MemoryPart, ...]] | None = None
        self._store = store
        self._events = events
        self._fetcher = fetcher
        self._kept = kept

    def memory(self) -> tuple[MemoryPart, ...]:
        """Every part, and what none of them explains."""
        at = self._now()
        if self._told is None or self._told[0] != at:
            self._told = (at, self._memory())
        return self._told[1]

    def _memory(self) -> tuple[MemoryPart, ...]:
        readings, windows = memory(self._store.records())
        receiver = self._events.kv_receiver()
        indexes = sum(self._events.kv_size(key).estimated_bytes for key in self._events.kv_deployments())
        shared = self._fetcher.shared
        parts = (
            MemoryPart(name="readings", bytes=readings, what="numbers of the last read of each target"),
            MemoryPart(name="windows", bytes=windows, what="numbers of windows and running totals"),
            MemoryPart(name="blockIndexes", bytes=indexes, estimated=True, what="KV blocks by member"),
            MemoryPart(name="eventQueue", bytes=receiver.queued_bytes, what="event messages waiting for the index"),
            MemoryPart(name="bodies", bytes=self._kept(), what="raw bodies kept for whoever looks at a target"),
            MemoryPart(name="largeBodies", bytes=shared.total - shared.left, what="bodies over 1 MiB in flight"),
        )
        whole = resident()
        rest = None if whole is None else max(0, whole - sum(part.bytes or 0 for part in parts))
        what = "code, tables, layouts, objects around the numbers, connections, and what the allocator holds back"
        return (*parts, MemoryPart(name="rest", bytes=rest, what=what))

    def queues(self) -> tuple[QueueDepth, ...]:
        """Every queue."""
        receiver, slots = self._events.kv_receiver(), self._fetcher.slots
        return (
            QueueDepth(name="eventMessages", depth=receiver.queued_messages, unit="messages"),
            QueueDepth(
                name="eventBytes", depth=receiver.queued_bytes, unit="bytes", capacity=receiver.capacity_bytes or None
            ),
            QueueDepth(name="reads", depth=slots.used, unit="reads in flight", capacity=slots.most or None),
        )
