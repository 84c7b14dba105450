"""One deployment under judgment: its evidence, kept up with what is read, and the verdict that this gives.

A verdict is made at a pass only where something to be kept may have changed (`observer.judge.digest`); else what is kept
stays, and the verdict for that pass's instant is made when somebody asks. Both are the same `judge` of the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import is_

import msgspec

from observer import evidence
from observer.app.held import Held, key_of, members_of
from observer.fleet import Record
from observer.judge.conditions_ours import fresh_word
from observer.judge.convergence import Selection, read_selection, view_needs_proof
from observer.judge.digest import MemberDigest, deployment_digest, member_digest, told_decides, views_until
from observer.judge.inflight import router_inflight
from observer.judge.judgement import judge
from observer.judge.standing import Standing, answers, rank_standing, refused_since_answer
from router_contract.judging import DeploymentInputs, Judged, JudgePolicy, MemberEvidence, Stored
from router_contract.probes import MemberProbe
from router_contract.readings import Instant
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import GroupState, RankStall, ServingState
from router_contract.targets import Component, Deployment, Member, TargetKey


class Verdict(msgspec.Struct, frozen=True):
    """What one pass said of a deployment, and from what."""

    inputs: DeploymentInputs
    judged: Judged
    stalls: tuple[RankStall, ...]


def stalls(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> tuple[RankStall, ...]:
    """How long each rank of the members that answer now has stood still with work in hand; nothing of the others."""
    found = []
    for member in inputs.members:
        for rank in member.ranks if answers(member, now, policy) and not refused_since_answer(member) else ():
            standing, seconds = rank_standing(rank, member, now, policy)
            if standing is not Standing.UNKNOWN and seconds is not None:
                still = 0.0 if standing is Standing.IDLE else seconds
                found.append(RankStall(uid=member.uid, rank=rank.rank, seconds=still))
    return tuple(found)


class _Plan:
    """The members of a deployment and the targets that it is judged by; made once for each that discovery tells."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.members: tuple[Member, ...] = tuple(members_of(deployment))
        self.uids = [member.uid for member in self.members]
        self.keys = [key_of(deployment.key, member, Component.ENGINE) for member in self.members]
        targets = tuple(deployment.targets())
        self.targets = [(target.member, target.key) for target in targets]
        self.target_keys = [target.key for target in targets]
        self.routers = [(target.member, target.key) for target in targets if target.component is Component.ROUTER]
        serving = [member.serves and not member.terminating and not member.ancillary for member in self.members]
        self.serving = [place for place, serves in enumerate(serving) if serves]


class Case:
    """What judging holds of one deployment between its passes. `judge` is its part of a pass."""

    def __init__(self, policy: JudgePolicy) -> None:
        self._policy = policy
        self._plan: _Plan | None = None
        self._held: Held | None = None
        self._at: Instant | None = None
        self._before = Stored()
        self._verdict: Verdict | None = None
        self._seen: list[MemberEvidence | None] = []
        self._records: list[Record | None] = []
        self._probes: list[MemberProbe | None] = []
        self._due: set[int] = set()
        self._dialable: dict[str, bool] = {}
        self._digests: list[MemberDigest | None] = []
        self._selection = Selection(state=ServingState.UNKNOWN)
        self._inflight: dict[str, float] = {}
        self._viewed: tuple[RouterView | ViewFailed, ...] | None = None
        self._views_until = -math.inf
        self._rest: tuple[object, ...] = ()
        self.news = 0
        """Grows with each pass that may have found more than other ages."""
        self._wants = False
        self.settled = False
        """Whether the last verdict found nothing new to keep."""
        self.ready: int | None = None
        """How many whole replicas were ready at the last pass; ``None`` while one role's count is not known."""

    def judge(self, held: Held, stored: Stored, now: Instant) -> Judged | None:
        """One pass over what is ``held``, with what was kept so far; ``None`` where that stays as it is."""
        plan, same = self._adopt(held)
        same = same and self.settled and self._at is not None and stored is self._before
        self._held, self._at, self._before, self._verdict = held, now, stored, None
        changed = self._look(plan, held, now)
        same = self._digest(plan, held, changed, now) and same
        if same:
            return None
        self.news += 1
        judged = self._make(plan, held, now).judged
        counts = [role.ready for role in judged.roles]
        known = [count for count in counts if count is not None]
        self.ready = sum(known) if len(known) == len(counts) else None
        self.settled = judged.stored == stored
        qualified = {GroupState.ELIGIBLE, GroupState.AWAITING_OBSERVATION}
        self._wants = any(each.state in qualified and each.qualified_at is not None for each in judged.groups())
        return judged

    def proof_wanted(self) -> bool:
        """What `Judged.proof_wanted` of the last pass's verdict says; False before the first."""
        plan, held, at = self._plan, self._held, self._at
        if plan is None or held is None or at is None or not self._wants or held.facts.ready_by_reading:
            return False
        return view_needs_proof(self._inputs(plan, held, (), at), at, self._policy)

    def verdict(self) -> Verdict | None:
        """The verdict of the last pass, ``None`` before the first."""
        if self._verdict is None and self._plan is not None and self._held is not None and self._at is not None:
            return self._make(self._plan, self._held, self._at)
        return self._verdict

    def forget(self) -> None:
        """Nothing was judged: another deployment has this name now."""
        self._at, self._verdict, self.ready, self.settled = None, None, None, False

    def _make(self, plan: _Plan, held: Held, now: Instant) -> Verdict:
        inputs = self._inputs(plan, held, plan.targets, now)
        judged = judge(inputs, self._before, now, self._policy)
        self._verdict = Verdict(inputs, judged, stalls(inputs, now, self._policy))
        return self._verdict

    def _inputs(
        self, plan: _Plan, held: Held, targets: Iterable[tuple[str, TargetKey]], now: Instant
    ) -> DeploymentInputs:
        """The inputs of judging, with the freshness of so many targets."""
        read = ((name, held.records.get(key)) for name, key in targets)
        return DeploymentInputs(
            deployment=plan.deployment,
            facts=held.facts,
            members=tuple(filter(None, self._seen)),
            views=held.views,
            proof=held.proof,
            freshness=evidence.freshness(((name, record) for name, record in read if record is not None), now),
            extra=held.extra,
        )

    def _adopt(self, held: Held) -> tuple[_Plan, bool]:
        """The plan of a deployment, and whether it and what its platform says are those of the pass before."""
        before, plan = self._held, self._plan
        if before is not None and plan is not None:
            told = before.facts is held.facts or before.facts == held.facts
            self._views_until = self._views_until if told else -math.inf
            if plan.deployment is held.deployment:
                return plan, told
            if plan.deployment == held.deployment:
                plan.deployment = held.deployment
                return plan, told
        self._plan = self._replan(plan, held.deployment)
        return self._plan, False

    def _replan(self, old: _Plan | None, deployment: Deployment) -> _Plan:
        """Members that stay keep their evidence; of one that changed it is made again."""
        plan = _Plan(deployment)
        known: dict[str, int] = {} if old is None else {uid: place for place, uid in enumerate(old.uids)}
        places = [known.get(uid) for uid in plan.uids]
        self._seen = [None if place is None else self._seen[place] for place in places]
        self._records = [None if place is None else self._records[place] for place in places]
        self._probes = [None if place is None else self._probes[place] for place in places]
        self._digests = [None] * len(places)
        self._due = {
            new
            for new, place in enumerate(places)
            if old is None
            or place is None
            or old.members[place] != plan.members[new]
            or old.deployment.model != deployment.model
        }
        self._views_until = -math.inf
        return plan

    def _look(self, plan: _Plan, held: Held, now: Instant) -> set[int]:
        """Keep the evidence up; the places of the members whose evidence changed."""
        records, probes = list(map(held.records.get, plan.keys)), list(map(held.probes.get, plan.uids))
        read = self._due | {place for place, each in enumerate(map(is_, records, self._records)) if not each}
        asked = {place for place, each in enumerate(map(is_, probes, self._probes)) if not each}
        self._records, self._probes, self._due = records, probes, set()
        before, model = self._seen, plan.deployment.model
        self._seen = list(before)
        for place in read | asked:
            member, known, record = plan.members[place], before[place], records[place]
            if place in read or known is None:
                seen = evidence.member_evidence(member, record, known, probes[place], model)
            else:
                seen = known if record is None else evidence.with_probe(known, probes[place], model)
            if known is None or known.first_seen != seen.first_seen:
                self._views_until = -math.inf
            self._seen[place] = seen
        return read | asked | self._tell(plan, held, before, read | asked, now)

    def _tell(
        self, plan: _Plan, held: Held, before: list[MemberEvidence | None], new: set[int], now: Instant
    ) -> set[int]:
        """Add what routers and KV-event streams say of members; the places where that may decide something new.

        Where they say what they said at the pass before, only of those that are ``new``.
        """
        inflight, dialable = self._inflight, self._dialable
        if now.mono >= self._views_until or self._viewed is not held.views:
            inputs = self._inputs(plan, held, (), now)
            self._viewed = held.views
            self._selection = read_selection(inputs, now, self._policy)
            self._inflight = router_inflight(inputs, now, self._policy)
            self._views_until = views_until(held.views, now, self._policy)
        self._dialable = evidence.events_dialable(held.streams, now) if held.streams else {}
        same = inflight == self._inflight and dialable == self._dialable
        changed = set()
        for place in new if same else range(len(self._seen)):
            seen = self._seen[place]
            if seen is None:
                continue
            told = evidence.with_told(seen, before[place], self._inflight, self._dialable, now)
            if told is not seen:
                self._seen[place] = told
                if told_decides(seen, told):
                    changed.add(place)
        return changed

    def _digest(self, plan: _Plan, held: Held, changed: set[int], now: Instant) -> bool:
        """Make the digests anew where they may have changed; whether all are the same as at the pass before."""
        same, mono, policy, digests = True, now.mono, self._policy, self._digests
        late = {place for place, each in enumerate(digests) if each is None or mono >= each.until}
        for place in changed | late:
            seen, old = self._seen[place], digests[place]
            if seen is None:
                continue
            new = digests[place] = member_digest(plan.members[place], seen, now, policy)
            same = same and old is not None and old.decides == new.decides
        standings = [each.standing for place in plan.serving if (each := digests[place]) is not None]
        inputs = self._inputs(plan, held, plan.routers, now)
        fresh = self._fresh(plan, held, now)
        rest = deployment_digest(inputs, self._selection, standings, fresh, self._before, now, policy)
        same, self._rest = same and rest == self._rest, rest
        return same

    def _fresh(self, plan: _Plan, held: Held, now: Instant) -> tuple[object, ...]:
        """The word of `MetricsFresh`."""
        read = [record.read_at for record in map(held.records.get, plan.target_keys) if record is not None]
        known = [at.mono for at in read if at is not None]
        oldest = now.mono - min(known) if known else None
        return fresh_word(oldest, len(read) - len(known), len(known), self._policy)
