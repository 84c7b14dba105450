"""What is known about each target, and how one frozen instant of it looks. Pure: observations in, reports out.

`read` and `failed` fold one observation into a target's `Record`; `values` shows every signal of a record at an
instant, each with its age and state, or with the code that says why it is missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from observer.measure.extract import Frame
from observer.measure.histograms import merge, merge_windows
from observer.measure.totals import added, onto
from observer.measure.window import Chain
from router_contract.readings import (
    Histogram,
    Instant,
    MissingCode,
    Problem,
    ScrapeFailed,
    SignalValue,
    State,
    Window,
)
from router_contract.signals import SIGNALS, Kind
from router_contract.targets import Component, Deployment, Member, Target
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetReport, TargetState, TargetStatus
from router_contract.vocabulary import Vocabulary

_MOVING = (Kind.COUNTER, Kind.HISTOGRAM)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When values age and over what they are taken, in seconds; ``links`` bounds the reads that a window may join."""

    fresh: float = 12.0
    expire: float = 300.0
    span: float = 60.0
    longest: float = 300.0
    links: int = 128


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything kept of one target.

    ``frame`` is the last good read, begun at ``read_at``; ``failure`` the last failed one. ``consecutive`` counts
    failures since the last good read. ``vocabulary`` is ``None`` for software that no table knows. ``as_read`` keeps
    what `values` made of the last good read.
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
    as_read: dict[Policy, tuple[SignalValue, ...]] = msgspec.field(default_factory=dict)


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
    if record.read_at is None:
        return State.MISSING
    age = now.mono - record.read_at.mono
    return State.FRESH if age <= policy.fresh else State.STALE if age <= policy.expire else State.MISSING


def values(record: Record, now: Instant, policy: Policy) -> tuple[SignalValue, ...]:
    """Every signal that the target's table knows, at an instant: with a value, or with why there is none."""
    if record.vocabulary is None:
        return ()
    state = state_at(record, now, policy)
    if state is State.MISSING or record.frame is None or record.read_at is None:
        code, told = _why_nothing(record), sources(record.vocabulary, record.version).items()
        return tuple(
            SignalValue(signal=name, source=source, missing=code, window_missing=code) for name, source in told
        )
    age = now.mono - record.read_at.mono
    return tuple(_aged(value, state, age, policy) for value in _as_read(record, record.read_at, policy))


def _aged(value: SignalValue, state: State, age: float, policy: Policy) -> SignalValue:
    """A value some time after its read. A window outlives `Policy.longest` no more than a value outlives its end."""
    if value.missing is not None:
        return msgspec.structs.replace(value, age_seconds=age)
    if age > policy.longest and value.running_total is not None:
        value = msgspec.structs.replace(value, window=None, window_missing=MissingCode.EXPIRED)
    return msgspec.structs.replace(value, state=state, age_seconds=age)


def _as_read(record: Record, at: Instant, policy: Policy) -> tuple[SignalValue, ...]:
    """Every signal as it was at its read, made once for each read: what ages is little, what is looked up is not."""
    made = record.as_read.get(policy)
    if made is None:
        made = record.as_read[policy] = tuple(_make(record, at, policy))
    return made


def _make(record: Record, at: Instant, policy: Policy) -> Iterator[SignalValue]:
    frame, table = record.frame, record.vocabulary
    if frame is None or table is None:
        return
    for signal, source in sources(table, record.version).items():
        series, gaps = frame.series(signal), frame.gaps(signal)
        if not series and not gaps:
            gaps = (((), frame.missing(signal) or MissingCode.ABSENT),)
        yield from (_missing(at, signal, labels, source, code) for labels, code in gaps)
        for each in series:
            window, why = _window(record, signal, each.labels, at, policy)
            total = record.chain.total(signal, each.labels) if SIGNALS[signal].kind in _MOVING else None
            yield SignalValue(
                signal=signal,
                labels=each.labels,
                value=each.value,
                histogram=each.histogram,
                info=each.info,
                observed_at=at.wall,
                source=each.source,
                window=window,
                window_missing=why,
                running_total=total.count if isinstance(total, Histogram) else total,
                running_histogram=total if isinstance(total, Histogram) else None,
            )


def _why_nothing(record: Record) -> MissingCode:
    if record.read_at is not None:
        return MissingCode.EXPIRED
    return MissingCode.SCRAPE_FAILED if record.failure is not None else MissingCode.NEVER_READ


def _missing(
    at: Instant, signal: str, labels: tuple[tuple[str, str], ...], source: str, code: MissingCode
) -> SignalValue:
    """A signal that a readable body did not have: the age of that body is the age of the finding."""
    return SignalValue(
        signal=signal,
        labels=labels,
        source=source,
        missing=code,
        window_missing=code,
        observed_at=at.wall,
    )


def _window(
    record: Record, signal: str, labels: tuple[tuple[str, str], ...], now: Instant, policy: Policy
) -> tuple[Window | None, MissingCode | None]:
    if SIGNALS[signal].kind not in _MOVING:
        return None, None
    found = record.chain.window(signal, labels, now, policy.span, policy.longest)
    return (found, None) if isinstance(found, Window) else (None, found)


@lru_cache(maxsize=256)
def sources(vocabulary: Vocabulary, version: str | None) -> Mapping[str, str]:
    """Each signal that can hold for a version, in table order, with the wire name that is looked for first."""
    found: dict[str, tuple[int, str]] = {}
    for term in vocabulary.select(version):
        known = found.get(term.signal)
        if known is None or term.preference < known[0]:
            found[term.signal] = (term.preference, term.name)
    return {signal: name for signal, (_, name) in found.items()}


Counted = Mapping[str, Histogram]
"""By signal: what was ever counted, also by series and members that are gone now."""
_NOTHING: Counted = MappingProxyType({})


def merged(
    found: Iterable[SignalValue], counted: Counted = _NOTHING, *, always: bool = False
) -> tuple[SignalValue, ...]:
    """The histograms of several label sets once more as one value each; of single ones too when ``always``.

    The running totals are those of ``counted``, so that they do not fall when one of the label sets is missing. A
    signal whose parts share no finite bound is left out.
    """
    parts: dict[str, list[SignalValue]] = {}
    for value in found:
        if value.histogram is not None:
            parts.setdefault(value.signal, []).append(value)
    made = (_merge(several, counted.get(signal)) for signal, several in parts.items() if always or len(several) > 1)
    return tuple(value for value in made if value is not None)


def _merge(several: list[SignalValue], counted: Histogram | None) -> SignalValue | None:
    whole = merge([value.histogram for value in several if value.histogram is not None])
    if whole is None:
        return None
    oldest = max(several, key=lambda value: value.age_seconds or 0.0)
    windows = [value.window for value in several if value.window is not None]
    window = merge_windows(windows)
    total = onto(counted, whole.bounds) if counted is not None else None
    return SignalValue(
        signal=oldest.signal,
        value=whole.count,
        histogram=whole,
        state=oldest.state,
        age_seconds=oldest.age_seconds,
        observed_at=oldest.observed_at,
        source=oldest.source,
        window=window,
        window_missing=None if window is not None else several[0].window_missing,
        running_total=total.count if total is not None else None,
        running_histogram=total,
    )


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


def totals(record: Record) -> Counted:
    """The running totals of a target's histogram signals over all of its series, also those that are gone now."""
    return _NOTHING if record.chain.totals is None else record.chain.totals.histograms()


def counted(records: Iterable[Record], departed: Counted = _NOTHING) -> dict[str, Histogram]:
    """By signal: what some targets have counted, whatever their state is now, and what was counted before them."""
    parts: dict[str, list[Histogram]] = {signal: [total] for signal, total in departed.items()}
    for record in records:
        for signal, total in totals(record).items():
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
        values = merged(found, counts.get(role.name, _NOTHING), always=True)
        mismatched = sorted({value.signal for value in found} - {value.signal for value in values})
        roles.append(RoleMeasurement(name=role.name, values=values, mismatched=tuple(mismatched)))
    return tuple(roles)


def incarnation(member: Member) -> Hashable:
    """What is known of a member's life besides its series; ``None`` where the platform tells nothing."""
    return None if member.restarts is None and member.started_at is None else (member.restarts, member.started_at)
