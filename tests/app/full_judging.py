"""Judging as it would be without anything kept from pass to pass but evidence and memory: every deployment, every time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_

import msgspec

from observer import evidence
from observer.app.case import stalls
from observer.app.convergence_times import ConvergenceTimes
from observer.app.held import key_of, members_of
from observer.app.judging import Extra, Streams, policy_of
from observer.judge.inflight import router_inflight
from observer.judge.judgement import judge, with_verdicts
from observer.settings import Settings
from observer.store import Store
from router_contract.judging import DeploymentInputs, Judged, MemberEvidence, MembershipProof, Stored
from router_contract.platform_facts import PlatformFacts
from router_contract.probes import MemberProbe
from router_contract.readings import Instant
from router_contract.router_views import RouterView, ViewFailed
from router_contract.status import RankStall
from router_contract.targets import Component, Deployment, DeploymentKey, Member
from router_contract.verdicts import DeploymentReport


class FullJudging:
    """The full pass that `Judging` must not be told apart from. A new thing seen of a member is one step of its evidence."""

    def __init__(self, store: Store, settings: Settings, extra: Extra, streams: Streams) -> None:
        self.store, self.policy, self.told, self.streams = store, policy_of(settings), extra, streams
        self.probes: dict[tuple[DeploymentKey, str], MemberProbe] = {}
        self.views: dict[DeploymentKey, dict[str, tuple[RouterView | None, ViewFailed | None]]] = {}
        self.facts: Mapping[DeploymentKey, PlatformFacts] = {}
        self.proofs: dict[DeploymentKey, MembershipProof] = {}
        self.stored: dict[DeploymentKey, Stored] = {}
        self.members: dict[tuple[DeploymentKey, str], MemberEvidence] = {}
        self.sources: dict[tuple[DeploymentKey, str], tuple[object, ...]] = {}
        self.verdicts: dict[DeploymentKey, tuple[DeploymentInputs, Judged, Sequence[RankStall]]] = {}
        self.times = ConvergenceTimes()

    def on_view(self, key: DeploymentKey, view: RouterView | ViewFailed) -> None:
        pods = self.views.setdefault(key, {})
        good, _ = pods.get(view.pod_uid, (None, None))
        pods[view.pod_uid] = (view, None) if isinstance(view, RouterView) else (good, view)

    def forget(self, key: DeploymentKey) -> None:
        for table in (self.views, self.stored, self.verdicts, self.proofs):
            table.pop(key, None)
        self.times.forget(key)

    def judge_all(self, now: Instant) -> None:
        deployments = {each.key: each for each in self.store.deployments()}
        self.tidy(deployments)
        for key, deployment in deployments.items():
            inputs = self.inputs(deployment, now)
            before = self.stored.get(key, Stored())
            judged = judge(inputs, before, now, self.policy)
            self.times.add(key, before, judged)
            self.stored[key] = judged.stored
            self.verdicts[key] = inputs, judged, stalls(inputs, now, self.policy)

    def tidy(self, deployments: Mapping[DeploymentKey, Deployment]) -> None:
        for key in [key for key in (*self.views, *self.stored, *self.verdicts) if key not in deployments]:
            self.forget(key)
        alive = {(key, member.uid) for key, each in deployments.items() for member in members_of(each)}
        self.probes = {key: probe for key, probe in self.probes.items() if key in alive}
        self.members = {key: member for key, member in self.members.items() if key in alive}
        self.sources = {key: sources for key, sources in self.sources.items() if key in alive}
        for key, pods in self.views.items():
            router = deployments[key].router
            uids = {member.uid for member in router.members} if router is not None else set()
            self.views[key] = {uid: pair for uid, pair in pods.items() if uid in uids}

    def inputs(self, deployment: Deployment, now: Instant) -> DeploymentInputs:
        key, streams = deployment.key, self.streams(deployment.key)
        before = {member.uid: self.members.get((key, member.uid)) for member in members_of(deployment)}
        seen = [self.seen(deployment, member, before[member.uid]) for member in members_of(deployment)]
        read = [(target.member, self.store.record(target.key)) for target in deployment.targets()]
        pairs = self.views.get(key, {}).values()
        inputs = DeploymentInputs(
            deployment=deployment,
            facts=self.facts.get(key, PlatformFacts()),
            members=tuple(seen),
            views=tuple(each for pair in pairs for each in pair if each is not None),
            proof=self.proofs.get(key),
            freshness=evidence.freshness(((name, record) for name, record in read if record is not None), now),
            extra=tuple(self.told(deployment, now)),
        )
        inflight = router_inflight(inputs, now, self.policy)
        dialable = evidence.events_dialable(streams, now)
        members = tuple(evidence.with_told(each, before[each.uid], inflight, dialable, now) for each in seen)
        self.members |= {(key, each.uid): each for each in members}
        return msgspec.structs.replace(inputs, members=members)

    def seen(self, deployment: Deployment, member: Member, before: MemberEvidence | None) -> MemberEvidence:
        at = deployment.key, member.uid
        record, probe = self.store.record(key_of(deployment.key, member, Component.ENGINE)), self.probes.get(at)
        sources, known = (member, record, probe, deployment.model), self.sources.get(at)
        if before is not None and known is not None and all(map(is_, sources, known)):
            return before
        self.sources[at] = sources
        return evidence.member_evidence(member, record, before, probe, deployment.model)

    def shown(self, report: DeploymentReport) -> DeploymentReport:
        inputs, judged, still = self.verdicts[report.key]
        shown = with_verdicts(report, inputs, judged)
        return msgspec.structs.replace(shown, stalls=still, convergence_seconds=self.times.of(report.key))

    def ready(self, keys: Iterable[DeploymentKey]) -> dict[DeploymentKey, int | None]:
        found: dict[DeploymentKey, int | None] = {}
        for key in keys:
            counts = [role.ready for role in self.verdicts[key][1].roles]
            known = [count for count in counts if count is not None]
            found[key] = sum(known) if len(known) == len(counts) else None
        return found
