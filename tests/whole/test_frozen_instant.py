"""At one frozen instant every signal has one value, one state and one window: in report, document, status, CLI, page, metrics.

The demo's four deployments run through scenarios. Then time and reading stop, and everything is asked about that instant.
"""

from __future__ import annotations

import asyncio
import html
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest
from click.testing import CliRunner

from exporters.families import MEASURED, MERGED
from exporters.page.shown import FORMATS, UNIT_FORMATS
from exporters.page.targets import target_path
from observer.app.watcher import Watcher
from observer.cli.main import observer
from observer.settings import load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import demo_fleet
from router_contract.readings import SignalValue, State
from router_contract.signals import SIGNALS, Combine
from router_contract.targets import Component, TargetKey
from router_contract.verdicts import DeploymentReport, TargetReport, TargetState
from tests.whole import shown_tables
from tests.whole.world import SETTINGS, Asking, MovableClock, asking

SCENARIOS = ("steady", "engine-restart", "engine-down", "half-gang", "saturation", "idle")
API = "/api/v1/namespaces/{0.namespace}/modeldeployments/{0.name}"
TRIES = 4
BUSY = 60.0
"""Seconds in which the busiest machine has read and judged."""
LEVELS = (
    ("requests-running", "processing", "running"),
    ("requests-waiting", "queueing", "waiting"),
    ("kv-cache-usage", "processing", "kv-cache-usage"),
)
WINDOWS = (
    ("prompt-tokens", "traffic", "prompt-tokens"),
    ("generation-tokens", "traffic", "generation-tokens"),
    ("preemptions", "traffic", "preemptions"),
    ("time-to-first-token", "latency", "ttft"),
    ("inter-token-latency", "latency", "itl"),
)


class Frozen:
    """Everything that exporters say of the instant, and how much was compared."""

    def __init__(self, asked: Asking, session: aiohttp.ClientSession) -> None:
        self.asked, self._session = asked, session
        self.compared: Counter[str] = Counter()

    async def text(self, path: str) -> str:
        async with self._session.get(self.asked.watcher.url + path, headers={"Accept": "text/html"}) as answer:
            return await answer.text()

    async def json(self, path: str) -> Any:
        async with self._session.get(self.asked.watcher.url + path, headers={"Accept": "application/json"}) as answer:
            return orjson.loads(await answer.read())

    async def cli(self, *words: str) -> Any:
        command = ["--server", self.asked.watcher.url, "-o", "json"]
        found = await asyncio.to_thread(CliRunner().invoke, observer, [*words, *command])
        assert found.exit_code == 0, (words, found.output)
        return orjson.loads(found.stdout)

    async def table(self, *words: str) -> str:
        """What a person sees on a wide terminal."""
        command = [*words, "--server", self.asked.watcher.url]
        found = await asyncio.to_thread(CliRunner().invoke, observer, command, env={"COLUMNS": "500"})
        assert found.exit_code == 0, (words, found.output)
        return found.stdout


def answered(asked: Asking, before: dict[TargetKey, int]) -> bool:
    """Whether each target was tried some times in this scenario, and some engine of each deployment answered.

    A deployment of which no engine ever answered, as on a busy machine, has no document that could be compared.
    """
    statuses = asked.watcher.source.targets()
    engines = {
        status.key.deployment
        for status in statuses
        if status.component is Component.ENGINE and status.state is TargetState.UP
    }
    tried = all(status.reads >= before.get(status.key, 0) + TRIES for status in statuses)
    return tried and engines == set(asked.watcher.source.keys())


async def freeze(asked: Asking, clock: MovableClock) -> None:
    """Stop reading and time; the judge's last whole pass is about the frozen instant."""
    watcher = asked.watcher
    await watcher._pool.sync(())
    await watcher._views.sync(())
    await watcher._probe.sync(())
    at = clock.stop()
    await asked.until(lambda: watcher.judging.last_pass == at, "a judging pass of the frozen instant", BUSY)


@pytest.mark.timeout(240)
async def test_every_exporter_tells_the_same_of_one_instant_in_every_scenario(tmp_path: Path, capsys: Any) -> None:
    clock, file = MovableClock(), tmp_path / "fleet.json"
    compared: Counter[str] = Counter()
    states: Counter[str] = Counter()
    async with (
        SimulatedFleet(demo_fleet(rate=8.0)) as fleet,
        asking(Watcher(SETTINGS, clock, listen="127.0.0.1:0")) as asked,
        aiohttp.ClientSession() as session,
    ):
        for scenario in SCENARIOS:
            await fleet.apply(scenario)
            clock.go_on()
            fleet.write_document(file)
            await asked.watcher.watch(load_files([file]).deployments)
            before = {status.key: status.reads for status in asked.watcher.source.targets()}
            await asked.until(
                lambda before=before: answered(asked, before),
                f"{TRIES} reads of every target and an answer of an engine of every deployment in {scenario}",
                BUSY,
            )
            await freeze(asked, clock)
            frozen = Frozen(asked, session)
            await compare(frozen, states)
            compared += frozen.compared
    with capsys.disabled():
        told = ", ".join(f"{count} in {where}" for where, count in sorted(compared.items()))
        print(f"\nfigure: {len(SCENARIOS)} scenarios frozen; equal values: {told}; states seen: {dict(states)}")
    assert {state.value for state in State} == set(states)
    assert all(compared[where] > 100 for where in ("page twin", "page", "metrics", "document", "tables"))


async def compare(frozen: Frozen, states: Counter[str]) -> None:
    """Every deployment's every exporter, at the instant that stands."""
    asked = frozen.asked
    samples = await asked.metrics()
    for key in asked.watcher.source.keys():  # noqa: SIM118 - a source is no mapping
        report = asked.report(key)
        assert report.at == asked.watcher._clock.now()
        states.update(value.state.value for target in report.targets for value in target.values)
        document = await frozen.json(API.format(key) + "/metrics")
        assert await frozen.cli("metrics", key.name, "-n", key.namespace) == document
        page = await frozen.json(f"/deployments/{key.namespace}/{key.name}")
        assert page["metrics"] == document
        await compare_status(frozen, report, page, samples)
        if document["kind"] == "ModelDeploymentMetrics":
            compare_document(frozen, report, document)
            text = await frozen.table("metrics", key.name, "-n", key.namespace, "-o", "wide")
            frozen.compared["tables"] += shown_tables.compare_document(text, document)
        compare_metrics(frozen, report, samples)
        for target in report.targets:
            await compare_page(frozen, target)
    await compare_lists(frozen)


async def compare_status(frozen: Frozen, report: DeploymentReport, page: Any, samples: Any) -> None:
    """Conditions, phase and counts: status, CLI, page and metrics say what the report says."""
    key = report.key
    told = await frozen.json(API.format(key) + "/status")
    assert await frozen.cli("status", key.name, "-n", key.namespace) == told
    assert page["status"] == told
    status = told["status"]
    assert status["phase"] == report.phase.value
    assert {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]} == {
        each.type: (each.status.value, each.reason) for each in report.conditions
    }
    where = {"namespace": key.namespace, "deployment": key.name}
    for each in report.conditions:
        holding = [
            labels["status"]
            for labels, number in samples["modeldeployment_status_condition"]
            if number == 1 and where.items() <= labels.items() and labels["condition"] == each.type
        ]
        assert holding == [each.status.value.lower()]
    for role, shown in zip(report.role_status, status["roles"], strict=True):
        assert (shown.get("ready"), shown["endpoints"]["eligible"]) == (role.ready, role.endpoints.eligible)
        rows = {
            labels["state"]: number
            for labels, number in samples["modeldeployment_replicas"]
            if {**where, "role": role.name}.items() <= labels.items()
        }
        assert (rows.get("ready"), rows.get("eligible")) == (role.ready, role.endpoints.eligible)
        frozen.compared["status"] += 2
    frozen.compared["status"] += len(report.conditions) + 1


def _pods(report: DeploymentReport, role: str, signal: str) -> list[list[SignalValue]]:
    found = (target.of(signal) for target in report.targets if target.status.role == role)
    return [list(values) for values in found if values and all(value.missing is None for value in values)]


def compare_document(frozen: Frozen, report: DeploymentReport, document: Any) -> None:
    """Levels are the sums of the report's values, windows what the report's ranks moved by."""
    for entry_signal, section, name in LEVELS:
        for role in report.deployment.roles:
            pods = _pods(report, role.name, entry_signal)
            entries = [
                each
                for each in document.get(section, ())
                if each["name"] == name and each["scope"] == f"engine/{role.name}" and each["source"] != "declared"
            ]
            assert bool(entries) == bool(pods), (role.name, name)
            for entry in entries:
                values = [value for several in pods for value in several]
                assert entry["podCount"] == len(pods)
                assert entry["ageSeconds"] == pytest.approx(max(value.age_seconds or 0.0 for value in values))
                assert entry["state"] == worst(values)
                if SIGNALS[entry_signal].combine is Combine.ADD:
                    assert entry["value"] == pytest.approx(math.fsum(value.value or 0.0 for value in values))
                frozen.compared["document"] += 1
    for target in report.targets:
        if target.status.component is not Component.ENGINE:
            continue
        for signal, section, name in WINDOWS:
            values = target.of(signal)
            for entry in document.get(section, ()):
                if (entry["pod"], entry["name"]) != (target.status.member, name):
                    continue
                windows = [value.window for value in values if value.window is not None]
                assert len(windows) == len(values) > 0
                assert entry["samples"] == pytest.approx(math.fsum(window.increase for window in windows))
                assert entry["windowSeconds"] == pytest.approx(max(window.seconds for window in windows))
                assert entry["state"] == worst(values)
                if len(windows) == 1:
                    wanted = windows[0].mean if section == "latency" else windows[0].per_second
                    assert entry["value"] == pytest.approx(wanted)
                frozen.compared["document"] += 1


def worst(values: Iterable[SignalValue]) -> str:
    return State.STALE.value if any(value.state is State.STALE for value in values) else State.FRESH.value


def compare_metrics(frozen: Frozen, report: DeploymentReport, samples: Any) -> None:
    """Every level that is fresh and every running total that is known is a series of that number, and no other is."""
    where = {"namespace": report.key.namespace, "deployment": report.key.name}
    for family in MEASURED:
        wanted: dict[tuple[str, str, str], float] = {}
        for target in report.targets:
            if target.status.component is not Component.ENGINE:
                continue
            for value in target.of(family.signal):
                labels = dict(value.labels)
                number = value.running_total if family.counter else value.value
                known = value.state is not State.MISSING if family.counter else value.state is State.FRESH
                if known and number is not None:
                    place = (target.status.member, labels.get("rank", ""), labels.get(family.kept, ""))
                    assert place not in wanted, "two values of one place"
                    wanted[place] = number
        found = {
            (labels["pod"], labels.get("rank", ""), labels.get(family.kept, "") if family.kept else ""): number
            for labels, number in samples.get(family.name, ())
            if where.items() <= labels.items()
        }
        assert found == wanted, family.name
        frozen.compared["metrics"] += len(wanted)
    for name, _, signal in MERGED:
        for role in report.roles:
            for value in role.values:
                if value.signal != signal or value.running_histogram is None:
                    continue
                counts = [
                    number
                    for labels, number in samples[f"{name}_bucket"]
                    if {**where, "role": role.name}.items() <= labels.items()
                ]
                assert counts == list(value.running_histogram.counts)
                frozen.compared["metrics"] += 1


async def compare_page(frozen: Frozen, target: TargetReport) -> None:
    """The page of a target, as JSON field by field and as HTML number by number."""
    path = target_path(target.status.key)
    twin = (await frozen.json(path))["values"]
    assert len(twin) == len(target.values)
    for shown, value in zip(twin, target.values, strict=True):
        window = value.window
        assert (shown["signal"], shown.get("value"), shown["state"]) == (value.signal, value.value, value.state.value)
        assert shown.get("ageSeconds") == value.age_seconds
        assert shown.get("missing") == (value.missing and value.missing.value)
        assert shown.get("window") == (
            None
            if window is None
            else {
                "increase": window.increase,
                "perSecond": window.per_second,
                "seconds": window.seconds,
                "mean": window.mean,
                "lossy": window.lossy,
            }
        )
    frozen.compared["page twin"] += len(twin)
    text = await frozen.text(path)
    rows = re.findall(r'<tr><th scope="row" title="[^"]*">([^<]+)</th>(.*?)</tr>', text, re.DOTALL)
    assert [signal for signal, _ in rows] == [value.signal for value in target.values]
    for (_, row), value in zip(rows, target.values, strict=True):
        compare_row(frozen, row, value)


def compare_row(frozen: Frozen, row: str, value: SignalValue) -> None:
    number, window = re.findall(r'<td class="num">(.*?)</td>', row, re.DOTALL)
    unit = UNIT_FORMATS.get(SIGNALS[value.signal].unit, "number")
    moving = SIGNALS[value.signal].kind in {"counter", "histogram"}
    if value.missing is not None or value.value is None:
        assert 'class="unknown"' in number, (value.signal, number)
        assert value.missing is None or f"unknown: {value.missing.value}" in html.unescape(number)
    elif SIGNALS[value.signal].unit != "unix-seconds":
        text = html.unescape(re.sub(r"<[^>]+>", " ", number)).split()
        assert text[0] == FORMATS["number" if moving else unit](value.value).split()[0]
        assert ("stale" in text) is (value.state is State.STALE)
    if moving and value.window is not None:
        histogram = SIGNALS[value.signal].kind == "histogram"
        shown = FORMATS[unit](value.window.mean) if histogram else FORMATS["rate"](value.window.per_second)
        text = html.unescape(re.sub(r"<[^>]+>", " ", window)).split()
        assert text[0] == shown if value.window.mean is not None or not histogram else "unknown" in window
    frozen.compared["page"] += 1


async def compare_lists(frozen: Frozen) -> None:
    """The lists: deployments and targets by API, CLI and page."""
    listed = await frozen.json("/api/v1/deployments")
    assert (await frozen.cli("get", "-A"))["items"] == listed["items"]
    frozen.compared["tables"] += shown_tables.compare_deployments(await frozen.table("get", "-A"), listed["items"])
    targets = {each["pod"]: each for each in (await frozen.json("/api/v1/targets?limit=1000"))["items"]}
    page = (await frozen.json("/targets"))["items"]
    assert {each["pod"]: each for each in map(msgspec.to_builtins, page)} == targets
    frozen.compared["lists"] += len(listed["items"]) + len(targets)
