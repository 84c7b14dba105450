"""One instant of every deployment, indexed once so that each family finds its values without a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from router_contract.readings import SignalValue
from router_contract.targets import Component
from router_contract.verdicts import DeploymentReport, TargetReport, TargetStatus


class TargetView(msgspec.Struct, frozen=True, gc=False):
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

    reports: Sequence[DeploymentReport]
    statuses: Sequence[TargetStatus]
    targets: Sequence[TargetView]

    def of(self, component: Component) -> Iterator[TargetView]:
        """The targets of one kind of program."""
        return (target for target in self.targets if target.status.component is component)


def snapshot(reports: Iterable[DeploymentReport], statuses: Iterable[TargetStatus]) -> Snapshot:
    """Index the reports."""
    index = Index()
    for report in reports:
        index.add(report)
    return index.snapshot(statuses)


class Index:
    """A snapshot in the making, so that an event loop gets its turn between two deployments."""

    def __init__(self) -> None:
        self.reports: list[DeploymentReport] = []
        self._targets: list[TargetView] = []

    def add(self, report: DeploymentReport) -> None:
        """One more deployment."""
        self.reports.append(report)
        self._targets += [_view(report, target) for target in report.targets]

    def snapshot(self, statuses: Iterable[TargetStatus] | None = None) -> Snapshot:
        """All that was added; without ``statuses`` those of its targets."""
        told = [target.status for target in self._targets] if statuses is None else statuses
        return Snapshot(self.reports, tuple(told), self._targets)

    def let_go(self) -> Iterator[None]:
        """Drop what was added, deployment by deployment: values of thousands of targets are not forgotten in no time.

        The snapshot is empty after it.
        """
        while self.reports:
            size = len(self.reports.pop().targets)
            del self._targets[len(self._targets) - size :]
            yield


def _view(report: DeploymentReport, target: TargetReport) -> TargetView:
    values: dict[str, list[SignalValue]] = {}
    for value in target.values:
        values.setdefault(value.signal, []).append(value)
    status = target.status
    labels = (report.key.namespace, report.key.name, status.role, status.member, str(status.key.port))
    return TargetView(target, labels, values)
