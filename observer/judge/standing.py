"""How one member stands: answering, loading, looping at start-up, down, saturated, stalled, or not known.

Refused is down, a timeout is saturated or hung, and neither is a stall. None of this changes eligibility by itself.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from observer.judge.starts import LOOP_STARTS, QUIET_SECONDS, loop, recent
from router_contract.judging import JudgePolicy, MemberEvidence, RankEvidence
from router_contract.readings import FailureKind, Instant
from router_contract.targets import Member, Ready

STARTUP_SECONDS = 1800.0
"""How long a start-up may take an attempt, where the platform tells no other budget."""


class Standing(StrEnum):
    """The one word for a member's present state."""

    PROGRESSING = "Progressing"
    IDLE = "Idle"
    STALLED = "Stalled"
    DOWN = "Down"
    SATURATED = "Saturated"
    LOADING = "Loading"
    STARTUP_LOOP = "StartupLoop"
    FAILING = "Failing"
    UNKNOWN = "Unknown"


class MemberStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A member's word, the sentence behind it, and for how many seconds the evidence has been so.

    ``loop`` and ``loop_seconds`` are there for a member that starts again and again, whatever it does at this moment.
    ``wait`` is for how many more seconds a member that is down may be loading again; ``None`` where it cannot be.
    """

    uid: str
    name: str
    standing: Standing
    detail: str = ""
    seconds: float | None = None
    loop: str = ""
    loop_seconds: float | None = None
    wait: float | None = None


def requests(count: float) -> str:
    """``1 request``, ``2 requests``."""
    return f"{count:g} request" + ("" if count == 1 else "s")


def age(at: Instant | None, now: Instant) -> float | None:
    """Seconds since an instant, never below 0; ``None`` for never."""
    return None if at is None else max(0.0, now.mono - at.mono)


def answers(evidence: MemberEvidence, now: Instant, policy: JudgePolicy) -> bool:
    """Whether the engine itself answered us (a good scrape or its health) at most two periods ago."""
    answered, healthy = evidence.answered_at, evidence.health_at
    if answered is None or (healthy is not None and healthy.mono > answered.mono):
        answered = healthy
    return answered is not None and now.mono - answered.mono <= policy.answered_within


def refused_since_answer(evidence: MemberEvidence) -> bool:
    """Whether the last thing we saw is a refused connection: nobody listens."""
    if evidence.failed_at is None or evidence.failure is not FailureKind.REFUSED:
        return False
    last = max((at.mono for at in (evidence.answered_at, evidence.health_at) if at is not None), default=None)
    return last is None or evidence.failed_at.mono > last


def member_standing(
    member: Member, evidence: MemberEvidence, *, answered: bool, now: Instant, policy: JudgePolicy
) -> MemberStanding:
    """A member's standing; ``answered`` says that it has answered in its present generation."""
    # a refusal after the last answer is newer than it, however fresh the answer still is
    refused = refused_since_answer(evidence)
    now_answers = answers(evidence, now, policy) and not refused
    seen = loop(evidence, now)

    def say(standing: Standing, detail: str, seconds: float | None = None, wait: float | None = None) -> MemberStanding:
        return MemberStanding(
            uid=member.uid,
            name=member.name,
            standing=standing,
            detail=detail,
            seconds=seconds,
            loop=seen[0] if seen is not None else "",
            loop_seconds=seen[1] if seen is not None else None,
            wait=wait,
        )

    if now_answers:
        return say(*_progress(evidence, now, policy))
    failing = age(evidence.failing_since or evidence.failed_at, now)
    if seen is not None and not (refused and (answered or (failing or 0.0) > QUIET_SECONDS)):
        return say(Standing.STARTUP_LOOP, *seen)
    started = evidence.answered_at is not None or evidence.health_at is not None
    if not started and (not answered or (evidence.attempt or 1) > 1) and _starting(member, evidence):
        return say(*_start_up(evidence, now))
    if _loads(evidence):
        return say(*_start_up(evidence, now))
    if refused:
        return say(Standing.DOWN, *_down(evidence, failing, now))
    if evidence.failed_at is not None and evidence.failure is FailureKind.TIMEOUT:
        return say(Standing.SATURATED, "no answer in time: saturated or hung", failing)
    if evidence.failed_at is not None and evidence.failure is not None:
        detail = f"{evidence.failure.value}: {evidence.failure_detail}".rstrip(": ")
        return say(Standing.FAILING, detail, failing)
    return say(Standing.UNKNOWN, "nobody reported on it", age(evidence.answered_at, now))


def _down(evidence: MemberEvidence, failing: float | None, now: Instant) -> tuple[str, float | None, float | None]:
    """The sentence about a refusal, for how long it lasts, and for how much longer it may be a load.

    Where no platform counts attempts, a restart that we did not see is possible, and an engine that loads need not
    listen: nothing tells the two apart before the time that a load may take is over.
    """
    if evidence.attempt is not None:
        return "connection refused", failing, None
    again = len(recent(evidence, now))
    what = "a start-up loop of " if again >= LOOP_STARTS else ""
    seen = f", after {what}{again + 1} starts seen by us" if again else ""
    budget = evidence.startup_budget or STARTUP_SECONDS
    left = budget - (failing or 0.0)
    if left <= 0:
        return f"connection refused for longer than a load may take ({budget:.0f} s){seen}", failing, None
    since = "" if failing is None else f" for {failing:.0f} s"
    load = f"a load may take up to {budget:.0f} s"
    # one that starts again and again does not end by waiting
    wait = left if again < LOOP_STARTS else None
    return f"connection refused{since}: down, or loading again after a restart; {load}{seen}", failing, wait


def _starting(member: Member, evidence: MemberEvidence) -> bool:
    """A member that has not answered in this incarnation starts up unless something else is known of it."""
    if member.ready is Ready.TRUE:
        return False
    return evidence.failure in {None, FailureKind.REFUSED} and (
        evidence.failed_at is not None or evidence.attempt is not None or member.ready is Ready.FALSE
    )


_LOADING_STATUS = 503


def _loads(evidence: MemberEvidence) -> bool:
    """Whether an engine listens and says 503 after a start: it has not answered since, so it still loads."""
    if evidence.failure is not FailureKind.HTTP or evidence.failure_status != _LOADING_STATUS:
        return False
    never = evidence.answered_at is None and evidence.health_at is None
    return never or (evidence.starts is not None and evidence.starts.pending)


def _start_up(evidence: MemberEvidence, now: Instant) -> tuple[Standing, str, float | None]:
    attempt = evidence.attempt
    elapsed = None if evidence.started_at is None else max(0.0, now.wall - evidence.started_at)
    if attempt is None:
        seen = recent(evidence, now)
        elapsed = age(seen[-1] if seen else evidence.first_seen, now) if elapsed is None else elapsed
        parts = [f"attempt {len(seen) + 1} seen by us"]
    else:
        parts = [f"attempt {attempt}"]
    if elapsed is not None:
        budget = "" if evidence.startup_budget is None else f" of {evidence.startup_budget:.0f} s"
        parts.append(f"{elapsed:.0f} s{budget}")
    if attempt is None and evidence.failure is FailureKind.REFUSED:
        parts.append("nobody listens yet")
    if attempt is not None and attempt > 1:
        parts.append(f"last ended: {evidence.last_termination or 'not known'}")
        return Standing.STARTUP_LOOP, ", ".join(parts), elapsed
    return Standing.LOADING, ", ".join(parts), elapsed


def _progress(evidence: MemberEvidence, now: Instant, policy: JudgePolicy) -> tuple[Standing, str, float | None]:
    """The worst rank decides; a rank whose work or counters were not read is not known and is not a stall."""
    results = [rank_progress(rank, evidence, now, policy) for rank in evidence.ranks]
    if not results:
        return Standing.UNKNOWN, "answers, and no progress series was read", None
    for wanted in WORST_FIRST:
        for standing, detail, seconds in results:
            if standing is wanted:
                return standing, detail, seconds
    return Standing.UNKNOWN, "", None


def rank_standing(
    rank: RankEvidence, of: MemberEvidence, now: Instant, policy: JudgePolicy
) -> tuple[Standing, float | None]:
    """One rank's word and for how many seconds it has been so; ``None`` with Unknown.

    The clock starts at the latest of: the work's arrival, the last movement, the first read after a reset. Requests
    that only routers count belong to a rank where the member has a single one.
    """
    if rank.watched_since is None:
        return Standing.UNKNOWN, None
    if not (rank.work or _inflight(of)):
        if rank.work is None:
            return Standing.UNKNOWN, None
        return Standing.IDLE, age(rank.moved_at or rank.watched_since, now)
    still = max(0.0, now.mono - still_since(rank, of, rank.watched_since))
    return Standing.STALLED if still >= policy.stall_after else Standing.PROGRESSING, still


def still_since(rank: RankEvidence, of: MemberEvidence, watched: Instant) -> float:
    """Since when a rank with work has not moved, mono seconds; it is watched since ``watched``."""
    arrived, since = rank.work_since if rank.work else of.inflight_since, watched.mono
    if rank.moved_at is not None:
        since = max(since, rank.moved_at.mono)
    return since if arrived is None else max(since, arrived.mono)


def _inflight(of: MemberEvidence) -> float | None:
    return of.router_inflight if len(of.ranks) == 1 else None


def rank_progress(
    rank: RankEvidence, of: MemberEvidence, now: Instant, policy: JudgePolicy
) -> tuple[Standing, str, float | None]:
    """One rank of a member: work present and no progress counter moved for the stall time is Stalled."""
    standing, seconds = rank_standing(rank, of, now, policy)
    if rank.watched_since is None:
        return standing, f"rank {rank.rank}: no progress counter was read twice", None
    if standing is Standing.UNKNOWN:
        return standing, f"rank {rank.rank}: whether it has work is not known", None
    if standing is Standing.IDLE:
        return standing, f"rank {rank.rank}: no work", seconds
    if standing is Standing.STALLED:
        who = requests(rank.work) if rank.work else f"{requests(_inflight(of) or 0.0)} at the router"
        return standing, f"rank {rank.rank}: {who} and no progress for {seconds:.0f} s", seconds
    return standing, f"rank {rank.rank}: progress within {seconds:.0f} s", seconds


WORST_FIRST = (Standing.STALLED, Standing.UNKNOWN, Standing.PROGRESSING, Standing.IDLE)
"""Which rank's word is its member's."""
