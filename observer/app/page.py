"""The page joined to the rest: raw bodies of the targets that somebody looks at, one more read, a trial of a table."""

from __future__ import annotations

from collections import OrderedDict

from exporters.canary import CanarySource
from exporters.page.pages import Page
from exporters.page.protocols import Mapped, RawBody, Services
from observer import fleet
from observer.app.kv import KvPart
from observer.app.source import Source
from observer.clock import Clock
from observer.collect.scrape import TargetPool
from observer.fleet import Policy, Record
from observer.history import Rings
from observer.measure.exposition import Limits
from observer.measure.extract import Extractor, Unreadable
from observer.measure.window import Chain
from router_contract import catalog
from router_contract.history import CANARY_SERIES
from router_contract.readings import Instant
from router_contract.targets import Address, Component, DeploymentKey, Target, TargetKey

KEPT_BYTES = 1 << 20
KEPT_BYTES_FAILING = 64 << 10
KEPT_BODIES = 32
"""How many bodies are kept, and how many bytes of each: of one that somebody looks at, of one that was not understood."""
INTEREST_SECONDS = 600.0
"""For how long after a look a target's bodies are kept."""

EVIDENCE_STEP = 5.0
EVIDENCE_MOST = 1_000
"""Seconds between two samples of a canary's metric that are kept, at least, and metrics in all. One costs about 40 kB."""


class Bodies:
    """Raw bodies of few targets. The one kept longest ago goes first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked: OrderedDict[TargetKey, float] = OrderedDict()
        self._kept: OrderedDict[TargetKey, RawBody] = OrderedDict()

    def saw(self, key: TargetKey, data: bytes, content_type: str, at: Instant, *, understood: bool) -> None:
        """A body came. It is kept when somebody looked at its target lately, or when it could not be understood."""
        looked = self._looked.get(key)
        wanted = looked is not None and at.mono - looked <= INTEREST_SECONDS
        if not wanted and understood:
            self._kept.pop(key, None)
            return
        kept = data[: KEPT_BYTES if wanted else KEPT_BYTES_FAILING]
        self._kept[key] = RawBody(
            at=at,
            text=kept.decode(errors="replace"),
            kept=len(kept),
            size=len(data),
            content_type=content_type[:200],
        )
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_BODIES:
            self._kept.popitem(last=False)

    def body(self, key: TargetKey) -> RawBody | None:
        """The last body that is kept; the next ones are kept for a while."""
        self._looked[key] = self._clock.now().mono
        self._looked.move_to_end(key)
        while len(self._looked) > KEPT_BODIES:
            self._looked.popitem(last=False)
        return self._kept.get(key)

    def kept(self, key: TargetKey) -> RawBody | None:
        """The last body that is kept, without asking for further ones."""
        return self._kept.get(key)

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return sum(body.kept for body in self._kept.values())

    def retain(self, alive: frozenset[TargetKey]) -> None:
        """Drop everything of targets that are gone."""
        for key in [key for key in self._kept if key not in alive]:
            del self._kept[key]


class Trial:
    """Reads a pasted body by a table. Nothing of it is kept."""

    def __init__(self, clock: Clock, policy: Policy, limits: Limits) -> None:
        self._clock = clock
        self._policy = policy
        self._limits = limits

    def __call__(self, component: Component, software: str, version: str | None, body: bytes) -> Mapped:
        """What the table reads in the body. Raises `catalog.UnknownSoftware` when no table has the name."""
        table = catalog.lookup(component, software)
        frame = Extractor(table, version=version, limits=self._limits).read(body)
        if isinstance(frame, Unreadable):
            return Mapped(version=version, unreadable=f"{frame.kind.value}: {frame.detail}")
        now = self._clock.now()
        key = TargetKey(DeploymentKey("", "pasted"), "pasted", component, 0)
        target = Target(
            key=key, component=component, software=table.name, version=version, address=Address(host="pasted", port=0)
        )
        record = Record(
            target=target, first_seen=now, vocabulary=table, version=frame.version, frame=frame, read_at=now, reads=1
        )
        record = fleet.read(record, frame, Chain().push(frame, now), now, duration=0.0, body_bytes=len(body))
        return Mapped(
            version=frame.version,
            values=fleet.values(record, now, self._policy),
            unknown_families=frame.unknown_families,
            problems=frame.problems,
            samples_kept=frame.samples_kept,
            samples_dropped=frame.samples_dropped,
        )


def make_page(
    source: Source,
    kv: KvPart,
    canaries: CanarySource,
    pool: TargetPool,
    bodies: Bodies,
    trial: Trial,
    *,
    version: str,
    watchers: int,
) -> Page:
    """The page over what one running observer knows."""

    async def fetch(key: TargetKey) -> None:
        await pool.refresh((key,))

    services = Services(
        reports=source,
        kv=kv,
        bodies=bodies,
        fetch=fetch,
        mapper=trial,
        canaries=canaries,
        history=Rings(),
        evidence=Rings(step=EVIDENCE_STEP, most=EVIDENCE_MOST, names=CANARY_SERIES),
        version=version,
        watchers=watchers,
        prepare=source.prepare,
    )
    return Page(services)
