"""A router's own view of its workers: frozen values. Three sources (`router_view_parsers`) give this one shape.

A view never says more than its source does: what a router does not tell is ``None``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from router_contract.readings import Instant

MAX_RANK = 65_535
"""The highest data-parallel rank that is believed."""
MAX_URL = 2048
MAX_SHOWN = 80
"""Characters of a foreign text in a sentence."""
MAX_PROBLEMS = 8
_RANK_DIGITS = 5
_PORT = re.compile(r":[0-9]{1,5}\Z")
_DEFAULT_PORTS = {"http": 80, "https": 443}
"""Where a URL that names no port is asked."""


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


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
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

    @property
    def dialled(self) -> int | None:
        """The port that the router sends to: of a URL without one its scheme's own."""
        return self.port if self.port is not None else _DEFAULT_PORTS.get(self.url.partition("://")[0].lower())


class RouterView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="view", gc=False):
    """What one router Pod answered at one moment. ``boot_id`` changes when its process does.

    ``circuits_read_at`` is when the circuits joined to a worker API were read, ``None`` when none were.
    ``passed_over`` says why each stronger source gave nothing, as (source, sentence). ``problems`` are sentences about
    what the view says of itself that cannot all be true.
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
    problems: tuple[str, ...] = ()


class ViewFailed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="failed", gc=False):
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


class CircuitReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The circuit series of one read of a router's metrics port, keyed by the worker's URL as the label has it.

    ``states`` are wire numbers: 0 closed, 1 open, 2 half-open, -1 after removal. ``finished`` names the workers that
    have finished a request: for them an absent series is no longer "not yet". ``at`` is when the port was read;
    without it nobody can say that the reading is fresh. Where it is not ``whole`` some of the series could not be read:
    then one that is not here may be there.
    """

    states: tuple[tuple[str, float], ...] = ()
    finished: tuple[str, ...] = ()
    at: Instant | None = None
    whole: bool = True


class EndpointSeries(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """llm-d's series of one read: endpoint names of the per-endpoint gauge and the number of fresh ones.

    ``ready`` is ``None`` when the gauge is absent. ``inflight`` comes from the plugin state where it may be read.
    ``at`` is when the port was read; without it nobody can say that the reading is fresh. ``whole`` as in
    `CircuitReading`.
    """

    endpoints: tuple[str, ...] = ()
    ready: float | None = None
    inflight: tuple[tuple[str, float], ...] = ()
    at: Instant | None = None
    whole: bool = True


def worker_address(told: str) -> tuple[str, str, int | None, int | None]:
    """The URL as it may be shown, host, port and rank of ``http://host:port`` or ``http://host:port@rank``.

    User, password, query and fragment are left out of the URL: they may be credentials. IPv6 hosts lose their
    brackets. Raises `ViewError`, whose text shows no part that may be one either.
    """
    if len(told) > MAX_URL:
        raise ViewError(f"worker url of {len(told)} characters: at most {MAX_URL} are read")
    base, at, tail = told.rpartition("@")
    rank: int | None = None
    if at and tail.isascii() and tail.isdecimal():
        rank = parse_rank(tail)
        if rank is None:
            raise ViewError(f"worker url with rank {tail[:24]} after '@': a rank is at most {MAX_RANK}")
        told = base
    elif at and ":" not in tail and _PORT.search(base):
        raise ViewError(_unfit(told, True, "what follows '@' is neither a rank nor a host with its port"))
    scheme, marker, rest = told.partition("://")
    if not marker:
        scheme, rest = "", told
    rest = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    secretive = bool(at) or len(rest) + len(scheme) + len(marker) != len(told)
    try:
        parts = urlsplit(f"{scheme or 'http'}://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ViewError(_unfit(told, secretive, "its host or port is none")) from None
    if not host:
        raise ViewError(_unfit(told, secretive, "no host"))
    if port == 0:
        raise ViewError(_unfit(told, secretive, "its port is 0"))
    shown = f"{scheme}{marker}{rest}"
    return (shown if rank is None else f"{shown}@{rank}"), host, port, rank


def _unfit(told: str, secretive: bool, why: str) -> str:
    """A sentence about a URL, which shows it only where it cannot hold a credential."""
    what = "worker url (not shown, it may hold credentials)" if secretive else f"worker url {told!r}"
    return f"{what}: {why}; http://host:port or http://host:port@rank is wanted"


def split_worker_url(url: str) -> tuple[str, int | None, int | None]:
    """Host, port and rank of a worker's URL. Raises `ViewError` as `worker_address` does."""
    return worker_address(url)[1:]


def shown_url(told: str) -> str:
    """A worker's URL as `worker_address` shows it, for labels; what is no such URL is shown where it can hide nothing."""
    try:
        return worker_address(told)[0]
    except ViewError:
        return "…" if any(sign in told for sign in "@?#") else told


def parse_rank(text: str) -> int | None:
    """A data-parallel rank from decimal digits, ``None`` past `MAX_RANK`."""
    return int(text) if len(text) <= _RANK_DIGITS and int(text) <= MAX_RANK else None


def split_endpoint(name: str) -> tuple[str, int | None]:
    """Pod name and rank of llm-d's ``<pod>-rank-<i>``; a name without the suffix is a Pod's name.

    Raises `ViewError` for a rank that no engine has.
    """
    pod, marker, digits = name.rpartition("-rank-")
    if not (marker and digits.isascii() and digits.isdecimal()):
        return name, None
    rank = parse_rank(digits)
    if rank is None:
        raise ViewError(f"endpoint {name[:MAX_SHOWN]!r}: a rank is at most {MAX_RANK}")
    return pod, rank


def contradictions(rows: Iterable[WorkerRow]) -> tuple[str, ...]:
    """A sentence for each worker that one view names twice with different states, at most `MAX_PROBLEMS`."""
    first: dict[str, WorkerRow] = {}
    found: dict[str, str] = {}
    for row in rows:
        label = row.label if row.rank is None or row.url else f"{row.label} rank {row.rank}"
        seen = first.setdefault(label, row)
        if seen is not row and (seen.registered, seen.healthy, seen.circuit, seen.in_selection) != (
            row.registered,
            row.healthy,
            row.circuit,
            row.in_selection,
        ):
            found[label] = f"the router names {label[:MAX_SHOWN]} more than once with contradicting states"
    return tuple(list(found.values())[:MAX_PROBLEMS])
