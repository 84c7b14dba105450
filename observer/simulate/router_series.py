"""The moments at which a router's series move. Each router program overrides those that its own metrics show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from observer.simulate.breaker import Circuit
from observer.simulate.exposition import Registry
from observer.simulate.workers import Worker

RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
"""Answers of a worker after which both routers try another; any other error is passed on at once."""


@dataclass
class Ask:
    """One inference request at the router: where it came in and what its client said."""

    route: str
    endpoint: str
    body: bytes
    payload: dict[str, Any]
    begun: float

    @property
    def streaming(self) -> bool:
        """Whether the client wants a stream."""
        return bool(self.payload.get("stream"))

    @property
    def model(self) -> str:
        """The model the client named, ``default`` without one."""
        return str(self.payload.get("model") or "default")


class RouterSeries:
    """The metrics of one router process life: a registry, and nothing that moves by itself.

    ``prefix`` is put before every family name given to the helpers.
    """

    def __init__(self, registry: Registry, prefix: str) -> None:
        self.registry = registry
        self._prefix = prefix

    def add(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """Raise a counter or gauge; labels stand in the order given, ``from_`` is written ``from``."""
        self.registry.add(self._prefix + name, _pairs(labels), amount)

    def put(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        self.registry.put(self._prefix + name, _pairs(labels), value)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Record an observation."""
        self.registry.observe(self._prefix + name, _pairs(labels), value)

    def registered(self, worker: Worker, workers: list[Worker]) -> None:
        """A worker joined ``workers``."""

    def removed(self, worker: Worker, workers: list[Worker]) -> None:
        """A worker was taken out; ``workers`` are those that remain."""

    def checked(self, worker: Worker, *, success: bool) -> None:
        """A health check ended."""

    def selected(self, worker: Worker, ask: Ask) -> None:
        """A worker was chosen and gets the request."""

    def released(self, worker: Worker) -> None:
        """A worker's request ended."""

    def upstream(self, worker: Worker, ask: Ask, status: int, code: str, seconds: float) -> None:
        """An attempt was answered ``seconds`` after the request arrived, or failed with ``code``."""

    def outcome(self, worker: Worker, *, success: bool) -> None:
        """The circuit booked an outcome."""

    def transition(self, worker: Worker, left: Circuit) -> None:
        """The circuit changed from ``left`` to what it is now."""

    def nobody(self, ask: Ask) -> None:
        """An attempt found no worker to choose."""

    def retry(self, ask: Ask, attempt: int, pause: float) -> None:
        """Another attempt follows after ``pause`` seconds."""

    def exhausted(self, ask: Ask) -> None:
        """No attempt is left."""


def _pairs(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name.rstrip("_"), value) for name, value in labels.items())
