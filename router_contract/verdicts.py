"""Verdicts and the report: what judges conclude and what every exporter shows.

A verdict is a label, a reason and the numbers it used. Unknown is a label of its own. A `DeploymentReport` is one
frozen instant of one deployment; at that instant a signal has the same value, state and window in every exporter.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.platform_facts import ScalerFact, SourceFault
from router_contract.platform_records import PlatformRecords
from router_contract.readings import FailureKind, Histogram, Instant, Problem, SignalValue
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import (
    ContractCheck,
    Convergence,
    DrainAnswer,
    Explanation,
    OperatorVoice,
    Phase,
    RankStall,
    RetirementStatus,
    RoleStatus,
    Transition,
)
from router_contract.targets import Component, Deployment, DeploymentKey, TargetKey


class Status(StrEnum):
    """The three answers of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Provenance(StrEnum):
    """Whether an answer is ours, an operator's shown with its age, or cannot be seen from here."""

    COMPUTED = "Computed"
    MIRRORED = "Mirrored"
    NOT_OBSERVABLE = "NotObservable"


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One condition. ``last_transition`` (wall seconds) moves only when ``status`` does; ``evidence`` are its numbers.

    ``reason_since`` (wall seconds) moves with the reason too; ``None`` where that is not known.
    """

    type: str
    status: Status
    reason: str
    message: str = ""
    provenance: Provenance = Provenance.COMPUTED
    last_transition: float | None = None
    observed_generation: int | None = None
    evidence: tuple[tuple[str, str], ...] = ()
    reason_since: float | None = None


class TargetState(StrEnum):
    """How a target stands: never read yet, read well, failing, or left out because a limit was reached."""

    PENDING = "Pending"
    UP = "Up"
    FAILING = "Failing"
    SHED = "Shed"


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One target as shown to people: where it is, how its last read went, when the next one is due.

    Durations in seconds, ``last_success`` and ``last_error_at`` in wall seconds, ``next_due_seconds`` from the
    instant of the report. ``samples_kept`` and ``samples_dropped`` are of the last good read.
    """

    key: TargetKey
    component: Component
    software: str
    version: str | None
    role: str
    member: str
    url: str
    state: TargetState
    last_error_kind: FailureKind | None = None
    last_error: str = ""
    last_error_at: float | None = None
    last_success: float | None = None
    age_seconds: float | None = None
    duration_seconds: float | None = None
    body_bytes: int = 0
    samples_kept: int = 0
    samples_dropped: int = 0
    next_due_seconds: float | None = None
    reads: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    resets: int = 0
    absent: tuple[str, ...] = ()
    unknown_families: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class TargetReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A target with every signal value at the report's instant (missing ones included, with their code).

    ``values`` holds one value for each of our label sets (ranks apart). ``merged`` holds the histogram signals that
    have several label sets once more, as one value without rank labels and with the quantiles of the merged window.
    """

    status: TargetStatus
    values: tuple[SignalValue, ...] = ()
    merged: tuple[SignalValue, ...] = ()

    def of(self, signal: str) -> tuple[SignalValue, ...]:
        """The values of one signal, one for each of our label sets."""
        return tuple(value for value in self.values if value.signal == signal)


class RoleMeasurement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole role's histograms, its members merged on their common bounds; one value for each signal, no labels.

    ``mismatched`` names the signals whose members share no finite bound: they are not in ``values``. ``totals`` are the
    running totals of signals of which nothing else was asked for; those of ``values`` stand there.
    """

    name: str
    values: tuple[SignalValue, ...] = ()
    mismatched: tuple[str, ...] = ()
    totals: tuple[tuple[str, Histogram], ...] = ()

    def total(self, signal: str) -> Histogram | None:
        """The running total of a signal's histogram; ``None`` where there is none."""
        told = next((total for name, total in self.totals if name == signal), None)
        return told or next((value.running_histogram for value in self.values if value.signal == signal), None)


class DeploymentReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything known about one deployment at one instant. Exporters render it; they compute no verdicts.

    ``roles`` are measurements, ``role_status`` what judging says of each role. ``views`` holds the last view and the
    last failure of each router Pod. ``stalls`` are the ranks whose progress is known. ``convergence_seconds`` counts, since
    the observer began to judge it, how long routers took to select each new eligible set; ``None`` without a router.
    ``judged`` is False until the deployment was judged once: then every verdict below
    is at its default and must not be shown as an answer; ``awaiting`` says then what is waited for and how long.
    """

    deployment: Deployment
    at: Instant
    targets: tuple[TargetReport, ...] = ()
    roles: tuple[RoleMeasurement, ...] = ()
    conditions: tuple[Condition, ...] = ()
    judged: bool = False
    phase: Phase = Phase.UNKNOWN
    phase_message: str = ""
    role_summary: str = ""
    endpoint: str | None = None
    role_status: tuple[RoleStatus, ...] = ()
    convergence: Convergence | None = None
    operator: tuple[OperatorVoice, ...] = ()
    contract: tuple[ContractCheck, ...] = ()
    drain: tuple[DrainAnswer, ...] = ()
    retirement: RetirementStatus | None = None
    explanation: Explanation | None = None
    views: tuple[RouterView | ViewFailed, ...] = ()
    sources: tuple[SourceFault, ...] = ()
    scaler: ScalerFact | None = None
    records: PlatformRecords = PlatformRecords()
    transitions: tuple[Transition, ...] = ()
    stalls: tuple[RankStall, ...] = ()
    convergence_seconds: Histogram | None = None
    awaiting: str = ""

    @property
    def key(self) -> DeploymentKey:
        """Namespace and name."""
        return self.deployment.key
