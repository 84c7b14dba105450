"""A thousand targets, half of them dead in every way: the others stay fresh, memory stays flat. Prints its figures."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from pathlib import Path

import uvloop

from observer.clock import SystemClock
from observer.collect.allocator import raise_file_limit, tune_allocator
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.options import BodyLimits, ScrapeSettings
from observer.collect.scrape import TargetPool
from observer.supervise import Supervisor
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.targets import Address, Component, DeploymentKey, Target, TargetKey
from tests.fakes import hostile
from tests.fakes.hostile import raw, reply, serving

SETTINGS = ScrapeSettings(period=2.0, timeout=0.5)
BODY = b"# TYPE vllm:num_requests_running gauge\n" + b"".join(
    b'vllm:num_requests_running{engine="%d"} %d\n' % (index, index) for index in range(8)
)
WARM_SECONDS = 4.5
RUN_SECONDS = 11.0


class Watched:
    """When each target was read, and how each failed."""

    def __init__(self) -> None:
        self.reads: dict[str, list[float]] = defaultdict(list)
        self.kinds: dict[str, Counter[str]] = defaultdict(Counter)

    def on_body(self, target: Target, body: Fetched, at: Instant, duration_seconds: float) -> None:
        assert body.data == BODY
        self.reads[target.member].append(at.mono)

    def on_failure(self, target: Target, failure: ScrapeFailed) -> None:
        self.kinds[target.member][failure.kind.value] += 1


def target(name: str, port: int) -> Target:
    key = TargetKey(DeploymentKey("default", name), f"static:{name}", "engine", port)
    address = Address(host="127.0.0.1", port=port)
    return Target(key=key, component=Component.ENGINE, software="vllm", member=name, address=address)


def resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def run() -> tuple[Watched, list[int], float]:
    sink, clock = Watched(), SystemClock()
    limits = BodyLimits(body=1 << 20, own=64 << 10, shared=8 << 20)
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        good = await enter(serving(reply(BODY)))
        broken = await enter(serving(reply(status="500 Oops")))
        cut = await enter(serving(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na 1")))
        endless = await enter(serving(hostile.endless))
        drip = await enter(serving(hostile.dripping(0.05)))
        mute = stack.enter_context(hostile.mute())
        full = stack.enter_context(hostile.full_backlog())
        plan = [("good", 500, good.port), ("Refused", 200, hostile.closed_port()), ("Timeout-mute", 100, mute)]
        plan += [("Timeout-full", 100, full), ("Timeout-drip", 30, drip.port), ("TooLarge", 10, endless.port)]
        plan += [("Truncated", 30, cut.port), ("Http", 30, broken.port)]
        fetcher = await enter(Fetcher(clock, limits))
        supervisor = await enter(Supervisor(clock))
        pool = TargetPool(fetcher=fetcher, sink=sink, clock=clock, supervisor=supervisor, settings=SETTINGS)
        await pool.sync(target(f"{name}-{index}", port) for name, count, port in plan for index in range(count))
        memory = []
        for seconds in (WARM_SECONDS, (RUN_SECONDS - WARM_SECONDS) / 2, (RUN_SECONDS - WARM_SECONDS) / 2):
            await asyncio.sleep(seconds)
            memory.append(resident())
        ended = clock.now().mono
        await pool.sync([])
    return sink, memory, ended


def test_half_of_a_thousand_dead_targets_spoil_nothing() -> None:
    tune_allocator()
    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sink, memory, ended = runner.run(run())
    assert len(sink.reads) == 500
    gaps = [
        max(later - earlier for earlier, later in zip(reads, [*reads[1:], ended], strict=True))
        for reads in sink.reads.values()
    ]
    dead = {name: kinds for name, kinds in sink.kinds.items() if not name.startswith("good")}
    wrong = {name: kinds for name, kinds in dead.items() if set(kinds) != {name.split("-")[0]}}
    grown = (memory[-1] - memory[0]) / (1 << 20)
    total: Counter[str] = sum(dead.values(), Counter())
    print(
        f"1000 targets, 500 dead, period 2 s, {RUN_SECONDS:g} s: {sum(map(len, sink.reads.values()))} good reads, "
        f"failures {dict(total)}; oldest value of a good target {max(gaps):.2f} s "
        f"(fresh up to {SETTINGS.fresh_seconds:g} s); resident {memory[0] >> 20} MiB after {WARM_SECONDS:g} s, "
        f"{memory[-1] >> 20} MiB at the end ({grown:+.1f} MiB)"
    )
    assert not wrong
    assert len(dead) == 500
    assert "good" not in {name.split("-")[0] for name in sink.kinds}
    assert set(total) == {FailureKind(name).value for name in ("Refused", "Timeout", "TooLarge", "Truncated", "Http")}
    assert max(gaps) <= SETTINGS.fresh_seconds
    assert grown < 24
