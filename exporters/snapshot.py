"""One instant of every deployment, indexed once so that each family finds its values without a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from router_contract.readings import SignalValue
from router_contract.targets import Component
from router_contract.verdicts import DeploymentReport, TargetReport, TargetStatus


class TargetView(msgspec.Struct, frozen=True):
    """A target with the labels of its series (namespace, deployment, role, Pod, port) and its values by signal."""

    report: TargetReport
    labels: tuple[str, ...]
    values: dict[str, list[SignalValue]]

    @property
    def status(self) -> TargetStatus:
        """How the target stands."""
        return self.report.status


class Snapshot(msgspec.Struct, frozen=True):
    """Every deployment's report, every target's status, and the same targets indexed."""

    reports: tuple[DeploymentReport, ...]
    statuses: tuple[TargetStatus, ...]
    targets: tuple[TargetView, ...]

    def of(self, component: Component) -> Iterator[TargetView]:
        """The targets of one kind of program."""
        return (target for target in self.targets if target.status.component is component)


def snapshot(reports: Iterable[DeploymentReport], statuses: Iterable[TargetStatus]) -> Snapshot:
    """Index the reports."""
    kept = tuple(reports)
    return Snapshot(kept, tuple(statuses), tuple(_view(report, target) for report in kept for target in report.targets))


def _view(report: DeploymentReport, target: TargetReport) -> TargetView:
    values: dict[str, list[SignalValue]] = {}
    for value in target.values:
        values.setdefault(value.signal, []).append(value)
    status = target.status
    labels = (report.key.namespace, report.key.name, status.role, status.member, str(status.key.port))
    return TargetView(target, labels, values)
