"""Whether, when and what to write into a status: pure decisions over what we want, what is stored and what we did.

Three guards keep us from harm. The apply carries the stored version, so a late write cannot land on an object that was
re-created under its name. It is never forced. And where our conditions keep vanishing, we stop: somebody rewrites the
whole status, and two writers would duel for ever.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from observer.kube.answers import Answer, Outcome
from observer.kube.intent import Intent, Stored, bounded, rfc3339
from observer.kube.pacing import BackOff
from router_contract.readings import Instant

NEVER = float("inf")


class WritingRules(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. A flip is written once it was wanted for its dwell; other changes wait for the interval.

    ``held`` is the pause after a refusal that trying again would not change. ``vanishes`` within ``duel`` stop us.
    """

    interval: float = 30.0
    dwell_to_true: float = 15.0
    dwell_from_true: float = 60.0
    held: float = 600.0
    duel: float = 600.0
    vanishes: int = 2
    conflicts: int = 3
    back_off: BackOff = BackOff()

    def dwell(self, before: str, after: str) -> float:
        """How long a flip must be wanted."""
        if before == "True":
            return self.dwell_from_true
        return self.dwell_to_true if after == "True" else 0.0


class Action(StrEnum):
    """What to do about one object now."""

    WRITE = "Write"
    WAIT = "Wait"
    NOTHING = "Nothing"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """``wait`` (s) is when to decide anew, infinite for "when something changes". ``reason`` is for people."""

    action: Action
    reason: str
    wait: float = NEVER
    body: dict[str, Any] | None = None


class Pending(msgspec.Struct, frozen=True):
    """A flip that is wanted since a monotonic moment (s)."""

    type: str
    status: str
    since: float


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What we did to one object. ``written`` are our conditions of the last apply that the server took.

    ``outdated`` is a version that is known not to be the last one. ``awaited`` is True between our write and the first
    newer object that shows or lacks it, ``confirmed`` while our conditions are seen.
    """

    uid: str
    written_at: float | None = None
    written: tuple[dict[str, Any], ...] = ()
    pending: tuple[Pending, ...] = ()
    outdated: str = ""
    awaited: bool = False
    confirmed: bool = False
    vanished: tuple[float, ...] = ()
    stopped: str = ""
    hold_until: float = 0.0
    trouble: str = ""
    outcome: Outcome = Outcome.OK
    failures: int = 0
    conflicts: int = 0


def observed(ledger: Ledger, stored: Stored, prefix: str, now: float, rules: WritingRules) -> Ledger:
    """The ledger after an object arrived. Our apply was bound to the version before it, so any other version that lacks
    our conditions came later and took them away.
    """
    if stored.uid != ledger.uid:
        return Ledger(uid=stored.uid)
    if stored.resource_version == ledger.outdated or not ledger.written:
        return ledger
    held = stored.conditions(prefix)
    if all(each["type"] in held for each in ledger.written):
        return msgspec.structs.replace(ledger, awaited=False, confirmed=True)
    if not (ledger.awaited or ledger.confirmed):
        return ledger
    vanished = (*(at for at in ledger.vanished if now - at <= rules.duel), now)
    stopped = ""
    if len(vanished) >= rules.vanishes:
        stopped = f"our conditions vanished {len(vanished)} times in {rules.duel:g} s: somebody rewrites the status"
    return msgspec.structs.replace(
        ledger, awaited=False, confirmed=False, vanished=vanished, stopped=ledger.stopped or stopped
    )


def decide(
    intent: Intent, stored: Stored | None, ledger: Ledger, now: Instant, rules: WritingRules
) -> tuple[Decision, Ledger]:
    """What to do now, and the ledger that remembers which flips are pending."""
    if stored is None:
        return _nothing("the object is not known"), ledger
    if stored.uid != intent.uid:
        return _nothing("the object was re-created after it was judged"), ledger
    if ledger.stopped:
        return _nothing(ledger.stopped), ledger
    if stored.resource_version == ledger.outdated:
        return Decision(action=Action.WAIT, reason="a newer version is on its way"), ledger
    if now.mono < ledger.hold_until:
        return Decision(action=Action.WAIT, reason=ledger.trouble, wait=ledger.hold_until - now.mono), ledger
    merged = _merge(intent, stored, ledger, now, rules)
    ledger = msgspec.structs.replace(ledger, pending=merged.pending)
    if not merged.changed and not _fields_differ(intent, stored):
        return _wait("nothing changed", merged.settles), ledger
    due = (
        0.0
        if merged.urgent or intent.pressing or ledger.written_at is None
        else ledger.written_at + rules.interval - now.mono
    )
    if due > 0:
        return _wait("the last write is too young", min(due, merged.settles)), ledger
    body = _body(intent, stored, merged.conditions)
    return Decision(action=Action.WRITE, reason="the status changed", body=body), ledger


class After(StrEnum):
    """What an answer means for the next step."""

    DONE = "Done"
    RECOMPUTE = "Recompute"
    RETRY = "Retry"
    HOLD = "Hold"


AFTER: dict[Outcome, After] = {
    Outcome.OK: After.DONE,
    Outcome.CONFLICT: After.RECOMPUTE,
    Outcome.NOT_FOUND: After.RECOMPUTE,
    Outcome.OWNED: After.HOLD,
    Outcome.FORBIDDEN: After.HOLD,
    Outcome.INVALID: After.HOLD,
    Outcome.UNDECLARED: After.HOLD,
    Outcome.TOO_LARGE: After.HOLD,
    Outcome.MALFORMED: After.HOLD,
    Outcome.EXPIRED: After.RETRY,
    Outcome.TOO_NEW: After.RETRY,
    Outcome.UNAUTHORIZED: After.RETRY,
    Outcome.THROTTLED: After.RETRY,
    Outcome.UNAVAILABLE: After.RETRY,
    Outcome.NO_ANSWER: After.RETRY,
    Outcome.SILENT: After.RETRY,
}


def answered(
    ledger: Ledger, body: dict[str, Any], answer: Answer, version: str, now: float, rules: WritingRules, chance: float
) -> Ledger:
    """The ledger after a write was answered. ``version`` is the object's version that the answer carries, if any.

    A write whose answer was lost may have been done: the version it was bound to then turns into a conflict, and the
    next decision is made from what is stored.
    """
    after = AFTER[answer.outcome]
    before = str(body["metadata"]["resourceVersion"])
    trouble = "" if after is After.DONE else f"{answer.outcome}: {answer.message}"
    common = msgspec.structs.replace(ledger, trouble=trouble, outcome=answer.outcome)
    if after is After.DONE:
        changed = bool(version) and version != before
        return msgspec.structs.replace(
            common,
            written_at=now,
            written=tuple(body["status"].get("conditions", ())),
            outdated=before if changed else ledger.outdated,
            awaited=changed,
            failures=0,
            conflicts=0,
            hold_until=0.0,
        )
    if after is After.RECOMPUTE:
        conflicts = ledger.conflicts + 1
        spent = conflicts >= rules.conflicts
        return msgspec.structs.replace(
            common,
            outdated=before,
            conflicts=0 if spent else conflicts,
            hold_until=now + rules.interval if spent else 0.0,
        )
    failures = ledger.failures + 1
    pause = rules.held if after is After.HOLD else rules.back_off.pause(failures, chance)
    return msgspec.structs.replace(
        common, failures=failures, hold_until=now + max(pause, min(answer.retry_after or 0.0, rules.held))
    )


class _Merged(msgspec.Struct, frozen=True, kw_only=True):
    conditions: list[dict[str, Any]]
    pending: tuple[Pending, ...]
    changed: bool
    urgent: bool
    settles: float


def _merge(intent: Intent, stored: Stored, ledger: Ledger, now: Instant, rules: WritingRules) -> _Merged:
    """Our conditions as they should stand now: a flip that has not dwelt leaves the stored condition as it is."""
    held = stored.conditions(intent.prefix)
    waiting = {each.type: each for each in ledger.pending}
    ours = {str(each["type"]): each for each in ledger.written}
    conditions, pending = list[dict[str, Any]](), list[Pending]()
    changed, urgent, settles = bool(held.keys() - {each.type for each in intent.conditions}), False, NEVER
    for wanted in intent.conditions:
        # What somebody wiped is written back with the transition time it had.
        old = held.get(wanted.type) or ours.get(wanted.type)
        entry: dict[str, Any] = {
            "type": wanted.type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": bounded(wanted.message),
            "lastTransitionTime": rfc3339(now.wall if wanted.last_transition is None else wanted.last_transition),
        }
        if wanted.provenance:
            entry["provenance"] = wanted.provenance
        if intent.observed_generation is not None:
            entry["observedGeneration"] = intent.observed_generation
        if old is not None and old.get("status") == wanted.status:
            entry["lastTransitionTime"] = old.get("lastTransitionTime") or entry["lastTransitionTime"]
        elif old is not None:
            before = waiting.get(wanted.type)
            since = before.since if before is not None and before.status == wanted.status else now.mono
            dwell = 0.0 if wanted.prompt else rules.dwell(str(old.get("status")), wanted.status)
            left = since + dwell - now.mono
            if left > 0:
                pending.append(Pending(wanted.type, wanted.status, since))
                settles = min(settles, left)
                entry = dict(old)
            else:
                urgent = True
        conditions.append(entry)
        changed = changed or entry != held.get(wanted.type)
    return _Merged(conditions=conditions, pending=tuple(pending), changed=changed, urgent=urgent, settles=settles)


def _fields_differ(intent: Intent, stored: Stored) -> bool:
    """Whether our own kind's status says something else than its fields; riders do not count."""
    if intent.prefix:
        return False
    held = {key: value for key, value in stored.status.items() if key != "conditions" and key not in intent.riders}
    return held != dict(intent.fields)


def _body(intent: Intent, stored: Stored, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    metadata = {"name": intent.name, "resourceVersion": stored.resource_version}
    if intent.namespace:
        metadata["namespace"] = intent.namespace
    return {
        "apiVersion": intent.resource.api_version,
        "kind": intent.resource.kind,
        "metadata": metadata,
        "status": {**intent.fields, **intent.riders, "conditions": conditions},
    }


def _nothing(reason: str) -> Decision:
    return Decision(action=Action.NOTHING, reason=reason)


def _wait(reason: str, seconds: float) -> Decision:
    return Decision(action=Action.NOTHING if seconds == NEVER else Action.WAIT, reason=reason, wait=seconds)
