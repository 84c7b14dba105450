"""What a platform says about a deployment beside its Pods: objects observed, observed absent, or not observed.

Every optional object has three values: a struct (observed), ``None`` (observed absent) and `msgspec.UNSET` (nobody
could look). The difference decides verdicts, so a discoverer must never write ``None`` for what it did not read.
"""

from __future__ import annotations

import msgspec

from router_contract.operator_condition import OperatorCondition
from router_contract.platform_records import PlatformRecords
from router_contract.platform_words import CountsFact, EventFact, NoteFact, ReasonFact, UrlFact
from router_contract.status import Retirement

Unset = msgspec.UnsetType


class SourceFault(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One kind of object that could not be read: ``why`` is NotInstalled, Forbidden, Failing or
    Elsewhere (in another cluster); ``since`` wall.
    """

    kind: str
    why: str
    since: float
    detail: str = ""


class OperatorStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The operator's own voice: its conditions and phase, the generation it saw, and when we read it (wall)."""

    read_at: float
    observed_generation: int | None = None
    phase: str = ""
    phase_message: str = ""
    conditions: tuple[OperatorCondition, ...] = ()


class BindingFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The referenced cache binding. ``ready`` is ``None`` while it tells nothing of that; ``domain_read`` says that its
    domain was read.
    """

    name: str
    ready: bool | None
    deleting: bool = False
    domain_read: bool = True


class WorkloadFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One replica's quota Workload. ``flavors`` are those of its accelerator credits, none when it has no accelerator."""

    role: str
    ordinal: int | None = None
    reserved: bool = False
    preempted: bool = False
    deactivated: bool = False
    flavors: tuple[str, ...] = ()


class WeightsFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The referenced model artifact and how its weights reach the Pods.

    ``refused`` is a planning refusal in the operator's word (AccessModeConflict, …), empty when none. ``delivery`` is
    Mount or Download. ``pods_have_them`` is ``None`` when no Pod was there to tell.
    """

    found: bool
    resolved: bool = False
    claim_bound: bool | None = None
    refused: str = ""
    materialized: bool | None = None
    failed: bool = False
    delivery: str = "Mount"
    pods_have_them: bool | None = None


class RouterObjectsFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The managed router's objects: whether they rendered, whether they exist, and the ready replicas of them.

    ``ready`` is ``None`` where the object does not tell: nobody has reported on it yet.
    """

    render_error: str = ""
    deployed: bool = True
    ready: int | None = 0


class RolloutFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How running replicas compare with the desired render, counted over replicas this pass could account for."""

    desired: int
    accounted: int
    current: int
    outdated_roles: tuple[str, ...] = ()
    held_by: str = ""


class ElasticFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The elastic resize as its owner reports it."""

    refused: bool = False
    retries_spent: bool = False
    world_known: bool = True
    detail: str = ""


class ScalerFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who owns the replica count and which decision last changed it, as the annotations say.

    ``found`` says whether the scaler that they name is there; UNSET where none can be read from them or nobody could look.
    """

    binding: str = ""
    decision: str = ""
    name: str = ""
    found: bool | Unset = msgspec.UNSET


class PoolFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The attached cache pool. ``endpoint`` is the address for clients that it tells itself, ``None`` for none."""

    name: str
    found: bool
    endpoint: str | None = None


class PublisherFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whether one role's rendered Pods carry KV-event publisher configuration."""

    role: str
    publishes: bool


class ContractRole(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One role's entry of the contract a router is rendered from. ``selector`` is ``(label, value)`` pairs, sorted.

    ``selected`` are the members' UIDs that it matches, ``withheld`` those that it would match if the operator offered them.
    """

    name: str
    kind: str
    selector: tuple[tuple[str, str], ...] = ()
    endpoint: str = ""
    events_endpoint: str | None = None
    events_replay: str | None = None
    selected: tuple[str, ...] | None = None
    withheld: tuple[str, ...] = ()


class ContractMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The metric names and the port that the contract tells the router to read at every engine."""

    port: int
    names: tuple[tuple[str, str], ...] = ()


class RouterContract(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`status.router` as published. ``metrics`` is ``None`` for routers that read no engine series."""

    name: str
    endpoint: str = ""
    pool_endpoint: str = ""
    roles: tuple[ContractRole, ...] = ()
    metrics: ContractMetrics | None = None


class PlatformFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything a platform says about one deployment. Defaults are those of a static file: nothing was looked at.

    ``managed`` means that an operator renders the engine's arguments and gates, so that `Role.command` is a take-over.
    ``declared`` means that a leg nobody can observe here counts as Verified (``declared``). ``seats`` means that the
    platform numbers members. ``ready_by_reading`` means that only our own reads prove readiness (static targets).
    ``eviction_note`` is appended to the phase message while nothing is ready.
    """

    platform: str = "static"
    managed: bool = False
    declared: bool = True
    seats: bool = False
    ready_by_reading: bool = True
    ordered: tuple[str, ...] = ()
    sources: tuple[SourceFault, ...] = ()
    operator: OperatorStatus | Unset | None = msgspec.UNSET
    cache: bool | Unset = msgspec.UNSET
    binding: BindingFact | Unset | None = msgspec.UNSET
    workloads: tuple[WorkloadFact, ...] | Unset = msgspec.UNSET
    reserved_namespace: bool | Unset = msgspec.UNSET
    weights: WeightsFact | Unset | None = msgspec.UNSET
    router_objects: RouterObjectsFact | Unset | None = msgspec.UNSET
    rollout: RolloutFact | Unset = msgspec.UNSET
    publishers: tuple[PublisherFact, ...] | Unset = msgspec.UNSET
    retirement: Retirement | Unset | None = msgspec.UNSET
    elastic: ElasticFact | Unset | None = msgspec.UNSET
    scaler: ScalerFact | Unset | None = msgspec.UNSET
    pool: PoolFact | Unset | None = msgspec.UNSET
    contract: RouterContract | Unset | None = msgspec.UNSET
    endpoint: str | Unset | None = msgspec.UNSET
    port: int | None = None
    eviction_note: str = ""
    reasons: tuple[ReasonFact, ...] = ()
    notes: tuple[NoteFact, ...] = ()
    events: tuple[EventFact, ...] = ()
    urls: tuple[UrlFact, ...] = ()
    counts: CountsFact | None = None
    records: PlatformRecords = PlatformRecords()
