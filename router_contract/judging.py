"""What judges are handed and what they hand back to be kept: evidence, stored state, policy.

Evidence is what reads and events showed, with the instants at which they did. Stored state is what must survive a
restart, so its times are wall seconds. The same inputs always give the same verdicts.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from router_contract.platform_facts import PlatformFacts
from router_contract.readings import FailureKind, Instant, Wall
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import (
    ContractCheck,
    Convergence,
    DrainAnswer,
    Explanation,
    GroupState,
    GroupVerdict,
    OperatorVoice,
    Phase,
    RetirementStatus,
    RoleStatus,
    Transition,
)
from router_contract.targets import Deployment, Member, Ready, Role, host_key
from router_contract.verdicts import Condition, Status


class RankEvidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One data-parallel rank of one engine, from its series of the present incarnation.

    ``work`` is running plus waiting requests, ``None`` when not read; ``work_since`` is when it last became non-zero.
    ``moved_at`` is the last read at which a progress counter had grown, ``None`` if it has not grown while watched;
    ``watched_since`` is the first read of the chain (a reset starts a new one).
    """

    rank: str = "0"
    work: float | None = None
    work_since: Instant | None = None
    moved_at: Instant | None = None
    watched_since: Instant | None = None


class DrainRead(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One read of the load gauges for the drain answer; a ``None`` value is a gauge that was not there.

    ``identity`` is whatever must not change between two reads (container, restarts, address, owner).
    """

    at: Instant
    identity: str = ""
    values: tuple[tuple[str, float | None], ...] = ()
    error: str = ""


class Starts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The starts of one program that we saw ourselves, where no platform counts them; newest last, few are kept.

    ``listened``: something answered on its port at least once. ``gone``: it was refused since. ``pending``: a start was
    counted by its port alone, and the next good read shows which life that is. ``good_since`` is the first good read
    without another outcome since.
    """

    at: tuple[Instant, ...] = ()
    listened: bool = False
    gone: bool = False
    pending: bool = False
    good_since: Instant | None = None


class MemberEvidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was seen of one member. Every field left out means that nobody looked.

    ``incarnation`` changes with the container. ``answered_at`` is the last good scrape of this incarnation,
    ``failed_at``/``failure`` the last failed one (``failure_status`` its HTTP status, if any) and ``failing_since`` the first of its kind without another in between; ``health_at`` is our own last good ``GET /health`` and
    ``unhealthy_at`` the last one that was answered badly. ``listed_model`` is whether the model was listed at
    ``listed_at``. ``attempt`` counts start-ups from 1; ``startup_budget`` and ``started_at`` (wall) are in seconds.
    ``families`` are the wire names of its last good scrape; ``events_dialable`` whether its KV-event socket answered.
    ``router_inflight`` are the requests that routers count at it, since ``inflight_since`` without a break; ``None``
    where no router counts them. ``starts`` are those we saw, for members whose ``attempt`` no platform tells.
    """

    uid: str
    first_seen: Instant | None = None
    incarnation: str = ""
    answered_at: Instant | None = None
    failed_at: Instant | None = None
    failure: FailureKind | None = None
    failure_detail: str = ""
    health_at: Instant | None = None
    unhealthy_at: Instant | None = None
    listed_model: bool | None = None
    listed_at: Instant | None = None
    ranks: tuple[RankEvidence, ...] = ()
    router_inflight: float | None = None
    attempt: int | None = None
    startup_budget: float | None = None
    started_at: float | None = None
    last_termination: str = ""
    drain: tuple[DrainRead, ...] = ()
    families: tuple[str, ...] | None = None
    events_dialable: bool | None = None
    failing_since: Instant | None = None
    failure_status: int | None = None
    inflight_since: Instant | None = None
    starts: Starts | None = None


class ProofMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One Pod of the uncached list."""

    uid: str
    ready: Ready = Ready.UNKNOWN
    terminating: bool = False


class MembershipProof(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One consistent uncached list of a deployment's engine Pods; ``None`` members mean that the list failed."""

    at: Instant
    members: tuple[ProofMember, ...] | None


class TargetFreshness(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How fresh one expected target is. ``age`` (seconds) is ``None`` when it was never read.

    ``failure`` and ``detail`` say how the newest read failed, if it did; ``uid`` is the member's.
    """

    name: str
    age: float | None
    detail: str = ""
    uid: str = ""
    failure: FailureKind | None = None


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What is kept of a group between passes and over restarts; valid for this ``generation`` only.

    ``revoked``: a leg failed since it last qualified. ``listed``: a valid set of views has named every serving member.
    ``answered``: UIDs that answered in this generation. ``forwarded``: ``uid|incarnation|rank`` that carried a request.
    ``void``: an uncached list proved a change while views were lost; only valid views clear it.
    ``since`` (wall seconds) is when ``state`` was entered.
    """

    role: str
    ordinal: int | None
    generation: str
    state: GroupState
    reason: str = ""
    qualified_at: Wall | None = None
    revoked: bool = False
    listed: bool = False
    answered: tuple[str, ...] = ()
    forwarded: tuple[str, ...] = ()
    void: bool = False
    since: Wall | None = None


class StoredCondition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The last status of a condition and since when (wall seconds); ``reason_since`` is the same of its reason."""

    type: str
    status: Status
    reason: str = ""
    last_transition: Wall
    reason_since: Wall | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Everything about one deployment that a restart or a change of owner must not lose.

    ``converging``: the eligible set changed at ``eligible_changed_at`` and no pass has found the routers follow since.
    """

    groups: tuple[GroupRecord, ...] = ()
    conditions: tuple[StoredCondition, ...] = ()
    disagreements: tuple[tuple[str, Wall], ...] = ()
    converged: str = ""
    converged_since: Wall | None = None
    eligible_set: tuple[str, ...] = ()
    eligible_changed_at: Wall | None = None
    transitions: tuple[Transition, ...] = ()
    converging: bool = False


class JudgePolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Every threshold of judging, in seconds."""

    scrape_period: float = 5.0
    scrape_timeout: float = 2.0
    view_validity: float = 15.0
    proof_validity: float = 15.0
    stale_after: float = 300.0
    stall_after: float = 60.0
    operator_lag: float = 120.0
    transitions_kept: int = 20

    @property
    def answered_within(self) -> float:
        """How old an answer may be to prove that a member answers: two periods."""
        return 2 * self.scrape_period

    @property
    def fresh_within(self) -> float:
        """How old a reading may be to be Fresh: two periods and a timeout."""
        return 2 * self.scrape_period + self.scrape_timeout


class DeploymentInputs(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that one judging pass sees of one deployment. ``views`` holds the last view and the last failure per Pod.

    ``extra`` are conditions that other judges computed for the same instant.
    """

    deployment: Deployment
    facts: PlatformFacts = PlatformFacts()
    members: tuple[MemberEvidence, ...] = ()
    views: tuple[RouterView | ViewFailed, ...] = ()
    proof: MembershipProof | None = None
    freshness: tuple[TargetFreshness, ...] = ()
    extra: tuple[Condition, ...] = ()

    @cached_property
    def _seen(self) -> dict[str, MemberEvidence]:
        return {item.uid: item for item in reversed(self.members)}

    @cached_property
    def _names(self) -> dict[str, list[tuple[Role, Member]]]:
        found: dict[str, list[tuple[Role, Member]]] = {}
        for role in self.deployment.roles:
            for member in role.members():
                found.setdefault(member.name, []).append((role, member))
        return found

    @cached_property
    def _listeners(self) -> dict[tuple[str, int], list[tuple[Role, Member]]]:
        found: dict[tuple[str, int], list[tuple[Role, Member]]] = {}
        for role in self.deployment.roles:
            for member in role.members():
                if member.host is None:
                    continue
                host = host_key(member.host)
                for port in listeners(member):
                    found.setdefault((host, port), []).append((role, member))
        return found

    def evidence(self, uid: str) -> MemberEvidence:
        """What was seen of a member; nothing, when nobody looked."""
        return self._seen.get(uid) or MemberEvidence(uid=uid)

    def listening(self, host: str, port: int | None) -> list[tuple[Role, Member]]:
        """The engine members that listen at an address and port, with their roles."""
        if port is None:
            return []
        # most routers write an address as we do
        found = self._listeners.get((host, port))
        return self._listeners.get((host_key(host), port), []) if found is None else found

    def named(self, name: str) -> list[tuple[Role, Member]]:
        """The engine members of a name, with their roles."""
        return self._names.get(name, [])


def listeners(member: Member) -> frozenset[int]:
    """The ports a member declares; without any declaration, those it is read and asked on."""
    if member.ports:
        return frozenset(member.ports)
    return frozenset(address.port for address in (member.api, member.metrics) if address is not None)


class Judged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one pass. ``stored`` goes into the next pass; ``proof_wanted`` asks for one uncached list.

    ``writable`` is False when a list behind the pass failed: then nothing may be written to the cluster.
    """

    conditions: tuple[Condition, ...]
    operator: tuple[OperatorVoice, ...]
    roles: tuple[RoleStatus, ...]
    convergence: Convergence
    contract: tuple[ContractCheck, ...]
    drain: tuple[DrainAnswer, ...]
    retirement: RetirementStatus | None
    phase: Phase
    phase_message: str
    role_summary: str
    endpoint: str | None
    explanation: Explanation
    stored: Stored
    proof_wanted: bool = False
    writable: bool = True

    def groups(self) -> tuple[GroupVerdict, ...]:
        """Every group of every role, in order."""
        return tuple(group for role in self.roles for group in role.groups)
