"""Every panel is proven: a real Prometheus scrapes the observer on the simulated fleet, and each query returns data.

The observer is scraped twice, with and without ``honorLabels``; a panel counts when it shows data both ways.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dashboards
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import KvEventSettings, ScrapeSettings
from observer.settings import HttpSettings, JudgingSettings, RouterSettings, Settings, WindowSettings, load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.kv_fleet import publishing
from observer.simulate.spec import demo_fleet
from router_contract.targets import Deployment
from tests.conftest import require
from tests.dashboards.documents import Panel, documents, fill, panels
from tests.prometheus.server import Prometheus, job, prometheus
from tests.prometheus.unproven import UNPROVEN
from tests.prometheus.variables import NothingOffered, choose

pytestmark = pytest.mark.prometheus
SETTINGS = Settings(
    scrape=ScrapeSettings(period=1.0, timeout=0.9),
    routers=RouterSettings(view_period=1.0, view_timeout=0.9, view_valid=5.0),
    judging=JudgingSettings(period=0.5, stall_after=5.0),
    windows=WindowSettings(span=10.0),
    kv_events=KvEventSettings(silent_after=5.0),
    http=HttpSettings(listen="127.0.0.1:0"),
)
JOBS = {"honoured": True, "renamed": False}
"""Each scrape has a cluster of its own, so the cluster variable chooses between them."""
SCENARIOS = (
    ("steady", 20.0),
    ("engine-restart", 8.0),
    ("router-keeps-dead-worker", 10.0),
    ("canary-errors", 40.0),
    ("engine-down", 10.0),
    ("steady", 10.0),
    ("rollout", 15.0),
    ("kv-lose", 8.0),
    ("saturation", 8.0),
)
"""Scenarios in order, and how many seconds each may take. Each ends early when nothing is left to prove."""
RULES = Path(dashboards.__file__).parent / "rules"
ONLY_FOR = {"canary-errors": "observer-canary", "engine-down": "observer-kv"}
"""Scenarios that are there for one dashboard: they end when nothing of it is left to prove."""
MOST_SECONDS = 220.0
"""The scenarios begin again while something is left to prove, but not for longer than this."""
STARVED_SECONDS = 2.5
"""Longer than two periods: reads are still running when the next ones are due."""
CREATED = 1_700_000_000.0


class Proofs:
    """What is proven of each panel: by scenario, once every query has returned data in both clusters."""

    def __init__(self) -> None:
        self.left = {
            (panel.name, place, cluster): panel for panel in panels() for place in range(len(panel.queries)) for cluster in JOBS
        }  # fmt: skip
        self.by_scenario: dict[str, int] = {}

    def open(self) -> dict[str, Panel]:
        return {name: panel for (name, _, _), panel in self.left.items()}

    async def look(self, server: Prometheus, scenario: str) -> None:
        """Ask everything that is not proven yet. A round in which a scrape is late, so nothing can be chosen, is skipped."""
        before = set(self.open())
        try:
            chosen = await self._chosen(server)
        except NothingOffered:
            return
        for key, panel in list(self.left.items()):
            _, place, cluster = key
            found = await server.query(fill(panel.queries[place], chosen[panel.uid, cluster]))
            if any(not math.isnan(float(sample["value"][1])) for sample in found):
                del self.left[key]
        proven = len(before - set(self.open()))
        if proven:
            self.by_scenario[scenario] = self.by_scenario.get(scenario, 0) + proven

    async def _chosen(self, server: Prometheus) -> dict[tuple[str, str], dict[str, str]]:
        """The variables' values of each dashboard that is still asked, in each cluster."""
        uids = {panel.uid for panel in self.left.values()}
        return {
            (uid, cluster): await choose(server, document, cluster)
            for uid, document in documents().items()
            if uid in uids
            for cluster in JOBS
        }

    def asked_for(self, scenario: str) -> bool:
        """Whether a scenario can prove anything that is left."""
        only = ONLY_FOR.get(scenario, "")
        return any(panel.uid.startswith(only) for name, panel in self.open().items() if name not in UNPROVEN)

    def done(self) -> bool:
        """Whether only the exceptions are left."""
        return set(self.open()) <= set(UNPROVEN)


def told_by_a_platform(deployment: Deployment) -> Deployment:
    """A static deployment with what a platform would add to it."""
    return msgspec.structs.replace(deployment, generation=3, observed_generation=2, created_at=CREATED)


async def evaluated(server: Prometheus) -> list[dict[str, Any]]:
    """Every rule once it was evaluated, with its health."""
    async with asyncio.timeout(30):
        while True:
            groups = (await server.get("rules"))["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            if rules and all(rule["health"] != "unknown" for rule in rules):
                return rules
            await asyncio.sleep(0.5)


@pytest.mark.timeout(300)
async def test_every_panel_returns_data_in_some_scenario(tmp_path: Path, capsys: Any) -> None:
    require("prometheus", "panels are proven on a real one")
    clock, proofs = SystemClock(), Proofs()
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(
            SimulatedFleet(demo_fleet(rate=2.0), clock=clock, hooks=publishing(clock))
        )
        watcher = await stack.enter_async_context(Watcher(SETTINGS, clock))
        watcher.tally.event_told("limited")
        watcher.tally.status_written("ModelDeploymentObservation", "error")  # nothing writes outside a cluster
        described = tmp_path / "fleet.yaml"

        async def follow() -> None:
            fleet.write_document(described)
            configuration = load_files([described])
            await watcher.watch(told_by_a_platform(each) for each in configuration.deployments)
            await watcher.canaries.watch(configuration.canaries)
            watcher.tally.paused(0, 0.001, 1)  # only a whole process hears of collections

        await follow()
        targets = [watcher.url.removeprefix("http://")]
        jobs = [job(name, targets, honoured=honoured) for name, honoured in JOBS.items()]
        server = await stack.enter_async_context(prometheus(tmp_path, jobs, sorted(RULES.glob("*.yaml"))))
        latest = clock.now().mono + MOST_SECONDS
        for scenario, seconds in itertools.cycle(SCENARIOS):
            if not proofs.asked_for(scenario) and not proofs.done():
                continue
            await fleet.apply(scenario)
            ends = min(clock.now().mono + seconds, latest)
            while proofs.asked_for(scenario) and clock.now().mono < ends:
                await follow()
                await proofs.look(server, scenario)
                await asyncio.sleep(1.0)
            if scenario == "engine-restart":
                time.sleep(STARVED_SECONDS)  # on purpose in the loop's own thread: the process gets no processor
            if proofs.done() or clock.now().mono >= latest:
                break
        await proofs.look(server, "the end")
        rules = await evaluated(server)
    _report(proofs, capsys)
    assert not [rule for rule in rules if rule["health"] != "ok"], "a rule that fails on real series"
    with capsys.disabled():
        print(f"figure: {len(rules)} rules evaluated on the same series without an error")


def _report(proofs: Proofs, capsys: Any) -> None:
    every = panels()
    missing = {
        name: [panel.queries[place] for (known, place, _) in proofs.left if known == name]
        for name, panel in proofs.open().items()
    }
    proven = [panel for panel in every if panel.name not in missing]
    with capsys.disabled():
        print(f"\nproven by scenario: {proofs.by_scenario}")
        for name, reason in UNPROVEN.items():
            print(f"not proven: {name}: {reason}")
        print(
            f"figure: {len(proven)} of {len(every)} panels proven on a real Prometheus with and without honorLabels; "
            f"{len(UNPROVEN)} exceptions"
        )
    assert len(UNPROVEN) <= 5
    unexpected = {name: queries for name, queries in missing.items() if name not in UNPROVEN}
    assert not unexpected, "\n".join(f"{name}: {queries[0]}" for name, queries in unexpected.items())
    assert set(UNPROVEN) <= set(missing), "an exception that is proven is no exception"
