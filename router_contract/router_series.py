"""From a router's own series, as measured, to what its view needs of them: circuits by worker, endpoints by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from router_contract.readings import Instant
from router_contract.router_views import CircuitReading, EndpointSeries

CIRCUIT = "router-worker-circuit"
OUTCOMES = "router-worker-outcomes"
QUEUE = "router-endpoint-queue-size"
READY = "router-backends"


class Labelled(Protocol):
    """A `Series` of one read or a `SignalValue` at an instant: our labels and a number, or none."""

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """Our labels."""
        ...

    @property
    def value(self) -> float | None:
        """The number; ``None`` when the value is missing."""
        ...


def circuit_reading(
    at: Instant, circuits: Iterable[Labelled], outcomes: Iterable[Labelled], *, whole: bool
) -> CircuitReading:
    """The circuits of one good read of a router's metrics port, from the series of `CIRCUIT` and `OUTCOMES`.

    Call it for every read that was good, with no series too: "read, and none is exported" is not "not read". ``whole``
    is False where some of these series are there and could not be read.
    """
    states = {worker: each.value for each in circuits if (worker := _label(each, "worker")) and each.value is not None}
    finished = {_label(each, "worker") for each in outcomes if each.value}
    return CircuitReading(
        states=tuple(sorted(states.items())), finished=tuple(sorted(finished - {""})), at=at, whole=whole
    )


def endpoint_series(
    at: Instant, queues: Iterable[Labelled], ready: Iterable[Labelled], *, whole: bool
) -> EndpointSeries:
    """llm-d's endpoints of one good read, from the series of `QUEUE` and `READY`; ``whole`` as in `circuit_reading`."""
    names = {name for each in queues if each.value is not None and (name := _label(each, "endpoint"))}
    counts = [each.value for each in ready if each.value is not None]
    return EndpointSeries(endpoints=tuple(sorted(names)), ready=sum(counts) if counts else None, at=at, whole=whole)


def _label(each: Labelled, name: str) -> str:
    return next((value for key, value in each.labels if key == name), "")
