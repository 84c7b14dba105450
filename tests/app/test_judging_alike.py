"""Judging only what changed says and keeps the same as judging everything at every pass, whatever happens in between."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from observer.app.judging import Judging
from observer.app.publishing import gist_of
from observer.settings import Settings
from router_contract.judging import MembershipProof, ProofMember, Stored
from router_contract.kv_streams import History, KvStreamSummary, StreamKey, StreamSource, StreamState
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_facts import (
    ContractMetrics,
    ContractRole,
    CountsFact,
    OperatorStatus,
    PlatformFacts,
    RouterContract,
    RouterObjectsFact,
    SourceFault,
    WorkloadFact,
)
from router_contract.probes import HealthAnswered, MemberProbe, ModelsListed
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.router_views import Circuit, RouterView, ViewFailed, ViewSource, WorkerRow
from router_contract.status import Retirement, Serving, ServingState
from router_contract.targets import (
    Deployment,
    DeploymentKey,
    KvEventSource,
    Member,
    Ready,
    Replica,
    Role,
    RouterDeclaration,
    Target,
)
from router_contract.verdicts import Condition, DeploymentReport, Provenance, Status
from tests.app.full_judging import FullJudging
from tests.fleets import HandClock, at, body, member, store

KEYS = (DeploymentKey("default", "chat"), DeploymentKey("default", "other"))
NAMES = "abcd"
MOMENTS = (0.001, 0.5, 1.0, 2.0, 4.9995, 5.0, 10.0, 12.0, 15.0, 29.0, 30.0, 59.9, 60.0, 130.0, 300.0, 601.0, 1800.0)
"""How much time passes: beside and upon every threshold of the policy."""
FAILURES = (FailureKind.REFUSED, FailureKind.TIMEOUT, FailureKind.HTTP, FailureKind.DNS, FailureKind.MALFORMED)
WAITING = '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} 0\n'
RANK_1 = (
    '# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{engine="1"} %d\n'
    'vllm:generation_tokens_total{engine="0"} 3\n'
)
SAID = (
    OperatorCondition(type="RouterReady", status="False", reason="Down", message=""),
    OperatorCondition(type="ReplicasUpToDate", status="True", reason="UpToDate", message=""),
)
OPERATOR = OperatorStatus(read_at=1_800_000_000.0, observed_generation=6, conditions=SAID)
CONTRACT = RouterContract(
    name="contract",
    roles=(ContractRole(name="server", kind="Server", events_endpoint="tcp://x", selected=("uid-a", "uid-b")),),
    metrics=ContractMetrics(port=8000, names=(("running", "vllm:num_requests_running"), ("other", "no:such"))),
)
HELD = RouterContract(
    name="contract",
    roles=(ContractRole(name="server", kind="Server", selected=("uid-a", "uid-b", "uid-c", "uid-d")),),
    metrics=ContractMetrics(port=8000, names=(("running", "vllm:num_requests_running"),)),
)
GPUSTACK = PlatformFacts(
    platform="gpustack", managed=True, declared=False, seats=True, ready_by_reading=False, retirement=None
)
FACTS = (
    PlatformFacts(),
    PlatformFacts(counts=CountsFact(ready=1, total=2), contract=replace(CONTRACT, roles=())),
    PlatformFacts(contract=CONTRACT, cache=False),
    PlatformFacts(contract=HELD),
    GPUSTACK,
    replace(GPUSTACK, operator=OPERATOR, workloads=(WorkloadFact(role="server", reserved=True),)),
    replace(GPUSTACK, operator=replace(OPERATOR, observed_generation=7), contract=CONTRACT),
    replace(GPUSTACK, operator=OPERATOR, sources=(SourceFault(kind="Deployment", why="Forbidden", since=1.0),)),
    replace(GPUSTACK, retirement=Retirement(role_name="server", replica_ordinal=0, state="Draining")),
    replace(GPUSTACK, seats=False, router_objects=RouterObjectsFact(ready=1)),
    PlatformFacts(platform="other", managed=False, declared=True, ready_by_reading=False),
)
EXTRA = (
    (),
    (("CacheAttached", Status.TRUE, "CacheActive"),),
    (("CacheAttached", Status.TRUE, "NotApplicable"), ("KVEventsLive", Status.TRUE, "Receiving")),
    (("CanaryAnalysis", Status.FALSE, "ThresholdBreached"),),
)

names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)


def _well(name: str, place: int, ready: Ready) -> Member:
    return member(name, 8000 + place, seat=0, ready=ready, readiness_gated=ready is Ready.TRUE)


@st.composite
def members(draw: st.DrawFn, name: str) -> Member:
    return member(
        name,
        8000 + NAMES.index(name),
        ready=draw(st.sampled_from((Ready.UNKNOWN, Ready.TRUE, Ready.FALSE))),
        restarts=draw(st.sampled_from((None, None, 0, 1))),
        started_at=draw(st.sampled_from((None, None, 1_800_000_000.0, 1_800_000_050.0))),
        terminating=draw(st.sampled_from((False, False, False, True))),
        serves=draw(st.sampled_from((True, True, True, False))),
        ancillary=draw(st.sampled_from((False, False, False, False, True))),
        readiness_gated=draw(st.booleans()),
        seat=draw(st.sampled_from((None, 0, 1))),
        declared_total=draw(st.sampled_from((None, None, 1, 2))),
        rank=draw(st.sampled_from((None, None, None, 0, 1))),
    )


def plain(key: DeploymentKey = KEYS[0], routers: int = 1, ready: Ready = Ready.UNKNOWN) -> Deployment:
    """Four replicas that can be well on any platform, behind so many routers."""
    replicas = tuple(
        Replica(ordinal=place, size=1, retiring=False, replacing=False, members=(_well(name, place, ready),))
        for place, name in enumerate(NAMES)
    )
    role = Role(name="server", engine="vllm", desired=4, replicas=replicas)
    pods = tuple(member(f"router-{place}", 9000 + place) for place in range(routers))
    declared = RouterDeclaration(name="router", software="vllm_router", desired=routers, members=pods)
    return Deployment(key=key, uid="uid", roles=(role,), model="m", generation=7, router=declared if routers else None)


@st.composite
def deployments(draw: st.DrawFn, key: DeploymentKey) -> Deployment:
    """Either one that can be well, or anything that discovery may tell."""
    base = plain(key, draw(st.sampled_from((0, 1, 2))), draw(st.sampled_from((Ready.UNKNOWN, Ready.TRUE))))
    base = replace(base, model=draw(st.sampled_from(("m", None))), complete=draw(st.sampled_from((True, True, False))))
    base = replace(base, deleting=draw(st.sampled_from((False,) * 5 + (True,))))
    if draw(st.booleans()):
        return base
    found = [draw(members(name)) for name in draw(st.sampled_from(("abcd", "abc", "ab", "d", "")))]
    sizes = draw(st.sampled_from(((1, 1, 1, 1), (2, 1, 1), (2, 2), (4,))))
    replicas, left = [], found
    for ordinal, size in enumerate(sizes):
        size_told = draw(st.sampled_from((None, 1, 2)))
        numbered = draw(st.sampled_from((ordinal, ordinal, None)))
        replicas.append(Replica(ordinal=numbered, size=size_told, members=tuple(left[:size])))
        left = left[size:]
    role = replace(
        base.roles[0],
        replicas=tuple(replicas),
        elastic=draw(st.sampled_from((False, False, False, True))),
        engine=draw(st.sampled_from(("vllm", "vllm", "sglang"))),
        arguments=draw(st.sampled_from(((), ("--data-parallel-size", "2"), ("--tp-size", "x")))),
    )
    return replace(base, roles=(role,))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    more = draw(st.sampled_from(("", WAITING, WAITING, WAITING + RANK_1 % draw(st.integers(0, 5)))))
    if draw(st.sampled_from((False,) * 9 + (True,))):
        return b"<html>"
    return body(
        running=draw(st.sampled_from((0, 1, 3))),
        tokens=draw(st.integers(0, 6)),
        start=draw(st.sampled_from((None, 50.0, 50.0, 50.0, 70.0))),
        more=more,
    )


def row(place: int, **more: object) -> WorkerRow:
    port = 8000 + place
    values = {"healthy": True, "circuit": Circuit.CLOSED, "in_selection": True} | more
    return WorkerRow(url=f"http://10.0.0.1:{port}", host="10.0.0.1", port=port, **values)


WELL = tuple(row(place) for place in range(4))
CHOICES = (
    (WELL, WELL),
    (WELL, WELL),
    (WELL, WELL[:3]),
    (WELL[:3], WELL[:3]),
    ((*WELL[:3], row(3, in_selection=False, circuit=Circuit.OPEN)),) * 2,
    (tuple(row(place, load=1.0) for place in range(4)),) * 2,
)
"""What two routers select."""


@st.composite
def rows(draw: st.DrawFn) -> tuple[WorkerRow, ...]:
    places = draw(st.sets(st.integers(0, 4))) if draw(st.booleans()) else range(4)
    return tuple(
        row(
            place,
            healthy=draw(st.sampled_from((True, True, None, False))),
            circuit=draw(st.sampled_from((Circuit.CLOSED, Circuit.OPEN))),
            in_selection=draw(st.sampled_from((True, True, True, False, None))),
            load=draw(st.sampled_from((None, 0.0, 2.0))),
        )
        for place in places
    )


NO_SERVING = Serving(state=ServingState.UNKNOWN)
Choice = tuple[tuple[WorkerRow, ...], tuple[WorkerRow, ...]]
CHOSEN = st.none() | st.sampled_from(CHOICES)


class Alike(RuleBasedStateMachine):
    """Two judges over one store are told the same and must say the same."""

    @initialize(routers=st.sampled_from((0, 1, 2)))
    def begin(self, routers: int) -> None:
        self.seconds = 0.0
        self.clock = HandClock()
        self.store = store(self.clock)
        self.said: dict[DeploymentKey, int] = {}
        self.streams: dict[DeploymentKey, tuple[KvStreamSummary, ...]] = {}
        self.facts: dict[DeploymentKey, PlatformFacts] = {}
        self.tokens = 0
        self.full = FullJudging(self.store, Settings(), self.extra, lambda key: self.streams.get(key, ()))
        self.judging = Judging(self.store, Settings(), self.extra, lambda key: self.streams.get(key, ()))
        self.expected: dict[DeploymentKey, DeploymentReport] = {}
        self.gists: dict[DeploymentKey, tuple[object, ...]] = {}
        self.fleet = {KEYS[0]: plain(routers=routers)}
        self.store.set_deployments(self.fleet.values(), self.now())

    def now(self) -> Instant:
        self.clock.set(self.seconds)
        return at(self.seconds)

    def extra(self, deployment: Deployment, now: Instant) -> tuple[Condition, ...]:
        """Conditions of others; their message changes with every moment."""
        return tuple(
            Condition(type=kind, status=status, reason=reason, message=f"at {now.mono}", provenance=Provenance.COMPUTED)
            for kind, status, reason in EXTRA[self.said.get(deployment.key, 0)]
        )

    def target(self, key: DeploymentKey, name: str) -> Target | None:
        of = self.fleet.get(key)
        return None if of is None else next((each for each in of.targets() if each.member == name), None)

    @rule(key=keys, name=names, data=bodies())
    def read(self, key: DeploymentKey, name: str, data: bytes) -> None:
        self.take(key, name, data)

    @rule(key=keys, name=st.sampled_from((*NAMES, "router-0")), kind=st.sampled_from(FAILURES))
    def fail(self, key: DeploymentKey, name: str, kind: FailureKind) -> None:
        self.fault(key, name, kind)

    def fault(self, key: DeploymentKey, name: str, kind: FailureKind) -> None:
        if (target := self.target(key, name)) is not None:
            status = 503 if kind is FailureKind.HTTP else None
            failed = ScrapeFailed(target=target.key, at=self.now(), kind=kind, detail="why", status=status)
            self.store.on_failure(target, failed)

    @rule(key=keys, name=names, healthy=st.sampled_from((None, True, False)), listed=st.sampled_from((None, "m", "n")))
    def probe(self, key: DeploymentKey, name: str, healthy: bool | None, listed: str | None) -> None:
        self.tell(key, name, healthy=healthy, listed=listed)

    def tell(self, key: DeploymentKey, name: str, *, healthy: bool | None, listed: str | None) -> None:
        now = self.now()
        told = MemberProbe(
            deployment=key,
            uid=f"uid-{name}",
            member=name,
            software="vllm",
            health=None if healthy is None else HealthAnswered(at=now, healthy=healthy, status=200 if healthy else 500),
            models=None if listed is None else ModelsListed(at=now, models=(listed,)),
        )
        self.judging.on_probe(told)
        self.full.probes[key, told.uid] = told

    def told_view(self, key: DeploymentKey, view: RouterView | ViewFailed) -> None:
        self.judging.on_view(key, view)
        self.full.on_view(key, view)

    @rule(key=keys, router=st.integers(0, 1), given=rows(), boot=st.sampled_from("xxy"), api=st.booleans())
    def view(self, key: DeploymentKey, router: int, given: tuple[WorkerRow, ...], boot: str, api: bool) -> None:
        source = ViewSource.WORKERS_API if api else ViewSource.SERIES
        self.select(key, router, given, boot=boot, source=source)

    def select(self, key: DeploymentKey, router: int, given: tuple[WorkerRow, ...], **more: object) -> None:
        values = {"boot_id": "x", "source": ViewSource.WORKERS_API} | more
        values["boot_id"] = values.pop("boot", values["boot_id"])
        view = RouterView(
            router=f"router-{router}", pod_uid=f"uid-router-{router}", read_at=self.now(), workers=given, **values
        )
        self.told_view(key, view)

    @rule(key=keys, router=st.integers(0, 1), kind=st.sampled_from(("Timeout", "Refused", "Http")))
    def lose_view(self, key: DeploymentKey, router: int, kind: str) -> None:
        self.told_view(key, ViewFailed(router="r", pod_uid=f"uid-router-{router}", at=self.now(), kind=kind))

    @rule(key=keys, staying=st.none() | st.sets(names))
    def prove(self, key: DeploymentKey, staying: set[str] | None) -> None:
        listed = None
        if staying is not None:
            listed = tuple(ProofMember(uid=f"uid-{name}", ready=Ready.TRUE) for name in sorted(staying))
        proof = MembershipProof(at=self.now(), members=listed)
        self.judging.on_proof(key, proof)
        self.full.proofs[key] = proof

    @rule(key=keys, facts=st.none() | st.sampled_from(FACTS), equal=st.booleans())
    def platform(self, key: DeploymentKey, facts: PlatformFacts | None, equal: bool) -> None:
        self.tell_facts(key, replace(facts) if equal and facts is not None else facts)

    def tell_facts(self, key: DeploymentKey, facts: PlatformFacts | None) -> None:
        self.facts.pop(key, None)
        if facts is not None:
            self.facts[key] = facts
        self.judging.set_facts(self.facts)
        self.full.facts = dict(self.facts)

    @rule(key=keys, which=st.integers(0, len(EXTRA) - 1))
    def others_say(self, key: DeploymentKey, which: int) -> None:
        self.said[key] = which

    @rule(key=keys, name=names, state=st.none() | st.sampled_from(StreamState))
    def stream(self, key: DeploymentKey, name: str, state: StreamState | None) -> None:
        source = StreamSource(key=StreamKey(key, f"uid-{name}", 0), source=KvEventSource(endpoint="tcp://x"))
        seen = (
            ()
            if state is None
            else (KvStreamSummary(source=source, state=state, since=self.now(), history=History.COMPLETE),)
        )
        self.streams[key] = seen

    @rule(data=st.data(), key=keys)
    def discover(self, data: st.DataObject, key: DeploymentKey) -> None:
        found = data.draw(st.none() | deployments(key))
        if found is None:
            self.fleet.pop(key, None)
        elif data.draw(st.booleans()) and key in self.fleet:
            # equal and not the same object, as a discovery tells that has listed again
            self.fleet[key] = msgspec.convert(msgspec.to_builtins(self.fleet[key]), Deployment)
        else:
            self.fleet[key] = found
        self.store.set_deployments(self.fleet.values(), self.now())

    @rule(key=keys)
    def restart(self, key: DeploymentKey) -> None:
        """What is kept comes back from a file, equal and another object."""
        if key in self.full.stored and key in self.fleet:
            kept = msgspec.json.decode(msgspec.json.encode(self.full.stored[key]), type=Stored)
            self.judging.load(key, kept, restarted=False)
            self.full.stored[key] = kept

    @rule(key=keys)
    def renamed(self, key: DeploymentKey) -> None:
        self.expected.pop(key, None)
        self.judging.forget(key)
        self.full.forget(key)

    @rule(seconds=st.sampled_from(MOMENTS))
    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    @rule(seconds=st.sampled_from(MOMENTS), ask=st.booleans())
    def judge(self, seconds: float, ask: bool) -> None:
        """Time goes on and a pass comes; it is asked for its verdicts at once, or when more has happened."""
        self.seconds += seconds
        self.one_pass(ask=ask)

    @rule(key=keys, count=st.integers(1, 8), step=st.sampled_from((1.0, 5.0)), busy=st.booleans(), choice=CHOSEN)
    def be_well(self, key: DeploymentKey, count: int, step: float, busy: bool, choice: Choice | None) -> None:
        """Some rounds in which everybody answers, a pass after each and one more without news."""
        for _ in range(count):
            self.tokens += 1
            self.round(key, step, NAMES, busy=busy, choice=choice)

    @rule(key=keys, choice=CHOSEN, idle=st.sets(names))
    def stand_still(self, key: DeploymentKey, choice: Choice | None, idle: set[str]) -> None:
        """Everybody answers, some hold work, and nothing moves for longer than that may last."""
        for _ in range(8):
            self.round(key, 9.0, [name for name in NAMES if name not in idle], busy=True, choice=choice)

    @rule(key=keys, name=names, kind=st.sampled_from(FAILURES), rounds=st.integers(1, 5), choice=CHOSEN)
    def one_fails(self, key: DeploymentKey, name: str, kind: FailureKind, rounds: int, choice: Choice | None) -> None:
        """One engine fails for some rounds while the others answer, and comes back."""
        for _ in range(rounds):
            self.tokens += 1
            self.fault(key, name, kind)
            self.round(key, 4.0, [each for each in NAMES if each != name], busy=True, choice=choice)
        self.round(key, 4.0, NAMES, busy=True, choice=choice)

    @rule(data=st.data(), key=keys, facts=st.sampled_from(FACTS))
    def other_fleet_is_well(self, data: st.DataObject, key: DeploymentKey, facts: PlatformFacts) -> None:
        """Another deployment has the name or follows the first, on a platform, and is seen for a while."""
        self.fleet[key] = data.draw(deployments(key))
        self.store.set_deployments(self.fleet.values(), self.now())
        self.tell_facts(key, facts)
        for _ in range(3):
            self.tokens += 1
            self.round(key, 4.0, NAMES, busy=True, choice=CHOICES[0])

    def round(
        self, key: DeploymentKey, seconds: float, alive: Iterable[str], *, busy: bool, choice: Choice | None
    ) -> None:
        self.seconds += seconds
        for name in alive:
            running = int(busy)
            self.take(key, name, body(running=running, tokens=10 + self.tokens, start=50.0, more=WAITING))
            self.tell(key, name, healthy=True, listed="m")
        for router, seen in enumerate(choice or ()):
            self.take(key, f"router-{router}", body())
            self.select(key, router, seen)
        self.one_pass(ask=False)
        self.seconds += 0.5
        self.one_pass(ask=True)

    def take(self, key: DeploymentKey, name: str, data: bytes) -> None:
        if (target := self.target(key, name)) is not None:
            self.store.on_body(target, data, "text/plain", self.now(), 0.01)

    def one_pass(self, *, ask: bool) -> None:
        self.check_shown()
        now = self.now()
        self.full.judge_all(now)
        self.judging.judge_all(now)
        assert self.judging.stored() == self.full.stored
        assert {key: self.judging.ready_replicas(key) for key in self.fleet} == self.full.ready(self.fleet)
        assert {key: self.judging.proof_wanted(key) for key in self.fleet} == {
            key: judged.proof_wanted for key, (_, judged, _) in self.full.verdicts.items()
        }
        assert self.judging.last_pass == now
        self.check_news()
        self.expected = {
            key: self.full.shown(DeploymentReport(deployment=of, at=now)) for key, of in self.fleet.items()
        }
        if ask:
            self.check_shown()

    def check_news(self) -> None:
        """What is worth telling at once has not changed while there are no news; ages in sentences may have."""
        gists = {}
        for key in self.fleet:
            judged = self.full.verdicts[key][1]
            serving = re.sub(r"is \d+ s old", "is old", judged.convergence.serving.reason)
            shown = replace(
                judged, convergence=replace(judged.convergence, serving=replace(NO_SERVING, reason=serving))
            )
            roles = tuple(replace(each, endpoints=replace(each.endpoints, serving=NO_SERVING)) for each in judged.roles)
            gists[key] = self.judging.news(key), gist_of(replace(shown, roles=roles))
            before = self.gists.get(key)
            if before is not None and before[0] == gists[key][0]:
                assert before == gists[key]
        self.gists = gists

    def check_shown(self) -> None:
        """The verdicts of the last pass, as they are told now."""
        for key, expected in self.expected.items():
            assert (
                self.judging.add_verdicts(DeploymentReport(deployment=expected.deployment, at=expected.at)) == expected
            )
            judged = self.judging.judged(key)
            assert judged is not None
            assert judged == self.full.verdicts[key][1]


TestAlike = Alike.TestCase
TestAlike.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_change_of_a_deployment_that_is_well(data: st.DataObject) -> None:
    """Where everything was settled, the one thing that changes is all that judging has to notice."""
    both, key = Alike(), KEYS[0]
    both.begin(routers=data.draw(st.sampled_from((0, 1, 1, 2))))
    both.tell_facts(key, data.draw(st.sampled_from(FACTS)))
    routers = data.draw(st.sampled_from((0, 1, 1, 2)))
    both.fleet[key] = plain(key, routers, data.draw(st.sampled_from((Ready.UNKNOWN, Ready.TRUE))))
    both.store.set_deployments(both.fleet.values(), both.now())
    choice = data.draw(st.sampled_from((None, *CHOICES)))
    busy = data.draw(st.booleans())
    for _ in range(3):
        both.tokens += 1
        both.round(key, 2.0, NAMES, busy=busy, choice=choice)
    change = data.draw(st.sampled_from(CHANGES))
    change(both, data)
    both.judge(data.draw(st.sampled_from((0.5, 1.0, 7.0, 16.0, 61.0))), ask=False)
    both.judge(1.0, ask=True)


CHANGES = (
    lambda both, data: both.take(KEYS[0], data.draw(names), data.draw(bodies())),
    lambda both, data: both.fault(KEYS[0], data.draw(names), data.draw(st.sampled_from(FAILURES))),
    lambda both, data: both.fault(KEYS[0], "router-0", FailureKind.REFUSED),
    lambda both, data: both.tell(KEYS[0], data.draw(names), healthy=data.draw(st.booleans()), listed=None),
    lambda both, data: both.tell(KEYS[0], data.draw(names), healthy=True, listed=data.draw(st.sampled_from("mn"))),
    lambda both, data: both.select(KEYS[0], 0, data.draw(rows())),
    lambda both, data: both.select(KEYS[0], 0, data.draw(st.sampled_from(CHOICES))[0]),
    lambda both, data: both.lose_view(KEYS[0], 0, "Timeout"),
    lambda both, data: both.prove(KEYS[0], data.draw(st.none() | st.sets(names))),
    lambda both, data: both.tell_facts(KEYS[0], data.draw(st.none() | st.sampled_from(FACTS))),
    lambda both, data: both.others_say(KEYS[0], data.draw(st.integers(0, len(EXTRA) - 1))),
    lambda both, data: both.stream(KEYS[0], data.draw(names), data.draw(st.sampled_from(StreamState))),
    lambda both, data: both.discover(data, KEYS[0]),
    lambda both, data: both.restart(KEYS[0]),
    lambda both, data: None,
)
