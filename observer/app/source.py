"""The report source that exporters are handed: the store and the last verdicts, at the moment of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from exporters.protocols import Sight, Sights
from exporters.signals_read import DOCUMENT_SIGNALS
from observer.app.judging import Judging
from observer.app.pauses import relieve
from observer.app.role_windows import RoleWindows
from observer.app.sights import SightBook
from observer.clock import Clock
from observer.collect.scrape import TargetSchedule
from observer.fleet import Record
from observer.loads import Loads, apart, loads, role_totals
from observer.settings import Settings
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import Component, DeploymentKey, TargetKey
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetReport, TargetStatus

_RELIEVED = 10
"""After so many targets whose values were made the collector looks at them: each has some hundred objects."""
_AT_ONCE = 64
"""Targets of a deployment whose report is made in one step of some 10 ms where nothing of it was made before."""
_LATE_PASSES = 10
"""A judging pass that is this many periods late means that the loop does not run as it should."""


class Pool(Protocol):
    """When targets are read, and one more read of some: `observer.collect.scrape.TargetPool`."""

    def schedule(self, key: TargetKey) -> TargetSchedule | None:
        """How reading a target goes, ``None`` for one that is not wanted."""
        ...

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The wanted targets that are left out because there are too many."""
        ...

    async def refresh(self, keys: Iterable[TargetKey]) -> object:
        """Read these once more now."""
        ...


class Source:
    """Satisfies `exporters.protocols.SightSource`."""

    def __init__(self, store: Store, pool: Pool, judging: Judging, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._pool = pool
        self._judging = judging
        self._clock = clock
        self._settings = settings
        self.loaded = False
        self.watching_since: Instant | None = None
        self._was_ready = False
        self._sights = SightBook(store, pool)
        self._roles = RoleWindows(self.target)
        self.gates: list[Callable[[], tuple[bool, str]]] = []
        """What else must hold before answers can be trusted, each with a sentence; asked at every probe."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted."""
        return self._store.keys()

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        """One deployment's report at this instant, or ``None`` when no such deployment exists.

        With ``signals`` only the values of those, with ``totals`` also those running totals of roles; what of a role's
        histograms cannot be merged is then told of all.
        """
        now = self._clock.now()
        if signals is not None and signals | totals:
            signals |= apart(self._store.record(each) for each in self._sights.keys(key))
        report = self._store.report(key, now, self._due, signals)
        if report is None:
            return None
        if signals is not None and totals - signals:
            report = self._with_totals(report, totals - signals)
        return self._judging.add_verdicts(report)

    def _with_totals(self, report: DeploymentReport, signals: frozenset[str]) -> DeploymentReport:
        counts, records = self._store.counts(report.key, signals), self._engines(report.key)
        roles = tuple(
            msgspec.structs.replace(
                measured, totals=role_totals(role, records, counts[role.name], report.at, self._store.policy)
            )
            for role, measured in zip(report.deployment.roles, report.roles, strict=True)
        )
        return msgspec.structs.replace(report, roles=roles)

    def _engines(self, key: DeploymentKey) -> dict[str, list[Record]]:
        """The records of a deployment's engines by the UID of their member."""
        found: dict[str, list[Record]] = {}
        for each in self._sights.keys(key):
            record = self._store.record(each)
            if record is not None and each.component is Component.ENGINE:
                found.setdefault(each.member_uid, []).append(record)
        return found

    def sights(self, key: DeploymentKey) -> Sights | None:
        """How a deployment's targets stand at this instant; ``None`` when no such deployment exists. Makes no value."""
        return self._sights.of(key, self._clock.now())

    def target(self, sight: Sight, at: Instant, signals: frozenset[str]) -> TargetReport:
        """One of them at the instant of its sights, with the values of these signals."""
        found = self._store.target_report(sight.key, at, signals, self._due)
        if found is None:  # nothing awaits between the two, so that it cannot leave
            raise LookupError(f"target {sight.key} is not watched any more")
        return found

    def role_windows(
        self, sights: Sights, signals: frozenset[str], made: Mapping[TargetKey, TargetReport]
    ) -> tuple[RoleMeasurement, ...]:
        """Each role as in the report of that instant, of these histogram signals: windows only, no counts and totals.

        ``made`` are reports of single targets at that instant that have these signals.
        """
        return self._roles.of(sights, signals, made)

    def prepare(self, key: DeploymentKey, signals: frozenset[str] = DOCUMENT_SIGNALS) -> Iterator[None]:
        """Work out, target by target, what a deployment's next report is made of; it may leave meanwhile."""
        for number, each in enumerate(self._sights.keys(key), 1):
            self._store.target_report(each, self._clock.now(), signals)
            if number % _RELIEVED == 0:
                relieve()
            yield

    def prepare_many(self, key: DeploymentKey, signals: frozenset[str]) -> Iterator[None]:
        """`prepare` for a deployment of many targets; a report of few is one short step, and dearer in two passes."""
        return self.prepare(key, signals) if len(self._sights.keys(key)) > _AT_ONCE else iter(())

    def targets(self) -> tuple[TargetStatus, ...]:
        """Every target's status at this instant, sorted by key."""
        return self._store.statuses(self._clock.now(), self._due)

    def loads(self) -> Loads:
        """How large what was last read of the targets is."""
        return loads(self._store.records(), self._store.layouts)

    async def refresh(self, key: DeploymentKey) -> None:
        """Read the deployment's targets once more now, within the pool's limits."""
        deployment = next((each for each in self._store.deployments() if each.key == key), None)
        if deployment is not None:
            await self._pool.refresh(target.key for target in deployment.targets())

    def ready(self) -> tuple[bool, str]:
        """Ready once the targets are known and each was tried once; it stays so when targets are added later."""
        for gate in self.gates:
            good, why = gate()
            if not good:
                return False, why
        if not self.loaded:
            return False, "the list of targets was not read yet"
        records = self._store.records()
        if not self._was_ready:
            shed = frozenset(self._pool.shed)
            waiting = sum(record.reads == 0 and record.target.key not in shed for record in records)
            if waiting:
                return False, f"{waiting} targets were not tried yet"
            if self._judging.last_pass is None:
                return False, "nothing was judged yet"
            self._was_ready = True
        return True, f"{len(records)} targets are watched"

    def alive(self) -> tuple[bool, str]:
        """Alive while judging passes come on time."""
        last = self._judging.last_pass or self.watching_since
        if last is None:
            return True, "the list of targets is still to come"
        what = "the last judging pass began" if self._judging.last_pass else "the first judging pass was due"
        late = self._clock.now().mono - last.mono
        bound = max(_LATE_PASSES * self._settings.judging.period, 10.0)
        if late > bound:
            return False, f"{what} {late:.0f} s ago; at most {bound:.0f} s are normal"
        return True, f"{what} {late:.1f} s ago"

    def _due(self, key: TargetKey) -> tuple[float | None, bool]:
        schedule = self._pool.schedule(key)
        return (None, False) if schedule is None else (schedule.next_due, schedule.shed)
