"""Files that change while the observer serves: who left is asked no more, and a bad version changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from observer.app.run import _following
from observer.clock import SystemClock
from observer.settings import load_files
from router_contract.verdicts import TargetState
from tests.fakes.hostile import Server, reply, serving
from tests.fleets import body
from tests.whole.world import Asking, asking_of

FLEET = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Fleet
deployments:
- namespace: demo
  name: chat
  engine: {name: vllm}
  roles:
  - name: server
    addresses: [ADDRESSES]
"""
SETTINGS = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Settings
scrape: {period: 500ms, timeout: 400ms}
windows: {span: 5s}
judging: {period: 200ms}
files: {watchPeriod: 100ms}
"""


def fleet_of(*servers: Server) -> str:
    return FLEET.replace("ADDRESSES", ", ".join(f"'127.0.0.1:{server.port}'" for server in servers))


@asynccontextmanager
async def followed(folder: Path, count: int) -> AsyncIterator[tuple[Asking, Path, list[Server]]]:
    """An observer that follows two files, and some engines; at first it watches the first two of them."""
    fleet, settings = folder / "fleet.yaml", folder / "settings.yaml"
    settings.write_text(SETTINGS)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(reply(body()))) for _ in range(count)]
        fleet.write_text(fleet_of(*servers[:2]))
        files = [settings, fleet]
        watcher = await stack.enter_async_context(
            _following(files, load_files(files), SystemClock(), listen="127.0.0.1:0")
        )
        asked = await stack.enter_async_context(asking_of(watcher))
        await asked.ready(2)
        yield asked, fleet, servers


def ports(asked: Asking) -> set[int]:
    return {status.key.port for status in asked.watcher.source.targets()}


async def test_who_left_is_asked_no_more_and_who_came_is_read(tmp_path: Path) -> None:
    async with followed(tmp_path, 3) as (asked, fleet, (first, second, third)):
        assert ports(asked) == {first.port, second.port}
        fleet.write_text(fleet_of(second, third))
        await asked.until(lambda: ports(asked) == {second.port, third.port}, "the new list")
        await asked.until(lambda: len(third.heads) >= 2, "the newcomer is read")
        # The list is shown once the old loops were told to stop; the newcomer is only read after they have ended.
        left, stayed = len(first.heads), len(second.heads)
        await asked.until(lambda: len(second.heads) >= stayed + 4, "several further rounds")
        assert len(first.heads) == left
        targets = await asked.targets()
        assert {item["port"] for item in targets.values()} == {second.port, third.port}
        await asked.until(
            lambda: {status.state for status in asked.watcher.source.targets()} == {TargetState.UP}, "both are up"
        )


async def test_an_invalid_version_keeps_the_last_good_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with followed(tmp_path, 3) as (asked, fleet, (first, second, third)):
        with caplog.at_level(logging.ERROR):
            fleet.write_text(fleet_of(first, third).replace("kind: Fleet", "kind: Fleeet"))
            await asked.until(lambda: "Fleeet" in caplog.text, "the fault is said")
        assert ports(asked) == {first.port, second.port}
        reads = len(first.heads)
        await asked.until(lambda: len(first.heads) >= reads + 2, "reading goes on")
        assert not third.heads
        fleet.write_text(fleet_of(first, third))
        await asked.until(lambda: ports(asked) == {first.port, third.port}, "the corrected version")


async def test_an_emptied_fleet_leaves_nothing_behind(tmp_path: Path) -> None:
    async with followed(tmp_path, 2) as (asked, fleet, servers):
        fleet.write_text("apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\ndeployments: []\n")
        await asked.until(lambda: not ports(asked), "no target")
        counts = [len(server.heads) for server in servers]
        await asyncio.sleep(1.0)
        assert [len(server.heads) for server in servers] == counts
        assert (await asked.get("/api/v1/deployments"))["items"] == []
