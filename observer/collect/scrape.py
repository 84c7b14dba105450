"""Reading every target on its own schedule: one supervised loop each, no slot that a dead target could hold."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Protocol

import msgspec

from observer.clock import Clock
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.options import ScrapeSettings
from observer.collect.schedule import moment, offset, slot_after
from observer.supervise import Child, Supervisor
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
    target is left out because ``limits.targets`` is reached. ``broken`` is a bug's text while its loop pauses.
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
        self._fetcher = fetcher
        self._sink = sink
        self._clock = clock
        self._supervisor = supervisor
        self._settings = settings
        self._max = max_targets
        self._loops: dict[TargetKey, _Loop] = {}
        self._counts: dict[TargetKey, _Counts] = {}
        self._shed: tuple[TargetKey, ...] = ()
        self._changing = asyncio.Lock()
        self._extras = _Extras(settings.extra_in_flight)

    async def sync(self, targets: Iterable[Target]) -> None:
        """Read these targets and no others. On return no read of a target that left, or changed, is under way."""
        async with self._changing:
            wanted = {target.key: target for target in targets}
            kept = sorted(wanted)[: self._max]
            self._note_shed(tuple(sorted(wanted)[self._max :]))
            gone = [loop for key, loop in self._loops.items() if wanted.get(key) != loop.target or key in self._shed]
            for loop in gone:
                del self._loops[loop.target.key]
            await self._supervisor.stop(*(loop.child for loop in gone if loop.child is not None))
            for loop in gone:
                self._extras.release(loop)
            for key in [key for key in self._counts if key not in wanted]:
                del self._counts[key]
            for key in kept:
                if key not in self._loops:
                    self._start(wanted[key])

    async def refresh(self, keys: Iterable[TargetKey]) -> None:
        """Read these targets once more now: each at most once in a period, a bounded number at once.

        Returns when all are read or the budget is spent; reads still under way then end by themselves.
        """
        now = self._clock.now().mono
        loops = [loop for key in dict.fromkeys(keys) if (loop := self._loops.get(key)) is not None]
        asked = (self._extras.ask(loop, allowed=loop.may_read_again(now)) for loop in loops)
        waiting = [future for future in asked if future is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=self._settings.extra_budget)

    def schedule(self, key: TargetKey) -> TargetSchedule | None:
        """How reading a target goes, ``None`` for one that is not wanted."""
        loop = self._loops.get(key)
        if loop is not None:
            return loop.schedule()
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
        loop = _Loop(target, counts, self._fetcher, self._sink, self._clock, self._settings, self._extras)
        self._loops[target.key] = loop
        loop.child = self._supervisor.start(f"read {target.member} {target.address.authority}", loop.run)


class _Loop:
    """Reads one target, for ever, never twice at once."""

    def __init__(
        self,
        target: Target,
        counts: _Counts,
        fetcher: Fetcher,
        sink: Sink,
        clock: Clock,
        settings: ScrapeSettings,
        extras: _Extras,
    ) -> None:
        self.target = target
        self.child: Child | None = None
        self._counts = counts
        self._fetcher = fetcher
        self._sink = sink
        self._clock = clock
        self._settings = settings
        self._extras = extras
        self._shift = offset(target.key, settings.period)
        self._poked = asyncio.Event()
        self._in_flight = False
        self._next_due: float | None = None
        self._last_extra: float | None = None
        self._slot: int | None = None

    async def run(self) -> None:
        """Wait for the next slot, or for an extra read to be asked for, and read."""
        period = self._settings.period
        while True:
            now = self._clock.now().mono
            slot = slot_after(now, self._shift, period)
            if self._slot is not None:
                slot = max(slot, self._slot + 1)
            self._next_due = moment(slot, self._shift, period)
            extra = await self._wait(self._next_due - now)
            if extra:
                self._counts.extra_reads += 1
                self._last_extra = self._clock.now().mono
            else:
                self._slot = slot
            try:
                await self._read()
            finally:
                self._extras.release(self)
            if not extra:
                after = slot_after(self._clock.now().mono, self._shift, period)
                self._counts.overruns += max(0, after - slot - 1)

    async def _wait(self, seconds: float) -> bool:
        """Whether an extra read was asked for before the time was over."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._poked.wait()
        except TimeoutError:
            return False
        self._poked.clear()
        return True

    async def _read(self) -> None:
        at = self._clock.now()
        self._in_flight = True
        try:
            outcome = await self._fetcher.fetch(self.target.address, self._settings.timeout)
        finally:
            self._in_flight = False
        duration = self._clock.now().mono - at.mono
        self._counts.reads += 1
        if isinstance(outcome, Failure):
            self._note(outcome)
            self._sink.on_failure(self.target, _failed(self.target.key, outcome, at, duration))
        else:
            self._note(None)
            self._sink.on_body(self.target, outcome, at, duration)

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

    def poke(self) -> None:
        """Read at once instead of at the next slot."""
        self._poked.set()

    def unpoke(self) -> None:
        """Forget a wish for a read: it has just been met."""
        self._poked.clear()

    def may_read_again(self, now: float) -> bool:
        """Whether an extra read is allowed: one in a period."""
        return self._last_extra is None or now - self._last_extra >= self._settings.period

    def schedule(self) -> TargetSchedule:
        """The present state."""
        broken = self.child.broken if self.child is not None else None
        return TargetSchedule(
            key=self.target.key,
            in_flight=self._in_flight,
            next_due=self._next_due,
            reads=self._counts.reads,
            extra_reads=self._counts.extra_reads,
            overruns=self._counts.overruns,
            broken=broken.error if broken is not None else None,
        )


class _Extras:
    """Extra reads asked for: a queue, and at most ``most`` of them under way. Scheduled reads never wait for these."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[_Loop, asyncio.Future[None]] = {}
        self._queue: deque[_Loop] = deque()
        self._running: set[_Loop] = set()

    def ask(self, loop: _Loop, *, allowed: bool) -> asyncio.Future[None] | None:
        """Done after the loop's next read. A read that somebody waits for is joined; else a new one if ``allowed``."""
        known = self._waiting.get(loop)
        if known is not None or not allowed:
            return known
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[loop] = future
        self._queue.append(loop)
        self._pump()
        return future

    def release(self, loop: _Loop) -> None:
        """The loop has read, or stopped."""
        future = self._waiting.pop(loop, None)
        if future is not None and not future.done():
            future.set_result(None)
        self._running.discard(loop)
        loop.unpoke()
        self._pump()

    def _pump(self) -> None:
        while self._queue and len(self._running) < self._most:
            loop = self._queue.popleft()
            if loop in self._waiting:
                self._running.add(loop)
                loop.poke()


def _failed(key: TargetKey, failure: Failure, at: Instant, duration: float) -> ScrapeFailed:
    return ScrapeFailed(
        target=key,
        at=at,
        kind=failure.kind,
        detail=failure.detail,
        status=failure.status,
        duration_seconds=duration,
    )
