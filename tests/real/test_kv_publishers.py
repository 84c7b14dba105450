"""The engines' own publisher classes, in a process of their own, against our collector over real ZMQ."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from observer.collect.kv_collector import KvLimits
from observer.collect.kv_socket import ReceiverLimits
from observer.collect.kv_zmq import SocketLimits
from observer.measure.stream_values import StreamLimits
from router_contract.kv_streams import History, StreamKey, StreamSource, StreamState
from router_contract.targets import KvEventSource
from tests.fakes.kv_scenarios import DEPLOYMENT, collecting, live, until

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import kv_publishers

pytestmark = pytest.mark.real
CHILD = Path(__file__).with_name("kv_child.py")


class Real:
    """An engine's publisher process."""

    def __init__(self, engine: str, process: asyncio.subprocess.Process, endpoint: str, replay: str) -> None:
        self.engine, self.process, self.endpoint, self.replay = engine, process, endpoint, replay

    async def do(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n".encode())
        async with asyncio.timeout(20):
            assert (await self.process.stdout.readline()).strip() == b"done"

    def source(self) -> StreamSource:
        return StreamSource(
            key=StreamKey(DEPLOYMENT, "uid", 0),
            member=f"{self.engine}-0",
            source=KvEventSource(endpoint=self.endpoint, replay_endpoint=self.replay),
            engine=self.engine,
            model="tiny",
        )

    def hashes(self, last: int) -> list[int]:
        return [(-1 if self.engine == "sglang" else 1) * number for number in range(1, last + 1)]


@asynccontextmanager
async def running(engine: str, buffer_steps: int = 10_000, former: Real | None = None) -> AsyncIterator[Real]:
    path = kv_publishers.path_of(engine)
    if not path.is_file():
        message = f"{kv_publishers.MODULES[engine][0]} is not fetched: run scripts/kv_publishers.py"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    ports = [address.rpartition(":")[2] for address in (former.endpoint, former.replay)] if former else []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CHILD),
        engine,
        str(path),
        str(buffer_steps),
        *ports,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            said = json.loads(await process.stdout.readline())
        yield Real(engine, process, said["endpoint"], said["replay"])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


ENGINES = pytest.mark.parametrize("engine", ["vllm", "sglang"])


@ENGINES
async def test_a_slow_joiner_of_the_real_class_knows_every_block(engine):
    async with running(engine) as real:
        await real.do("store 1 1000")
        async with collecting() as collector:
            collector.sync([real.source()])
            summary = await until(collector, live(1000), 2.0)
            assert summary.history is History.COMPLETE
            (holding,) = collector.lookup(DEPLOYMENT, real.hashes(1200)).holdings
            assert holding.blocks == 1000


@ENGINES
async def test_stores_removals_and_clears_of_the_real_class_are_followed(engine):
    async with running(engine) as real, collecting() as collector:
        collector.sync([real.source()])
        await until(collector, live(0))
        await real.do("store 1 40")
        await until(collector, live(40))
        await real.do("remove 31 40")
        await until(collector, live(30))
        await real.do("clear")
        await until(collector, live(0))
        summary = collector.summaries()[0]
        assert dict(summary.counters.events) == {"cleared": 1, "removed": 10, "stored": 40}
        assert (summary.counters.gaps, summary.approximate) == (0, ())


@ENGINES
async def test_a_buffer_too_short_is_partial(engine):
    async with running(engine, buffer_steps=100) as real:
        await real.do("store 1 1000")
        async with collecting() as collector:
            collector.sync([real.source()])
            summary = await until(collector, live(100))
            assert (summary.history, summary.approximate) == (History.PARTIAL, ())


@ENGINES
async def test_the_real_replay_drops_to_a_slow_reader_and_is_completed_by_asking_again(engine):
    sockets = SocketLimits(replay_high_water_mark=200, kernel_buffer=16 << 10, reconnect_ms=20, reconnect_max_ms=100)
    limits = KvLimits(
        stream=StreamLimits(replay_timeout=0.7), receiver=ReceiverLimits(sockets=sockets, capacity_bytes=1 << 10)
    )
    async with running(engine) as real:
        await real.do("fat 1 9000")
        async with collecting(limits) as collector:
            collector.sync([real.source()])
            await until(collector, lambda found: found.counters.batches > 0)
            time.sleep(2)
            summary = await until(collector, live(9000), 60.0)
            assert (summary.history, summary.approximate) == (History.COMPLETE, ())
            assert dict(summary.counters.replays)["asked"] > 2, summary.counters.replays


async def test_a_killed_and_restarted_real_class_leaves_no_block_of_its_old_life():
    async with collecting() as collector:
        async with running("sglang") as first:
            await first.do("store 1 50")
            collector.sync([first.source()])
            await until(collector, live(50))
        async with running("sglang", former=first) as second:
            await second.do("store 100 102")
            summary = await until(collector, live(3))
            assert summary.counters.resets == 1
            assert summary.state is StreamState.LIVE
            assert collector.lookup(DEPLOYMENT, first.hashes(5)).holdings == ()
