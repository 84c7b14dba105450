"""Starts of a program that we count ourselves where no platform does: from its port, its start time and its resets."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.judging import MemberEvidence, Starts
from router_contract.readings import FailureKind, Instant

KEPT = 8
"""How many starts are kept: enough to see a loop, and no more."""
LOOP_SECONDS = 600.0
"""Starts within this time belong together."""
LOOP_STARTS = 2
"""So many starts again, within that time, are a loop: one is a restart that anybody may have wanted."""
QUIET_SECONDS = 60.0
"""A member that answered every read for so long is out of its loop."""


class Contact(StrEnum):
    """What the newest read met: a good answer, some other answer, nobody who listens, or nothing that tells."""

    GOOD = "good"
    ANSWER = "answer"
    REFUSED = "refused"
    NOTHING = "nothing"


_ANSWERS = frozenset(
    {
        FailureKind.HTTP,
        FailureKind.REDIRECT,
        FailureKind.TOO_LARGE,
        FailureKind.TRUNCATED,
        FailureKind.BAD_ENCODING,
        FailureKind.MALFORMED,
        FailureKind.NOT_EXPOSITION,
    }
)


def contact(failure: FailureKind | None) -> Contact:
    """What a read met by how it failed; ``None`` for a good one."""
    if failure is None:
        return Contact.GOOD
    if failure is FailureKind.REFUSED:
        return Contact.REFUSED
    return Contact.ANSWER if failure in _ANSWERS else Contact.NOTHING


def follow_starts(before: Starts, met: Contact, at: Instant, *, same: bool | None) -> Starts:
    """The starts after one more read at ``at``.

    ``same`` says of a good read whether it is of the life of the good read before: ``None`` where nothing tells. A port
    that refused and answers again is a start, unless the program then proves that it never ended.
    """
    if met is Contact.NOTHING:
        return msgspec.structs.replace(before, good_since=None)
    if met is Contact.REFUSED:
        return msgspec.structs.replace(before, gone=before.listened, good_since=None)
    if met is Contact.ANSWER:
        starts = _with(before.at, at) if before.gone else before.at
        return Starts(at=starts, listened=True, pending=before.pending or before.gone)
    return _good(before, at, same=same)


def _good(before: Starts, at: Instant, *, same: bool | None) -> Starts:
    """After a good read: one that ends a long quiet time makes the starts before it a closed matter."""
    if same is not True and (before.gone or (same is False and not before.pending)):
        return Starts(at=_with(before.at, at), listened=True, good_since=at)
    starts = before.at[:-1] if same is True and before.pending else before.at
    since = before.good_since or at
    return Starts(at=() if at.mono - since.mono > QUIET_SECONDS else starts, listened=True, good_since=since)


def _with(starts: tuple[Instant, ...], at: Instant) -> tuple[Instant, ...]:
    return (*starts, at)[-KEPT:]


def recent(evidence: MemberEvidence, now: Instant) -> tuple[Instant, ...]:
    """The starts again that we saw and that still belong together."""
    seen = evidence.starts.at if evidence.starts is not None else ()
    return tuple(at for at in seen if now.mono - at.mono <= LOOP_SECONDS)


def loop(evidence: MemberEvidence, now: Instant) -> tuple[str, float] | None:
    """The sentence about a loop that we saw ourselves and for how many seconds it goes on; ``None`` without one."""
    seen = recent(evidence, now)
    if evidence.attempt is not None or len(seen) < LOOP_STARTS:
        return None
    ended = evidence.last_termination or "not known"
    return f"attempt {len(seen) + 1} seen by us, last ended: {ended}", now.mono - seen[0].mono
