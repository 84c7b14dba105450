"""What is said about one deployment: serving answers, groups, roles, parallelism, retirement, explanations.

Plain values that judges return and exporters show. Nothing here computes. `None` always means "not known" and never
zero; a field that may legitimately be absent says so in its docstring.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.platform_words import NoteFact
from router_contract.readings import Wall


class ServingState(StrEnum):
    """What the routers together say about the endpoints they select."""

    CONFIRMED = "Confirmed"
    NOT_CONVERGED = "NotConverged"
    UNKNOWN = "Unknown"
    NOT_CONFIGURED = "NotConfigured"


class Serving(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The routers' confirmation. ``value`` (endpoints) is there only with Confirmed, and its 0 is a number."""

    state: ServingState
    value: int | None = None
    reason: str = ""


class Convergence(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What routers select against what is eligible. All tuples hold member UIDs, sorted.

    ``listed`` are members some valid view names, selected or refused. ``wanted`` are serving members of eligible
    groups, ``missing`` those of them no router selects, ``extra`` the selected ones that no eligible group has.
    ``since`` (wall seconds) is when this finding began; ``took_seconds`` is set on the one pass that converges.
    """

    serving: Serving
    roles: tuple[tuple[str, Serving], ...] = ()
    valid: bool = False
    views_expected: int = 0
    views_usable: int = 0
    listed: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    since: float | None = None
    took_seconds: float | None = None


class LegName(StrEnum):
    """The five criteria of eligibility, in the order in which they are named."""

    MEMBER_SET_COMPLETE = "MemberSetComplete"
    MEMBERS_READY = "MembersReady"
    GROUP_FORWARD = "GroupForward"
    NO_PLANNED_RETIREMENT = "NoPlannedRetirement"
    NO_PENDING_REPLACEMENT = "NoPendingReplacement"


class LegState(StrEnum):
    """The answer of one criterion. NotApplicable passes and belongs to GroupForward of a single member."""

    VERIFIED = "Verified"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    NOT_APPLICABLE = "NotApplicable"


class Leg(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One criterion with the sentence that says why and where the answer came from."""

    name: LegName
    state: LegState
    why: str = ""
    source: str = ""


class GroupState(StrEnum):
    """The eight states of a serving group; the first that matches wins."""

    UNKNOWN = "Unknown"
    RETIRING = "Retiring"
    REPLACING = "Replacing"
    INCOMPLETE = "Incomplete"
    NOT_READY = "NotReady"
    UNVERIFIED = "Unverified"
    AWAITING_OBSERVATION = "AwaitingObservation"
    ELIGIBLE = "Eligible"


class MemberVerdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One member of a group. ``seat`` is absent where none is claimed; ``ready`` is True, False or Unknown."""

    name: str
    uid: str
    seat: int | None = None
    ready: str = "Unknown"
    standing: str = ""
    detail: str = ""


class GroupVerdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One serving group: who is in it, which state holds it, and the one fact that does.

    ``generation`` is the sorted UIDs joined with ``/``. ``qualified_at`` (wall seconds) is the latest transition into
    Eligible. ``retained`` marks an Eligible group that is kept by a membership proof while views are lost.
    """

    role: str
    ordinal: int | None
    generation: str
    state: GroupState
    reason: str
    message: str = ""
    members: tuple[MemberVerdict, ...] = ()
    legs: tuple[Leg, ...] = ()
    qualified_at: float | None = None
    retained: bool = False
    elastic: bool = False


class ReadinessMeaning(StrEnum):
    """What a Pod's Ready proves on a role."""

    ENGINE_ANSWERED = "EngineAnswered"
    PROCESS_STARTED = "ProcessStarted"


class Readiness(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What ``ready`` means on this role, and the sentence why."""

    meaning: ReadinessMeaning
    why: str = ""


class SourceKind(StrEnum):
    """Where a parallelism reading came from."""

    EXTRA_ARGS = "ExtraArgs"
    COMMAND = "Command"
    UNMANAGED_COMMAND = "UnmanagedCommand"
    UNKNOWN = "Unknown"


class ParallelismSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Provenance of a reading. ``complete`` is about the reading; a complete one may still leave a derived fact open."""

    kind: SourceKind
    complete: bool
    unreadable_reason: str = ""


class LoadBalance(StrEnum):
    """How data-parallel ranks are balanced, by the role's arguments."""

    INTERNAL = "Internal"
    EXTERNAL = "External"
    HYBRID = "Hybrid"
    MULTI_PORT = "MultiPort"
    UNKNOWN = "Unknown"


class Parallelism(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Declared degrees and modes. A degree that is not declared is not in ``declared``; nothing is defaulted.

    ``ranks_seen`` is how many data-parallel ranks the engines' own series name, ``None`` when no series was read.
    """

    declared: tuple[tuple[str, int], ...] = ()
    modes: tuple[tuple[str, bool], ...] = ()
    load_balance: LoadBalance = LoadBalance.UNKNOWN
    source: ParallelismSource
    ranks_seen: int | None = None

    def degree(self, name: str) -> int | None:
        """A declared degree, or ``None`` when the role declares none."""
        return dict(self.declared).get(name)


class Endpoints(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """``eligible`` is ``None`` while the qualification list is not complete; an explicit 0 is observed and empty."""

    eligible: int | None
    serving: Serving


class RoleStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One role as shown. ``desired`` and ``parallelism`` describe the current spec, ``ready`` the running replicas.

    ``quota_reserved`` is ``None`` where Workloads were not observed; ``assigned_flavors`` is ``None`` (absent) while no
    accelerator credit is assigned; ``unmanaged`` is ``None`` where nobody says who renders the command.
    """

    name: str
    kind: str
    desired: int | None
    ready: int | None
    unmanaged: bool | None = None
    quota_reserved: int | None = None
    assigned_flavors: tuple[str, ...] | None = None
    parallelism: Parallelism | None = None
    endpoints: Endpoints
    readiness: Readiness | None = None
    groups: tuple[GroupVerdict, ...] = ()


class Phase(StrEnum):
    """The field to read first."""

    STARTING = "Starting"
    READY = "Ready"
    DEGRADED = "Degraded"
    DELETING = "Deleting"
    UNKNOWN = "Unknown"


class Retirement(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A running retirement as the operator records it. Times are wall seconds; ordinal 0 is a real position."""

    role_name: str
    replica_ordinal: int
    state: str
    reason: str = ""
    observed_generation: int | None = None
    target_member_uids: tuple[str, ...] = ()
    target_workload_uid: str | None = None
    started_at: float | None = None
    deadline: float | None = None
    phase_started_at: float | None = None
    last_consumed_retry_token: str | None = None


class RetirementStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The whole record and the budgets: seconds left of the phase and of the operation, never below 0."""

    record: Retirement
    phase_seconds_left: float | None = None
    total_seconds_left: float | None = None
    message: str = ""


class DrainState(StrEnum):
    """Whether a replica still holds requests."""

    IDLE = "Idle"
    BUSY = "Busy"
    UNKNOWN = "Unknown"
    UNSUPPORTED = "Unsupported"


class DrainAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The read-only drain answer of one replica. ``requests`` is there only with Idle (0) and Busy."""

    role: str
    ordinal: int | None
    state: DrainState
    requests: float | None = None
    why: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One thing explained: what, why, with which evidence and how old it is, and what to do about it.

    ``advice`` is ``ClearsByItself``, ``WaitThenAct``, ``Act``, ``Over``, ``StaysUnknown`` (what decides it is not read
    from here) or empty for an unknown reason; ``whose`` names who owns it.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    advice: str = ""
    whose: str = ""
    hint: str = ""
    age_seconds: float | None = None
    evidence: tuple[tuple[str, str], ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One main answer in three sentences, then every other independent False, then what is not known.

    ``notices`` hold and have something to know about them; ``notes`` are answers of the platform's own document.
    """

    sentences: tuple[str, ...]
    main: Finding | None = None
    others: tuple[Finding, ...] = ()
    unknown: tuple[Finding, ...] = ()
    notices: tuple[Finding, ...] = ()
    notes: tuple[NoteFact, ...] = ()


class ContractCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One line of `observer contract`: what the contract says, what is there. ``holds`` is ``None`` when unread."""

    item: str
    declared: str
    observed: str
    holds: bool | None
    reason: str = ""


class Transition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One change that was published: when (wall seconds), of what, from what to what, and why."""

    at: Wall
    what: str
    before: str
    after: str
    reason: str = ""


class RankStall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """For how long one data-parallel rank of a member has had work and made no progress; 0 when it has no work."""

    uid: str
    rank: str
    seconds: float


class OperatorVoice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What the operator says under one condition type, beside ours. ``since`` (wall) is when they began to disagree."""

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int | None = None
    age_seconds: float | None = None
    disagrees: bool = False
    since: float | None = None
