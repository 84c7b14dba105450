"""Stopping and starting the observer with a state file moves no ``qualifiedAt`` and changes no verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.persist import StateFile
from observer.settings import RouterSettings
from observer.simulate.fleet import SimulatedFleet
from router_contract.judging import Stored
from router_contract.status import GroupState
from router_contract.targets import Deployment
from router_contract.verdicts import DeploymentReport
from tests.whole.world import CHAT, SETTINGS, Asking, asking, deployments_of, small_fleet

PATIENT = replace(
    SETTINGS,
    scrape=ScrapeSettings(period=1.5, timeout=1.4),
    routers=RouterSettings(view_period=1.5, view_timeout=1.4, view_valid=15.0),
)
"""Slow enough that a busy machine is no outage."""


def eligible(asked: Asking) -> bool:
    stored = asked.watcher.judging.stored().get(CHAT, Stored())
    return bool(stored.groups) and {group.state for group in stored.groups} == {GroupState.ELIGIBLE}


def settled(asked: Asking) -> bool:
    statuses = {each.type: each.status.value for each in asked.report().conditions}
    return eligible(asked) and statuses.get("RouterConverged") == "True" and statuses.get("MetricsFresh") == "True"


async def life(
    deployments: tuple[Deployment, ...], file: Path, seconds: float
) -> tuple[Stored, DeploymentReport, bool]:
    """One life of the observer: until it has settled, and some time on. Also whether it ever said otherwise."""
    doubted = False
    with StateFile(file) as state:
        watcher = Watcher(PATIENT, SystemClock(), listen="127.0.0.1:0", state=state)
        async with asking(watcher) as asked:
            await watcher.watch(deployments)
            loop = asyncio.get_running_loop()
            await asked.until(lambda: asked.report().judged and settled(asked), "settled", 20.0)
            ends = loop.time() + seconds
            while loop.time() < ends:
                doubted = doubted or not settled(asked)
                await asyncio.sleep(0.05)
            report = asked.report()
        return watcher.judging.stored()[CHAT], report, doubted


def verdicts(report: DeploymentReport) -> dict[str, object]:
    """Each condition's status and since when; reasons within a status may follow the load of the moment."""
    return {each.type: (each.status, each.last_transition) for each in report.conditions}


async def test_a_restart_leaves_no_trace(tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    async with SimulatedFleet(small_fleet(routers=2)) as fleet:
        deployments = deployments_of(fleet, tmp_path)
        before, first, _ = await life(deployments, file, 2.0)
        with StateFile(file) as state:
            assert state.load()[CHAT] == before, "the last pass is in the file when the observer has stopped"
        after, second, doubted = await life(deployments, file, 2.0)
    assert not doubted
    assert [group.qualified_at for group in after.groups] == [group.qualified_at for group in before.groups]
    assert all(group.qualified_at for group in after.groups)
    assert after.transitions == before.transitions
    statuses = [[(each.type, each.status, each.last_transition) for each in of.conditions] for of in (before, after)]
    assert statuses[0] == statuses[1]
    assert after.converged_since == before.converged_since
    assert verdicts(second) == verdicts(first)
    assert second.phase == first.phase


async def test_without_a_state_file_history_begins_anew(tmp_path: Path) -> None:
    async with SimulatedFleet(small_fleet()) as fleet:
        deployments = deployments_of(fleet, tmp_path)
        before, _, _ = await life(deployments, tmp_path / "one", 0.2)
        after, _, _ = await life(deployments, tmp_path / "other", 0.2)
    assert after.groups[0].qualified_at > before.groups[0].qualified_at
