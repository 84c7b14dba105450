"""What exporters need from whoever runs them. `observer.app` satisfies these; tests pass small real classes."""

from __future__ import annotations

from typing import Protocol

from router_contract.platform_words import Look
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, TargetStatus


class Looks(Protocol):
    """What is looked at because an explanation is asked for."""

    async def look(self, key: DeploymentKey) -> tuple[Look, ...]:
        """What was looked at of one deployment, shortly ago at most; nothing where nothing is to be looked at."""
        ...


class ReportSource(Protocol):
    """The current report, made for the moment of the call."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted."""
        ...

    def deployment(self, key: DeploymentKey) -> DeploymentReport | None:
        """One deployment's report at this instant, or ``None`` when no such deployment exists."""
        ...

    def targets(self) -> tuple[TargetStatus, ...]:
        """Every target's status at this instant, sorted by key."""
        ...

    async def refresh(self, key: DeploymentKey) -> None:
        """Read the deployment's targets once more now, at most once per target and period, within the read budget."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Whether answers can be trusted yet, and one sentence why or why not."""
        ...

    def alive(self) -> tuple[bool, str]:
        """Whether the observer's own loop still judges on time, and one sentence about it."""
        ...
