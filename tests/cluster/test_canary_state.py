"""CanaryAnalysis objects on a real kube-apiserver: its schema and rules, its columns, and states kept by compare-and-set."""

from __future__ import annotations

import asyncio
import copy
import urllib.error
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from observer.app.canary_cluster import ClusterKeeper
from observer.clock import SystemClock
from observer.judge.canary.evaluate import evaluate
from observer.judge.canary.plan import plan_of
from observer.judge.canary.status import status_of
from observer.kube.client import ApiClient
from observer.kube.intent import WantedCondition
from router_contract.canary import CanaryAnalysis, NativeKind, Operator
from router_contract.canary_decode import decode
from router_contract.canary_inputs import Baseline, BaselineKind, Mix, Observations, Run, Sample
from router_contract.canary_results import CanaryState, MetricResult, SampleFate, Verdict
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey
from tests.app.test_canary_cluster import following
from tests.cluster.control_plane import ControlPlane
from tests.cluster.running import client_for
from tests.judge.canary.build import (  # fmt: skip
    T0,
    analysis,
    answer,
    asked,
    definition,
    hist,
    latencies,
    measured,
    native,
    promql,
    relative,
    window,
)
from tests.kube.steady import until

pytestmark = pytest.mark.cluster
CRD = Path(__file__).parents[2] / "charts/observer/crds/canaryanalyses.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/observer.modeldeployment.io/v1alpha1"
QUERY = {"name": "errors", "query": "up", "operator": "LT", "threshold": "0.01"}
NATIVE = {"name": "ttft", "relative": {"margin": 1.25}, "native": {"kind": "quantile", "signal": "time-to-first-token", "quantile": 0.95}}  # fmt: skip
SHARE = {
    "kind": "ratio",
    "signal": "router-worker-outcomes",
    "total": "router-worker-outcomes",
    "where": {"outcome": "failure"},
}
WORKERS = {"name": "share", "operator": "LT", "threshold": "0.1", "native": SHARE}
MERGE = "application/merge-patch+json"
ANALYSIS = {"interval": "30s", "failureLimit": 3, "warmUp": {"time": "60s"}, "metrics": [QUERY, NATIVE]}
SPEC: dict[str, Any] = {
    "targetRef": {"kind": "ModelDeployment", "name": "chat"},
    "component": "engine",
    "stable": {"revision": "1"},
    "canary": {"revision": "2"},
    "readyTimeout": "15m",
    "source": {"providerRef": {"name": "main"}},
    "steps": [{"traffic": 10, "capacity": "25%", "analysis": ANALYSIS}, {"traffic": 100, "pause": {}}],
}


@pytest.fixture
def defined(cluster: ControlPlane) -> ControlPlane:
    """The control plane with our definition, served."""
    try:
        cluster.call("POST", CRDS, YAML(typ="safe", pure=True).load(CRD.read_text()))
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise AssertionError(error.read().decode()) from error
    cluster.kubectl(
        "wait", "--for=condition=Established", "--timeout=20s", f"crd/{'canaryanalyses.observer.modeldeployment.io'}"
    )
    return cluster


@pytest.fixture
async def client(defined: ControlPlane) -> AsyncIterator[ApiClient]:
    async with client_for(defined.admin) as made:
        yield made


def create(cluster: ControlPlane, namespace: str, spec: dict[str, Any], name: str = "c") -> dict[str, Any]:
    body = {
        "apiVersion": "observer.modeldeployment.io/v1alpha1",
        "kind": "CanaryAnalysis",
        "metadata": {"name": name},
        "spec": spec,
    }
    return dict(cluster.call("POST", f"{GROUP}/namespaces/{namespace}/canaryanalyses?fieldValidation=Strict", body))


def test_what_is_sound_is_taken_whole_and_read_by_our_reader(defined: ControlPlane) -> None:
    space = defined.namespace("canary-sound")
    made = create(defined, space, SPEC)
    assert made["spec"] == SPEC
    found = decode(made)
    assert isinstance(found, CanaryAnalysis), found


def changed(path: str, value: Any) -> dict[str, Any]:
    """`SPEC` with one value set, or removed where it is ``None``."""
    made = copy.deepcopy(SPEC)
    at: Any = made
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step) if step.isdigit() else step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return made


METRIC = "steps.0.analysis.metrics.0"
REFUSED: dict[str, tuple[str, Any, str]] = {
    "equal revisions": ("canary.revision", "1", "two different revisions"),
    "another component": ("component", "decoder", "spec.component"),
    "no interval": ("steps.0.analysis.interval", None, "interval"),
    "a duration without a unit": ("steps.0.analysis.interval", "30", "interval"),
    "failure limit 0": ("steps.0.analysis.failureLimit", 0, "failureLimit"),
    "an unknown policy": ("steps.0.analysis.onInconclusive", "Maybe", "onInconclusive"),
    "threshold NaN": (f"{METRIC}.threshold", "NaN", "threshold"),
    "threshold Inf": (f"{METRIC}.threshold", "+Inf", "threshold"),
    "no threshold": (f"{METRIC}.threshold", None, "operator and threshold"),
    "an unknown operator": (f"{METRIC}.operator", "EQ", "operator"),
    "query and native": (f"{METRIC}.native", {"kind": "rate", "signal": "requests-finished"}, "either query or native"),
    "neither": (f"{METRIC}.query", None, "either query or native"),
    "relative with a threshold": ("steps.0.analysis.metrics.1.threshold", "1", "neither operator nor threshold"),
    "a quantile of 1": ("steps.0.analysis.metrics.1.native.quantile", 1, "quantile"),
    "a ratio without total": ("steps.0.analysis.metrics.1.native", {"kind": "ratio", "signal": "s"}, "has a total"),
    "two sources": ("source.serverAddress", "http://p:9090", "not both"),
    "a source with a user": ("source", {"serverAddress": "http://u:p@p:9090"}, "serverAddress"),
    "the last step not at 100": ("steps.1.traffic", 50, "traffic 100"),
    "no step": ("steps", [], "steps"),
    "one name twice": ("steps.0.analysis.metrics", [QUERY, QUERY], "Duplicate"),
    "an unknown field": ("steps.0.analysis.failuresLimit", 3, "unknown field"),
}  # fmt: skip


def test_what_is_not_sound_is_refused_with_its_field(defined: ControlPlane) -> None:
    space = defined.namespace("canary-refused")
    for case, (path, value, words) in REFUSED.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            create(defined, space, changed(path, value))
        said = refused.value.read().decode()
        assert refused.value.code in {400, 422}, case
        assert words in said, (case, said)


def everything() -> tuple[CanaryAnalysis, list[Any]]:
    """An analysis whose one sample fills every field of a result."""
    fast, slow = hist(0, 60, 37, 3, 0, 0), hist(0, 20, 40, 40, 0, 0)
    mix = Mix(hit_rate=0.5, prompt_tokens=100.0)
    stable = Baseline(
        window=latencies(*[fast] * 10), before=latencies(*[fast] * 9, start=T0 - 900), mix=mix, kind=BaselineKind.FROZEN
    )
    gate = analysis(
        promql("up", operator=Operator.LT),
        native(name="share"),
        relative(NativeKind.QUANTILE, quantile=0.95, name="slower"),
        native(name="dry", required=False),
    )
    seen = [
        msgspec.structs.replace(asked(answer(0.9, 0.1, infos=("i",))), metric="up"),
        msgspec.structs.replace(
            measured(window(*[(20, 100)] * 10), expected=4, missing=("p",), warming=("w",), unattributed=("u",)),
            metric="share",
        ),
        msgspec.structs.replace(measured(latencies(*[slow] * 10), stable, mix=mix), metric="slower"),
        msgspec.structs.replace(measured(window((0, 2))), metric="dry"),
    ]
    return definition(gate), seen


async def test_every_field_of_a_status_is_declared_and_comes_back(defined: ControlPlane, client: ApiClient) -> None:
    space = defined.namespace("canary-status")
    create(defined, space, SPEC)
    made, seen = everything()
    run = Run(target="t", canary="new", stable="old", weight=10)
    first = evaluate(made, None, Observations(run=run), Instant(0.0, T0))
    sample = Sample(
        id=1,
        step=0,
        canary="new",
        plan=plan_of(made, 0),
        started=T0 + 600.0,
        completed=T0 + 600.0,
        observations=tuple(seen),
    )
    outcome = evaluate(made, first.state, Observations(run=run, sample=sample), Instant(600.0, T0 + 600.0))
    assert outcome.fate is SampleFate.COUNTED
    whole = [
        msgspec.structs.replace(each, low=0.1, high=0.2, enough_in_seconds=3.0, worst=(("pod", "a"),), infos=("i",), baseline_age_seconds=1.0, aborted=2.0)
        for each in outcome.verdicts
    ]  # fmt: skip
    filled = {
        name for each in whole for name in MetricResult.__struct_fields__ if getattr(each, name) not in (None, (), "")
    }
    assert filled == set(MetricResult.__struct_fields__), set(MetricResult.__struct_fields__) - filled
    status = msgspec.structs.replace(
        status_of(made, run, outcome, 10), metric_results=tuple(whole[:3]), dry_run_results=tuple(whole[3:])
    )
    key = DeploymentKey(space, "c")
    told = [WantedCondition(type="Accepted", status="True", reason="Valid")]
    keeper = ClusterKeeper(client, SystemClock(), lambda _: told)
    version, state = await keeper.load(key)
    assert state is None
    assert await keeper.swap(key, version, outcome.state, status)
    assert (await keeper.load(key))[1] == outcome.state
    published = defined.call("GET", f"{GROUP}/namespaces/{space}/canaryanalyses/c")["status"]
    (share,) = [each for each in published["metricResults"] if each["name"] == "share"]
    assert (share["verdict"], share["time"]) == (str(Verdict.FAILED), "2023-11-14T22:23:20Z")
    row = defined.kubectl("get", "mdca", "-n", space).splitlines()
    assert row[0].split() == ["NAME", "TARGET", "STEP", "VERDICT", "DECISION", "FAILED", "REASON", "AGE"]
    assert row[1].split()[:6] == ["c", "chat", "1/1", "Failed", "Hold", "1/3"]


async def test_two_replicas_that_race_never_both_count_a_sample(defined: ControlPlane, client: ApiClient) -> None:
    space = defined.namespace("canary-race")
    create(defined, space, SPEC)
    key, made = DeploymentKey(space, "c"), definition(analysis(native()))
    run = Run(target="t", canary="new", stable="old")
    wins = [0, 0]

    async def replica(place: int) -> None:
        keeper = ClusterKeeper(client, SystemClock(), lambda _: [])
        version, state = await keeper.load(key)
        for _ in range(15):
            outcome = evaluate(made, state, Observations(run=run), Instant(0.0, T0))
            counted = 0 if state is None else state.counted
            fresh: CanaryState = msgspec.structs.replace(outcome.state, counted=counted + 1)
            swapped = await keeper.swap(key, version, fresh, status_of(made, run, outcome))
            if swapped is not None:
                wins[place] += 1
                version, state = swapped, fresh
            else:
                version, state = await keeper.load(key)

    await asyncio.gather(replica(0), replica(1))
    _, state = await ClusterKeeper(client, SystemClock(), lambda _: []).load(key)
    assert state is not None
    print(f"figure: {wins[0]} and {wins[1]} of 15 swaps each took; {state.counted} counted")
    assert state.counted == sum(wins)
    assert all(wins)


async def test_an_object_made_anew_under_its_name_inherits_nothing(defined: ControlPlane, client: ApiClient) -> None:
    space = defined.namespace("canary-anew")
    create(defined, space, SPEC)
    key, made = DeploymentKey(space, "c"), definition(analysis(native()))
    run = Run(target="t", canary="new", stable="old")
    keeper = ClusterKeeper(client, SystemClock(), lambda _: [])
    version, _ = await keeper.load(key)
    outcome = evaluate(made, None, Observations(run=run), Instant(0.0, T0))
    version = await keeper.swap(key, version, outcome.state, status_of(made, run, outcome)) or ""
    assert version
    defined.call("DELETE", f"{GROUP}/namespaces/{space}/canaryanalyses/c")
    create(defined, space, SPEC)
    assert await keeper.swap(key, version, outcome.state, status_of(made, run, outcome)) is None
    assert (await keeper.load(key))[1] is None


async def test_an_object_is_judged_and_a_second_life_goes_on_where_the_first_ended(
    defined: ControlPlane, client: ApiClient
) -> None:
    space = defined.namespace("canary-lives")
    create(defined, space, changed("steps.0.analysis.metrics", [WORKERS]))

    def told() -> dict[str, Any]:
        return dict(defined.call("GET", f"{GROUP}/namespaces/{space}/canaryanalyses/c").get("status", {}))

    async with following(client, namespaces=(space,)):
        await until(lambda: told().get("decision"), 20.0)
    first = told()
    assert (first["decision"], first["reason"]) == ("Hold", "Capacity")
    async with following(client, namespaces=(space,)) as second:
        await until(lambda: second.canaries.canaries() and second.canaries.canaries()[0].status, 20.0)
        defined.call("PATCH", f"{GROUP}/namespaces/{space}/canaryanalyses/c", {"spec": {"readyTimeout": "20m"}}, MERGE)
        await asyncio.sleep(1.0)
        created = create(defined, space, changed("steps.0.analysis.metrics", [{**WORKERS, "threshold": "7"}]), "bad")
        assert created
        bad = f"{GROUP}/namespaces/{space}/canaryanalyses/bad"
        await until(lambda: defined.call("GET", bad).get("status", {}).get("conditions"), 20.0)
        (condition,) = defined.call("GET", bad)["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Accepted", "False", "Invalid")
        assert "wanted a share from 0 to 1" in condition["message"]
    second_told = told()
    assert second_told["stepEnteredTime"] == first["stepEnteredTime"]
    assert [each["status"] for each in second_told["conditions"]] == ["True", "True"]
