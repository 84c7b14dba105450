"""Canary analyses of a cluster against a small API server over real HTTP: state in the status, ownership, Secrets, OME."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from exporters.self_metrics import SelfMetrics
from observer.app.canary import Canaries
from observer.app.canary_cluster import POLICIES, SERVICES, ClusterCanaries, ClusterKeeper
from observer.app.canary_keeping import ABSENT, KeepError
from observer.app.told import limits_of, policy_of
from observer.collect.options import CanaryProvider, CanarySecret, CanarySettings
from observer.judge.canary.evaluate import evaluate
from observer.judge.canary.status import status_of
from observer.kube.canary_state import held
from observer.kube.client import ApiClient, ClientTuning
from observer.kube.intent import WantedCondition
from observer.settings import Settings
from observer.store import Store
from router_contract.canary import TargetRef
from router_contract.canary_inputs import Observations, Run
from router_contract.canary_results import CanaryState, Reason
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey
from tests.discover.test_ome_canary import service
from tests.fakes.kube_api import FakeKube
from tests.judge.canary.build import T0, analysis, definition, native
from tests.kube.steady import QUICK, PlainCredentials, TurnedClock, until

BASE = "/apis/observer.modeldeployment.io/v1alpha1"
KEY = DeploymentKey("ns", "c")
OBJECT = (f"{BASE}/canaryanalyses", "ns", "c")
METRIC = {"name": "errors", "operator": "LT", "threshold": "0.01", "native": {"kind": "ratio", "signal": "router-worker-outcomes", "where": {"outcome": "failure"}, "total": "router-worker-outcomes"}}  # fmt: skip
QUERY = {"name": "up", "operator": "LT", "threshold": "1", "query": "up"}


def spec(metric: dict[str, Any] = METRIC, **more: Any) -> dict[str, Any]:
    return {
        "targetRef": {"kind": "ModelDeployment", "name": "chat"},
        "component": "engine",
        "stable": {"revision": "1"},
        "canary": {"revision": "2"},
        "steps": [{"analysis": {"interval": "30s", "failureLimit": 3, "metrics": [metric]}}],
        **more,
    }


def put(kube: FakeKube, name: str = "c", **body: Any) -> dict[str, Any]:
    return kube.put(
        "canaryanalyses", name, base=BASE, apiVersion="observer.modeldeployment.io/v1alpha1", kind="CanaryAnalysis", **body
    )  # fmt: skip


@contextlib.asynccontextmanager
async def api() -> AsyncIterator[tuple[FakeKube, ApiClient]]:
    async with FakeKube() as kube:
        kube.declared |= DECLARED
        credentials = PlainCredentials(kube.url)
        async with ApiClient(credentials, TurnedClock(), ClientTuning(rate=1e3, burst=1e3)) as client:
            yield kube, client


DECLARED = {
    *("targetID", "canaryRevisionHash", "stableRevisionHash", "currentStep", "stepEnteredTime", "analysisFailedChecks"),
    *("decision", "reason", "message", "failureLimit", "steps", "summary", "stored", "verdict", "sampleID"),
    *(
        "lastEvaluationTime",
        "lastConclusiveEvaluationTime",
        "metricResults",
        "observedTrafficWeight",
        "measuredRequestShare",
    ),
    *("rolledBackRevisionHash", "failed", "analysisConfigInvalid", "promotedThrough", "preStepHold"),
}


class Replica:
    """One observer's keeper and what it would store next."""

    def __init__(self, client: ApiClient) -> None:
        told = WantedCondition(type="Accepted", status="True", reason="Valid")
        self.keeper = ClusterKeeper(client, TurnedClock(), lambda _: [told])
        self.version = ABSENT
        self.state: CanaryState | None = None

    async def load(self) -> None:
        self.version, self.state = await self.keeper.load(KEY)

    async def store(self, counted: int) -> bool:
        made = definition(analysis(native()))
        run = Run(target="t", canary="new", stable="old")
        outcome = evaluate(made, self.state, Observations(run=run), Instant(0.0, T0 + counted))
        state = msgspec.structs.replace(outcome.state, counted=counted)
        swapped = await self.keeper.swap(KEY, self.version, state, status_of(made, run, outcome))
        if swapped is not None:
            self.version, self.state = swapped, state
        return swapped is not None


async def test_a_state_comes_back_as_it_was_stored_whoever_reads_it() -> None:
    async with api() as (kube, client):
        put(kube, spec=spec())
        one, two = Replica(client), Replica(client)
        await one.load()
        assert one.state is None
        assert await one.store(7)
        await two.load()
        assert (two.version, two.state) == (one.version, one.state)
        status = kube.objects[OBJECT]["status"]
        assert (status["currentStep"], status["analysisFailedChecks"]) == (0, 0)
        assert (status["stepEnteredTime"], status["summary"]) == (
            "2023-11-14T22:13:27Z",
            {"step": "1/1", "failed": "0/3"},
        )
        assert [each["type"] for each in status["conditions"]] == ["Accepted"]


async def test_two_replicas_never_both_store_over_one_version() -> None:
    async with api() as (kube, client):
        put(kube, spec=spec())
        one, two = Replica(client), Replica(client)
        await one.load()
        await two.load()
        assert [await one.store(1), await two.store(1)] == [True, False]
        await two.load()
        assert two.state is not None
        assert two.state.counted == 1
        assert await two.store(2)
        assert not await one.store(2)


async def test_an_object_made_anew_under_its_name_inherits_nothing() -> None:
    async with api() as (kube, client):
        put(kube, spec=spec())
        one = Replica(client)
        await one.load()
        assert await one.store(5)
        kube.delete("canaryanalyses", "c", base=BASE)
        put(kube, spec=spec())
        assert not await one.store(6)
        await one.load()
        assert one.state is None


@pytest.mark.parametrize("code", [403, 500, 503])
async def test_a_server_that_does_not_take_it_is_trouble_and_not_a_count(code: int) -> None:
    async with api() as (kube, client):
        put(kube, spec=spec())
        one = Replica(client)
        await one.load()
        kube.faults.append(("PATCH", code, "no"))
        with pytest.raises(KeepError, match="cannot be written"):
            await one.store(1)
        kube.faults.append(("GET", code, "no"))
        with pytest.raises(KeepError, match="cannot be read"):
            await one.load()


async def test_a_damaged_state_is_named_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async with api() as (kube, client):
        put(kube, spec=spec(), status={"stored": '{"target":3}'})
        one = Replica(client)
        await one.load()
        assert one.state is None
        assert "the stored state of ns/c cannot be read" in caplog.text
        assert await one.store(1)


STATE = {"target": "t", "canary": "new", "plan": "p"}
DAMAGED = {
    "a step before the first": {"step": -1},
    "a count below none": {"failed_checks": -3},
    "a count beyond any": {"counted": 2**62},
    "a time before any": {"watched_from": -0.5},
    "a time that cannot be written": {"step_entered": 1e18},
    "a time beyond the clock": {"evaluated_at": 1e300},
    "a parked run out of time": {"park": {"reason": "Rollback", "time": 1e18}},
    "no state": [],
}


@pytest.mark.parametrize("more", DAMAGED.values(), ids=DAMAGED)
def test_a_state_that_would_stop_everybody_is_damaged(more: Any) -> None:
    """Who may write a status may write this: it is named and replaced, and the other analyses go on."""
    stored = json.dumps({**STATE, **more} if isinstance(more, dict) else more)
    made = held({"metadata": {"name": "c", "namespace": "ns"}, "status": {"stored": stored}})
    assert made.state is None
    assert "cannot be read" in made.damaged
    assert held({"status": {"stored": json.dumps(STATE)}}).state is not None


class Cluster:
    """A whole `ClusterCanaries` without Pods: judging runs, nothing can be measured."""

    def __init__(self, client: ApiClient, namespaces: tuple[str, ...] = (), **settings: Any) -> None:
        self.settings = Settings(canary=CanarySettings(**settings))
        self.clock = TurnedClock()
        store = Store(self.clock, policy_of(self.settings), limits_of(self.settings), SelfMetrics("1", "3"))
        self.canaries = Canaries(store, self.clock, self.settings)
        self.owned = True
        self.cluster = ClusterCanaries(
            client,
            self.clock,
            self.canaries,
            owns=lambda _: self.owned,
            chance=lambda: 0.5,
            namespaces=namespaces,
            tuning=QUICK,
        )

    def problems(self, key: DeploymentKey = KEY) -> tuple[str, ...]:
        view = self.canaries.canary(key)
        return () if view is None else view.problems


@contextlib.asynccontextmanager
async def following(client: ApiClient, namespaces: tuple[str, ...] = (), **settings: Any) -> AsyncIterator[Cluster]:
    made = Cluster(client, namespaces, **settings)
    tasks = [asyncio.ensure_future(each()) for each in (made.cluster.run, made.canaries.run)]
    try:
        yield made
    finally:
        for task in tasks:
            assert not task.done(), task
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def status(kube: FakeKube, name: str = "c") -> dict[str, Any]:
    found = kube.objects.get((f"{BASE}/canaryanalyses", "ns", name), {}).get("status", {})
    return dict(found)


def condition(kube: FakeKube, kind: str) -> tuple[str, str]:
    found = [each for each in status(kube).get("conditions", ()) if each["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


async def test_an_object_is_judged_and_answers_in_its_status() -> None:
    async with api() as (kube, client), following(client) as made:
        put(kube, spec=spec())
        await until(lambda: status(kube).get("decision"))
        assert (status(kube)["decision"], status(kube)["reason"]) == ("Hold", "Capacity")
        assert condition(kube, "Accepted") == ("True", "Valid")
        assert made.canaries.canary(KEY) is not None
        kube.delete("canaryanalyses", "c", base=BASE)
        await until(lambda: made.canaries.canary(KEY) is None)


async def test_what_cannot_be_judged_says_each_fault_and_an_edit_mends_it() -> None:
    async with api() as (kube, client), following(client) as made:
        put(kube, spec=spec({**METRIC, "threshold": "NaN"}))
        await until(lambda: condition(kube, "Accepted") == ("False", "Invalid"))
        (told,) = status(kube)["conditions"]
        assert told["message"].startswith("spec.steps[0].analysis.metrics[0].threshold: found")
        assert made.canaries.canary(KEY) is None
        put(kube, spec=spec(), status=status(kube))
        await until(lambda: condition(kube, "Accepted") == ("True", "Valid"))


async def test_only_the_owner_judges_and_a_new_owner_goes_on() -> None:
    async with api() as (kube, client), following(client) as made:
        made.owned = False
        put(kube, spec=spec())
        await until(lambda: made.canaries.canary(KEY))
        await asyncio.sleep(0.3)
        assert status(kube) == {}
        view = made.canaries.canary(KEY)
        assert view is not None
        assert view.stale
        made.owned = True
        await until(lambda: status(kube).get("decision"))
        first = status(kube)["stepEnteredTime"]
        made.owned = False
        async with following(client) as other:
            await until(lambda: (other.canaries.canary(KEY) or view).status)
            assert status(kube)["stepEnteredTime"] == first


AUTH = {"source": {"providerRef": {"name": "main"}, "authRef": {"name": "prom", "key": "token"}}}
PROVIDERS = (CanaryProvider(name="main", server_address="http://127.0.0.1:9"),)
LISTED = (CanarySecret(namespace="ns", name="prom"),)


@pytest.mark.parametrize(
    ("data", "listed", "reason"),
    [
        (None, LISTED, Reason.AUTH_SECRET_MISSING),
        ({"token": "dG9r"}, (), Reason.AUTH_SECRET_MISSING),
        ({"other": "dG9r"}, LISTED, Reason.AUTH_SECRET_KEY_MISSING),
        ({"token": ""}, LISTED, Reason.AUTH_SECRET_EMPTY),
        ({"token": base64.b64encode(b"a\nb").decode()}, LISTED, Reason.AUTH_SECRET_INVALID),
        ({"token": "dG9r"}, LISTED, None),
    ],
    ids=["no Secret", "not listed", "no key", "empty", "a newline inside", "good"],
)
async def test_a_secret_is_read_by_its_listed_name_and_what_is_wrong_is_said_at_once(
    data: dict[str, str] | None, listed: tuple[CanarySecret, ...], reason: Reason | None
) -> None:
    async with api() as (kube, client):
        if data is not None:
            kube.put("secrets", "prom", data=data)
        put(kube, spec=spec(QUERY, **AUTH))
        async with following(client, providers=PROVIDERS, secrets=listed) as made:
            await until(lambda: made.canaries.canary(KEY))
            wanted = ("True", "Ready") if reason is None else ("False", str(reason))
            await until(lambda: condition(kube, "SourceReady") == wanted)
            assert [str(reason) in each for each in made.problems()] == ([] if reason is None else [True])
        asked = [path for path in kube.paths("GET") if "secrets" in path]
        assert set(asked) == ({"/api/v1/namespaces/ns/secrets/prom"} if listed else set())


async def test_a_provider_that_is_not_bound_is_said_at_once() -> None:
    async with api() as (kube, client), following(client, providers=PROVIDERS):
        put(kube, spec=spec(QUERY, source={"providerRef": {"name": "other"}}))
        await until(lambda: condition(kube, "SourceReady") == ("False", "ProviderUnbound"))


async def test_a_run_of_ome_has_an_object_that_keeps_its_state_and_goes_with_its_service() -> None:
    async with api() as (kube, client), following(client) as made:
        body = service()
        body["metadata"] = {}
        kube.put(SERVICES.plural, "chat", base="/apis/ome.io/v1beta1", **body)
        await until(lambda: status(kube, "ome-chat-engine").get("decision"))
        held = kube.objects[(f"{BASE}/canaryanalyses", "ns", "ome-chat-engine")]
        (owner,) = held["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("InferenceService", "chat")
        assert (status(kube, "ome-chat-engine")["targetID"], held["status"]["observedTrafficWeight"]) == ("t-1", 10)
        assert len(made.canaries.canaries()) == 1, "the object is not judged a second time"
        assert any("ProviderUnbound" in each for each in made.problems(DeploymentKey("ns", "ome-chat-engine")))
        kube.put(
            SERVICES.plural,
            "next",
            base="/apis/ome.io/v1beta1",
            spec={"rollout": {"groups": [{"policyRef": {"name": "p"}}]}},
        )
        await until(lambda: made.cluster.problems)
        assert "PolicyNotFound" in made.cluster.problems[0]
        kube.put(POLICIES.plural, "p", base="/apis/ome.io/v1beta1", spec={"canary": {"steps": [{"traffic": 100}]}})
        await until(lambda: not made.cluster.problems)


async def test_an_object_made_anew_before_anybody_looked_has_nothing_of_the_earlier() -> None:
    """Deleted and made again within a moment: the verdict of the dead object is no answer about the new one."""
    async with api() as (kube, client), following(client):
        put(kube, spec=spec())
        await until(lambda: status(kube).get("decision"))
        kube.delete("canaryanalyses", "c", base=BASE)
        put(kube, spec=spec())
        assert status(kube) == {}
        await until(lambda: status(kube).get("decision"))


async def test_the_object_of_a_run_comes_back_and_is_that_of_the_service_that_is_there() -> None:
    async with api() as (kube, client), following(client) as made:
        body, base, name = service(), "/apis/ome.io/v1beta1", "ome-chat-engine"
        body["metadata"] = {}

        def owner() -> str:
            held = kube.objects.get((f"{BASE}/canaryanalyses", "ns", name))
            return "" if held is None else held["metadata"]["ownerReferences"][0]["uid"]

        kube.put(SERVICES.plural, "chat", base=base, **body)
        await until(lambda: status(kube, name).get("decision"))
        first = owner()
        kube.delete("canaryanalyses", name, base=BASE)
        await until(lambda: status(kube, name).get("decision"))
        assert owner() == first
        kube.delete(SERVICES.plural, "chat", base=base)
        kube.put(SERVICES.plural, "chat", base=base, **body)
        await until(lambda: not made.canaries.canaries())
        assert owner() == first, "the garbage collector has not come by yet, and nothing of the dead run is taken over"
        kube.delete("canaryanalyses", name, base=BASE)
        await until(lambda: status(kube, name).get("decision"))
        assert owner() not in {"", first}


async def test_endpoints_of_both_revisions_are_compared_once_they_are_known() -> None:
    """Report 22: a Service of the canary that still selects a Pod of stable must not lend it to the canary."""
    base = "/apis/discovery.k8s.io/v1"

    def put_slice(kube: FakeKube, revision: str, *uids: str) -> None:
        name = f"chat-engine-rev-{revision}"
        points = [{"targetRef": {"kind": "Pod", "uid": uid}} for uid in uids]
        labels = {"kubernetes.io/service-name": name}
        kube.put("endpointslices", f"{name}-x", base=base, metadata={"labels": labels}, endpoints=[*points, {}])

    async with api() as (kube, client), following(client) as made:
        body = service()
        body["metadata"] = {}
        kube.put(SERVICES.plural, "chat", base="/apis/ome.io/v1beta1", **body)
        key = DeploymentKey("ns", "ome-chat-engine")
        await until(lambda: made.canaries.canary(key))
        view = made.canaries.canary(key)
        assert view is not None
        put_slice(kube, "new", "u1")
        put_slice(kube, "other", "u9")
        await asyncio.sleep(0.3)
        assert made.cluster._endpoints(view.definition) is None, "stable's Service is not known"
        put_slice(kube, "old", "u2", "u1")
        wanted = {"new": {"u1"}, "old": {"u1", "u2"}}
        await until(lambda: made.cluster._endpoints(view.definition) == wanted)
        other = msgspec.structs.replace(view.definition, target=TargetRef(kind="ModelDeployment", name="chat"))
        assert made.cluster._endpoints(other) is None, "only OME has Services of that name"
