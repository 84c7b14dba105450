"""Whether engines progress: the `EngineProgressing` condition over the members that serve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from observer.judge.standing import MemberStanding, Standing
from router_contract.verdicts import Condition, Status

TYPE = "EngineProgressing"


_KNOWN = frozenset({Standing.PROGRESSING, Standing.IDLE})


def progress_word(standings: Iterable[Standing]) -> tuple[Status, str]:
    """False/Stalled where one stands still; else Unknown while any serving member is not known; else True.

    Down, saturated and loading members are no stall: they are not observed to progress, so the answer is Unknown.
    """
    words = set(standings)
    if Standing.STALLED in words:
        return Status.FALSE, "Stalled"
    if not words or not words <= _KNOWN:
        return Status.UNKNOWN, "NotObserved"
    return Status.TRUE, "Progressing" if Standing.PROGRESSING in words else "Idle"


def engine_progressing(standings: Sequence[MemberStanding]) -> Condition:
    """The condition, with the members that decide it."""
    status, reason = progress_word(item.standing for item in standings)
    wanted = {
        "Stalled": {Standing.STALLED},
        "NotObserved": frozenset(Standing) - _KNOWN,
        "Progressing": {Standing.PROGRESSING},
        "Idle": frozenset[Standing](),
    }[reason]
    return _say(status, reason, [item for item in standings if item.standing in wanted])


def _say(status: Status, reason: str, items: Sequence[MemberStanding]) -> Condition:
    names = "; ".join(f"{item.name} {item.standing.value.lower()}" for item in items[:5])
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return Condition(
        type=TYPE,
        status=status,
        reason=reason,
        message=f"{names}{more}" if items else ("no serving member" if reason == "NotObserved" else "no work anywhere"),
        evidence=tuple((item.name, item.detail) for item in items[:5]),
    )
