"""What of the evidence decides anything that is remembered, and until when it stays so.

A verdict tells ages and counts that change with every moment. What is kept of it for the next pass follows from far
fewer facts: who answers, who moved, what routers select, which word each condition has. They are the digests here.
Where judging found nothing new to keep, and every digest is still the same, one more pass would find nothing new either.
What ails a member or a router is in them too, although nothing keeps it: it is told at once, ages may wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from observer.judge import conditions_ours as ours
from observer.judge.conditions import lag_since
from observer.judge.conditions_serving import router_ready
from observer.judge.convergence import Selection
from observer.judge.drain import WITHDRAWAL_SECONDS
from observer.judge.stall import progress_word
from observer.judge.standing import (
    STARTUP_SECONDS,
    WORST_FIRST,
    Standing,
    answers,
    member_standing,
    rank_standing,
    refused_since_answer,
    still_since,
)
from observer.judge.starts import LOOP_SECONDS, QUIET_SECONDS
from router_contract.judging import DeploymentInputs, JudgePolicy, MemberEvidence, Stored
from router_contract.readings import FailureKind, Instant
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Member

MARGIN = 1e-3
"""Seconds around a threshold in which nothing is taken to hold: sums and differences of times may round apart."""


class MemberDigest(msgspec.Struct, frozen=True, gc=False):
    """One member's part. ``until`` (mono seconds): from then on it must be made anew.

    ``standing`` is one of Stalled, Progressing and Idle, or Unknown for every other word.
    """

    decides: tuple[object, ...]
    standing: Standing
    until: float


def member_digest(member: Member, evidence: MemberEvidence, now: Instant, policy: JudgePolicy) -> MemberDigest:
    """The digest of one member's evidence at an instant."""
    mono, within = now.mono, policy.answered_within
    answering, refused = answers(evidence, now, policy), refused_since_answer(evidence)
    until = math.inf
    listed: bool | None = None
    for at in (evidence.answered_at, evidence.health_at, evidence.listed_at):
        if at is not None:
            until = earlier(until, at.mono + within, mono)
    if evidence.listed_at is not None and mono - evidence.listed_at.mono <= within:
        listed = evidence.listed_model
    standing, ails = Standing.UNKNOWN, None
    if answering and not refused:
        standing, edge = _standing(evidence, now, policy)
        until = min(until, edge)
    if evidence.failed_at is not None or not answering or (evidence.starts is not None and evidence.starts.at):
        ails, edge = _ails(member, evidence, now, policy)
        until = min(until, edge)
    decides = (
        answering,
        refused,
        listed,
        evidence.answered_at is None,
        evidence.health_at is None,
        evidence.failed_at is None,
        evidence.failure is FailureKind.REFUSED and _failed_last(evidence),
        evidence.incarnation,
        [(rank.rank, rank.moved_at is not None) for rank in evidence.ranks],
        evidence.families,
        evidence.events_dialable,
        evidence.first_seen,
        ails,
    )
    return MemberDigest(decides, standing, until)


def _ails(
    member: Member, evidence: MemberEvidence, now: Instant, policy: JudgePolicy
) -> tuple[tuple[object, ...], float]:
    """The words of a member that is not simply well, answered before or not, and until when they stay by themselves."""
    told = [member_standing(member, evidence, answered=answered, now=now, policy=policy) for answered in (True, False)]
    until = math.inf
    for at in evidence.starts.at if evidence.starts is not None else ():
        until = earlier(until, at.mono + LOOP_SECONDS, now.mono)
    since = evidence.failing_since or evidence.failed_at
    if since is not None:
        for seconds in (QUIET_SECONDS, evidence.startup_budget or STARTUP_SECONDS):
            until = earlier(until, since.mono + seconds, now.mono)
    return tuple((each.standing, bool(each.loop), each.wait is None) for each in told), until


def told_decides(before: MemberEvidence, after: MemberEvidence) -> bool:
    """Whether what routers and KV-event streams newly say of a member can change its digest.

    Requests at routers are asked only where the member's own gauges show none (`rank_standing`).
    """
    if before.events_dialable is not after.events_dialable:
        return True
    asked = len(after.ranks) == 1 and not after.ranks[0].work
    counted = bool(before.router_inflight) is not bool(after.router_inflight)
    return asked and (counted or before.inflight_since != after.inflight_since)


def earlier(until: float, edge: float, mono: float) -> float:
    """The earlier of a time and a threshold that ``mono`` has not surely passed."""
    return min(until, edge - MARGIN) if mono <= edge + MARGIN else until


def _failed_last(evidence: MemberEvidence) -> bool:
    answered, failed = evidence.answered_at, evidence.failed_at
    return answered is not None and failed is not None and failed.mono > answered.mono


def _standing(evidence: MemberEvidence, now: Instant, policy: JudgePolicy) -> tuple[Standing, float]:
    """The worst word of the ranks of a member that answers, and until when it stays by itself."""
    words, until = set(), math.inf
    for rank in evidence.ranks:
        word = rank_standing(rank, evidence, now, policy)[0]
        if rank.watched_since is not None and word in {Standing.PROGRESSING, Standing.STALLED}:
            edge = still_since(rank, evidence, rank.watched_since) + policy.stall_after
            until = earlier(until, edge, now.mono)
        words.add(word)
    return next((word for word in WORST_FIRST if word in words), Standing.UNKNOWN), until


def deployment_digest(
    inputs: DeploymentInputs,
    selection: Selection,
    standings: Iterable[Standing],
    fresh: tuple[object, ...],
    stored: Stored,
    now: Instant,
    policy: JudgePolicy,
) -> tuple[object, ...]:
    """What decides for the deployment beside its members; itself and its platform's facts are compared apart.

    ``standings`` are of the members that `EngineProgressing` is about, ``fresh`` is the word of `MetricsFresh`. Of
    ``inputs`` only the freshness of routers need be there.
    """
    proof, operator = inputs.proof, None
    if inputs.facts.operator is not None:
        operator = ours.operator_current(inputs, lag_since(inputs, stored, now), now, policy)
    ready = router_ready(inputs, now, policy) if inputs.deployment.router is not None else None
    return (
        (selection.state, selection.valid, selection.selected, selection.refused, selection.fault),
        [(item.pod_uid, item.kind) for item in inputs.views if isinstance(item, ViewFailed)],
        [(item.uid, item.failure) for item in inputs.freshness],
        proof,
        proof is not None and now.mono - proof.at.mono > policy.proof_validity,
        None if operator is None else (operator.status, operator.reason, operator.provenance),
        None if ready is None else (ready.status, ready.reason, ready.provenance, ready.message),
        fresh,
        progress_word(standings),
        _overdue(stored, now),
        [(item.type, item.status, item.reason, item.provenance) for item in inputs.extra],
    )


def _overdue(stored: Stored, now: Instant) -> bool:
    """Whether an endpoint too many is selected for longer than a withdrawal may take: then it is told first."""
    found = next((item for item in stored.conditions if item.reason == "ExtraEndpoint"), None)
    since = None if found is None else found.reason_since
    return since is not None and max(0.0, now.wall - since) > WITHDRAWAL_SECONDS


def views_until(views: Iterable[RouterView | ViewFailed], now: Instant, policy: JudgePolicy) -> float:
    """Until when (mono seconds) no view of these becomes too old."""
    until = math.inf
    for view in views:
        if isinstance(view, RouterView):
            until = earlier(until, view.read_at.mono + policy.view_validity, now.mono)
    return until
