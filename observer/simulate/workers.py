"""A router's workers: what it knows of each, how it checks their health, and which one it picks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from observer.simulate.breaker import Breaker, Circuit
from observer.simulate.spec import RouterSpec

REGULAR, PREFILL, DECODE, ENCODE = "regular", "prefill", "decode", "encode"


@dataclass(frozen=True)
class WorkerAddress:
    """A configured worker: its base URL, its type, and the bootstrap port of a prefill worker."""

    url: str
    kind: str = REGULAR
    bootstrap_port: int | None = None
    pod: str = ""


@dataclass
class Worker:
    """A registered worker, one for each rank where the router tells ranks apart."""

    address: WorkerAddress
    breaker: Breaker
    rank: int | None = None
    identity: str = ""
    model: str = "unknown"
    metadata: dict[str, str] = field(default_factory=dict)
    healthy: bool = True
    failures: int = 0
    successes: int = 0
    active: int = 0
    dispatched: int = 0

    @property
    def url(self) -> str:
        """The URL as the router shows it, with ``@rank`` where ranks are workers."""
        return self.address.url if self.rank is None else f"{self.address.url}@{self.rank}"

    @property
    def kind(self) -> str:
        """The worker type."""
        return self.address.kind

    @property
    def circuit_open(self) -> bool:
        """Whether the circuit refuses now; reading it changes nothing."""
        return self.breaker.state is Circuit.OPEN

    def checked(self, spec: RouterSpec, *, success: bool) -> bool:
        """Book a health check; True when ``healthy`` changed."""
        before = self.healthy
        if success:
            self.successes, self.failures = self.successes + 1, 0
            if self.successes >= spec.success_threshold:
                self.healthy = True
        else:
            self.failures, self.successes = self.failures + 1, 0
            if self.failures >= spec.failure_threshold:
                self.healthy = False
        return self.healthy is not before


class WorkerSet:
    """The registered workers in registration order, and selection among them."""

    def __init__(self, spec: RouterSpec, seed: int = 0) -> None:
        self._spec = spec
        self._random = random.Random(seed)
        self._turn: dict[str, int] = {}
        self._made = 0
        self.all: list[Worker] = []

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def add(self, address: WorkerAddress, rank: int | None, model: str, metadata: dict[str, str]) -> Worker:
        """Register a worker; its identity is drawn anew for every registration."""
        spec = self._spec
        self._made += 1
        bits = self._random.getrandbits(128)
        text = f"{bits:032x}"
        worker = Worker(
            address=address,
            breaker=Breaker(spec.breaker_failures, spec.breaker_successes, spec.breaker_open_seconds),
            rank=rank,
            identity=f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}",
            model=model,
            metadata=metadata,
        )
        self.all.append(worker)
        return worker

    def remove(self, url: str) -> list[Worker]:
        """Take out every worker of a base URL."""
        gone = [worker for worker in self.all if worker.address.url == url]
        self.all = [worker for worker in self.all if worker.address.url != url]
        return gone

    def known(self, url: str) -> bool:
        """Whether a base URL is registered."""
        return any(worker.address.url == url for worker in self.all)

    def of(self, kind: str) -> list[Worker]:
        """The workers of a type."""
        return [worker for worker in self.all if worker.kind == kind]

    def pick(self, kind: str, policy: str, now: float) -> tuple[Worker | None, list[tuple[Worker, Circuit]]]:
        """Choose a healthy worker whose circuit lets it through, and the circuits that asking half-opened."""
        able, moved = [], []
        for worker in self.of(kind):
            allowed, left = worker.breaker.allows(now) if worker.healthy else (False, None)
            if left is not None:
                moved.append((worker, left))
            if allowed:
                able.append(worker)
        if not able:
            return None, moved
        if policy == "round_robin":
            turn = self._turn[kind] = self._turn.get(kind, -1) + 1
            return able[turn % len(able)], moved
        if policy == "random":
            return self._random.choice(able), moved
        return min(able, key=lambda worker: (worker.active, worker.dispatched)), moved

    def shuffled(self) -> list[Worker]:
        """The workers in an order that is not stable, as one router lists them."""
        order = list(self.all)
        self._random.shuffle(order)
        return order


def worker_row(worker: Worker, mode: str, *, identity: bool) -> dict[str, Any]:
    """One entry of ``/workers``. ``mode`` is how the program spells the connection mode."""
    row: dict[str, Any] = {"id": worker.identity} if identity else {}
    row |= {"url": worker.url, "model_id": worker.model}
    tail: dict[str, Any] = {"is_healthy": worker.healthy, "load": worker.active, "connection_mode": mode}
    if identity:
        row |= {"priority": 50, "cost": 1.0, "worker_type": worker.kind, **tail}
        if worker.address.bootstrap_port is not None:
            row["bootstrap_port"] = worker.address.bootstrap_port
        if worker.metadata:
            row["metadata"] = worker.metadata
        return row | {"disable_health_check": False}
    row |= {"worker_type": worker.kind, **tail, "priority": 50, "cost": 1.0}
    return row | {"bootstrap_port": None} if worker.kind == PREFILL else row


def workers_document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The body of ``/workers``."""
    counts = {kind: sum(row["worker_type"] == kind for row in rows) for kind in (PREFILL, DECODE, REGULAR)}
    stats = {f"{kind}_count": count for kind, count in counts.items()}
    return {"workers": rows, "total": len(rows), "stats": stats}
