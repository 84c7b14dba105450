"""From what was read to what judges are handed: evidence of members, circuits and endpoints of routers. Pure.

A field is filled only where somebody looked; everything else stays "nobody looked".
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from observer import fleet
from observer.fleet import Record
from observer.measure.extract import Frame
from router_contract import router_series
from router_contract.judging import MemberEvidence, RankEvidence, TargetFreshness
from router_contract.probes import MemberProbe
from router_contract.readings import FailureKind, Instant
from router_contract.router_views import CircuitReading, EndpointSeries
from router_contract.targets import Member
from router_contract.vocabulary import Vocabulary

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
    failure = record.failure
    current = failure is not None and (record.read_at is None or failure.at > record.read_at)
    life = incarnation(member, record)
    lived = _lived(member, record)
    return MemberEvidence(
        uid=member.uid,
        first_seen=record.first_seen,
        incarnation=life,
        answered_at=record.read_at if lived else None,
        failed_at=failure.at if failure is not None and current else None,
        failure=FailureKind(failure.kind) if failure is not None and current else None,
        failure_detail=failure.detail if failure is not None and current else "",
        failing_since=_failing_since(record, before) if current else None,
        health_at=health.at if health is not None and health.healthy else None,
        unhealthy_at=health.at if health is not None and not health.healthy else None,
        listed_model=_listed(listed.models, model) if listed is not None else None,
        listed_at=listed.at if listed is not None else None,
        ranks=ranks(record, before if before is not None and before.incarnation == life else None) if lived else (),
        started_at=member.started_at,
        attempt=None if member.restarts is None else member.restarts + 1,
        families=tuple(sorted(record.frame.shape.types)) if record.frame is not None else None,
    )


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
    for signal in LOAD:
        for series in frame.series(signal):
            of = parts.setdefault(dict(series.labels).get("rank", "0"), {})
            of[signal] = of.get(signal, 0.0) + series.value
    totals = {rank: (sum(of.values()), len(of) == len(LOAD)) for rank, of in parts.items()}
    return {rank: total if whole or total > 0 else None for rank, (total, whole) in totals.items()}


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
    for signal in table.progress:
        for place in tail.columns.of_signal.get(signal, ()):
            rank = dict(tail.columns.series[place].labels).get("rank", "0")
            moved = float(tail.moved[place])
            known = found.get(rank)
            found[rank] = known if math.isnan(moved) else moved if known is None else max(known, moved)
    return found


def _instant(mono: float | None, at: Instant) -> Instant | None:
    return None if mono is None else Instant(mono, at.wall - (at.mono - mono))


def circuits(record: Record | None) -> CircuitReading | None:
    """The circuits of a router's last metrics read; ``None`` when its metrics were never read."""
    if record is None or record.frame is None or record.read_at is None:
        return None
    series = record.frame.series
    return router_series.circuit_reading(record.read_at, series(router_series.CIRCUIT), series(router_series.OUTCOMES))


def endpoint_series(record: Record | None) -> EndpointSeries | None:
    """The endpoints that an llm-d router's last metrics read names; ``None`` when its metrics were never read."""
    if record is None or record.frame is None or record.read_at is None:
        return None
    series = record.frame.series
    return router_series.endpoint_series(record.read_at, series(router_series.QUEUE), series(router_series.READY))


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
        found = [
            sum(
                series.value
                for series in frame.series(signal)
                if dict(series.labels).get("rank", "0") == str(rank) and dict(series.labels).get(label, "") == value
            )
            for signal, label, value in row
            if frame.series(signal)
        ]
        if len(found) == len(row):
            return sum(found)
    return None


def freshness(records: Iterable[tuple[str, Record]], now: Instant) -> tuple[TargetFreshness, ...]:
    """How old the last good read of each expected target is, in the order given."""
    return tuple(
        TargetFreshness(
            name=name,
            age=None if record.read_at is None else now.mono - record.read_at.mono,
            detail=record.failure.detail if record.failure is not None and record.consecutive else "",
        )
        for name, record in records
    )
