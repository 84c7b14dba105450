"""What is known about each target, and how one frozen instant of it looks. Pure: observations in, reports out.

`read` and `failed` fold one observation into a target's `Record`; `values` shows every signal of a record at an
instant (or those that are asked for), each with its age and state, or with the code that says why it is missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from observer.measure.extract import Frame
from observer.measure.making import Made, Maker
from observer.measure.merging import NOTHING, Counted, merged
from observer.measure.totals import added
from observer.measure.window import Chain
from router_contract.readings import (
    Histogram,
    Instant,
    MissingCode,
    Moment,
    Problem,
    ScrapeFailed,
    SignalValue,
    State,
)
from router_contract.targets import Component, Deployment, Member, Target
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetReport, TargetState, TargetStatus
from router_contract.vocabulary import Vocabulary


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When values age and over what they are taken, in seconds; ``links`` bounds the reads that a window may join."""

    fresh: float = 12.0
    expire: float = 300.0
    span: float = 60.0
    longest: float = 300.0
    links: int = 128


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything kept of one target.

    ``frame`` is the last good read, begun at ``read_at``; ``failure`` the last failed one. ``consecutive`` counts
    failures since the last good read. ``vocabulary`` is ``None`` for software that no table knows. ``as_read`` keeps
    what was made of the last good read.
    """

    target: Target
    first_seen: Instant
    vocabulary: Vocabulary | None = None
    version: str | None = None
    frame: Frame | None = None
    read_at: Instant | None = None
    duration: float | None = None
    body_bytes: int = 0
    chain: Chain = Chain()
    failure: ScrapeFailed | None = None
    reads: int = 0
    failures: int = 0
    consecutive: int = 0
    as_read: dict[Policy, Made] = msgspec.field(default_factory=dict)


def read(record: Record, frame: Frame, chain: Chain, at: Instant, *, duration: float, body_bytes: int) -> Record:
    """A record after a good read. ``chain`` already holds the frame."""
    return msgspec.structs.replace(
        record,
        frame=frame,
        chain=chain,
        read_at=at,
        version=frame.version or record.version,
        duration=duration,
        body_bytes=body_bytes,
        reads=record.reads + 1,
        consecutive=0,
        as_read={},
    )


def failed(record: Record, failure: ScrapeFailed) -> Record:
    """A record after a read that gave nothing. What was read before stays, and ages."""
    return msgspec.structs.replace(
        record,
        failure=failure,
        reads=record.reads + 1,
        failures=record.failures + 1,
        consecutive=record.consecutive + 1,
    )


def state_at(record: Record, now: Instant, policy: Policy) -> State:
    """How fresh a record is; Missing when it was never read or its last read has expired."""
    return moment_of(record, now, policy).state


def values(
    record: Record, now: Instant, policy: Policy, signals: frozenset[str] | None = None
) -> tuple[SignalValue, ...]:
    """Every signal that the target's table knows, at an instant: with a value, or with why there is none.

    With ``signals`` only those, which are then the only ones made.
    """
    return shown(record, now, policy, signals, merges=False)[0]


def shown(
    record: Record, now: Instant, policy: Policy, signals: frozenset[str] | None = None, *, merges: bool = True
) -> tuple[tuple[SignalValue, ...], tuple[SignalValue, ...]]:
    """`values`, and with ``merges`` the histograms of several label sets once more as one value each (see `merged`)."""
    if record.vocabulary is None:
        return (), ()
    moment = moment_of(record, now, policy)
    told = sources(record.vocabulary, record.version)
    if moment.state is State.MISSING or record.frame is None or record.read_at is None:
        code = _why_nothing(record)
        missing = [
            SignalValue(signal=name, source=source, missing=code, window_missing=code)
            for name, source in told.items()
            if signals is None or name in signals
        ]
        return tuple(missing), ()
    maker = Maker(record.frame, record.chain, record.read_at, moment, span=policy.span, longest=policy.longest)
    made = record.as_read.get(policy)
    if made is None:
        made = record.as_read[policy] = Made()
    return made.shown(maker, told, signals, merges=merges)


def moment_of(record: Record, now: Instant, policy: Policy) -> Moment:
    """What time has made of a record's values by an instant (see `Moment`)."""
    if record.read_at is None:
        return Moment(read=record, state=State.MISSING, windows=False)
    age = now.mono - record.read_at.mono
    state = State.FRESH if age <= policy.fresh else State.STALE if age <= policy.expire else State.MISSING
    return Moment(read=record.as_read, state=state, windows=age <= policy.longest, age_seconds=age)


def _why_nothing(record: Record) -> MissingCode:
    if record.read_at is not None:
        return MissingCode.EXPIRED
    return MissingCode.SCRAPE_FAILED if record.failure is not None else MissingCode.NEVER_READ


@lru_cache(maxsize=256)
def sources(vocabulary: Vocabulary, version: str | None) -> Mapping[str, str]:
    """Each signal that can hold for a version, in table order, with the wire name that is looked for first."""
    found: dict[str, tuple[int, str]] = {}
    for term in vocabulary.select(version):
        known = found.get(term.signal)
        if known is None or term.preference < known[0]:
            found[term.signal] = (term.preference, term.name)
    return {signal: name for signal, (_, name) in found.items()}


def status(record: Record, now: Instant, next_due: float | None, *, shed: bool) -> TargetStatus:
    """How a target stands. ``next_due`` is on the monotonic clock."""
    frame, failure, target = record.frame, record.failure, record.target
    if shed:
        state = TargetState.SHED
    elif record.reads == 0:
        state = TargetState.PENDING
    else:
        state = TargetState.FAILING if record.consecutive else TargetState.UP
    return TargetStatus(
        key=target.key,
        component=target.component,
        software=target.software,
        version=record.version,
        role=target.role,
        member=target.member,
        url=target.address.url,
        state=state,
        last_error_kind=failure.kind if failure is not None else None,
        last_error=failure.detail if failure is not None else "",
        last_error_at=failure.at.wall if failure is not None else None,
        last_success=record.read_at.wall if record.read_at is not None else None,
        age_seconds=now.mono - record.read_at.mono if record.read_at is not None else None,
        duration_seconds=record.duration,
        body_bytes=record.body_bytes,
        samples_kept=frame.samples_kept if frame is not None else 0,
        samples_dropped=frame.samples_dropped if frame is not None else 0,
        next_due_seconds=next_due - now.mono if next_due is not None else None,
        reads=record.reads,
        failures=record.failures,
        consecutive_failures=record.consecutive,
        resets=record.chain.resets,
        absent=tuple(sorted(frame.absent)) if frame is not None else (),
        unknown_families=frame.unknown_families if frame is not None else (),
        problems=frame.problems if frame is not None else _no_table(record),
    )


def _no_table(record: Record) -> tuple[Problem, ...]:
    """A body was read and nothing of it is understood: that must not look like a target that is well."""
    if record.vocabulary is not None or record.read_at is None:
        return ()
    software = record.target.software
    detail = f"no table describes the {record.target.component} {software!r}: nothing of its body is used"
    return (Problem(family="", kind=MissingCode.UNKNOWN_SOFTWARE, detail=detail),)


def totals(record: Record, signals: frozenset[str] | None = None) -> Counted:
    """The running totals of a target's histogram signals over all of its series, also those that are gone now."""
    return NOTHING if record.chain.totals is None else record.chain.totals.histograms(signals)


def counted(
    records: Iterable[Record], departed: Counted = NOTHING, signals: frozenset[str] | None = None
) -> dict[str, Histogram]:
    """By signal: what some targets have counted, whatever their state is now, and what was counted before them."""
    parts: dict[str, list[Histogram]] = {
        signal: [total] for signal, total in departed.items() if signals is None or signal in signals
    }
    for record in records:
        for signal, total in totals(record, signals).items():
            parts.setdefault(signal, []).append(total)
    return {signal: added(several) for signal, several in parts.items()}


def report(
    deployment: Deployment,
    targets: Iterable[TargetReport],
    now: Instant,
    counts: Mapping[str, Counted] = MappingProxyType({}),
) -> DeploymentReport:
    """One deployment at one instant, as measured; judges add their verdicts.

    ``counts`` is by role what `counted` gives for it; a role that is not there has no running totals.
    """
    kept = tuple(targets)
    return DeploymentReport(deployment=deployment, at=now, targets=kept, roles=_roles(deployment, kept, counts))


def _roles(
    deployment: Deployment, targets: tuple[TargetReport, ...], counts: Mapping[str, Counted]
) -> tuple[RoleMeasurement, ...]:
    """Each role's histograms merged over the members that serve now."""
    by_uid: dict[str, list[TargetReport]] = {}
    for target in targets:
        if target.status.component is Component.ENGINE:
            by_uid.setdefault(target.status.key.member_uid, []).append(target)
    roles: list[RoleMeasurement] = []
    for role in deployment.roles:
        found = [
            value
            for member in role.members()
            if not member.terminating
            for target in by_uid.get(member.uid, ())
            for value in target.values
            if value.histogram is not None
        ]
        values = merged(found, counts.get(role.name, NOTHING), always=True)
        mismatched = sorted({value.signal for value in found} - {value.signal for value in values})
        roles.append(RoleMeasurement(name=role.name, values=values, mismatched=tuple(mismatched)))
    return tuple(roles)


def incarnation(member: Member) -> Hashable:
    """What is known of a member's life besides its series; ``None`` where the platform tells nothing."""
    return None if member.restarts is None and member.started_at is None else (member.restarts, member.started_at)


def members(deployment: Deployment) -> Iterator[tuple[Component, Member]]:
    """Every member of a deployment with the kind of program it runs."""
    for role in deployment.roles:
        for member in role.members():
            yield Component.ENGINE, member
    if deployment.router is not None:
        for member in deployment.router.members:
            yield Component.ROUTER, member
    for store in deployment.stores:
        for member in store.members:
            yield Component.STORE, member


def same_program(before: Target, now: Target) -> bool:
    """Whether what was read of a target still means the same: another program's numbers are not continued."""
    return (before.software, before.model, before.role) == (now.software, now.model, now.role)
