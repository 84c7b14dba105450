"""Cluster discovery against a scripted API server: who is built anew, who is handed on, what a trouble does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from observer.clock import SystemClock
from observer.discover.kubernetes import DiscoveryTuning, KubernetesDiscovery
from observer.discover.platforms import Platform, read_platform
from observer.kube.client import ApiClient, ClientTuning
from observer.supervise import BackOff, Supervisor
from router_contract.discovered import Discovered, ObjectReference
from router_contract.platform_facts import OperatorStatus
from router_contract.targets import DeploymentKey
from tests.fakes.kube_api import FakeKube
from tests.kube.steady import QUICK, PlainCredentials, until

HEAD = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Platform\n"
TAIL = """
engine: {software: {fixed: vllm}}
roles: [{name: {fixed: server}, desired: spec.replicas}]
metrics: {port: {fixed: "8000"}}
"""
THINGS = read_platform(
    HEAD
    + 'name: things\ntarget: {group: x.io, version: v1, kind: Thing, plural: things}\npods: {labels: {thing: "{name}"}}'
    + TAIL
)
OTHERS = read_platform(
    HEAD
    + 'name: others\ntarget: {group: x.io, version: v1, kind: Other, plural: others}\npods: {labels: {other: "{name}"}}'
    + TAIL
)
GROUPS = read_platform(HEAD + "name: groups\ntarget: {groupBy: [thing]}\npods: {labels: {llm: '*'}}" + TAIL)
OWNED = read_platform(
    HEAD
    + 'name: owned\ntarget: {group: x.io, version: v1, kind: Thing, plural: things}\npods: {labels: {thing: "{name}"}, owner: [ReplicaSet, Thing]}\n'
    + "sources: [{name: sets, group: apps, version: v1, kind: ReplicaSet, plural: replicasets, keep: [status.readyReplicas]}]"
    + TAIL
)
BASE = "/apis/x.io/v1"


class Heard:
    def __init__(self) -> None:
        self.applied: list[Sequence[Discovered]] = []
        self.objects: list[ObjectReference] = []
        self.refuse = 0

    async def apply(self, found: Sequence[Discovered]) -> None:
        if self.refuse:
            self.refuse -= 1
            raise ValueError("a bug of whoever is told")
        self.applied.append(found)

    @property
    def now(self) -> dict[str, list[str]]:
        last = self.applied[-1] if self.applied else ()
        return {
            each.deployment.key.name: [member.name for role in each.deployment.roles for member in role.members()]
            for each in last
        }

    def of(self, name: str) -> Discovered:
        return next(each for each in self.applied[-1] if each.deployment.key.name == name)


@pytest.fixture
async def kube() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        yield fake


@contextlib.asynccontextmanager
async def discovering(
    kube: FakeKube, *platforms: Platform, grace: float = 30.0, refresh: float = 60.0, **more: Any
) -> AsyncIterator[tuple[KubernetesDiscovery, Heard]]:
    heard, clock = Heard(), SystemClock()
    client = ApiClient(PlainCredentials(kube.url), clock, ClientTuning(rate=1000.0, burst=1000.0, seconds=5.0))
    async with client, Supervisor(clock, BackOff(first=0.01)) as supervisor:
        discovery = KubernetesDiscovery(
            client,
            platforms,
            clock=clock,
            supervisor=supervisor,
            apply=heard.apply,
            on_object=heard.objects.append,
            tuning=DiscoveryTuning(debounce=0.01, tick=0.05, grace=grace, refresh=refresh),
            watching=QUICK,
            **more,
        )
        supervisor.start("discovery", discovery.run)
        yield discovery, heard


def thing(kube: FakeKube, name: str, plural: str = "things", **body: Any) -> dict[str, Any]:
    return kube.put(plural, name, base=BASE, **{"spec": {"replicas": 1}, **body})


def pod(kube: FakeKube, name: str, metadata: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "vllm:1"}]
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    return kube.put(
        "pods", name, metadata={"labels": labels, **(metadata or {})}, spec={"containers": containers}, status=status
    )


def fail(kube: FakeKube) -> None:
    """Every watch is cut and every further call refused, kept connections included."""
    kube.faults.extend([("GET", 503, "no server is ready")] * 100_000)
    kube.cut_watches()


async def test_a_change_builds_only_whom_it_concerns(kube: FakeKube) -> None:
    for name in ("a", "b"):
        thing(kube, name)
        pod(kube, f"{name}-0", thing=name)
    async with discovering(kube, THINGS) as (discovery, heard):
        await until(lambda: heard.now == {"a": ["a-0"], "b": ["b-0"]})
        assert discovery.synced
        before = heard.of("b")
        pod(kube, "a-1", thing="a")
        await until(lambda: heard.now == {"a": ["a-0", "a-1"], "b": ["b-0"]})
        assert heard.of("b") is before
        pod(kube, "a-1", thing="b")
        await until(lambda: heard.now == {"a": ["a-0"], "b": ["a-1", "b-0"]})
        kube.delete("pods", "b-0")
        await until(lambda: heard.now == {"a": ["a-0"], "b": ["a-1"]})
        kube.delete("things", "a", base=BASE)
        await until(lambda: heard.now == {"b": ["a-1"]})
        assert [each.name for each in heard.objects][-1] == "a"
        assert discovery.target(heard.objects[-1]) is None
        assert discovery.target(heard.objects[1]) is not None


async def test_what_changes_nothing_for_us_is_not_handed_on(kube: FakeKube) -> None:
    thing(kube, "a")
    pod(kube, "a-0", thing="a")
    async with discovering(kube, THINGS) as (_, heard):
        await until(lambda: heard.now == {"a": ["a-0"]})
        count = len(heard.applied)
        pod(kube, "a-0", {"annotations": {"noise": "1"}}, thing="a")
        pod(kube, "else", thing="nobody")
        thing(kube, "z")
        await until(lambda: heard.now == {"a": ["a-0"], "z": []})
        assert len(heard.applied) == count + 1


async def test_a_bug_of_whoever_is_told_loses_nothing(kube: FakeKube) -> None:
    thing(kube, "a")
    async with discovering(kube, THINGS) as (_, heard):
        await until(lambda: heard.now == {"a": []})
        heard.refuse = 2
        pod(kube, "a-0", thing="a")
        await until(lambda: heard.now == {"a": ["a-0"]})
        assert heard.refuse == 0


async def test_groups_of_pods_come_change_and_go(kube: FakeKube) -> None:
    pod(kube, "p", thing="a", llm="x")
    pod(kube, "q", thing="a", llm="x")
    async with discovering(kube, GROUPS) as (_, heard):
        await until(lambda: heard.now == {"a": ["p", "q"]})
        pod(kube, "q", thing="b", llm="x")
        await until(lambda: heard.now == {"a": ["p"], "b": ["q"]})
        kube.delete("pods", "p")
        await until(lambda: heard.now == {"b": ["q"]})
        assert heard.of("b").target is None


async def test_owners_that_come_late_are_awaited(kube: FakeKube) -> None:
    made = thing(kube, "a")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "uid-set", "controller": True}
    pod(kube, "a-0", {"ownerReferences": [owner]}, thing="a")
    async with discovering(kube, OWNED) as (_, heard):
        await until(lambda: heard.now == {"a": []})
        above = {
            "apiVersion": "x.io/v1",
            "kind": "Thing",
            "name": "a",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        found = kube.put("replicasets", "set", base="/apis/apps/v1", metadata={"ownerReferences": [above]})
        pod(kube, "a-0", {"ownerReferences": [{**owner, "uid": found["metadata"]["uid"]}]}, thing="a")
        await until(lambda: heard.now == {"a": ["a-0"]})


async def test_of_two_platforms_that_claim_a_name_the_first_has_it_and_both_share_a_feed(kube: FakeKube) -> None:
    thing(kube, "a")
    thing(kube, "a", "others")
    thing(kube, "b", "others")
    async with discovering(kube, THINGS, OTHERS) as (discovery, heard):
        await until(lambda: heard.now == {"a": [], "b": []})
        assert {each.deployment.key.name: each.facts.platform for each in heard.applied[-1]} == {
            "a": "things",
            "b": "others",
        }
        assert sum(path == "/api/v1/pods" and "limit" in query for _, path, query in kube.log) == 1
        kube.delete("things", "a", base=BASE)
        await until(lambda: heard.of("a").facts.platform == "others")
        assert discovery.sources() == ()


async def test_a_trouble_that_passes_is_none_and_one_that_stays_makes_lists_incomplete(kube: FakeKube) -> None:
    thing(kube, "a")
    pod(kube, "a-0", thing="a")
    async with discovering(kube, THINGS, grace=0.3) as (discovery, heard):
        await until(lambda: heard.now == {"a": ["a-0"]})
        fail(kube)
        await until(lambda: not heard.of("a").deployment.complete)
        assert heard.now == {"a": ["a-0"]}
        assert {(fault.kind, fault.why) for fault in heard.of("a").facts.sources} == {
            ("Pod", "Failing"),
            ("Thing", "Failing"),
        }
        assert "list of" in discovery.sources()[0].detail or "look" in discovery.sources()[0].detail
        kube.faults.clear()
        await until(lambda: heard.of("a").deployment.complete and heard.of("a").facts.sources == ())


async def test_within_the_grace_nothing_is_said(kube: FakeKube) -> None:
    thing(kube, "a")
    async with discovering(kube, THINGS, grace=60.0) as (discovery, heard):
        await until(lambda: heard.now == {"a": []})
        kube.cut_watches()
        kube.faults.append(("GET", 500, "broken"))
        pod(kube, "a-0", thing="a")
        await until(lambda: heard.now == {"a": ["a-0"]})
        assert all(each.deployment.complete for found in heard.applied for each in found)
        assert discovery.sources() == ()


async def test_a_pod_that_cannot_be_read_makes_the_list_incomplete(kube: FakeKube) -> None:
    thing(kube, "a")
    pod(kube, "a-0", thing="a")
    odd = pod(kube, "a-1", thing="a")
    odd["spec"] = {"containers": "many"}
    async with discovering(kube, THINGS) as (discovery, heard):
        await until(lambda: heard.now == {"a": ["a-0"]})
        assert not heard.of("a").deployment.complete
        assert [(fault.kind, fault.detail) for fault in discovery.sources()] == [("Pod", "1 objects cannot be read")]


async def test_pods_that_may_not_be_read_leave_deployments_without_evidence(kube: FakeKube) -> None:
    """The Pods are forbidden from the start: the deployment is there, nothing of it is called absent."""
    thing(kube, "a")
    forbidden = {"kind": "Status", "code": 403, "message": "pods is forbidden"}

    class Refusing(FakeKube):
        def _list(self, request: Any, kind: str, namespace: str) -> Any:
            if kind == "/api/v1/pods":
                self.faults.clear()
                from tests.fakes.kube_api import _json

                return _json(forbidden, 403)
            return super()._list(request, kind, namespace)

    async with Refusing() as refusing:
        thing(refusing, "a")
        async with discovering(refusing, THINGS) as (discovery, heard):
            await until(lambda: heard.now == {"a": []})
            assert not heard.of("a").deployment.complete
            assert [(fault.kind, fault.why) for fault in discovery.sources()] == [("Pod", "Forbidden")]
            proof = await discovery.prove(DeploymentKey("ns", "a"))
            assert proof is not None
            assert proof.members is None


async def test_the_proof_is_a_list_of_its_own(kube: FakeKube) -> None:
    thing(kube, "a")
    for number in range(3):
        pod(kube, f"a-{number}", thing="a")
    pod(kube, "else", thing="b")
    async with discovering(kube, THINGS) as (discovery, heard):
        await until(lambda: len(heard.now.get("a", ())) == 3)
        proof = await discovery.prove(DeploymentKey("ns", "a"))
        assert proof is not None
        assert len(proof.members or ()) == 3
        asked = [query for _, path, query in kube.log if path == "/api/v1/namespaces/ns/pods"]
        assert asked == [{"labelSelector": "thing=a", "limit": "500"}]


async def test_what_is_watched_and_did_not_change_is_as_old_as_the_servers_last_word(kube: FakeKube) -> None:
    thing(kube, "a", status={"phase": "Ready"})
    async with discovering(kube, THINGS, refresh=0.05, grace=0.1) as (_, heard):
        await until(lambda: heard.now == {"a": []})

        def read_at() -> float:
            operator = heard.of("a").facts.operator
            assert isinstance(operator, OperatorStatus)
            return operator.read_at

        first, deployment = read_at(), heard.of("a").deployment
        await kube.opened(2)
        kube.bookmark()
        await until(lambda: read_at() > first)
        assert heard.of("a").deployment is deployment
        fail(kube)
        await until(lambda: not heard.of("a").deployment.complete)
        last, count = read_at(), len(heard.applied)
        await until(lambda: len(heard.applied) > count + 3)
        assert read_at() == last
