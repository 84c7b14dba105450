"""Canary analyses end to end: files, the simulated fleet, samples, decisions, the gate, a restart in a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner
from msgspec.structs import replace

from observer.app.watcher import Watcher
from observer.cli.canary import canary
from observer.clock import SystemClock
from observer.collect.recording import Recorder
from observer.persist import StateFile
from observer.settings import load_files
from observer.simulate.fleet import SimulatedFleet
from router_contract.canary_results import CanaryState, Decision, Reason, Verdict
from router_contract.canary_view import CanaryView
from router_contract.targets import DeploymentKey
from router_contract.verdicts import Status
from tests.whole.world import SETTINGS, Asking, asking, small_fleet

KEY = DeploymentKey("demo", "chat-2")
GATE = "/api/v1/canary/demo/chat-2/engine"
ERRORS: dict[str, Any] = {
    "name": "errors",
    "operator": "LT",
    "threshold": "0.01",
    "native": {
        "kind": "ratio",
        "signal": "router-worker-outcomes",
        "total": "router-worker-outcomes",
        "where": {"outcome": "failure"},
    },
}


def analysis(**gate: Any) -> dict[str, Any]:
    """An analysis of revision 2 against 1 with one step."""
    told = {"interval": "500ms", "failureLimit": 1, "stallTimeout": "10m", "metrics": [ERRORS]} | gate
    return {
        "apiVersion": "observer.modeldeployment.io/v1alpha1",
        "kind": "CanaryAnalysis",
        "metadata": {"namespace": "demo", "name": "chat-2"},
        "spec": {
            "targetRef": {"kind": "ModelDeployment", "name": "chat"},
            "component": "engine",
            "stable": {"revision": "1"},
            "canary": {"revision": "2"},
            "steps": [{"analysis": told}],
        },
    }


@asynccontextmanager
async def judged(
    fleet: SimulatedFleet, folder: Path, document: dict[str, Any], state: StateFile | None = None
) -> AsyncIterator[Asking]:
    """An observer of a fleet whose second replica is the canary."""
    folder.joinpath("canary.json").write_bytes(orjson.dumps(document))
    fleet.write_document(folder / "fleet.json")
    configuration = load_files([folder / "fleet.json", folder / "canary.json"])
    watcher = Watcher(SETTINGS, SystemClock(), listen="127.0.0.1:0", state=state)
    async with asking(watcher) as asked:
        await watcher.watch(configuration.deployments)
        await watcher.canaries.watch(configuration.canaries)
        yield asked


@asynccontextmanager
async def canary_fleet(rate: float) -> AsyncIterator[SimulatedFleet]:
    async with SimulatedFleet(small_fleet(rate=rate)) as fleet:
        fleet.deployments["chat"].replicas[1].revision = "2"
        yield fleet


def view(asked: Asking) -> CanaryView:
    found = asked.watcher.canaries.canary(KEY)
    assert found is not None
    return found


def decided(asked: Asking, decision: Decision) -> bool:
    status = view(asked).status
    return status is not None and status.decision is decision


def told(asked: Asking) -> Reason | None:
    """The reason of the first metric of the last sample."""
    status = view(asked).status
    return status.metric_results[0].reason if status is not None and status.metric_results else None


async def post(asked: Asking, path: str) -> int:
    async with aiohttp.ClientSession() as session, session.post(asked.watcher.url + path) as response:
        return response.status


async def test_errors_of_the_canary_roll_it_back_and_every_gate_says_so(tmp_path: Path) -> None:
    async with canary_fleet(rate=60.0) as fleet, judged(fleet, tmp_path, analysis()) as asked:
        fleet.deployments["chat"].replicas[1].engine.behaviour.error_rate = 0.05
        await asked.until(lambda: decided(asked, Decision.ROLLBACK), "rolled back", 60.0)
        status = view(asked).status
        assert status is not None
        assert (status.reason, status.verdict) == (Reason.THRESHOLD_BREACHED, Verdict.FAILED)
        assert view(asked).stalls_at is None, "what is rejected stalls no more"
        result = status.metric_results[0]
        assert result.measured_by == "router"
        assert result.estimate is not None
        assert 0.01 < result.estimate < 0.2
        gate = await asked.get(GATE)
        assert (gate["verdict"], gate["decision"], gate["reason"]) == ("Failed", "Rollback", "ThresholdBreached")
        assert [await post(asked, f"{GATE}/flagger/{hook}") for hook in ("confirm", "rollback")] == [409, 200]
        answer = await asked.get('/prometheus/api/v1/query?query=modeldeployment_canary_verdict{name="chat-2"}')
        assert [each["value"][1] for each in answer["data"]["result"]] == ["0"]
        series = (await asked.metrics())["modeldeployment_canary_verdict"]
        assert [number for _, number in series] == [0.0]
        await asked.until(
            lambda: any(
                each.type == "CanaryAnalysis" and (each.status, each.reason) == (Status.FALSE, "ThresholdBreached")
                for each in asked.report().conditions
            ),
            "the condition",
        )


async def test_a_healthy_canary_advances_and_the_hook_confirms(tmp_path: Path) -> None:
    lenient = ERRORS | {"threshold": "0.2"}
    async with canary_fleet(rate=60.0) as fleet, judged(fleet, tmp_path, analysis(metrics=[lenient])) as asked:
        await asked.until(lambda: decided(asked, Decision.ADVANCE), "advanced", 60.0)
        status = view(asked).status
        assert status is not None
        assert (status.verdict, status.current_step) == (Verdict.PASSED, 1)
        assert [await post(asked, f"{GATE}/flagger/{hook}") for hook in ("confirm", "rollback")] == [200, 409]
        other = await asked.get(f"{GATE}?revision=3")
        assert (other["verdict"], other["decision"], other["reason"]) == ("Inconclusive", "Hold", "RevisionMismatch")
        answer = await asked.get('/prometheus/api/v1/query?query=modeldeployment_canary_verdict{revision="2"}')
        assert [each["value"][1] for each in answer["data"]["result"]] == ["1"]
        await asked.until(lambda: "All 1 steps are done" in ((view(asked).status or status).message), "the sentence")
        document = await asked.get("/api/v1/namespaces/demo/canaries/chat-2")
        assert document["status"]["metricResults"][0]["passed"] is True
        assert document["status"]["decision"] == "Advance"


async def test_without_traffic_the_analysis_stalls_and_spends_no_failure(tmp_path: Path) -> None:
    document = analysis(interval="300ms", deadline="300ms", stallTimeout="2s")
    async with canary_fleet(rate=0.001) as fleet, judged(fleet, tmp_path, document) as asked:
        await asked.until(lambda: decided(asked, Decision.FAILED), "parked", 30.0)
        status = view(asked).status
        assert status is not None
        assert status.reason is Reason.ANALYSIS_STALLED
        assert (status.failed_checks, status.verdict) == (0, Verdict.INCONCLUSIVE)
        answer = await asked.get("/prometheus/api/v1/query?query=modeldeployment_canary_verdict")
        assert answer["data"] == {"resultType": "vector", "result": []}
        gate = await asked.get(GATE)
        assert (gate["verdict"], gate["decision"], gate["reason"]) == ("Inconclusive", "Failed", "AnalysisStalled")
        assert [await post(asked, f"{GATE}/flagger/{hook}") for hook in ("confirm", "rollback")] == [409, 409]


async def test_a_revision_without_pods_holds_for_capacity(tmp_path: Path) -> None:
    document = analysis(interval="300ms")
    document["spec"]["canary"]["revision"] = "none"
    async with canary_fleet(rate=5.0) as fleet, judged(fleet, tmp_path, document) as asked:
        await asked.until(lambda: view(asked).status is not None, "looked at")
        await asyncio.sleep(1.0)
        status = view(asked).status
        assert status is not None
        assert (status.decision, status.reason, status.sample_id) == (Decision.HOLD, Reason.CAPACITY, 0)


async def test_a_restart_in_a_step_neither_forgets_nor_counts_twice(tmp_path: Path) -> None:
    document = analysis(metrics=[ERRORS | {"threshold": "0.2"}], minPasses=1000)
    file = tmp_path / "state"

    async def life(fleet: SimulatedFleet, more: int) -> tuple[CanaryState, list[tuple[int, int]]]:
        """One life of the observer: some more passes; each (sample id, passes) that was shown."""
        seen: list[tuple[int, int]] = []
        with StateFile(file) as state:
            _, before = state.canary(KEY)
            start = 0 if before is None else before.passes

            def enough(asked: Asking) -> bool:
                _, stored = state.canary(KEY)
                status = view(asked).status
                if stored is not None and status is not None:
                    # What is shown was stored before.
                    assert stored.counted >= status.sample_id
                    seen.append((stored.counted, stored.passes))
                return stored is not None and stored.passes >= start + more

            async with judged(fleet, tmp_path, document, state) as asked:
                await asked.until(lambda: enough(asked), "passes", 60.0)
            _, after = state.canary(KEY)
        assert after is not None
        return after, seen

    async with canary_fleet(rate=60.0) as fleet:
        first, shown = await life(fleet, 3)
        second, shown_after = await life(fleet, 3)
    assert second.step_entered == first.step_entered
    assert (second.target, second.plan, second.step) == (first.target, first.plan, 0)
    assert shown_after[0] >= (first.counted, first.passes), "the second life goes on where the first ended"
    for counts in (shown, shown_after):
        assert counts == sorted(counts)
    assert second.passes > first.passes
    assert second.counted >= second.passes


async def test_two_observers_of_one_state_never_count_one_sample_each(tmp_path: Path) -> None:
    document = analysis(metrics=[ERRORS | {"threshold": "0.2"}], minPasses=1000)
    async with canary_fleet(rate=60.0) as fleet:
        with StateFile(tmp_path / "state") as one, StateFile(tmp_path / "state") as two:
            async with judged(fleet, tmp_path, document, one) as here, judged(fleet, tmp_path, document, two) as there:
                await here.until(lambda: (one.canary(KEY)[1] or first()).passes >= 4, "passes", 60.0)
                counts = [
                    sum(each.tallies[key] for each in asked.watcher.canaries._canaries.values() for key in each.tallies)
                    for asked in (here, there)
                ]
                _, state = one.canary(KEY)
                assert state is not None
                assert sum(counts) <= state.counted


def first() -> CanaryState:
    return CanaryState(target="", canary="", plan="")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/canary/demo/other/engine", 404),
        ("/api/v1/canary/demo/chat-2/router", 404),
        (f"{GATE}?step=x", 400),
        (f"{GATE}?maxAge=soon", 400),
        ("/prometheus/api/v1/query?query=up", 422),
        ("/prometheus/api/v1/query", 400),
        ("/prometheus/api/v1/query?query=vector(1)", 200),
    ],
)
async def test_what_cannot_be_answered_is_no_pass(tmp_path: Path, path: str, code: int) -> None:
    async with canary_fleet(rate=1.0) as fleet, judged(fleet, tmp_path, analysis()) as asked:
        await asked.until(lambda: view(asked).status is not None, "looked at")
        async with aiohttp.ClientSession() as session, session.get(asked.watcher.url + path) as response:
            assert response.status == code


SLOWER: dict[str, Any] = {
    "name": "ttft",
    "relative": {"margin": 1.25},
    "cacheGuard": {"enabled": False},
    "native": {"kind": "quantile", "signal": "time-to-first-token", "quantile": 0.9},
}


async def test_a_slower_canary_is_told_by_comparison_as_the_engines_measure_it(tmp_path: Path) -> None:
    async with canary_fleet(rate=60.0) as fleet, judged(fleet, tmp_path, analysis(metrics=[SLOWER])) as asked:
        fleet.deployments["chat"].replicas[1].engine.behaviour.slowdown = 8.0
        await asked.until(lambda: decided(asked, Decision.ROLLBACK), "rolled back", 60.0)
        status = view(asked).status
        assert status is not None
        assert (status.reason, status.metric_results[0].measured_by) == (Reason.MARGIN_EXCEEDED, "engine")
        assert status.metric_results[0].stable_samples


async def test_a_pod_that_cannot_be_read_is_missing_and_nothing_passes(tmp_path: Path) -> None:
    finished = {"kind": "rate", "signal": "requests-finished"}
    metric = {"name": "finished", "operator": "GTE", "threshold": "0", "native": finished}
    document = analysis(metrics=[metric], minPasses=1000)
    async with canary_fleet(rate=30.0) as fleet, judged(fleet, tmp_path, document) as asked:
        await asked.until(lambda: told(asked) is Reason.WITHIN_THRESHOLD, "passed", 30.0)
        await fleet.deployments["chat"].replicas[1].engine.close()
        await asked.until(lambda: told(asked) is Reason.MISSING_PODS, "missing", 30.0)
        status = view(asked).status
        assert status is not None
        result = status.metric_results[0]
        assert status.verdict is Verdict.INCONCLUSIVE
        assert (result.expected_pods, result.missing_pods) == (1, ("chat-server-1",))


async def test_what_no_program_tells_is_unavailable_and_not_zero(tmp_path: Path) -> None:
    lost = ERRORS | {"native": ERRORS["native"] | {"where": {"result": "failure"}}}
    async with canary_fleet(rate=30.0) as fleet, judged(fleet, tmp_path, analysis(metrics=[lost])) as asked:
        await asked.until(lambda: told(asked) is Reason.SIGNAL_UNAVAILABLE, "unavailable", 30.0)
        status = view(asked).status
        assert status is not None
        assert "by result, worker" in status.metric_results[0].message


async def test_a_cold_canary_holds_until_it_is_warm(tmp_path: Path) -> None:
    metric = ERRORS | {"threshold": "0.2"}
    document = analysis(metrics=[metric], warmUp={"time": "4s", "requests": 5})
    async with canary_fleet(rate=60.0) as fleet, judged(fleet, tmp_path, document) as asked:
        await asked.until(lambda: told(asked) is Reason.WARMING_UP, "warming", 30.0)
        status = view(asked).status
        assert status is not None
        assert status.metric_results[0].warming_pods == ("chat-server-1",)
        await asked.until(lambda: decided(asked, Decision.ADVANCE), "advanced", 60.0)


PROMETHEUS = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Settings
canary:
  allowServerAddress: {allow}
  providers:
  - {{name: prom, serverAddress: "{url}"}}
security: {{allowCIDRs: [127.0.0.0/8]}}
"""


@asynccontextmanager
async def queried(folder: Path, source: dict[str, Any], answers: list[str], query: str = "up") -> AsyncIterator[Asking]:
    """An observer whose canary is judged by one query; ``answers`` gets each query that arrived."""

    async def answer(request: web.Request) -> web.Response:
        form = await request.post()
        answers.append(str(form["query"]))
        point = {"metric": {}, "value": [time.time(), "0.5"]}
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": [point]}})

    app = web.Application()
    app.add_routes([web.post("/api/v1/query", answer)])
    metric = {"name": "up", "operator": "LT", "threshold": "1", "query": query}
    document = analysis(metrics=[metric])
    document["spec"]["source"] = source
    async with TestServer(app) as server, canary_fleet(rate=5.0) as fleet:
        folder.joinpath("settings.yaml").write_text(PROMETHEUS.format(allow="false", url=server.make_url("")))
        folder.joinpath("canary.json").write_bytes(orjson.dumps(document))
        fleet.write_document(folder / "fleet.json")
        made = load_files([folder / "fleet.json", folder / "canary.json", folder / "settings.yaml"])
        settings = replace(SETTINGS, canary=made.settings.canary, security=made.settings.security)
        watcher = Watcher(settings, SystemClock(), listen="127.0.0.1:0")
        async with asking(watcher) as asked:
            await watcher.watch(made.deployments)
            await watcher.canaries.watch(made.canaries)
            yield asked


async def test_a_query_is_rendered_sent_and_judged(tmp_path: Path) -> None:
    arrived: list[str] = []
    query = 'rate(x{service="{{ .CanaryService }}"}[1m])'
    async with queried(tmp_path, {"providerRef": {"name": "prom"}}, arrived, query) as asked:
        await asked.until(lambda: decided(asked, Decision.ADVANCE), "advanced", 30.0)
        status = view(asked).status
        assert status is not None
        assert (status.metric_results[0].value, status.metric_results[0].series) == ("0.5", 1)
    assert set(arrived) == {'rate(x{service="chat-engine-rev-2"}[1m])'}


@pytest.mark.parametrize(
    ("source", "query", "reason"),
    [
        ({"providerRef": {"name": "other"}}, "up", Reason.PROVIDER_UNBOUND),
        ({"serverAddress": "http://127.0.0.1:9"}, "up", Reason.SOURCE_FORBIDDEN),
        ({"providerRef": {"name": "prom"}, "authRef": {"name": "s", "key": "k"}}, "up", Reason.AUTH_SECRET_MISSING),
        ({"providerRef": {"name": "prom"}}, "sum(", Reason.QUERY_INVALID),
        ({"providerRef": {"name": "prom"}}, "up{x='{{ .Nothing }}'}", Reason.QUERY_INVALID),
    ],
)
async def test_what_cannot_be_asked_is_said_at_once_and_never_sent(
    tmp_path: Path, source: dict[str, Any], query: str, reason: Reason
) -> None:
    arrived: list[str] = []
    async with queried(tmp_path, source, arrived, query) as asked:
        assert any(str(reason) in problem for problem in view(asked).problems)
        await asked.until(lambda: told(asked) is reason, "the reason", 20.0)
        status = view(asked).status
        assert status is not None
        assert (status.verdict, status.decision, status.failed_checks) == (Verdict.INCONCLUSIVE, Decision.HOLD, 0)
        assert status.config_invalid
    assert arrived == []


async def test_a_recording_is_judged_again_to_the_same_end(tmp_path: Path) -> None:
    document = analysis(metrics=[ERRORS | {"threshold": "0.2"}])
    file = tmp_path / "a.obsrec"
    clock = SystemClock()
    async with canary_fleet(rate=60.0) as fleet:
        tmp_path.joinpath("canary.json").write_bytes(orjson.dumps(document))
        fleet.write_document(tmp_path / "fleet.json")
        made = load_files([tmp_path / "fleet.json", tmp_path / "canary.json"])
        told = msgspec.to_builtins(SETTINGS)
        with Recorder(file, writer="test", started=clock.now(), settings=told) as recorder:
            watcher = Watcher(SETTINGS, clock, listen="127.0.0.1:0", recorder=recorder)
            async with asking(watcher) as asked:
                await watcher.watch(made.deployments)
                await watcher.canaries.watch(made.canaries)
                await asked.until(lambda: decided(asked, Decision.ADVANCE), "advanced", 60.0)
                await asyncio.sleep(1.0)

    def judged_again() -> Any:
        arguments = ["simulate", str(file), "-a", str(tmp_path / "canary.json"), "-o", "json"]
        found = CliRunner().invoke(canary, arguments)
        assert found.exit_code == 0, found.output
        return orjson.loads(found.output)

    (found,) = await asyncio.to_thread(judged_again)
    assert [each["decision"] for each in found["moments"]][-1] == "Advance"
    assert found["moments"][0]["decision"] == "Hold"
    assert found["end"]["status"]["verdict"] == "Passed"
