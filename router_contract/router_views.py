"""A router's own view of its workers: frozen values. Three sources (`router_view_parsers`) give this one shape.

A view never says more than its source does: what a router does not tell is ``None``.
"""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from router_contract.readings import Instant


class ViewError(ValueError):
    """A router's answer is not the shape its source promises."""


class Circuit(StrEnum):
    """The state of a worker's circuit breaker at its router."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    UNKNOWN = "unknown"


class ViewSource(StrEnum):
    """Where a view came from, strongest first."""

    OBSERVER_ENDPOINTS = "observer-endpoints"
    WORKERS_API = "workers-api"
    SERIES = "series"


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One worker as its router sees it.

    ``host`` and ``port`` come from the URL; llm-d's series carry no URL, only ``endpoint`` (the Pod's name). ``rank`` is
    the data-parallel rank where the router names one. ``in_selection`` is ``None`` when the source cannot tell.
    ``recent_dispatch`` is llm-d's journal: the endpoint got a request within its window though it may be removed.
    """

    url: str = ""
    host: str = ""
    port: int | None = None
    rank: int | None = None
    role: str = ""
    registered: bool = True
    healthy: bool | None = None
    circuit: Circuit = Circuit.UNKNOWN
    in_selection: bool | None = None
    load: float | None = None
    endpoint: str = ""
    recent_dispatch: bool | None = None

    @property
    def label(self) -> str:
        """How the row is named to people."""
        return self.url or self.endpoint


class RouterView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="view"):
    """What one router Pod answered at one moment. ``boot_id`` changes when its process does.

    ``circuits_read_at`` is when the circuits joined to a worker API were read, ``None`` when none were.
    ``passed_over`` says why each stronger source gave nothing, as (source, sentence).
    """

    router: str
    pod_uid: str
    boot_id: str | None = None
    read_at: Instant
    source: ViewSource
    workers: tuple[WorkerRow, ...] = ()
    revision: int | None = None
    circuits_read_at: Instant | None = None
    passed_over: tuple[tuple[str, str], ...] = ()


class ViewFailed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="failed"):
    """The last attempt on a router Pod gave nothing; an older `RouterView` of the same Pod may still be valid.

    ``kind`` is a `FailureKind`; where nothing could be asked or read from, ``NoAddress``, ``NeverRead`` or ``Expired``
    of `MissingCode`.
    """

    router: str
    pod_uid: str
    at: Instant
    kind: str
    detail: str = ""
    status: int | None = None


class CircuitReading(msgspec.Struct, frozen=True, kw_only=True):
    """The circuit series of one read of a router's metrics port, keyed by the worker's URL as the label has it.

    ``states`` are wire numbers: 0 closed, 1 open, 2 half-open, -1 after removal. ``finished`` names the workers that
    have finished a request: for them an absent series is no longer "not yet". ``at`` is when the port was read;
    without it nobody can say that the reading is fresh.
    """

    states: tuple[tuple[str, float], ...] = ()
    finished: tuple[str, ...] = ()
    at: Instant | None = None


class EndpointSeries(msgspec.Struct, frozen=True, kw_only=True):
    """llm-d's series of one read: endpoint names of the per-endpoint gauge and the number of fresh ones.

    ``ready`` is ``None`` when the gauge is absent. ``inflight`` comes from the plugin state where it may be read.
    ``at`` is when the port was read; without it nobody can say that the reading is fresh.
    """

    endpoints: tuple[str, ...] = ()
    ready: float | None = None
    inflight: tuple[tuple[str, float], ...] = ()
    at: Instant | None = None


def split_worker_url(url: str) -> tuple[str, int | None, int | None]:
    """Host, port and rank of ``http://host:port`` or ``http://host:port@rank``; IPv6 hosts lose their brackets.

    Raises `ViewError` when there is no host or the port or rank is not a number.
    """
    base, at, tail = url.rpartition("@")
    rank: int | None = None
    if at and tail.isascii() and tail.isdecimal():
        url, rank = base, int(tail)
    elif at and "://" in base:
        raise ViewError(f"worker url {url!r}: rank {tail!r} after '@' is not a number")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ViewError(f"worker url {url!r}: {error}") from None
    if not host:
        raise ViewError(f"worker url {url!r}: no host")
    return host, port, rank


def split_endpoint(name: str) -> tuple[str, int | None]:
    """Pod name and rank of llm-d's ``<pod>-rank-<i>``; a name without the suffix is a Pod's name."""
    pod, marker, rank = name.rpartition("-rank-")
    if marker and rank.isascii() and rank.isdecimal():
        return pod, int(rank)
    return name, None
