"""One step judged by PromQL and natively: a real Prometheus and the observer read the same programs.

On a steady fleet both come to the same verdict. Where a window holds a restart, a new Pod or a change of buckets they
differ, and the ledger of the simulation says that the native one is right.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import CanaryProvider, CanarySettings
from observer.settings import load_files
from observer.simulate.fleet import SimulatedFleet
from router_contract.canary_results import MetricResult, Reason, Verdict
from router_contract.targets import DeploymentKey
from tests.prometheus.scripted import Scripted, running
from tests.prometheus.server import SCRAPE_SECONDS, Prometheus, prometheus
from tests.whole.world import SETTINGS, Asking, asking, small_fleet

pytestmark = pytest.mark.prometheus
P, F, U = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE
WINDOW = "40s"


def document(name: str, metric: dict[str, Any]) -> dict[str, Any]:
    gate = {
        "interval": "500ms",
        "failureLimit": 1000,
        "minPasses": 1000,
        "stallTimeout": "10m",
        "metrics": [{"name": "m", **metric}],
    }
    return {
        "apiVersion": "observer.modeldeployment.io/v1alpha1",
        "kind": "CanaryAnalysis",
        "metadata": {"namespace": "demo", "name": name},
        "spec": {
            "targetRef": {"kind": "ModelDeployment", "name": "chat"},
            "component": "engine",
            "stable": {"revision": "1"},
            "canary": {"revision": "2"},
            "source": {"providerRef": {"name": "prom"}},
            "steps": [{"analysis": gate}],
        },
    }  # fmt: skip


def scrape(name: str, targets: Sequence[str], revision: str = "", **more: Any) -> dict[str, Any]:
    labels = {"revision": revision} if revision else {}
    return {
        "job_name": name,
        "scrape_interval": f"{SCRAPE_SECONDS}s",
        "scrape_timeout": f"{SCRAPE_SECONDS}s",
        "static_configs": [{"targets": list(targets), "labels": labels}],
        **more,
    }


@asynccontextmanager
async def both(
    folder: Path, fleet: dict[str, Any], server: Prometheus, native: dict[str, Any], query: dict[str, Any]
) -> AsyncIterator[Asking]:
    """An observer that judges the same step twice."""
    folder.joinpath("fleet.json").write_bytes(orjson.dumps(fleet))
    for name, metric in (("native", native), ("promql", query)):
        folder.joinpath(f"{name}.json").write_bytes(orjson.dumps(document(name, metric)))
    made = load_files([folder / f"{name}.json" for name in ("fleet", "native", "promql")])
    provider = CanaryProvider(name="prom", server_address=server.url)
    watcher = Watcher(
        replace(SETTINGS, canary=CanarySettings(providers=(provider,))), SystemClock(), listen="127.0.0.1:0"
    )
    async with asking(watcher) as asked:
        await watcher.watch(made.deployments)
        await watcher.canaries.watch(made.canaries)
        yield asked


def result(asked: Asking, name: str) -> MetricResult | None:
    view = asked.watcher.canaries.canary(DeploymentKey("demo", name))
    results = view.status.metric_results if view is not None and view.status is not None else ()
    return results[0] if results else None


def failed_checks(asked: Asking) -> tuple[int, ...]:
    views = [asked.watcher.canaries.canary(DeploymentKey("demo", name)) for name in ("native", "promql")]
    return tuple(each.status.failed_checks for each in views if each is not None and each.status is not None)


def estimate(asked: Asking, name: str) -> float:
    found = result(asked, name)
    return math.nan if found is None or found.estimate is None else found.estimate


async def concluded(
    asked: Asking, *needed: str, samples: int = 4, seconds: float = 40.0
) -> tuple[set[Verdict], set[Verdict]]:
    """What samples came to that were conclusive: natively, and by PromQL; so many of the ``needed``, both unless said."""
    seen: dict[str, dict[int, Verdict]] = {"native": {}, "promql": {}}
    try:
        async with asyncio.timeout(seconds):
            while any(len(seen[name]) < samples for name in needed or seen):
                for name, found in seen.items():
                    told = result(asked, name)
                    view = asked.watcher.canaries.canary(DeploymentKey("demo", name))
                    if told is not None and told.verdict is not U and view is not None and view.status is not None:
                        found[view.status.sample_id] = told.verdict
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(
            f"{[len(each) for each in seen.values()]}: {result(asked, 'native')} {result(asked, 'promql')}"
        ) from None
    return set(seen["native"].values()), set(seen["promql"].values())


OUTCOMES = "vllm_router_cb_outcomes_total"
SHARE = {
    "operator": "LT",
    "threshold": "0.08",
    "native": {
        "kind": "ratio",
        "signal": "router-worker-outcomes",
        "total": "router-worker-outcomes",
        "where": {"outcome": "failure"},
    },
}


@pytest.mark.parametrize(("errors", "wanted"), [(0.0, P), (0.25, F)], ids=["healthy", "bad"])
async def test_both_agree_on_a_steady_fleet(tmp_path: Path, errors: float, wanted: Verdict) -> None:
    all_of = f'{OUTCOMES}{{revision="{{{{ .CanaryRevision }}}}"}}'
    bad = f'{OUTCOMES}{{revision="{{{{ .CanaryRevision }}}}",outcome="failure"}}'
    rate = f"sum(increase({all_of}[{WINDOW}]))"
    query = {"operator": "LT", "threshold": "0.08", "query": f"(sum(increase({bad}[{WINDOW}])) or 0 * {rate}) / {rate}"}
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(SimulatedFleet(small_fleet(rate=60.0)))
        canary = fleet.deployments["chat"].replicas[1]
        canary.revision = "2"
        canary.engine.behaviour.error_rate = errors
        router = fleet.deployments["chat"].truth()["routers"]["chat-router-0"]["metrics"].split("://")[1].split("/")[0]
        port = canary.engine.url.rpartition(":")[2]
        relabelled = {
            "source_labels": ["worker"],
            "regex": f".*:{port}.*",
            "target_label": "revision",
            "replacement": "2",
        }
        job = scrape("router", [router], metric_relabel_configs=[relabelled])
        server = await stack.enter_async_context(prometheus(tmp_path, [job]))
        asked = await stack.enter_async_context(both(tmp_path, fleet.document(), server, SHARE, query))
        await asyncio.sleep(5.0)
        # PromQL does not count what a series began with, so of failures it tells too few until it was scraped a few times.
        async with asyncio.timeout(30.0):
            while errors and not all(estimate(asked, name) > errors / 2 for name in ("native", "promql")):
                await asyncio.sleep(0.1)
        assert await concluded(asked) == ({wanted}, {wanted})
        answers = canary.engine.answers
        truth = answers[500] / sum(answers.values())
        print(
            f"figure: errors {errors:g}: ledger {truth:.3f}, native {estimate(asked, 'native'):.3f}, PromQL {estimate(asked, 'promql'):.3f}"
        )
        assert (truth < 0.08) is (wanted is P)


def quantile(of: float) -> dict[str, Any]:
    return {
        "operator": "LT",
        "native": {"kind": "quantile", "signal": "time-to-first-token", "quantile": of, "measuredBy": "engine"},
    }


def quantile_query(of: float) -> str:
    series = 'vllm:time_to_first_token_seconds_bucket{revision="{{ .CanaryRevision }}"}'
    return f"histogram_quantile({of}, sum by (le) (increase({series}[{WINDOW}])))"


def fleet_of(engines: Sequence[Scripted]) -> dict[str, Any]:
    members = [{"name": each.name, "address": each.address, "revision": each.revision} for each in engines]
    role = {
        "name": "server",
        "kind": "Server",
        "engine": {"name": "vllm", "version": "0.32.0"},
        "desired": len(engines),
        "replicas": [{"ordinal": place, "members": [each]} for place, each in enumerate(members)],
    }
    deployment = {"namespace": "demo", "name": "chat", "model": "tiny", "roles": [role]}
    return {
        "apiVersion": "observer.modeldeployment.io/v1alpha1",
        "kind": "Fleet",
        "deployments": [deployment],
    }


@asynccontextmanager
async def steadily(*mixes: tuple[Scripted, Sequence[float]]) -> AsyncIterator[None]:
    """Each engine answers its requests once in every fifth of a second, so that no window is empty."""

    async def go() -> None:
        while True:
            for engine, seconds in mixes:
                engine.serve(seconds)
            await asyncio.sleep(0.2)

    task = asyncio.ensure_future(go())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Scene:
    """Scripted engines, a Prometheus and an observer that have all read each other."""

    def __init__(self, asked: Asking, server: Prometheus, engines: list[Scripted]) -> None:
        self.asked, self.server, self.engines = asked, server, engines

    async def read_twice(self) -> None:
        """Everybody has read every engine again, twice."""
        reads, scrapes = [each.reads for each in self.engines], await self._scrapes()
        wanted = {each.name: scrapes.get(each.name, 0) + 2 for each in self.engines}
        async with asyncio.timeout(30.0):
            while any(each.reads - was < 6 for each, was in zip(self.engines, reads, strict=True)) or any(
                found.get(name, 0) < count for found in (await self._scrapes(),) for name, count in wanted.items()
            ):
                await asyncio.sleep(0.2)

    async def _scrapes(self) -> dict[str, int]:
        """How often Prometheus has read each engine."""
        found = await self.server.query("count_over_time((up == 1)[10m:1s])")
        return {each["metric"]["job"]: int(each["value"][1]) for each in found}


@asynccontextmanager
async def scene(
    folder: Path, engines: list[Scripted], native: dict[str, Any], query: dict[str, Any]
) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        for each in engines:
            await stack.enter_async_context(running(each))
        jobs = [scrape(each.name, [each.address], each.revision) for each in engines]
        server = await stack.enter_async_context(prometheus(folder, jobs))
        asked = await stack.enter_async_context(both(folder, fleet_of(engines), server, native, query))
        made = Scene(asked, server, engines)
        await made.read_twice()
        yield made


def share_within(engines: Sequence[Scripted], seconds: float) -> float:
    """By the ledger: the share of requests whose first token took at most so long."""
    told = [each for engine in engines for each, _ in engine.ledger]
    return sum(each <= seconds for each in told) / len(told)


async def test_a_restart_inside_the_window(tmp_path: Path) -> None:
    """One bucket overtakes its old count between two reads, so that a rate of each series alone misses its reset."""
    stable, canary = Scripted("stable", "1"), Scripted("canary", "2")
    canary.serve([0.5] * 900 + [1.5] * 100)
    native, query = (
        quantile(0.5) | {"threshold": "2"},
        {"operator": "LT", "threshold": "2", "query": quantile_query(0.5)},
    )
    async with scene(tmp_path, [stable, canary], native, query) as made:
        canary.ledger.clear()
        canary.restart()
        canary.serve([0.5] * 50 + [1.5] * 1150 + [4.0] * 800)
        async with steadily((canary, [1.5, 1.5, 1.5, 4.0, 4.0])):
            await made.read_twice()
            assert await concluded(made.asked) == ({P}, {F})
            found = result(made.asked, "native")
        assert found is not None
        assert found.lossy
        truth = share_within([canary], 2.0)
        assert truth >= 0.5, "at least half of the requests were within 2 s: the median is not above it"
        print(
            f"figure: restart: ledger {truth:.0%} within 2 s, native {estimate(made.asked, 'native'):.3g}, PromQL {estimate(made.asked, 'promql'):.3g}"
        )


async def test_a_new_pod_inside_the_window(tmp_path: Path) -> None:
    """What a Pod has counted before its first scrape is no increase to PromQL."""
    stable, canary, late = Scripted("stable", "1"), Scripted("canary", "2"), Scripted("late", "2")
    where = {"reason": "error"}
    native = {
        "operator": "LT",
        "threshold": "0.03",
        "native": {
            "kind": "ratio",
            "signal": "requests-finished",
            "total": "requests-finished",
            "where": where,
            "measuredBy": "engine",
        },
    }
    chosen = 'vllm:request_success_total{revision="{{ .CanaryRevision }}"'
    query = {
        "operator": "LT",
        "threshold": "0.03",
        "query": f'sum(increase({chosen},finished_reason="error"}}[{WINDOW}])) / sum(increase({chosen}}}[{WINDOW}]))',
    }
    async with scene(tmp_path, [stable, canary], native, query) as made:
        late._begin()
        late.serve([0.5] * 60, "error")
        async with running(late):
            jobs = [scrape(each.name, [each.address], each.revision) for each in (stable, canary, late)]
            # A Prometheus that finds the new Pod as the observer does: at its next reload.
            config = orjson.loads((tmp_path / "prometheus.yml").read_bytes())
            config["scrape_configs"] = jobs
            (tmp_path / "prometheus.yml").write_bytes(orjson.dumps(config))
            await made.server.reload()
            (tmp_path / "fleet.json").write_bytes(orjson.dumps(fleet_of([stable, canary, late])))
            await made.asked.watcher.watch(load_files([tmp_path / "fleet.json"]).deployments)
            async with steadily((canary, [0.5]), (late, [0.5])):
                await made.read_twice()
                assert (await concluded(made.asked, "promql"))[1] == {P}
                assert failed_checks(made.asked) == (1, 0), "natively once, because the errors came once"
            ledger = canary.ledger + late.ledger
            truth = sum(reason == "error" for _, reason in ledger) / len(ledger)
            assert truth >= 0.03
            print(
                f"figure: new Pod: ledger {truth:.3f}, native {estimate(made.asked, 'native'):.3f}, PromQL {estimate(made.asked, 'promql'):.3f}"
            )


async def test_a_change_of_buckets_inside_the_revision(tmp_path: Path) -> None:
    """Two Pods with other bounds: adding them up by ``le`` makes a histogram that nobody has measured."""
    stable, one, two = Scripted("stable", "1"), Scripted("one", "2", (1.0, 2.0)), Scripted("two", "2", (1.0, 4.0))
    native, query = (
        quantile(0.9) | {"threshold": "4"},
        {"operator": "LT", "threshold": "4", "query": quantile_query(0.9)},
    )
    async with scene(tmp_path, [stable, one, two], native, query) as made:
        async with steadily((one, [1.5] * 10), (two, [3.5] * 10)):
            await made.read_twice()
            assert await concluded(made.asked, "promql") == (set(), {F})
            found = result(made.asked, "native")
        truth = share_within([one, two], 4.0)
        assert truth == 1.0
        assert found is not None
        assert (found.reason, found.low, found.high) == (Reason.BUCKET_OVERFLOW, 1.0, None), "unknown, and it says why"
        print(
            f"figure: buckets: ledger {truth:.0%} within 4 s, native {estimate(made.asked, 'native'):.3g}, PromQL {estimate(made.asked, 'promql'):.3g}"
        )
