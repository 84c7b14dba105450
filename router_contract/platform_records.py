"""Records of a platform about the parts of one deployment: instances, scalers, homes, canary runs, and what calls for words.

Everything is the platform's own word as last read; nothing is judged. ``None`` is what it does not say. Times are wall
seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from router_contract.operator_condition import OperatorCondition


class OperationRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An operation under way on one instance. ``waiting`` names what outside of it holds it back, empty when nothing."""

    type: str
    step: str = ""
    reason: str = ""
    waiting: str = ""
    target_revision: str = ""
    started_at: float | None = None
    last_progress_at: float | None = None
    deadline: float | None = None
    capacity_refused_at: float | None = None
    retries: int | None = None
    from_node: str = ""
    surge_index: int | None = None


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is left of the Pod whose failure last had an instance made anew; it stays after the instance is well again."""

    pod: str
    container: str = ""
    reason: str = ""
    exit_code: int | None = None
    message: str = ""
    at: float | None = None


class InstanceRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance of a component as its status tells, whichever way that is written."""

    index: int
    phase: str
    incarnation: int = 0
    running_revision: str = ""
    target_revision: str = ""
    pods: int = 0
    serving_pods: int = 0
    available_pods: int = 0
    admitted: bool = False
    active_ordinal: int = 0
    ready_since: float | None = None
    operation: OperationRecord | None = None
    last_failure: FailureRecord | None = None
    conditions: tuple[OperatorCondition, ...] = ()
    announced: tuple[str, ...] = ()


class HoldRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a rollout does not advance: the gate that refused last, in its own words."""

    gate: str
    reason: str = ""
    target: str = ""
    since: float | None = None


class RetryRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What may still be tried at one revision: ``state`` is Backoff, Held or RetryInProgress."""

    target: str
    state: str
    attempts: int = 0
    next_at: float | None = None
    reason: str = ""


class ScalerRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A component's autoscaler. Counts are ``None`` unless the platform's own scaler has reported; ``why`` says so."""

    kind: str = ""
    managed_by: str = ""
    source: str = ""
    current: int | None = None
    desired: int | None = None
    why: str = ""
    last_scale: float | None = None
    conditions: tuple[OperatorCondition, ...] = ()


class CanaryMetric(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One metric of the platform's last sample. ``value`` is empty where it was not evaluated."""

    name: str
    value: str = ""
    operator: str = ""
    threshold: str = ""
    passed: bool = False
    message: str = ""


class CanaryHold(StrEnum):
    """What holds the step of a canary run."""

    NOTHING = "Nothing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    PRE_STEP = "PreStepHold"
    CAPACITY = "Capacity"
    ANALYSIS = "Analysis"
    SOAK = "Soak"
    PROMOTION = "Promotion"
    UNKNOWN = "Unknown"


class CanaryRunRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The platform's own canary run of one unit. ``analysis`` names ours of the same run, empty when none is open.

    ``capacity_wait_since`` is apart from ``step_entered``: waiting for capacity spends nothing of the soak. ``rejected`` is a
    revision that a rollback turned down and that is not tried again. ``step`` is ``None`` where what is written is no step;
    ``steps`` where the plan is not pinned any more, ``failed_checks`` where the run counts none or does not say.
    """

    phase: str = ""
    target: str = ""
    canary: str = ""
    stable: str = ""
    step: int | None = 0
    steps: int | None = None
    open: bool = False
    held_by: CanaryHold = CanaryHold.NOTHING
    step_entered: float | None = None
    weight: int | None = None
    capacity_wait_since: float | None = None
    rejected: str = ""
    failed_reason: str = ""
    failed_at: float | None = None
    failed_checks: int | None = None
    last_evaluation: float | None = None
    last_conclusive: float | None = None
    results: tuple[CanaryMetric, ...] = ()
    analysis: str = ""


class ComponentRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One component. ``mode`` is how it is deployed, empty when nothing says; ``contract`` whether it rolls out by record.

    ``instances`` are those with an operation or a failure, ``more`` how many of them are left out; ``phases`` counts all.
    ``fault`` says why rows could not be read: then nothing is known of operations.
    """

    name: str
    mode: str = ""
    contract: bool | None = None
    why: str = ""
    objects: tuple[str, ...] = ()
    encoding: str = ""
    fault: str = ""
    phases: tuple[tuple[str, int], ...] = ()
    instances: tuple[InstanceRow, ...] = ()
    more: int = 0
    hold: HoldRecord | None = None
    retries: tuple[RetryRecord, ...] = ()
    conditions: tuple[OperatorCondition, ...] = ()
    scaler: ScalerRecord | None = None
    canary: CanaryRunRecord | None = None


class HomeState(StrEnum):
    """How current what is known of a home is."""

    FRESH = "Fresh"
    STALE = "Stale"
    UNKNOWN = "Unknown"


class HomeRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One cluster that holds a part of the deployment. Stale: counts of the last good read, ``since`` when reads fail."""

    name: str
    phase: str = ""
    endpoint: str = ""
    state: HomeState = HomeState.UNKNOWN
    since: float | None = None
    admitted: int | None = None
    ready: int | None = None
    draining: bool = False


class PlacementRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a deployment of several clusters lies. With ``more`` homes that are left out no total is known."""

    phase: str = ""
    cluster: str = ""
    endpoint: str = ""
    homes: tuple[HomeRecord, ...] = ()
    more: int = 0

    @property
    def known(self) -> int:
        """How many homes are read now."""
        return sum(home.state is HomeState.FRESH for home in self.homes)

    @property
    def admitted(self) -> int | None:
        """Admitted replicas of all homes, retained counts included; ``None`` where a home has no evidence."""
        return None if self.more else _sum(home.admitted for home in self.homes)

    @property
    def ready(self) -> int | None:
        """Ready replicas, likewise."""
        return None if self.more else _sum(home.ready for home in self.homes)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if not known or None in known else sum(count for count in known if count is not None)


class NoticeFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something the platform says that `explain` tells: ``type`` as a condition's, with a place after a space.

    ``status`` is False for trouble, Unknown for what cannot be known, True for a word beside something good.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    since: float | None = None


class PlatformRecords(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All records of one deployment; ``notices`` are what `explain` tells of them."""

    components: tuple[ComponentRecord, ...] = ()
    placement: PlacementRecord | None = None
    notices: tuple[NoticeFact, ...] = ()
