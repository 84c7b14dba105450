"""A small real `ReportSource` over reports that a test hands it."""

from __future__ import annotations

import asyncio

from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, TargetStatus


class Reports:
    """Answers what it was given; remembers who asked for a fresh read and can keep them waiting."""

    def __init__(self, *reports: DeploymentReport, extra: tuple[TargetStatus, ...] = ()) -> None:
        self.reports = {report.key: report for report in reports}
        self.extra = extra
        self.refreshed: list[DeploymentKey] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.on_refresh: dict[DeploymentKey, DeploymentReport] = {}
        self.is_ready = (True, "every target was read once")
        self.is_alive = (True, "judging on time")

    def keys(self) -> tuple[DeploymentKey, ...]:
        return tuple(sorted(self.reports))

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        return self.reports.get(key)

    def targets(self) -> tuple[TargetStatus, ...]:
        own = [target.status for report in self.reports.values() for target in report.targets]
        return tuple(sorted((*own, *self.extra), key=lambda status: status.key))

    async def refresh(self, key: DeploymentKey) -> None:
        self.refreshed.append(key)
        await self.gate.wait()
        if key in self.on_refresh:
            self.reports[key] = self.on_refresh[key]

    def ready(self) -> tuple[bool, str]:
        return self.is_ready

    def alive(self) -> tuple[bool, str]:
        return self.is_alive
