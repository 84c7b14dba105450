"""From what was read to what judges are handed: evidence of members, circuits and endpoints of routers. Pure.

A field is filled only where somebody looked; everything else stays "nobody looked".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from observer import fleet
from observer.fleet import Record
from observer.judge.standing import STARTUP_SECONDS
from observer.judge.starts import contact, follow_starts
from observer.measure.columns import Columns
from observer.measure.extract import Frame
from router_contract import router_series
from router_contract.judging import DrainRead, MemberEvidence, RankEvidence, Starts, TargetFreshness
from router_contract.kv_streams import KvStreamSummary, StreamState
from router_contract.probes import MemberProbe
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.router_views import CircuitReading, EndpointSeries
from router_contract.targets import Member
from router_contract.vocabulary import Vocabulary

CONNECTING_SECONDS = 10.0
"""How long a subscription may connect before its publisher counts as not dialable."""
LOAD = ("requests-running", "requests-waiting")


def member_evidence(
    member: Member,
    record: Record | None,
    before: MemberEvidence | None,
    probe: MemberProbe | None,
    model: str | None,
) -> MemberEvidence:
    """What was seen of one member so far; ``before`` is what the last pass had, for since-when facts."""
    if record is None:
        return MemberEvidence(uid=member.uid, started_at=member.started_at)
    health = probe.health if probe is not None else None
    listed = probe.models if probe is not None else None
    failure = current_failure(record)
    life = incarnation(member, record)
    lived = _lived(member, record)
    return MemberEvidence(
        uid=member.uid,
        first_seen=record.first_seen,
        incarnation=life,
        answered_at=record.read_at if lived else None,
        failed_at=failure.at if failure is not None else None,
        failure=FailureKind(failure.kind) if failure is not None else None,
        failure_detail=failure.detail if failure is not None else "",
        failure_status=failure.status if failure is not None else None,
        failing_since=_failing_since(record, before) if failure is not None else None,
        health_at=health.at if health is not None and health.healthy else None,
        unhealthy_at=health.at if health is not None and not health.healthy else None,
        listed_model=_listed(listed.models, model) if listed is not None else None,
        listed_at=listed.at if listed is not None else None,
        ranks=ranks(record, before if before is not None and before.incarnation == life else None) if lived else (),
        started_at=member.started_at,
        attempt=None if member.restarts is None else member.restarts + 1,
        startup_budget=STARTUP_SECONDS if member.readiness_gated else None,
        drain=_drain(member, record, before, life),
        families=None if record.frame is None else record.frame.plan.families,
        starts=_starts(record, before, life) if member.restarts is None else None,
    )


def with_probe(before: MemberEvidence, probe: MemberProbe | None, model: str | None) -> MemberEvidence:
    """A member's evidence after its API told something new while its metrics were not read again."""
    health = probe.health if probe is not None else None
    listed = probe.models if probe is not None else None
    return msgspec.structs.replace(
        before,
        health_at=health.at if health is not None and health.healthy else None,
        unhealthy_at=health.at if health is not None and not health.healthy else None,
        listed_model=_listed(listed.models, model) if listed is not None else None,
        listed_at=listed.at if listed is not None else None,
    )


def current_failure(record: Record) -> ScrapeFailed | None:
    """How the newest read failed; ``None`` when it was good or there was none."""
    failure = record.failure
    return failure if failure is not None and (record.read_at is None or failure.at > record.read_at) else None


def _starts(record: Record, before: MemberEvidence | None, life: str) -> Starts:
    """The starts that we saw: one step for each read, however many passes see it."""
    known = before.starts if before is not None and before.starts is not None else Starts()
    failure = current_failure(record)
    at = failure.at if failure is not None else record.read_at
    seen = None if before is None else before.failed_at or before.answered_at
    if at is None or at == seen:
        return known
    before_life = before.incarnation if before is not None else ""
    # only a start time proves that two reads are of one life: counters that grew may have grown in two
    proven = life.startswith("process ") and life == before_life
    same = True if proven else False if before_life and life != before_life else None
    return follow_starts(known, contact(failure.kind if failure is not None else None), at, same=same)


def _drain(member: Member, record: Record, before: MemberEvidence | None, life: str) -> tuple[DrainRead, ...]:
    """The load gauges of the last two reads; one that failed is told as such and is no zero."""
    known = before.drain if before is not None else ()
    failure = current_failure(record)
    at = failure.at if failure is not None else record.read_at
    if at is None or (known and known[-1].at == at):
        return known
    table, frame = record.vocabulary, record.frame
    identity = f"{life}|{member.host}|{record.target.address.url}"
    if failure is not None or table is None or frame is None:
        error = failure.detail if failure is not None else "no table tells its load gauges"
        return (*known[-1:], DrainRead(at=at, identity=identity, error=error))
    values = tuple((name, _level(frame, name)) for name in table.idle_levels)
    return (*known[-1:], DrainRead(at=at, identity=identity, values=values))


def _level(frame: Frame, signal: str) -> float | None:
    """A gauge added over its series; ``None`` when it is not there or one of its series tells no number."""
    found = frame.numbers(signal)
    return sum(value for _, value in found) if found and not frame.gaps(signal) else None


def _failing_since(record: Record, before: MemberEvidence | None) -> Instant | None:
    """Since when reads fail as the last one did: from the pass before, unless this is the first failure of its kind."""
    if record.failure is None:
        return None
    same = before is not None and before.failure == record.failure.kind and record.consecutive > 1
    return before.failing_since if same and before is not None else record.failure.at


def _listed(models: tuple[str, ...], model: str | None) -> bool:
    """Whether the deployment's model is listed; where none is declared, any model is enough."""
    return bool(models) if model is None else model in models


def incarnation(member: Member, record: Record) -> str:
    """A text that changes with each life of the program: its container's facts, else its own start, else its resets.

    Empty while nobody can tell one life from the next: never read, and the platform says nothing.
    """
    if fleet.incarnation(member) is not None:
        return f"container {member.restarts}/{member.started_at}"
    if record.read_at is None:
        return ""
    start = record.chain.process_start
    return f"process {round(start)}" if start is not None else f"resets {record.chain.resets}"


def _lived(member: Member, record: Record) -> bool:
    """Whether the last good read was of the life that the platform tells of now."""
    told, read = fleet.incarnation(member), record.chain.incarnation
    return told is None or read is None or told == read


def ranks(record: Record, before: MemberEvidence | None) -> tuple[RankEvidence, ...]:
    """The work and the progress of every data-parallel rank that the body names."""
    frame, table = record.frame, record.vocabulary
    if frame is None or table is None or record.read_at is None:
        return ()
    work = _work(frame)
    moved = _moved(record, table)
    earlier = {each.rank: each for each in before.ranks} if before is not None else {}
    first = record.chain.first_at
    watched = {rank: _watched(earlier.get(rank), first, record) for rank in {*work, *moved}}
    return tuple(
        RankEvidence(
            rank=rank,
            work=work.get(rank),
            work_since=_work_since(work.get(rank), earlier.get(rank), record.read_at),
            moved_at=_since(watched[rank], _instant(moved.get(rank), record.read_at)),
            watched_since=watched[rank],
        )
        for rank in sorted(watched)
    )


def _work(frame: Frame) -> dict[str, float | None]:
    """Running plus waiting requests of each rank. A part that was not read is not 0: then only more than 0 is known."""
    parts: dict[str, dict[str, float]] = {}
    gaps: set[str] = set()
    for signal in LOAD:
        told = frame.numbers(signal)
        gaps |= _unknown(frame, signal, len(told))
        for labels, value in told:
            of = parts.setdefault(dict(labels).get("rank", "0"), {})
            of[signal] = of.get(signal, 0.0) + value
    totals = {rank: (sum(of.values()), len(of) == len(LOAD) and rank not in gaps) for rank, of in parts.items()}
    return {rank: total if whole or total > 0 else None for rank, (total, whole) in totals.items()}


def _unknown(frame: Frame, signal: str, told: int) -> frozenset[str]:
    """The ranks that have a level of this signal which tells no number, where so many of its levels told one."""
    if told == len(frame.view.levels.of_signal.get(signal, ())):
        return frozenset()
    return frozenset(dict(labels).get("rank", "0") for labels, _ in frame.gaps(signal))


def _watched(before: RankEvidence | None, first: Instant | None, record: Record) -> Instant | None:
    """Since when this life is watched: the chain's first read, or the read that found the reset."""
    if before is not None and before.watched_since is not None:
        return before.watched_since
    return record.read_at if record.chain.resets else first


def _since(watched: Instant | None, moved: Instant | None) -> Instant | None:
    """A movement of this life: what moved before it was watched moved in another one and proves nothing of this."""
    return None if moved is None or watched is None or moved.mono < watched.mono else moved


def _work_since(work: float | None, before: RankEvidence | None, at: Instant) -> Instant | None:
    if work is None or work <= 0:
        return None
    return before.work_since if before is not None and before.work_since is not None else at


def _moved(record: Record, table: Vocabulary) -> dict[str, float | None]:
    """When a progress signal of each rank last grew, mono seconds; ``None`` when it has not while watched."""
    tail = record.chain.tail
    found: dict[str, float | None] = {}
    if tail is None:
        return found
    for rank, places in _progress(tail.columns, table.progress):
        moved = [at for at in map(tail.moved.at, places) if not math.isnan(at)]
        found[rank] = max(moved, default=None)
    return found


@lru_cache(maxsize=256)
def _progress(columns: Columns, signals: tuple[str, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Where the progress signals of each rank stand: the same for all bodies of one plan."""
    found: dict[str, list[int]] = {}
    for signal in signals:
        for place in columns.of_signal.get(signal, ()):
            found.setdefault(dict(columns.series[place].labels).get("rank", "0"), []).append(place)
    return tuple((rank, tuple(places)) for rank, places in found.items())


def _instant(mono: float | None, at: Instant) -> Instant | None:
    return None if mono is None else Instant(mono, at.wall - (at.mono - mono))


def circuits(record: Record | None) -> CircuitReading | None:
    """The circuits of a router's last metrics read; ``None`` when its metrics were never read."""
    if record is None or record.frame is None or record.read_at is None:
        return None
    frame, names = record.frame, (router_series.CIRCUIT, router_series.OUTCOMES)
    return router_series.circuit_reading(record.read_at, *map(frame.series, names), whole=_whole(frame, names))


def endpoint_series(record: Record | None) -> EndpointSeries | None:
    """The endpoints that an llm-d router's last metrics read names; ``None`` when its metrics were never read."""
    if record is None or record.frame is None or record.read_at is None:
        return None
    frame, names = record.frame, (router_series.QUEUE, router_series.READY)
    return router_series.endpoint_series(record.read_at, *map(frame.series, names), whole=_whole(frame, names))


def _whole(frame: Frame, signals: Iterable[str]) -> bool:
    """Whether all that a body has of these signals was read, so that what is not there is not exported either."""
    return not any(signal in frame.plan.unreadable or frame.gaps(signal) for signal in signals)


COMPUTED = (
    (("prompt-tokens-by-source", "source", "local_compute"), ("generation-tokens", "", "")),
    (("effective-prefill-tokens", "mode", "input"), ("generation-tokens", "", "")),
)
"""What tells the tokens that were computed and not taken from a cache: all signals of the first row that is there."""


def computed_tokens(record: Record, rank: int) -> float | None:
    """Running total of the tokens one rank computed, as far as its series tell them apart from cached ones."""
    frame = record.frame
    if frame is None:
        return None
    for row in COMPUTED:
        found = [_counted(frame, signal, label, value, str(rank)) for signal, label, value in row]
        known = [each for each in found if each is not None]
        if len(known) == len(row):
            return sum(known)
    return None


def _counted(frame: Frame, signal: str, label: str, value: str, rank: str) -> float | None:
    """What one rank counted of a signal under one value of a label; ``None`` where a part of it, or all, is not told."""
    told = [(dict(labels), number) for labels, number in frame.numbers(signal)]
    here = [(labels, number) for labels, number in told if labels.get("rank", "0") == rank]
    if not here or rank in _unknown(frame, signal, len(told)):
        return None
    return sum(number for labels, number in here if labels.get(label, "") == value)


def freshness(records: Iterable[tuple[str, Record]], now: Instant) -> tuple[TargetFreshness, ...]:
    """How old the last good read of each expected target is, in the order given."""
    return tuple(
        TargetFreshness(
            name=name,
            age=None if record.read_at is None else now.mono - record.read_at.mono,
            detail=record.failure.detail if record.failure is not None and record.consecutive else "",
            uid=record.target.key.member_uid,
            failure=FailureKind(record.failure.kind) if record.failure is not None and record.consecutive else None,
        )
        for name, record in records
    )


def events_dialable(streams: Sequence[KvStreamSummary], now: Instant) -> dict[str, bool]:
    """By member UID, whether its KV-event sockets take a connection; who is not there has none, or is being tried.

    The worst rank decides: one that cannot be dialled, then one that is not known.
    """
    found: dict[str, list[bool | None]] = {}
    for stream in streams:
        found.setdefault(stream.key.member_uid, []).append(_dialled(stream, now))
    worst = {uid: False if False in states else None if None in states else True for uid, states in found.items()}
    return {uid: state for uid, state in worst.items() if state is not None}


def _dialled(stream: KvStreamSummary, now: Instant) -> bool | None:
    """A stream beyond connecting has a connection, whatever else is wrong with it; a broken one says what it was."""
    if stream.state is StreamState.CONNECTING:
        return False if now.mono - stream.since.mono > CONNECTING_SECONDS else None
    return None if stream.state in {StreamState.DETACHED, StreamState.BROKEN} else True


def with_told(
    seen: MemberEvidence,
    before: MemberEvidence | None,
    inflight: Mapping[str, float],
    dialable: Mapping[str, bool],
    at: Instant,
) -> MemberEvidence:
    """A member's evidence with what its routers count at it, and whether its publisher can be dialled."""
    counted, answers = inflight.get(seen.uid), dialable.get(seen.uid)
    since = None
    if counted:
        since = before.inflight_since if before is not None and before.inflight_since is not None else at
    if (counted, since, answers) == (seen.router_inflight, seen.inflight_since, seen.events_dialable):
        return seen
    return msgspec.structs.replace(seen, router_inflight=counted, inflight_since=since, events_dialable=answers)
