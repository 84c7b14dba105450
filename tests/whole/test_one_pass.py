"""One frozen instant: a signal's value, state and window are the same in report, document and ``/metrics``."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from observer.app.watcher import Watcher
from observer.simulate.fleet import SimulatedFleet
from router_contract.readings import MissingCode, SignalValue, State
from router_contract.verdicts import DeploymentReport
from tests.whole.world import CHAT, SETTINGS, Asking, MovableClock, asking, deployments_of, small_fleet

LEVELS = {
    "requests-running": ("processing", "running", "modeldeployment_requests_running"),
    "requests-waiting": ("queueing", "waiting", "modeldeployment_requests_waiting"),
    "kv-cache-usage": ("processing", "kv-cache-usage", "modeldeployment_kv_cache_usage_ratio"),
}
COUNTERS = {
    "prompt-tokens": ("prompt-tokens", "modeldeployment_input_tokens_total"),
    "generation-tokens": ("generation-tokens", "modeldeployment_output_tokens_total"),
}
TTFT = "time-to-first-token"


def of_engines(report: DeploymentReport, signal: str) -> dict[str, list[SignalValue]]:
    return {each.status.member: list(each.of(signal)) for each in report.targets if each.status.role}


def by_pod(samples: Iterable[tuple[dict[str, str], float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, value in samples:
        found[labels["pod"]] = found.get(labels["pod"], 0.0) + value
    return found


async def frozen(asked: Asking, clock: MovableClock, fleet: SimulatedFleet) -> None:
    """Traffic has ended, time stands still, and every target was read once more at that very instant."""
    chat = fleet.deployments["chat"]
    chat.clients.rate = 0.0
    await asked.until(
        lambda: all(rank.load == 0 for each in chat.engines() for rank in each.core.ranks), "idle engines"
    )
    moment = clock.stop()
    reads = {status.key: status.reads for status in asked.watcher.source.targets()}
    await asyncio.sleep(SETTINGS.scrape.period)
    await asked.until(
        lambda: all(
            status.last_success == moment.wall and status.reads > reads[status.key]
            for status in asked.watcher.source.targets()
        ),
        "a read of every target at the frozen instant",
    )


async def test_every_exporter_says_the_same_of_one_instant(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        SimulatedFleet(small_fleet()) as fleet,
        asking(Watcher(SETTINGS, clock, listen="127.0.0.1:0")) as asked,
    ):
        await asked.watcher.watch(deployments_of(fleet, tmp_path))
        await asked.ready(5)
        await frozen(asked, clock, fleet)
        await fleet.stop()
        await asked.until(lambda: all(s.consecutive_failures for s in asked.watcher.source.targets()), "silence")
        for later, state in ((0.0, State.FRESH), (60.0, State.STALE), (240.0, State.STALE)):
            clock.stand_later(later)
            report, metrics, document = asked.report(), await asked.metrics(), await asked.document()
            assert report.at == clock.now()
            compare_levels(report, document, metrics, state)
            compare_counters(report, document, metrics, state)
            compare_latency(report, document, metrics, state)
        clock.stand_later(1.0)
        await nothing_is_known(asked)


async def nothing_is_known(asked: Asking) -> None:
    """Past its last moment a value is nowhere: not in the report, not as a document, not as a series."""
    report, metrics = asked.report(), await asked.metrics()
    assert {value.missing for each in report.targets for value in each.values} == {MissingCode.EXPIRED}
    assert not any(metrics.get(name) for _, _, name in LEVELS.values())
    assert not any(metrics.get(name) for _, name in COUNTERS.values())
    assert not metrics.get("modeldeployment_time_to_first_token_seconds_count")
    with pytest.raises(AssertionError, match="503"):
        await asked.document()


def compare_levels(report: DeploymentReport, document: dict, metrics: dict, state: State) -> None:
    for signal, (section, name, family) in LEVELS.items():
        pods = of_engines(report, signal)
        values = [value for several in pods.values() for value in several]
        assert len(values) == 2
        assert {value.state for value in values} == {state}
        (entry,) = [each for each in document[section] if each["name"] == name and each["scope"] == "engine/server"]
        whole = math.fsum(value.value for value in values)
        assert entry["value"] == pytest.approx(whole / len(values) if signal == "kv-cache-usage" else whole)
        assert (entry["state"], entry["podCount"]) == (state.value, 2)
        assert entry["ageSeconds"] == max(value.age_seconds for value in values)
        shown = {pod: value.value for pod, (value,) in pods.items()}
        # A level that is not fresh is not exposed: a scraper would take it for the present one.
        assert by_pod(metrics.get(family, ())) == (shown if state is State.FRESH else {})


def compare_counters(report: DeploymentReport, document: dict, metrics: dict, state: State) -> None:
    moved = 0.0
    for signal, (name, family) in COUNTERS.items():
        totals = by_pod(metrics[family])
        for pod, (value,) in of_engines(report, signal).items():
            assert value.window is not None
            (entry,) = [each for each in document["traffic"] if each["name"] == name and each["pod"] == pod]
            assert entry["samples"] == value.window.increase
            assert entry["windowSeconds"] == value.window.seconds
            assert entry["value"] == pytest.approx(value.window.per_second)
            assert (entry["state"], entry["ageSeconds"], value.state) == (state.value, value.age_seconds, state)
            assert totals[pod] == value.running_total
            moved += value.window.increase
    assert moved > 0


def compare_latency(report: DeploymentReport, document: dict, metrics: dict, state: State) -> None:
    observed = 0.0
    for pod, (value,) in of_engines(report, TTFT).items():
        assert value.window is not None
        (entry,) = [each for each in document["latency"] if each["name"] == "ttft" and each["pod"] == pod]
        assert (entry["samples"], entry["value"], entry["state"]) == (
            value.window.increase,
            pytest.approx(value.window.mean),
            state.value,
        )
        observed += value.window.increase
    (role,) = report.roles
    whole = next(value for value in role.values if value.signal == TTFT)
    assert whole.window is not None
    assert whole.window.increase == observed > 0
    (shown,) = [each for each in document["roles"][0]["latency"] if each["name"] == "ttft"]
    assert shown["p99"]["value"] == dict(whole.window.quantiles)[0.99].value
    buckets = metrics["modeldeployment_time_to_first_token_seconds_bucket"]
    assert {float(labels["le"]): count for labels, count in buckets} == dict(
        zip(whole.running_histogram.bounds, whole.running_histogram.counts, strict=True)
    )


async def test_the_list_the_targets_and_the_probes_agree(tmp_path: Path) -> None:
    async with (
        SimulatedFleet(small_fleet(replicas=1)) as fleet,
        asking(Watcher(SETTINGS, MovableClock(), listen="127.0.0.1:0")) as asked,
    ):
        await asked.watcher.watch(deployments_of(fleet, tmp_path))
        await asked.ready()
        items = (await asked.get("/api/v1/deployments"))["items"]
        assert [(item["namespace"], item["name"]) for item in items] == [(CHAT.namespace, CHAT.name)]
        targets = await asked.targets()
        assert {item["state"] for item in targets.values()} == {"Up"}
        assert {item["component"] for item in targets.values()} == {"engine", "router"}
        report = asked.report()
        assert report.judged
        assert {each.status.member for each in report.targets} == set(targets)
