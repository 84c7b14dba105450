"""One round of asking one router Pod for its view: the ways of its table, strongest first, and what is remembered.

Remembered for a process life: which way worked last, and which ways it does not have. A way that is not there is asked
again after a while; when the process refuses connections, or its container restarts, everything is forgotten.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import msgspec

from observer.clock import Clock
from observer.collect.answers import JSON, Reach, at, in_words, malformed, reach
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from router_contract.catalog import UnknownSoftware, lookup
from router_contract.endpoints import Listener, ViewForm, ViewPath
from router_contract.readings import FailureKind, Instant, MissingCode
from router_contract.router_view_parsers import (
    join_circuits,
    parse_list_workers,
    parse_observer_endpoints,
    parse_plugin_state,
    parse_workers,
    rows_from_series,
)
from router_contract.router_views import (
    CircuitReading,
    EndpointSeries,
    RouterView,
    ViewFailed,
    ViewSource,
    WorkerRow,
    contradictions,
)
from router_contract.targets import Address, Component, DeploymentKey, Member


class RouterMember(msgspec.Struct, frozen=True, kw_only=True):
    """One router Pod. ``patched`` says that its platform ships routers with the observer's own route."""

    deployment: DeploymentKey
    software: str
    member: Member
    patched: bool = False


Circuits = Callable[[RouterMember], CircuitReading | None]
"""The circuits that the metrics scrape of this router Pod last saw; ``None`` when its port was not read."""
Endpoints = Callable[[RouterMember], EndpointSeries | None]
"""The endpoint series that the metrics scrape of this router Pod last saw; ``None`` when its port was not read."""


class ViewOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How views are read. Durations in seconds, ``body`` in bytes.

    ``timeout`` bounds each question, its repeats after a 503 included; ``busy_pause`` is the wait before a repeat.
    ``valid`` is how long a view counts: a weaker way replaces one that worked only after that. ``series_fresh`` is how
    old the metrics may be that a view is joined with. ``retry_absent`` is when a way that failed is tried again.
    """

    period: float = 5.0
    timeout: float = 2.0
    valid: float = 15.0
    series_fresh: float = 12.0
    busy_pause: float = 0.2
    busy_repeats: int = 5
    retry_absent: float = 60.0
    body: int = 4 << 20


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    read_at: Instant
    workers: tuple[WorkerRow, ...]
    boot_id: str | None = None
    revision: int | None = None
    circuits_read_at: Instant | None = None


class _Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A way gave nothing; ``kind`` is a `FailureKind`'s or a `MissingCode`'s text."""

    kind: str
    detail: str
    status: int | None = None
    reach: Reach = Reach.FAILED


class _Memory:
    """What is known of one process life."""

    def __init__(self) -> None:
        self.worked: ViewPath | None = None
        self.worked_at = -math.inf
        self.paused: dict[ViewPath, tuple[float, str]] = {}
        self.no_plugins_until = -math.inf

    def paused_for(self, way: ViewPath, now: float) -> str:
        """Why a way is left out now, or nothing. Only a way that works spares us the others."""
        until, why = self.paused.get(way, (-math.inf, ""))
        return why if self.worked is not None and now < until else ""


class ViewRound:
    """Asks one router Pod; call `read` once a period, never twice at once."""

    def __init__(
        self, fetcher: Fetcher, clock: Clock, options: ViewOptions, circuits: Circuits, endpoints: Endpoints
    ) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._options = options
        self._circuits = circuits
        self._endpoints = endpoints
        self._memory = _Memory()

    def forget(self) -> None:
        """The process is another one: nothing of the old one counts."""
        self._memory = _Memory()

    async def read(self, subject: RouterMember) -> RouterView | ViewFailed:
        """One round. Never raises for anything a router does."""
        began = self._clock.now()
        memory = self._memory
        failed: list[tuple[ViewPath, _Unread]] = []
        passed: list[tuple[str, str]] = []
        dead: set[Listener] = set()
        for way in _ways(subject):
            why = memory.paused_for(way, began.mono)
            if why:
                passed.append((way.source.value, why))
                continue
            if way.listener in dead or (way.proxied and not subject.patched and not _all_absent(failed)):
                continue
            found = await self._ask(subject, way)
            if isinstance(found, _Rows):
                self._worked(memory, way, failed)
                return _view(subject, way, found, passed)
            failed.append((way, found))
            passed.append((way.source.value, found.detail))
            if way == memory.worked and found.reach is not Reach.ABSENT and self._still_valid(memory):
                break
            if found.reach is Reach.UNREACHED:
                dead.add(way.listener)
        if any(found.kind == FailureKind.REFUSED.value for _, found in failed):
            self.forget()
        return _failed(subject, began, [found for _, found in failed])

    def _still_valid(self, memory: _Memory) -> bool:
        """Whether the view that the working way gave last still counts: then no weaker one takes its place."""
        return self._clock.now().mono - memory.worked_at <= self._options.valid

    def _worked(self, memory: _Memory, way: ViewPath, failed: list[tuple[ViewPath, _Unread]]) -> None:
        """Remember it of the life in which the round began; another may have begun meanwhile."""
        now = self._clock.now().mono
        memory.worked, memory.worked_at = way, now
        for other, found in failed:
            if found.reach is not Reach.BUSY:
                # A proxied path costs its workers and counters each time: once for a process life is all it gets.
                until = math.inf if other.proxied else now + self._options.retry_absent
                memory.paused[other] = (until, found.detail)

    async def _ask(self, subject: RouterMember, way: ViewPath) -> _Rows | _Unread:
        if way.source is ViewSource.SERIES:
            return await self._series(subject, way)
        address = at(subject.member, way.listener, way.path)
        if address is None:
            what = f"no {way.listener.value} address of router {subject.member.name} is known"
            return _Unread(kind=MissingCode.NO_ADDRESS.value, detail=what)
        began, outcome = await self._get(address)
        if isinstance(outcome, Failure):
            return _unread(in_words(outcome, address, self._options.body))
        try:
            return self._parse(subject, way, outcome.data, began)
        except (ValueError, RecursionError) as error:
            return _unread(malformed(address.url, str(error)))

    async def _get(self, address: Address) -> tuple[Instant, Fetched | Failure]:
        """An answer and when its question began; a 503 is asked again while time remains."""
        options = self._options
        deadline = self._clock.now().mono + options.timeout
        repeats = options.busy_repeats
        while True:
            began = self._clock.now()
            left = max(0.001, deadline - began.mono)
            outcome = await self._fetcher.fetch(address, left, accept=JSON, limit=options.body)
            busy = isinstance(outcome, Failure) and outcome.status == 503
            if not busy or not repeats or deadline - self._clock.now().mono <= options.busy_pause:
                return began, outcome
            repeats -= 1
            await asyncio.sleep(options.busy_pause)

    def _parse(self, subject: RouterMember, way: ViewPath, data: bytes, began: Instant) -> _Rows:
        if way.form in {ViewForm.OBSERVER, ViewForm.OBSERVER_JOURNAL}:
            journal = way.form is ViewForm.OBSERVER_JOURNAL
            boot, revision, rows = parse_observer_endpoints(data, journal=journal)
            return _Rows(read_at=began, workers=rows, boot_id=boot, revision=revision)
        rows = parse_workers(data) if way.form is ViewForm.WORKERS else parse_list_workers(data)
        circuits = self._circuits(subject)
        if circuits is not None and not self._is_fresh(circuits.at):
            circuits = None
        seen = None if circuits is None else circuits.at
        return _Rows(read_at=began, workers=join_circuits(rows, circuits), circuits_read_at=seen)

    def _is_fresh(self, when: Instant | None) -> bool:
        return when is not None and self._clock.now().mono - when.mono <= self._options.series_fresh

    async def _series(self, subject: RouterMember, way: ViewPath) -> _Rows | _Unread:
        series = self._endpoints(subject)
        if series is None or series.at is None:
            what = f"the metrics of router {subject.member.name} were not read yet"
            return _Unread(kind=MissingCode.NEVER_READ.value, detail=what)
        if not self._is_fresh(series.at):
            age = self._clock.now().mono - series.at.mono
            what = f"the metrics of router {subject.member.name} were last read {age:.0f} s ago"
            return _Unread(kind=MissingCode.EXPIRED.value, detail=what)
        try:
            rows = rows_from_series(series)
            inflight = await self._plugin_state(subject, way)
            if inflight:
                rows = rows_from_series(msgspec.structs.replace(series, inflight=inflight))
        except ValueError as error:
            return _Unread(kind=FailureKind.MALFORMED.value, detail=f"router {subject.member.name}: {error}")
        return _Rows(read_at=series.at, workers=rows)

    async def _plugin_state(self, subject: RouterMember, way: ViewPath) -> tuple[tuple[str, float], ...]:
        """Requests in flight where the router tells them; without, the view has no loads and is no worse."""
        now, memory = self._clock.now().mono, self._memory
        address = at(subject.member, way.listener, way.path)
        if address is None or now < memory.no_plugins_until:
            return ()
        outcome = await self._fetcher.fetch(address, self._options.timeout, accept=JSON, limit=self._options.body)
        try:
            if isinstance(outcome, Fetched):
                return parse_plugin_state(outcome.data)
        except (ValueError, RecursionError):
            pass
        memory.no_plugins_until = now + self._options.retry_absent
        return ()


def _ways(subject: RouterMember) -> tuple[ViewPath, ...]:
    """The ways of a router's table. Without the route a proxied way disturbs the router: then it comes last."""
    try:
        views = lookup(Component.ROUTER, subject.software).views
    except UnknownSoftware:
        return ()
    if subject.patched:
        return views
    return tuple(sorted(views, key=lambda way: way.proxied))


def _all_absent(failed: list[tuple[ViewPath, _Unread]]) -> bool:
    """Whether every way that was asked before is one that this router does not have."""
    return bool(failed) and all(found.reach is Reach.ABSENT for _, found in failed)


def _unread(failure: Failure) -> _Unread:
    return _Unread(kind=failure.kind.value, detail=failure.detail, status=failure.status, reach=reach(failure))


def _view(subject: RouterMember, way: ViewPath, found: _Rows, passed: list[tuple[str, str]]) -> RouterView:
    return RouterView(
        router=subject.member.name,
        pod_uid=subject.member.uid,
        boot_id=found.boot_id,
        read_at=found.read_at,
        source=way.source,
        workers=found.workers,
        revision=found.revision,
        circuits_read_at=found.circuits_read_at,
        passed_over=tuple(passed),
        problems=contradictions(found.workers),
    )


def _failed(subject: RouterMember, began: Instant, failed: list[_Unread]) -> ViewFailed:
    """The failure that says most: the first that is more than a missing route or address."""
    dull = {Reach.ABSENT}
    telling = next(
        (each for each in failed if each.reach not in dull and each.kind != MissingCode.NO_ADDRESS.value),
        failed[0] if failed else None,
    )
    if telling is None:
        what = f"no table tells how router software {subject.software!r} shows its workers"
        telling = _Unread(kind=MissingCode.UNKNOWN_SOFTWARE.value, detail=what)
    return ViewFailed(
        router=subject.member.name,
        pod_uid=subject.member.uid,
        at=began,
        kind=telling.kind,
        detail=telling.detail,
        status=telling.status,
    )
