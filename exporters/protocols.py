"""What exporters need from whoever runs them. `observer.app` satisfies these; tests pass small real classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from router_contract.documents import Unavailable
from router_contract.platform_words import Look
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey, TargetKey
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetReport, TargetStatus


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

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        """One deployment's report at this instant, or ``None`` when no such deployment exists.

        With ``signals`` the values of at least those, each as it is in the whole report; the others may be left out.
        With ``totals`` also the running totals of roles of at least those.
        """
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


class Sight(msgspec.Struct, frozen=True, eq=False, gc=False):
    """How one target stands, as far as telling goes whether what was made of it still holds.

    Told apart by identity: it is the same object for as long as nothing about the target's status and values changes but
    ages and when it is read next.
    """

    key: TargetKey


class Sights(msgspec.Struct, frozen=True, eq=False):
    """Every target of one deployment at one instant, in the order of `Deployment.targets`.

    ``deployment`` is another object when it changed. ``ages`` (seconds) are those of every value of each target, ``None``
    for one that was never read.
    """

    deployment: Deployment
    at: Instant
    targets: Sequence[Sight]
    ages: Sequence[float | None]


class SightSource(ReportSource, Protocol):
    """Reports, and the means to keep what was made of single targets until they change."""

    def sights(self, key: DeploymentKey) -> Sights | None:
        """How a deployment's targets stand at this instant; ``None`` when no such deployment exists. Makes no value."""
        ...

    def target(self, sight: Sight, at: Instant, signals: frozenset[str]) -> TargetReport:
        """One of them at the instant of its sights, with the values of these signals."""
        ...

    def role_windows(
        self, sights: Sights, signals: frozenset[str], made: Mapping[TargetKey, TargetReport]
    ) -> tuple[RoleMeasurement, ...]:
        """Each role as in the report of that instant, of these histogram signals: windows only, no counts and totals.

        ``made`` are reports of single targets at that instant that have these signals.
        """
        ...


class Documents(Protocol):
    """Metrics documents of the moment: `exporters.kept_documents.KeptDocuments`."""

    def document(self, key: DeploymentKey, meta: Callable[[Deployment], object] | None = None) -> bytes | Unavailable:
        """One deployment's as JSON, or why there is none; ``meta`` makes another ``metadata`` than its own."""
        ...


Prepare = Callable[[DeploymentKey, frozenset[str]], Iterator[None]]
"""Works out in small steps what a deployment's next report of some signals is made of."""


def at_once(_key: DeploymentKey, _signals: frozenset[str]) -> Iterator[None]:
    """Nothing is worked out beforehand."""
    return iter(())
