"""When to list, look or watch again: the informer's decisions as one table.

A *look* is a list of one object: it only tells the server's present version. Versions are opaque to us but for one
question, whether the server went back in time (a restored backup): a watch from a version that lies in the server's
future is silently empty, so it must be asked before such a watch is opened.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from observer.kube.answers import Outcome
from observer.kube.pacing import BackOff


class Phase(StrEnum):
    """What the informer does: a whole list, a look at the server's version, a watch."""

    LIST = "List"
    LOOK = "Look"
    WATCH = "Watch"


class Ending(StrEnum):
    """Endings that are no outcome of a call: of watches, and of the comparison after a look."""

    SERVED = "Served"
    CUT = "Cut"
    ERROR_EVENT = "ErrorEvent"
    FORWARD = "Forward"
    BACKWARD = "Backward"
    INCOMPARABLE = "Incomparable"


class Pause(StrEnum):
    """Whether to wait before the next phase: never, only after a repeated failure, always."""

    NEVER = "Never"
    REPEATED = "Repeated"
    ALWAYS = "Always"


class Rule(msgspec.Struct, frozen=True):
    """One row: the next phase, the pause before it, and whether this ending counts as a failure."""

    next: Phase
    pause: Pause = Pause.ALWAYS
    failure: bool = True


class WatchTuning(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and times of one informer. Times are seconds.

    ``silence`` is longer than the about 60 s between bookmarks: a watch that is quiet for so long has lost its peer.
    ``watch`` is the time asked of the server, varied by ``spread`` so that replicas do not reconnect together.
    """

    page: int = 500
    watch: float = 300.0
    spread: float = 0.2
    silence: float = 75.0
    list_timeout: float = 60.0
    back_off: BackOff = BackOff()

    def duration(self, chance: float) -> int:
        """The whole seconds one watch is asked for; ``chance`` in [0, 1) draws them."""
        return max(1, round(self.watch * (1.0 + self.spread * (2.0 * chance - 1.0))))


_LIST_AGAIN = Rule(Phase.LIST)
_LOOK_AGAIN = Rule(Phase.LOOK)

WATCH_ENDED: dict[Outcome | Ending, Rule] = {
    Ending.SERVED: Rule(Phase.WATCH, Pause.NEVER, failure=False),
    Ending.CUT: _LOOK_AGAIN,
    Ending.ERROR_EVENT: _LIST_AGAIN,
    Outcome.EXPIRED: Rule(Phase.LIST, Pause.REPEATED),
    Outcome.TOO_NEW: _LIST_AGAIN,
    Outcome.SILENT: Rule(Phase.LOOK, Pause.REPEATED),
    Outcome.NO_ANSWER: _LOOK_AGAIN,
    Outcome.UNAVAILABLE: _LOOK_AGAIN,
    Outcome.THROTTLED: Rule(Phase.WATCH),
}
"""What follows a watch; what is not named here is followed by a list after a pause."""

LOOK_ENDED: dict[Outcome | Ending, Rule] = {
    Ending.FORWARD: Rule(Phase.WATCH, Pause.NEVER, failure=False),
    Ending.BACKWARD: Rule(Phase.LIST, Pause.NEVER, failure=False),
    Ending.INCOMPARABLE: Rule(Phase.LIST, Pause.NEVER, failure=False),
    Outcome.NO_ANSWER: _LOOK_AGAIN,
    Outcome.SILENT: _LOOK_AGAIN,
    Outcome.UNAVAILABLE: _LOOK_AGAIN,
    Outcome.THROTTLED: _LOOK_AGAIN,
}

LIST_ENDED: dict[Outcome | Ending, Rule] = {
    Outcome.OK: Rule(Phase.WATCH, Pause.NEVER, failure=False),
    # The token of a long list ran out: the next one starts from its first page.
    Outcome.EXPIRED: Rule(Phase.LIST, Pause.REPEATED),
}

_TABLES = {Phase.WATCH: WATCH_ENDED, Phase.LOOK: LOOK_ENDED, Phase.LIST: LIST_ENDED}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next, after how long (s), and the failures in a row so far."""

    phase: Phase
    pause: float
    failures: int


def plan(
    phase: Phase,
    ending: Outcome | Ending,
    *,
    failures: int,
    retry_after: float | None,
    back_off: BackOff,
    chance: float,
) -> Plan:
    """The next phase. ``failures`` are those in a row before this ending; a good event resets them, a good list does
    not: a server that answers every watch with 410 must not be listed in a loop.
    """
    rule = _TABLES[phase].get(ending, _LIST_AGAIN)
    count = failures + 1 if rule.failure else failures
    wait = rule.pause is Pause.ALWAYS or (rule.pause is Pause.REPEATED and count > 1)
    pause = back_off.pause(count, chance) if wait else 0.0
    if retry_after is not None and rule.failure:
        pause = max(pause, min(retry_after, back_off.longest * 10))
    return Plan(phase=rule.next, pause=pause, failures=count)


def ended(asked: float, lasted: float) -> Ending:
    """Whether a watch that ended without an error served its time (both in seconds) or was cut before."""
    return Ending.SERVED if lasted >= asked - max(1.0, 0.1 * asked) else Ending.CUT


def direction(ours: str, theirs: str) -> Ending:
    """Whether the server's version lies at or after ours. Versions that are not decimal numbers cannot be compared."""
    if ours == theirs:
        return Ending.FORWARD
    if not (ours.isdecimal() and theirs.isdecimal()):
        return Ending.INCOMPARABLE
    return Ending.FORWARD if int(theirs) >= int(ours) else Ending.BACKWARD
