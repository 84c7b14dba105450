"""Every limit of the settings tree read at one moment: what is used, what ever was, how often it was met."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Protocol

from exporters.server import Server
from observer.app.budget import Budget
from observer.collect.fetch import Fetcher
from observer.collect.scrape import TargetPool
from observer.loads import Loads
from observer.settings import Settings
from router_contract.kv_streams import KvIndexSummary
from router_contract.limit_readings import LimitReading, LimitState
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)
LOOK_PERIOD = 2.0
"""How often the use of every limit is looked at, in seconds."""
_OPEN_FILES = Path("/proc/self/fd")


class Reads(Protocol):
    """Tells how large what was read of the targets is."""

    def loads(self) -> Loads:
        """Over all of them."""
        ...


class Indexes(Protocol):
    """Tells what the block indexes hold."""

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        """Deployments with streams."""
        ...

    def kv_size(self, deployment: DeploymentKey) -> KvIndexSummary:
        """What the index of one takes."""
        ...


class Viewers(Protocol):
    """Tells how many pages are followed live."""

    @property
    def clients(self) -> int:
        """Streams that are open."""
        ...


class LimitBook:
    """Satisfies `exporters.limits.LimitSource`. Call `look` now and then, so that the most ever used is known."""

    def __init__(
        self,
        settings: Settings,
        budget: Budget,
        *,
        reads: Reads,
        indexes: Indexes,
        viewers: Viewers,
        fetcher: Fetcher,
        pool: TargetPool,
        server: Server,
    ) -> None:
        self._settings = settings
        self._budget = budget
        self._reads = reads
        self._indexes = indexes
        self._viewers = viewers
        self._fetcher = fetcher
        self._pool = pool
        self._server = server
        self._most: dict[str, float] = {}
        self._said: dict[str, LimitState] = {}

    def limits(self) -> tuple[LimitReading, ...]:
        """All limits at this moment."""
        found = (*self._of_targets(), *self._of_reading(), *self._of_listener(), *self._of_blocks(), *_of_machine())
        return tuple(self._remembered(each) for each in found)

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_PERIOD)
            self.look()

    def look(self) -> None:
        """Note the present use of every limit, and say in the log which one was met or left."""
        for reading in self.limits():
            before, now = self._said.get(reading.name, LimitState.OK), reading.state
            self._said[reading.name] = now
            if (now is LimitState.REACHED) is not (before is LimitState.REACHED):
                if now is LimitState.REACHED:
                    _log.warning("the limit %s is reached: %s", reading.name, reading.effect)
                else:
                    _log.info("the limit %s is no longer reached", reading.name)

    def _remembered(self, reading: LimitReading) -> LimitReading:
        seen = [each for each in (reading.high_water, reading.use, self._most.get(reading.name)) if each is not None]
        if not seen:
            return reading
        self._most[reading.name] = max(seen)
        return _with(reading, self._most[reading.name])

    def _of_targets(self) -> Iterable[LimitReading]:
        told, loads = self._settings.limits, self._reads.loads()

        def met(*words: str) -> int:
            return sum(any(word in detail for word in words) for detail in loads.cut)

        shed = len(self._pool.shed)
        yield LimitReading(
            name="targets",
            setting="limits.targets",
            limit=self._budget.targets,
            use=loads.targets,
            reached=shed,
            effect="targets beyond it are not read and shown as Shed, last in order of identity",
        )
        fails = "the read fails as TooLarge and what was read before ages"
        yield LimitReading(
            name="body",
            setting="limits.body",
            unit="bytes",
            limit=told.body,
            use=loads.body_bytes,
            reached=loads.too_large,
            effect=fails,
        )
        lost = "that family of that target is unreadable, with a problem that says so; its other families are read"
        yield LimitReading(
            name="series",
            setting="limits.series",
            limit=told.series,
            use=loads.samples,
            reached=met("series"),
            effect=lost,
        )
        for name, limit, unit, words in (
            ("family", told.family, "bytes", (" bytes, at most",)),
            ("line", told.line, "bytes", ("a line of",)),
            ("labels", told.labels, "count", (" labels, at most",)),
            ("labelValue", told.label_value, "bytes", ("label '",)),
        ):
            yield LimitReading(
                name=name, setting=f"limits.{name}", unit=unit, limit=limit, reached=met(*words), effect=lost
            )

        yield of_layouts(loads)

    def _of_reading(self) -> Iterable[LimitReading]:
        fetcher, scrape = self._fetcher, self._settings.scrape
        shared = fetcher.shared
        yield LimitReading(
            name="sharedBodies",
            setting="limits.sharedBodies",
            unit="bytes",
            limit=shared.total,
            use=shared.total - shared.left,
            high_water=shared.high_water,
            reached=shared.refused,
            effect="a large body that finds no room fails as TooLarge; small ones need none",
        )
        slots = fetcher.slots
        yield LimitReading(
            name="reads",
            setting="limits.reads",
            limit=slots.most or None,
            use=slots.used,
            high_water=slots.high_water,
            reached=slots.waited,
            effect="a read waits for its turn, and its time begins then",
        )
        yield LimitReading(
            name="connectionsToTargets",
            setting="limits.reads",
            limit=slots.most or None,
            use=fetcher.open_connections,
            reached=fetcher.closed_idle,
            effect="the connection that was idle longest is closed",
        )
        yield LimitReading(
            name="extraReads",
            setting="scrape.extraInFlight",
            limit=scrape.extra_in_flight,
            effect="an extra read waits for its turn within its budget; values then say how old they are",
        )

    def _of_listener(self) -> Iterable[LimitReading]:
        server, told = self._server, self._settings.limits
        clients = server.connections
        yield LimitReading(
            name="connections",
            setting="limits.connections",
            limit=self._budget.connections,
            use=clients.used,
            high_water=clients.high_water,
            reached=clients.reached,
            effect="the client that was idle longest is disconnected; without an idle one, the new one is",
        )
        yield LimitReading(
            name="requests",
            setting="limits.requests",
            limit=self._budget.requests,
            use=server.running,
            high_water=server.busiest,
            reached=server.turned_away,
            effect="further requests get 429; probes and this answer never do",
        )
        yield LimitReading(
            name="watchers",
            setting="limits.watchers",
            limit=self._budget.watchers,
            use=self._viewers.clients,
            effect="a further page is not followed live and says so",
        )
        yield LimitReading(
            name="requestBody", setting="limits.requestBody", unit="bytes", limit=told.request_body, effect="413"
        )
        yield LimitReading(
            name="response",
            setting="limits.response",
            unit="bytes",
            limit=told.response,
            use=server.largest,
            reached=server.too_large,
            effect="413, with what to ask for instead",
        )
        yield LimitReading(
            name="podsPerDocument",
            setting="limits.podsPerDocument",
            limit=told.pods_per_document or None,
            effect="the document lists TooManyPods as missing",
        )

    def _of_blocks(self) -> Iterable[LimitReading]:
        told = self._settings.kv_events
        held = [self._indexes.kv_size(key).estimated_bytes for key in self._indexes.kv_deployments()]
        effect = "new blocks are not held and the stream says that it is approximate"
        for name, limit, use in (
            ("deploymentBudget", told.deployment_budget, max(held, default=0)),
            ("processBudget", told.process_budget, sum(held)),
        ):
            yield LimitReading(name=name, setting=f"kvEvents.{name}", unit="bytes", limit=limit, use=use, effect=effect)
        for name, amount, unit, what in (
            ("liveBuffer", told.live_buffer, "count", "the gap is unrepaired and says so"),
            ("highWaterMark", told.high_water_mark, "count", "messages are lost, which is a gap, then a replay"),
            ("maxMessageBytes", told.max_message_bytes, "bytes", "the message is dropped and counted"),
        ):
            yield LimitReading(name=name, setting=f"kvEvents.{name}", unit=unit, limit=amount, effect=what)


def of_layouts(loads: Loads) -> LimitReading:
    """The bound on what is remembered of how bodies are laid out."""
    return LimitReading(
        name="layouts",
        unit="bytes",
        limit=loads.layout_most,
        use=loads.layout_bytes,
        reached=loads.layouts_refused,
        effect="a body of another layout is read in full each time, which takes ten times as long",
    )


def _with(reading: LimitReading, most: float) -> LimitReading:
    fields = {name: getattr(reading, name) for name in reading.__struct_fields__}
    return LimitReading(**fields | {"high_water": most})


def open_files() -> int | None:
    """Descriptors that this process has open; ``None`` where the system does not say."""
    try:
        return _OPEN_FILES.stat().st_size if _size_tells() else _listed()
    except OSError:
        return None


@cache
def _size_tells() -> bool:
    """Whether the size of the folder is the number, as Linux has it since 6.2: a list of thousands takes 20 ms."""
    return _OPEN_FILES.stat().st_size == _listed()


def _listed() -> int:
    return sum(1 for _ in _OPEN_FILES.iterdir()) - 1  # the folder itself is open meanwhile


def file_limit() -> int:
    """The soft limit of open files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _of_machine() -> Iterable[LimitReading]:
    yield LimitReading(
        name="descriptors",
        limit=file_limit(),
        use=open_files(),
        effect="the bounds on reads and clients are made from it at the start, so that it is not met",
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield LimitReading(name="memory", unit="bytes", limit=None, use=resident(), high_water=peak, effect="")


def resident() -> int | None:
    """Bytes of this process in memory; ``None`` where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None
