"""Whether engines progress: the `EngineProgressing` condition over the members that serve."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.standing import MemberStanding, Standing
from router_contract.verdicts import Condition, Status

TYPE = "EngineProgressing"


def engine_progressing(standings: Sequence[MemberStanding]) -> Condition:
    """False/Stalled names the stalled; else Unknown while any serving member is not known; else True.

    Down, saturated and loading members are no stall: they are not observed to progress, so the answer is Unknown.
    """
    stalled = [item for item in standings if item.standing is Standing.STALLED]
    if stalled:
        return _say(Status.FALSE, "Stalled", stalled)
    known = [item for item in standings if item.standing in {Standing.PROGRESSING, Standing.IDLE}]
    others = [item for item in standings if item not in known]
    if others or not known:
        return _say(Status.UNKNOWN, "NotObserved", others)
    moving = [item for item in known if item.standing is Standing.PROGRESSING]
    return _say(Status.TRUE, "Progressing", moving) if moving else _say(Status.TRUE, "Idle", ())


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
