"""One judging pass over every deployment: gathers evidence, judges, keeps what the next pass needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from observer import evidence
from observer.app.case import Case, Verdict
from observer.app.convergence_times import ConvergenceTimes
from observer.app.held import Held, key_of, members_of
from observer.collect.api_probe import engine_members
from observer.collect.router_view import router_members
from observer.fleet import Record
from observer.judge.judgement import with_verdicts
from observer.settings import Settings
from observer.store import Store
from router_contract.judging import Judged, JudgePolicy, MembershipProof, Stored
from router_contract.kv_streams import KvStreamSummary
from router_contract.platform_facts import PlatformFacts
from router_contract.probes import MemberProbe
from router_contract.readings import Instant
from router_contract.router_views import CircuitReading, EndpointSeries, RouterView, ViewFailed
from router_contract.targets import Component, Deployment, DeploymentKey, Member, TargetKey
from router_contract.verdicts import Condition, DeploymentReport

Streams = Callable[[DeploymentKey], Sequence[KvStreamSummary]]
"""The KV-event streams of a deployment as the same pass of `Extra` saw them."""

Extra = Callable[[Deployment, Instant], Iterable[Condition]]
"""Conditions that other judges computed for the same instant."""


def policy_of(settings: Settings) -> JudgePolicy:
    """The thresholds that settings ask for."""
    return JudgePolicy(
        scrape_period=settings.scrape.period,
        scrape_timeout=settings.scrape.timeout,
        view_validity=settings.routers.view_valid,
        stale_after=settings.windows.expire_after,
        stall_after=settings.judging.stall_after,
    )


AWAITED_READS = 3
"""Reads of a target after which a restart has lost nothing: progress is only seen between two, and the first two may
follow each other too soon for any."""
_AWAITED_PERIODS = 3
"""How many scrape periods evidence is awaited after a restart; what has not answered by then is judged unknown."""
_AWAITED_SECONDS = 10.0
"""The least time for which evidence is awaited, however short the periods are."""


_NO_FACTS = PlatformFacts()
_NO_PROBES: Mapping[str, MemberProbe] = {}
_NOTHING = Stored()
"""What is kept of a deployment that was never judged."""


class Judging:
    """What judging remembers. `judge_all` is one pass; `add_verdicts` shows the last pass in a report."""

    def __init__(
        self, store: Store, settings: Settings, extra: Extra | None = None, streams: Streams | None = None
    ) -> None:
        self._store = store
        self._streams = streams
        self._policy = policy_of(settings)
        self._extra = extra
        self._probes: dict[DeploymentKey, dict[str, MemberProbe]] = {}
        self._views: dict[DeploymentKey, dict[str, tuple[RouterView | None, ViewFailed | None]]] = {}
        self._shown_views: dict[DeploymentKey, tuple[RouterView | ViewFailed, ...]] = {}
        self._cases: dict[DeploymentKey, Case] = {}
        self._known: tuple[Deployment, ...] = ()
        self._untidy = False
        self._stored: dict[DeploymentKey, Stored] = {}
        self._awaited: dict[DeploymentKey, Instant | None] = {}
        self._patience = max(_AWAITED_PERIODS * settings.scrape.period + settings.scrape.timeout, _AWAITED_SECONDS)
        self._times = ConvergenceTimes()
        self._facts: dict[DeploymentKey, PlatformFacts] = {}
        self._proofs: dict[DeploymentKey, MembershipProof] = {}
        self.last_pass: Instant | None = None

    def on_probe(self, probe: MemberProbe) -> None:
        """An engine's API told something."""
        of = self._probes.setdefault(probe.deployment, {})
        self._untidy = self._untidy or probe.uid not in of
        of[probe.uid] = probe

    def on_view(self, key: DeploymentKey, view: RouterView | ViewFailed) -> None:
        """A router's view was read, or could not be."""
        pods = self._views.setdefault(key, {})
        self._untidy = self._untidy or view.pod_uid not in pods
        self._shown_views.pop(key, None)
        good, _ = pods.get(view.pod_uid, (None, None))
        pods[view.pod_uid] = (view, None) if isinstance(view, RouterView) else (good, view)

    def on_proof(self, key: DeploymentKey, proof: MembershipProof) -> None:
        """A deployment's Pods were listed uncached, or that failed."""
        self._untidy = self._untidy or key not in self._proofs
        self._proofs[key] = proof

    def set_facts(self, facts: Mapping[DeploymentKey, PlatformFacts]) -> None:
        """What platforms say of the deployments from now on; of those left out nothing beyond what a file says."""
        self._facts = dict(facts)

    def load(self, key: DeploymentKey, stored: Stored, *, restarted: bool = True) -> None:
        """What was stored before a restart; before the deployment's first pass.

        That deployment is judged again once its evidence is in, or was awaited long enough: before that a pass would
        find nothing known and write our own restart into its history. Without a restart (a replay that begins in the
        middle) nothing is awaited.
        """
        self._untidy = True
        self._stored[key] = stored
        if restarted:
            self._awaited[key] = None

    def stored(self) -> dict[DeploymentKey, Stored]:
        """What must survive a restart."""
        return dict(self._stored)

    def facts(self) -> Mapping[DeploymentKey, PlatformFacts]:
        """What platforms say of the deployments."""
        return dict(self._facts)

    def probes(self) -> tuple[MemberProbe, ...]:
        """The last probe of each engine."""
        return tuple(probe for of in self._probes.values() for probe in of.values())

    def views(self, key: DeploymentKey) -> tuple[RouterView | ViewFailed, ...]:
        """The last view and the last failure of each router Pod of a deployment."""
        if key not in self._shown_views:
            pods = self._views.get(key, {})
            self._shown_views[key] = tuple(each for pair in pods.values() for each in pair if each is not None)
        return self._shown_views[key]

    def forget(self, key: DeploymentKey) -> None:
        """Another deployment takes this name: nothing that was judged or told of the earlier one is its own."""
        for table in (self._views, self._shown_views, self._stored, self._awaited, self._proofs):
            table.pop(key, None)
        if key in self._cases:
            self._cases[key].forget()
        self._times.forget(key)

    def circuits(self, key: DeploymentKey, member: Member) -> CircuitReading | None:
        """The circuits that the last metrics read of a router Pod named."""
        return evidence.circuits(self._store.record(key_of(key, member, Component.ROUTER)))

    def endpoints(self, key: DeploymentKey, member: Member) -> EndpointSeries | None:
        """The endpoints that the last metrics read of a router Pod named."""
        return evidence.endpoint_series(self._store.record(key_of(key, member, Component.ROUTER)))

    def judge_all(self, now: Instant) -> None:
        """Judge every deployment once; forget those that are gone."""
        for _ in self.steps(now):
            pass

    def steps(self, now: Instant) -> Iterator[None]:
        """One pass that may rest after each step: each judges one deployment.

        What was read of all of them is held fast before this returns, so what comes while the pass rests belongs to the
        next one, and the verdicts are those of a pass in one go.
        """
        deployments = self._store.deployments()
        if self._untidy or deployments != self._known:
            self._forget({deployment.key: deployment for deployment in deployments})
        self._known, self._untidy = deployments, False
        records = self._store.by_key()
        held = [self._hold(each, now, records) for each in deployments if not self._awaits(each, now)]
        return self._judge_each(held, now)

    def _judge_each(self, held: Iterable[Held], now: Instant) -> Iterator[None]:
        for each in held:
            key = each.deployment.key
            if self._store.deployment(key) is None:  # it left while the pass rested
                continue
            case = self._cases.get(key)
            if case is None:
                case = self._cases[key] = Case(self._policy)
            before = self._stored.get(key, _NOTHING)
            judged = case.judge(each, before, now)
            if judged is not None:
                self._times.add(key, before, judged)
                # equal memory stays the very same, which is how a case knows it again
                self._stored[key] = before if case.settled else judged.stored
            yield
        self.last_pass = now

    def add_verdicts(self, report: DeploymentReport) -> DeploymentReport:
        """A report with what the last pass said; before the first one, with what that waits for."""
        verdict = self._verdict(report.key)
        if verdict is None:
            return msgspec.structs.replace(report, awaiting=self._awaiting(report))
        shown = with_verdicts(report, verdict.inputs, verdict.judged)
        return msgspec.structs.replace(shown, stalls=verdict.stalls, convergence_seconds=self._times.of(report.key))

    def memory(self, key: DeploymentKey) -> Stored | None:
        """What must survive a restart of one deployment."""
        return self._stored.get(key)

    def judged(self, key: DeploymentKey) -> Judged | None:
        """What the last pass said of a deployment, ``None`` before its first."""
        verdict = self._verdict(key)
        return None if verdict is None else verdict.judged

    def news(self, key: DeploymentKey) -> int | None:
        """A number that grows whenever a pass may have found more than other ages; ``None`` before the first pass."""
        case = self._cases.get(key)
        return None if case is None else case.news

    def proof_wanted(self, key: DeploymentKey) -> bool:
        """Whether one uncached list of a deployment's Pods is worth its cost, by the last pass."""
        case = self._cases.get(key)
        return case is not None and case.proof_wanted()

    def _verdict(self, key: DeploymentKey) -> Verdict | None:
        case = self._cases.get(key)
        return None if case is None else case.verdict()

    def settled(self, deployment: Deployment, seconds: float) -> bool:
        """Whether a deployment's first evidence is in, or was awaited long enough in so many ``seconds``.

        Before that a verdict says more about our own start than about the deployment.
        """
        return seconds >= self._patience or self._complete(deployment)

    def ready_replicas(self, key: DeploymentKey) -> int | None:
        """How many whole replicas were ready at the last pass; ``None`` while one role's count is not known."""
        case = self._cases.get(key)
        return None if case is None else case.ready

    def _awaits(self, deployment: Deployment, now: Instant) -> bool:
        """Whether a deployment with stored state still awaits the evidence that it had before."""
        key = deployment.key
        if key not in self._awaited:
            return False
        since = self._awaited[key] = self._awaited[key] or now
        if now.mono - since.mono < self._patience and not self._complete(deployment):
            return True
        del self._awaited[key]
        return False

    def _awaiting(self, report: DeploymentReport) -> str:
        """What the first judging of a deployment waits for, and for how long at most."""
        if report.key not in self._awaited:
            return "the first judging pass comes within a second or two"
        since = self._awaited[report.key]
        left = self._patience - (0.0 if since is None else max(0.0, report.at.mono - since.mono))
        missing = self._missing(report.deployment)
        waits = f" ({', '.join(missing)})" if missing else ""
        return f"after a restart it waits for its first reads{waits}, for {max(0.0, left):.0f} s more at most"

    def _complete(self, deployment: Deployment) -> bool:
        """Whether every target was read or failed twice running, and every engine and router gave a good answer.

        A first question that comes to nothing is common while everything is asked at once; it is asked again soon.
        """
        return not self._missing(deployment)

    def _missing(self, deployment: Deployment) -> tuple[str, ...]:
        """Which first reads are still awaited, in words with their numbers."""
        records = [self._store.record(target.key) for target in deployment.targets()]
        probes = [self._probes.get(each.deployment, {}).get(each.member.uid) for each in engine_members((deployment,))]
        pods = self._views.get(deployment.key, {})
        views = [pods.get(each.member.uid, (None, None)) for each in router_members((deployment,))]
        counts = {
            "metrics": [each is not None and each.reads >= AWAITED_READS and each.consecutive != 1 for each in records],
            "engine API": [each is not None and not (each.models_failed or each.health_failed) for each in probes],
            "router API": [good is not None and failed is None for good, failed in views],
        }
        return tuple(f"{name} {sum(of)} of {len(of)}" for name, of in counts.items() if not all(of))

    def _forget(self, deployments: dict[DeploymentKey, Deployment]) -> None:
        tables = (self._views, self._shown_views, self._stored, self._cases, self._awaited, self._proofs, self._probes)
        for table in tables:
            for key in [key for key in table if key not in deployments]:
                del table[key]
                self._times.forget(key)
        for key, probes in self._probes.items():
            alive = {member.uid for member in members_of(deployments[key])}
            self._probes[key] = {uid: probe for uid, probe in probes.items() if uid in alive}
        for key, pods in self._views.items():
            router = deployments[key].router
            uids = {member.uid for member in router.members} if router is not None else set()
            for uid in [uid for uid in pods if uid not in uids]:
                del pods[uid]
                self._shown_views.pop(key, None)

    def _hold(self, deployment: Deployment, now: Instant, records: Mapping[TargetKey, Record]) -> Held:
        """What a deployment is judged by. Only what is cheap for a thousand deployments is worked out here."""
        key = deployment.key
        return Held(
            deployment=deployment,
            facts=self._facts.get(key, _NO_FACTS),
            views=self.views(key),
            proof=self._proofs.get(key),
            extra=tuple(self._extra(deployment, now)) if self._extra is not None else (),
            streams=tuple(self._streams(key)) if self._streams is not None else (),
            records=records,
            probes=dict(self._probes.get(key, _NO_PROBES)),
        )
