"""Who may lead by a Lease: pure decisions. Nobody's wall clock is trusted, ours included.

A candidate starts its own monotonic clock when it *sees* the record change and may take over once that clock has run
for the holder's duration. A leader that could not renew within the deadline stops before its duration ends, so at no
moment two lead as long as clocks run at about the same rate.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Times of an election in seconds; ``duration`` > ``deadline`` > 1.2 x ``retry``, else `ValueError`.

    ``jitter`` stretches the retries of candidates by up to that share, so that they do not ask together.
    """

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0
    jitter: float = 1.2

    def __post_init__(self) -> None:
        if not self.duration > self.deadline > 1.2 * self.retry > 0:
            raise ValueError(
                f"found duration {self.duration:g} s, deadline {self.deadline:g} s, retry {self.retry:g} s; "
                "wanted duration > deadline > 1.2 x retry > 0"
            )
        if self.duration != int(self.duration):
            raise ValueError(f"found duration {self.duration:g} s, wanted whole seconds: the Lease holds no others")


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of a Lease's spec that elections use; times as written (RFC 3339 with a fraction)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What one participant knows. Moments are monotonic seconds.

    ``seen_at`` is when ``record`` was last seen to change; ``renewed_at`` is when our last successful write *began*.
    """

    identity: str
    record: LeaseRecord | None = None
    version: str = ""
    seen_at: float = 0.0
    renewed_at: float | None = None

    def leads(self, now: float, timing: Timing) -> bool:
        """Whether we may do a leader's work at this moment: renewed within the deadline."""
        return self.renewed_at is not None and now - self.renewed_at < timing.deadline


class Step(StrEnum):
    """What to do next about the Lease."""

    CREATE = "Create"
    TAKE = "Take"
    RENEW = "Renew"
    WAIT = "Wait"


def seen(standing: Standing, record: LeaseRecord | None, version: str, now: float) -> Standing:
    """The standing after reading the Lease (``None``: there is none). Only a changed record restarts its clock."""
    changed = record != standing.record
    lost = record is None or record.holder_identity != standing.identity
    return msgspec.structs.replace(
        standing,
        record=record,
        version=version,
        seen_at=now if changed else standing.seen_at,
        renewed_at=None if lost else standing.renewed_at,
    )


def next_step(standing: Standing, now: float) -> Step:
    """What may be done, by what was read last."""
    record = standing.record
    if record is None:
        return Step.CREATE
    if not record.holder_identity:
        return Step.TAKE
    if record.holder_identity == standing.identity:
        # Also after a restart under the same name: nobody else holds it.
        return Step.RENEW
    age = now - standing.seen_at
    return Step.TAKE if age >= (record.lease_duration_seconds or 0) else Step.WAIT


def held(standing: Standing, wall: float, timing: Timing) -> LeaseRecord:
    """The record that says that we hold it, for `Step.CREATE`, `Step.TAKE` and `Step.RENEW`. ``wall`` is in seconds."""
    moment = micro_time(wall)
    before = standing.record
    ours = before is not None and before.holder_identity == standing.identity
    transitions = (before.lease_transitions or 0) if before is not None else 0
    return LeaseRecord(
        holder_identity=standing.identity,
        lease_duration_seconds=int(timing.duration),
        acquire_time=before.acquire_time if ours and before is not None and before.acquire_time else moment,
        renew_time=moment,
        lease_transitions=transitions if ours or before is None else transitions + 1,
    )


def released(standing: Standing, wall: float) -> LeaseRecord | None:
    """The record that gives the Lease up at once, ``None`` when it is not ours to give."""
    before = standing.record
    if before is None or before.holder_identity != standing.identity:
        return None
    moment = micro_time(wall)
    return LeaseRecord(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=moment,
        renew_time=moment,
        lease_transitions=before.lease_transitions,
    )


def pause(standing: Standing, now: float, timing: Timing, chance: float) -> float:
    """The seconds until the next try: the plain retry for a leader, a jittered one for a candidate."""
    if standing.leads(now, timing):
        return timing.retry
    return timing.retry * (1.0 + timing.jitter * chance)


def call_limit(standing: Standing, now: float, timing: Timing) -> float:
    """How long (s) one API call may take: a leader's not beyond its deadline, which a hung call would outlive."""
    if standing.renewed_at is None:
        return timing.deadline
    return max(0.0, min(timing.deadline, standing.renewed_at + timing.deadline - now)) or timing.retry


def micro_time(wall: float) -> str:
    """A wall time (s) as ``metav1.MicroTime``: exactly six digits of a fraction, which the API demands even if zero."""
    return dt.datetime.fromtimestamp(wall, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def spec_of(record: LeaseRecord, spec: dict[str, Any]) -> dict[str, Any]:
    """A Lease's spec with our record in it; what others keep there stays."""
    return {**spec, **msgspec.to_builtins(record)}
