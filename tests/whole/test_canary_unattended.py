"""Canary analyses that nobody attends, on the simulated fleet: each ends by itself, for the right reason."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.settings import load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import DeploymentSpec, EngineSpec, FleetSpec, RoleSpec, RouterSpec
from router_contract.canary_results import Decision, Reason, Verdict
from tests.fakes.hostile import never, serving
from tests.whole.test_canary import analysis, decided, judged, view
from tests.whole.world import SETTINGS, Asking, asking, small_fleet

TTFT: dict[str, Any] = {
    "name": "ttft",
    "relative": {"margin": 1.25},
    "minSamples": 200,
    "native": {"kind": "quantile", "signal": "time-to-first-token", "quantile": 0.75},
}

WARM = {"requests": 150}
"""The first requests of a fleet that just began are slow on both sides, and no bound may be chosen from them."""


def slow_fleet() -> FleetSpec:
    """First tokens of 6 to 90 ms, just under a bound of 100 ms."""
    engine = EngineSpec(software="vllm", model="tiny", token_seconds=0.0005, prefill_rate=1000.0, max_running=64)
    router = RouterSpec(software="vllm_router", health_interval=0.2, backoff_seconds=0.01)
    chat = DeploymentSpec(
        name="chat", model="tiny", roles=(RoleSpec(replicas=2, engine=engine),), router=router, rate=70.0
    )
    return FleetSpec(deployments=(chat,))


async def test_first_tokens_that_take_forty_percent_longer_roll_back(tmp_path: Path) -> None:
    gate = analysis(metrics=[TTFT], interval="1s", failureLimit=2, warmUp=WARM)
    async with SimulatedFleet(slow_fleet()) as fleet:
        canary = fleet.deployments["chat"].replicas[1]
        canary.revision = "2"
        canary.engine.behaviour.slowdown = 1.4
        async with judged(fleet, tmp_path, gate) as asked:
            await asked.until(lambda: decided(asked, Decision.ROLLBACK), "rolled back", 90.0)
            status = view(asked).status
            assert status is not None
            (result,) = status.metric_results
            assert (status.reason, status.verdict) == (Reason.MARGIN_EXCEEDED, Verdict.FAILED)
            print(f"figure: {result.message}; {result.samples:g} requests of the canary")


async def test_the_same_canary_is_not_rolled_back_while_it_is_as_fast(tmp_path: Path) -> None:
    """The control of the test above: nothing but the slowdown is different, and so long a look finds nothing."""
    gate = analysis(metrics=[TTFT], interval="1s", failureLimit=2, minPasses=1000, warmUp=WARM)
    async with SimulatedFleet(slow_fleet()) as fleet:
        fleet.deployments["chat"].replicas[1].revision = "2"
        async with judged(fleet, tmp_path, gate) as asked:
            seen: set[Decision | None] = set()

            def enough() -> bool:
                status = view(asked).status
                if status is not None:
                    seen.add(status.decision)
                results = () if status is None else status.metric_results
                return bool(results) and (results[0].samples or 0.0) >= 220

            await asked.until(enough, "more samples than a failure took", 60.0)
            assert seen == {Decision.HOLD}
            assert view(asked).share is not None


def missing(asked: Asking) -> tuple[str, ...]:
    status = view(asked).status
    return status.metric_results[0].missing_pods if status is not None and status.metric_results else ()


async def test_one_hung_pod_of_four_is_missing_and_then_stalls_with_the_budget_untouched(tmp_path: Path) -> None:
    """It takes connections and answers nothing, beside three that are well."""
    finished = {"kind": "rate", "signal": "requests-finished"}
    metric = {"name": "finished", "operator": "GTE", "threshold": "0", "native": finished}
    gate = analysis(metrics=[metric], interval="500ms", deadline="500ms", stallTimeout="5s")
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(SimulatedFleet(small_fleet(replicas=5, rate=40.0)))
        hung = await stack.enter_async_context(serving(never))
        for replica in fleet.deployments["chat"].replicas[1:]:
            replica.revision = "2"
        document = fleet.document()
        replicas = document["deployments"][0]["roles"][0]["replicas"]
        replicas[4]["members"][0]["address"] = f"127.0.0.1:{hung.port}"
        tmp_path.joinpath("fleet.json").write_bytes(orjson.dumps(document))
        tmp_path.joinpath("canary.json").write_bytes(orjson.dumps(gate))
        made = load_files([tmp_path / "fleet.json", tmp_path / "canary.json"])
        watcher = Watcher(SETTINGS, SystemClock(), listen="127.0.0.1:0")
        asked = await stack.enter_async_context(asking(watcher))
        await watcher.watch(made.deployments)
        await watcher.canaries.watch(made.canaries)
        await asked.until(lambda: missing(asked) == ("chat-server-4",), "missing", 20.0)
        status = view(asked).status
        assert status is not None
        (result,) = status.metric_results
        assert (status.verdict, result.reason, result.expected_pods) == (Verdict.INCONCLUSIVE, Reason.MISSING_PODS, 4)
        await asked.until(lambda: decided(asked, Decision.FAILED), "parked", 30.0)
        status = view(asked).status
        assert status is not None
        assert (status.reason, status.failed_checks) == (Reason.ANALYSIS_STALLED, 0)
        print(f"figure: {result.message}; parked after {status.sample_id} samples, 0 failed checks")
