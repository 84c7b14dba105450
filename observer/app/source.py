"""The report source that exporters are handed: the store and the last verdicts, at the moment of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from observer.app.judging import Judging
from observer.clock import Clock
from observer.collect.scrape import TargetPool
from observer.loads import Loads, loads
from observer.settings import Settings
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, TargetKey
from router_contract.verdicts import DeploymentReport, TargetStatus

_LATE_PASSES = 10
"""A judging pass that is this many periods late means that the loop does not run as it should."""


class Source:
    """Satisfies `exporters.protocols.ReportSource`."""

    def __init__(self, store: Store, pool: TargetPool, judging: Judging, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._pool = pool
        self._judging = judging
        self._clock = clock
        self._settings = settings
        self.loaded = False
        self.watching_since: Instant | None = None
        self._was_ready = False
        self.gates: list[Callable[[], tuple[bool, str]]] = []
        """What else must hold before answers can be trusted, each with a sentence; asked at every probe."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted."""
        return self._store.keys()

    def deployment(self, key: DeploymentKey) -> DeploymentReport | None:
        """One deployment's report at this instant, or ``None`` when no such deployment exists."""
        report = self._store.report(key, self._clock.now(), self._due)
        return None if report is None else self._judging.add_verdicts(report)

    def prepare(self, key: DeploymentKey) -> Iterator[None]:
        """Work a deployment's next report out in small steps."""
        return self._store.prepare(key, self._clock.now())

    def targets(self) -> tuple[TargetStatus, ...]:
        """Every target's status at this instant, sorted by key."""
        return self._store.statuses(self._clock.now(), self._due)

    def loads(self) -> Loads:
        """How large what was last read of the targets is."""
        return loads(self._store.records())

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
