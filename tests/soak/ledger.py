"""What must hold at every moment, compared with the truth that engines and publishers keep."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from observer.app.watcher import Watcher
from observer.settings import Settings
from router_contract.readings import State
from router_contract.status import GroupState
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, TargetState
from tests.soak.disk import FullDisk
from tests.soak.engines import Engine, Publishers

SLACK = 1.0
"""Seconds for what lies between a moment of truth and our look at it on a busy machine."""
GRACE = 10.0
"""Seconds after a restart within which a publisher's new life is found."""
MEMORY_MIB = 48.0
FILES = 40
FILES_EACH = 2
"""A target whose probe and read once ran together keeps a second connection in use, with both ends in this process."""


class Ledger:
    """Counts faults, recoveries and violations. ``check`` looks once at everything that is shown."""

    def __init__(self, engines: Mapping[str, Engine], settings: Settings) -> None:
        self._engines = engines
        self._fresh = settings.scrape.fresh_seconds + SLACK
        self._gone = 2 * settings.scrape.period + SLACK
        self._passes = (0.0, 0.0)
        self.violations: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.faults: Counter[str] = Counter()
        self.recoveries = 0
        self.worst_recovery = 0.0
        self.checks = 0
        self.samples = 0
        self.waiting: dict[str, float] = {}
        self.disk = ""
        self.refused = 0
        self.lost_samples = 0
        self.saved_again = 0

    def violated(self, rule: str, detail: str) -> None:
        """A rule does not hold."""
        self.violations[rule] += 1
        self.first.setdefault(rule, detail)

    def check(self, watcher: Watcher) -> None:
        """Values and eligibility of a quarter of all deployments; four looks see every one."""
        self.checks += 1
        last = watcher.judging.last_pass
        if last is not None and last.mono != self._passes[1]:
            self._passes = (self._passes[1], last.mono)
        for key in watcher.source.keys()[self.checks % 4 :: 4]:
            report = watcher.source.deployment(key)
            if report is not None:
                self._values(report)
                self._eligible(report)

    def _values(self, report: DeploymentReport) -> None:
        now = time.monotonic()
        for target in report.targets:
            engine = self._engines[target.status.member]
            for value in target.of("requests-running"):
                if value.state is not State.FRESH or value.value is None:
                    continue
                served = engine.served.get(int(value.value))
                if served is None:
                    self.violated("invented or very old value", f"{engine.name} shows {value.value:g} as Fresh")
                elif now - served > self._fresh:
                    text = (
                        f"{engine.name} shows a value of {now - served:.1f} s ago as Fresh, at most {self._fresh:.1f} s"
                    )
                    self.violated("stale shown as fresh", text)
            since = self.waiting.get(engine.name)
            read = target.status.last_success
            if since is not None and target.status.state is TargetState.UP and read is not None:
                age = target.status.age_seconds or 0.0
                if now - age >= since:
                    self.recoveries += 1
                    self.worst_recovery = max(self.worst_recovery, now - since)
                    del self.waiting[engine.name]

    def _eligible(self, report: DeploymentReport) -> None:
        # What is shown was concluded in the last pass, or in the one before it while the last is under way.
        now = self._passes[0]
        names = {member.uid: member.name for role in report.deployment.roles for member in role.members()}
        for role in report.role_status:
            for group in role.groups:
                if group.state is not GroupState.ELIGIBLE:
                    continue
                for uid in group.generation.split("/"):
                    engine = self._engines.get(names.get(uid, ""))
                    if engine is not None and engine.dead and now - engine.since > self._gone:
                        text = f"{engine.name} was found eligible, {engine.mode} for {now - engine.since:.1f} s then"
                        self.violated("dead and eligible", text)

    def check_blocks(self, watcher: Watcher, publishers: Publishers, keys: list[tuple[DeploymentKey, str]]) -> None:
        """No block of a dead life beside one of the present, nor long after it began."""
        now = time.monotonic()
        for place, (key, member) in enumerate(keys):
            life = publishers.lives[place]
            if life == 0:
                continue
            old = self._held(watcher, key, member, publishers.hash_of(place, 1, life - 1))
            if not old:
                continue
            new = self._held(watcher, key, member, publishers.hash_of(place, 1))
            if new or now - publishers.restarted[place] > GRACE:
                text = f"{member} holds a block of life {life - 1}, {now - publishers.restarted[place]:.1f} s after it ended"
                self.violated("block of a dead life", text)

    @staticmethod
    def _held(watcher: Watcher, key: DeploymentKey, member: str, block: int) -> bool:
        return any(each.member == member for each in watcher.kv.collector.lookup(key, [block]).holdings)

    def check_canary(self, watcher: Watcher, asked: int) -> None:
        """Each sample that was taken is counted once. One may be under way.

        Without descriptors a query fails before its source hears of it; its sample counts all the same. One that cannot be
        stored, the disk being full, does not count; the disk knows how many those were.
        """
        unheard = 4 * self.faults["few-descriptors"]
        for view in watcher.canaries.canaries():
            counted = view.status.sample_id if view.status is not None else 0
            tallied = sum(count for _, _, count in view.tallies)
            self.samples = counted
            if not asked - 1 <= counted + self.lost_samples <= asked + unheard:
                text = f"{asked} were asked for, {counted} are counted, {self.lost_samples} could not be stored"
                self.violated("canary sample lost or doubled", text)
            if tallied and abs(tallied - counted) > 1:
                self.violated("canary sample lost or doubled", f"{counted} are counted, {tallied} decisions were made")

    async def check_state(self, state: FullDisk) -> None:
        """After a full disk the state is saved again, and what can be read from the file is what was saved."""
        self.disk, self.refused = state.form, state.refused
        wrong = await asyncio.to_thread(state.recovered)
        if wrong:
            self.violated("state not saved again", wrong)
        elif wrong is not None:
            self.saved_again += 1

    def told(self, watcher: Watcher) -> str:
        """What is shown of those that are waited for, the first five."""
        now, shown = time.monotonic(), []
        reports = [report for key in watcher.source.keys() if (report := watcher.source.deployment(key))]  # noqa: SIM118 - not a dict
        targets = {target.status.member: target.status for report in reports for target in report.targets}
        for name in sorted(self.waiting)[:5]:
            engine, status = self._engines[name], targets.get(name)
            found = "no target"
            if status is not None:
                found = f"{status.state.value}, {status.last_error or 'no error'}, read {status.age_seconds} s ago at {status.url}"
            where = f"serves {engine.host}:{engine.port} as {engine.mode}"
            shown.append(f"{name} (since {now - self.waiting[name]:.1f} s, {where}: {found})")
        return "; ".join(shown)

    def check_flat(self, what: str, before: float, after: float, most: float) -> None:
        """Something that must not grow over the run."""
        if after - before > most:
            self.violated(f"{what} not flat", f"{what} went from {before:.0f} to {after:.0f}, at most {most:.0f} more")
