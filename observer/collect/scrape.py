"""Reading every target on its own schedule: a supervised task for each read, no slot that a dead target could hold."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from observer.clock import Clock
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.options import ScrapeSettings
from observer.collect.schedule import offset, slot_after
from observer.collect.timetable import Entry, Timetable
from observer.supervise import Supervisor
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.targets import Target, TargetKey

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Where what was read goes. Called on the event loop, for one target never twice at once; it should be quick."""

    def on_body(self, target: Target, body: Fetched, at: Instant, duration_seconds: float) -> None:
        """A whole 200 answer (it may be empty, or no exposition at all). ``at`` is when the read began."""
        ...

    def on_failure(self, target: Target, failure: ScrapeFailed) -> None:
        """A read that gave nothing. ``failure.at`` is when it began."""
        ...


class TargetSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """How reading a target goes. ``next_due`` is on the monotonic clock, ``None`` when it is not read.

    ``overruns`` counts slots that passed while a read, or what was done with it, still ran. ``shed`` says that the
    target is left out because ``limits.targets`` is reached. ``broken`` is a bug's text until it is read well again.
    """

    key: TargetKey
    shed: bool = False
    in_flight: bool = False
    next_due: float | None = None
    reads: int = 0
    extra_reads: int = 0
    overruns: int = 0
    broken: str | None = None


class _Counts:
    """Scores of one target key; they outlive a change of its address."""

    __slots__ = ("extra_reads", "failing", "failures_in_a_row", "overruns", "reads")

    def __init__(self) -> None:
        self.reads = 0
        self.extra_reads = 0
        self.overruns = 0
        self.failing: FailureKind | None = None
        self.failures_in_a_row = 0


class TargetPool:
    """The set of targets that are read. `sync` makes it equal to a wanted set; `refresh` reads some once more now."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        sink: Sink,
        clock: Clock,
        supervisor: Supervisor,
        settings: ScrapeSettings,
        max_targets: int = 10_000,
    ) -> None:
        self._timetable = Timetable("begin reads", clock=clock, supervisor=supervisor, period=settings.period)
        self._extras = _Extras(settings.extra_in_flight, self._timetable)
        self._means = _Means(fetcher, sink, clock, settings, self._extras)
        self._max = max_targets
        self._reads: dict[TargetKey, _Reads] = {}
        self._counts: dict[TargetKey, _Counts] = {}
        self._shed: tuple[TargetKey, ...] = ()
        self._changing = asyncio.Lock()

    async def sync(self, targets: Iterable[Target]) -> None:
        """Read these targets and no others. On return no read of a target that left, or changed, is under way."""
        async with self._changing:
            wanted = {target.key: target for target in targets}
            kept = sorted(wanted)[: self._max]
            self._note_shed(tuple(sorted(wanted)[self._max :]))
            gone = [each for key, each in self._reads.items() if wanted.get(key) != each.target or key in self._shed]
            for reads in gone:
                del self._reads[reads.target.key]
            await self._timetable.remove(*gone)
            for reads in gone:
                self._extras.release(reads)
            for key in [key for key in self._counts if key not in wanted]:
                del self._counts[key]
            for key in kept:
                if key not in self._reads:
                    self._start(wanted[key])

    async def refresh(self, keys: Iterable[TargetKey]) -> None:
        """Read these targets once more now: each at most once in a period, a bounded number at once.

        Returns when all are read or the budget is spent; reads still under way then end by themselves.
        """
        now = self._means.clock.now().mono
        known = [reads for key in dict.fromkeys(keys) if (reads := self._reads.get(key)) is not None]
        asked = (self._extras.ask(reads, allowed=reads.may_read_again(now)) for reads in known)
        waiting = [future for future in asked if future is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=self._means.settings.extra_budget)

    def schedule(self, key: TargetKey) -> TargetSchedule | None:
        """How reading a target goes, ``None`` for one that is not wanted."""
        reads = self._reads.get(key)
        if reads is not None:
            return reads.schedule()
        return TargetSchedule(key=key, shed=True) if key in self._shed else None

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The wanted targets that are left out because there are too many."""
        return self._shed

    def _note_shed(self, shed: tuple[TargetKey, ...]) -> None:
        if len(shed) != len(self._shed):
            text = "%d targets are not read: `limits.targets` is %d" if shed else "all targets are read again (%d, %d)"
            _log.warning(text, len(shed), self._max)
        self._shed = shed

    def _start(self, target: Target) -> None:
        counts = self._counts.setdefault(target.key, _Counts())
        reads = _Reads(target, counts, self._means)
        self._reads[target.key] = reads
        self._timetable.add(reads)


class _Means(NamedTuple):
    """What the reads of all targets share."""

    fetcher: Fetcher
    sink: Sink
    clock: Clock
    settings: ScrapeSettings
    extras: _Extras


class _Reads(Entry):
    """The reads of one target, never two at once."""

    __slots__ = ("_counts", "_in_flight", "_last_extra", "_means", "target")

    def __init__(self, target: Target, counts: _Counts, means: _Means) -> None:
        super().__init__(f"read {target.member} {target.address.authority}", offset(target.key, means.settings.period))
        self.target = target
        self._counts = counts
        self._means = means
        self._in_flight = False
        self._last_extra: float | None = None

    async def turn(self, *, extra: bool) -> None:
        """Read once."""
        means = self._means
        if extra:
            self._counts.extra_reads += 1
            self._last_extra = means.clock.now().mono
        try:
            ended = await self._read()
        finally:
            means.extras.release(self)
        if not extra and self.slot is not None:
            after = slot_after(ended, self.shift, means.settings.period)
            self._counts.overruns += max(0, after - self.slot - 1)

    async def _read(self) -> float:
        """Read, and tell of it; the moment when both were done (monotonic seconds)."""
        clock, sink, settings = self._means.clock, self._means.sink, self._means.settings
        at = clock.now()
        self._in_flight = True
        try:
            outcome = await self._means.fetcher.fetch(self.target.address, settings.timeout)
        finally:
            self._in_flight = False
        duration = clock.now().mono - at.mono
        self._counts.reads += 1
        if isinstance(outcome, Failure):
            self._note(outcome)
            sink.on_failure(self.target, _failed(self.target.key, outcome, at, duration))
        else:
            self._note(None)
            sink.on_body(self.target, outcome, at, duration)
        return clock.now().mono

    def _note(self, failure: Failure | None) -> None:
        """Log on change only; the counters keep the score."""
        counts = self._counts
        if failure is None:
            if counts.failing is not None:
                _log.info("%s is read again after %d failures", self.target.member, counts.failures_in_a_row)
            counts.failing, counts.failures_in_a_row = None, 0
            return
        counts.failures_in_a_row += 1
        if failure.kind is not counts.failing:
            _log.warning("%s cannot be read: %s: %s", self.target.member, failure.kind.value, failure.detail)
        counts.failing = failure.kind

    def may_read_again(self, now: float) -> bool:
        """Whether an extra read is allowed: one in a period."""
        return self._last_extra is None or now - self._last_extra >= self._means.settings.period

    def schedule(self) -> TargetSchedule:
        """The present state."""
        return TargetSchedule(
            key=self.target.key,
            in_flight=self._in_flight,
            next_due=self.next_due,
            reads=self._counts.reads,
            extra_reads=self._counts.extra_reads,
            overruns=self._counts.overruns,
            broken=None if self.broken is None else self.broken.error,
        )


class _Extras:
    """Extra reads asked for: a queue, and at most ``most`` of them under way. Scheduled reads never wait for these."""

    def __init__(self, most: int, timetable: Timetable) -> None:
        self._timetable = timetable
        self._most = most
        self._waiting: dict[_Reads, asyncio.Future[None]] = {}
        self._queue: deque[_Reads] = deque()
        self._running: set[_Reads] = set()

    def ask(self, reads: _Reads, *, allowed: bool) -> asyncio.Future[None] | None:
        """Done after the target's next read. A read that somebody waits for is joined; else a new one if ``allowed``."""
        known = self._waiting.get(reads)
        if known is not None or not allowed:
            return known
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[reads] = future
        self._queue.append(reads)
        self._pump()
        return future

    def release(self, reads: _Reads) -> None:
        """It has read, or stopped."""
        future = self._waiting.pop(reads, None)
        if future is not None and not future.done():
            future.set_result(None)
        self._running.discard(reads)
        reads.wanted = False
        self._pump()

    def _pump(self) -> None:
        while self._queue and len(self._running) < self._most:
            reads = self._queue.popleft()
            if reads in self._waiting:
                self._running.add(reads)
                self._timetable.poke(reads)


def _failed(key: TargetKey, failure: Failure, at: Instant, duration: float) -> ScrapeFailed:
    return ScrapeFailed(
        target=key,
        at=at,
        kind=failure.kind,
        detail=failure.detail,
        status=failure.status,
        duration_seconds=duration,
    )
