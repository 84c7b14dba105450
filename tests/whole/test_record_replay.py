"""What is recorded while scenarios run comes to the same reports and verdicts when it is replayed, every time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from observer.app.replay import replay
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.recording import Recorder, Recording
from observer.persist import StateFile
from observer.settings import load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.kv_fleet import publishing
from observer.simulate.spec import FleetSpec, demo_fleet
from router_contract.readings import Instant
from router_contract.targets import TargetKey
from router_contract.verdicts import DeploymentReport
from tests.whole.world import SETTINGS, asking, deployments_of, small_fleet

SCENARIOS = ("engine-restart", "circuit-open", "engine-down", "steady")


def not_due(_: TargetKey) -> tuple[float | None, bool]:
    return None, False


async def record(
    spec: FleetSpec,
    folder: Path,
    path: Path,
    scenarios: tuple[str, ...],
    *,
    kv: bool = False,
    state: Path | None = None,
) -> list[DeploymentReport]:
    """Watch a fleet through scenarios; the live reports at the last recorded moment, as `replay` makes its own."""
    clock = SystemClock()
    hooks = publishing(clock) if kv else None
    recorder = Recorder(path, writer="test", started=clock.now(), settings=msgspec.to_builtins(SETTINGS))
    kept = StateFile(state) if state is not None else None
    async with SimulatedFleet(spec, clock=clock, hooks=hooks) as fleet:
        watcher = Watcher(SETTINGS, clock, listen="127.0.0.1:0", recorder=recorder, state=kept)
        async with asking(watcher) as asked:
            await watcher.watch(deployments_of(fleet, folder))
            await asked.ready()
            for scenario in scenarios:
                await fleet.apply(scenario)
                await watcher.watch(deployments_of(fleet, folder))
                await asyncio.sleep(1.2)
    recorder.close()
    if kept is not None:
        kept.__exit__(None, None, None)
    ended = last_moment(path)
    keys = watcher.store.keys()
    found = [watcher.store.report(key, ended, not_due) for key in keys]
    return [watcher.judging.add_verdicts(report) for report in found if report is not None]


def last_moment(path: Path) -> Instant:
    with Recording(path) as recording:
        return max(event.at for event in recording.events())


def plain(reports: list[DeploymentReport]) -> list[object]:
    return [msgspec.to_builtins(report) for report in reports]


def differing(one: object, other: object, place: str = "") -> list[str]:
    """Where two plain values differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differing(one[key], other[key], f"{place}.{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [
            found
            for index, pair in enumerate(zip(one, other, strict=True))
            for found in differing(*pair, f"{place}[{index}]")
        ]
    same = one == other or (one != one and other != other)
    return [] if same else [f"{place}: {one!r} is not {other!r}"]


async def replayed(path: Path) -> list[DeploymentReport]:
    return list((await replay(path, 0.0, asyncio.Event())).reports)


async def test_a_recording_comes_to_the_same_every_time(tmp_path: Path) -> None:
    path = tmp_path / "run.obsrec"
    live = await record(small_fleet(routers=2), tmp_path, path, SCENARIOS)
    first, second = await replayed(path), await replayed(path)
    assert len(live) == 1
    assert not differing(plain(first), plain(second))
    assert not differing(plain(live), plain(first))
    (report,) = first
    assert report.judged
    assert {each.type for each in report.conditions} >= {"EndpointEligibility", "RouterConverged", "MetricsFresh"}
    assert any(transition.what.startswith("group ") for transition in report.transitions), "the scenarios left a trace"
    with Recording(path) as recording:
        kinds = {event.kind for event in recording.events()}
    assert kinds >= {"fleet", "body", "failed", "probe", "view", "pass"}


@pytest.mark.parametrize("kv", [False, True], ids=["without-events", "with-events"])
async def test_the_demo_fleet_with_every_router_and_engine_replays_alike(tmp_path: Path, kv: bool) -> None:
    path = tmp_path / "demo.obsrec"
    live = await record(demo_fleet(rate=10.0), tmp_path, path, ("router-restart",), kv=kv)
    assert len(live) == 4
    assert not differing(plain(live), plain(await replayed(path)))
    with Recording(path) as recording:
        assert any(event.kind == "kv" and recording.streams(event) for event in recording.events()) is kv


async def test_what_was_stored_before_is_in_the_recording(tmp_path: Path) -> None:
    path, state = tmp_path / "second.obsrec", tmp_path / "state"
    before = await record(small_fleet(), tmp_path, tmp_path / "first.obsrec", (), state=state)
    live = await record(small_fleet(), tmp_path, path, (), state=state)
    assert not differing(plain(live), plain(await replayed(path)))
    assert before
    with Recording(path) as recording:
        assert "stored" in {event.kind for event in recording.events()}


async def test_a_recording_hides_what_may_be_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\ndeployments:\n- name: chat\n"
        "  engine: {name: vllm}\n  roles:\n  - name: server\n    headers: {X-Team-Key: s3cret}\n"
        "    addresses: ['127.0.0.1:1']\n"
    )
    path = tmp_path / "a.obsrec"
    clock = SystemClock()
    deployments = load_files([file]).deployments
    assert "s3cret" in str(deployments)
    with Recorder(path, writer="test", started=clock.now()) as recorder:
        recorder.fleet(deployments, clock.now())
    with Recording(path) as recording:
        (event,) = recording.events()
        assert b"s3cret" not in recording.body(event)
        assert recording.deployments(event)[0].key == deployments[0].key
