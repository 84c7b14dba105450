"""The pool: each target on its own schedule, targets that leave are gone, extra reads are bounded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from observer.clock import SystemClock
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.options import ScrapeSettings
from observer.collect.schedule import offset
from observer.collect.scrape import TargetPool
from observer.supervise import BackOff, Supervisor
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.targets import Address, Component, DeploymentKey, Target, TargetKey
from tests.collect.conftest import LIMITS
from tests.fakes import hostile
from tests.fakes.hostile import reply, serving

BODY = b"a 1\n"


class Kept:
    """Keeps what was read."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, Instant, float]] = []
        self.failures: list[ScrapeFailed] = []
        self.raises: Exception | None = None

    def on_body(self, target: Target, body: Fetched, at: Instant, duration_seconds: float) -> None:
        if self.raises is not None:
            raise self.raises
        self.bodies.append((target.member, at, duration_seconds))

    def on_failure(self, target: Target, failure: ScrapeFailed) -> None:
        self.failures.append(failure)

    def count(self, member: str) -> int:
        return sum(1 for each in self.bodies if each[0] == member)


def target(name: str, port: int, path: str = "/metrics") -> Target:
    return Target(
        key=TargetKey(DeploymentKey("default", "d"), f"static:{name}", "engine", port),
        component=Component.ENGINE,
        software="vllm",
        member=name,
        address=Address(host="127.0.0.1", port=port, path=path),
    )


QUICK = ScrapeSettings(period=0.2, timeout=0.1)


@contextlib.asynccontextmanager
async def pooled(settings: ScrapeSettings = QUICK, most: int = 10_000) -> AsyncIterator[tuple[TargetPool, Kept]]:
    clock, sink = SystemClock(), Kept()
    back_off = BackOff(first=0.01, longest=0.05, healthy=0.3)
    async with Fetcher(clock, LIMITS) as fetcher, Supervisor(clock, back_off) as supervisor:
        yield (
            TargetPool(
                fetcher=fetcher, sink=sink, clock=clock, supervisor=supervisor, settings=settings, max_targets=most
            ),
            sink,
        )


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_target_is_read_once_a_period_on_its_own_slots() -> None:
    async with serving(reply(BODY)) as server, pooled() as (pool, sink):
        one = target("a", server.port)
        await pool.sync([one])
        await until(lambda: sink.count("a") >= 5)
        begun = [(at.mono - offset(one.key, 0.2)) / 0.2 for _, at, _ in sink.bodies]
        slots = [math.floor(each + 1e-3) for each in begun]
        assert len(set(slots)) == len(slots)
        seen = pool.schedule(one.key)
        assert seen is not None
        assert seen.reads >= 5
        assert seen.next_due is not None
        assert seen.broken is None


async def test_after_a_stall_overruns_are_counted_and_missed_slots_are_not_caught_up() -> None:
    async with serving(reply(BODY)) as server, pooled() as (pool, sink):
        one = target("a", server.port)
        keep, stalls = sink.on_body, iter([1.1])

        def slow(*facts: object) -> None:
            time.sleep(next(stalls, 0.0))
            keep(*facts)  # type: ignore[arg-type]  # passed through

        sink.on_body = slow  # type: ignore[method-assign]  # a sink that stalls once
        await pool.sync([one])
        await until(lambda: sink.count("a") >= 3)
        seen = pool.schedule(one.key)
        assert seen is not None
        assert seen.overruns >= 4
        slots = [math.floor((at.mono - offset(one.key, 0.2)) / 0.2 + 1e-3) for _, at, _ in sink.bodies]
        assert len(set(slots)) == len(slots)


async def test_a_read_under_way_meets_a_wish_for_another() -> None:
    answer = asyncio.Event()

    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await answer.wait()
        await reply(BODY)(reader, writer, head)

    async with serving(held) as server, pooled(ScrapeSettings(period=1.0, timeout=0.9)) as (pool, sink):
        one = target("a", server.port)
        await pool.sync([one])
        await until(lambda: len(server.heads) == 1)
        wish = asyncio.ensure_future(pool.refresh([one.key]))
        await asyncio.sleep(0)
        answer.set()
        await wish
        assert sink.count("a") == 1
        seen = pool.schedule(one.key)
        assert seen is not None
        await asyncio.sleep(0.05)
        assert (len(server.heads), seen.extra_reads) == (1, 0)


async def test_a_target_that_left_is_never_asked_again() -> None:
    async with serving(reply(BODY)) as old, serving(reply(BODY)) as new, pooled() as (pool, sink):
        await pool.sync([target("a", old.port), target("b", new.port)])
        await until(lambda: sink.count("a") >= 1 and sink.count("b") >= 1)
        await pool.sync([target("b", new.port)])
        asked, read = len(old.heads), sink.count("a")
        assert pool.schedule(target("a", old.port).key) is None
        more = sink.count("b") + 4
        await until(lambda: sink.count("b") >= more)
        assert (len(old.heads), sink.count("a")) == (asked, read)


async def test_a_read_under_way_is_over_when_sync_returns() -> None:
    async with serving(hostile.never) as server, pooled(ScrapeSettings(period=30.0, timeout=20.0)) as (pool, sink):
        one = target("a", server.port)
        await pool.sync([one])
        waiting = asyncio.ensure_future(pool.refresh([one.key]))
        await until(lambda: len(server.heads) == 1)
        await pool.sync([])
        async with asyncio.timeout(1):
            await waiting
        assert sink.bodies == []
        assert sink.failures == []


async def test_a_changed_address_is_followed_and_keeps_its_counts() -> None:
    async with serving(reply(BODY)) as server, pooled() as (pool, sink):
        await pool.sync([target("a", server.port)])
        await until(lambda: sink.count("a") >= 2)
        await pool.sync([target("a", server.port, "/other")])
        await until(lambda: server.heads[-1].startswith(b"GET /other"))
        seen = pool.schedule(target("a", server.port).key)
        assert seen is not None
        assert seen.reads >= 2


async def test_an_unchanged_target_is_left_alone() -> None:
    async with serving(reply(BODY)) as server, pooled(ScrapeSettings(period=30.0, timeout=20.0)) as (pool, _):
        one = target("a", server.port)
        await pool.sync([one])
        await asyncio.sleep(0)
        due = pool.schedule(one.key)
        await pool.sync([target("a", server.port), target("b", server.port)])
        assert pool.schedule(one.key) == due


async def test_targets_beyond_the_limit_are_shed_visibly_and_taken_up_again() -> None:
    async with serving(reply(BODY)) as server, pooled(most=2) as (pool, sink):
        targets = [target(name, server.port) for name in "abc"]
        await pool.sync(targets)
        assert pool.shed == (targets[2].key,)
        seen = pool.schedule(targets[2].key)
        assert seen is not None
        assert (seen.shed, seen.next_due) == (True, None)
        await until(lambda: sink.count("a") >= 2)
        assert sink.count("c") == 0
        await pool.sync(targets[1:])
        assert pool.shed == ()
        await until(lambda: sink.count("c") >= 1)


async def test_an_extra_read_is_made_at_once_and_only_once_in_a_period() -> None:
    async with serving(reply(BODY)) as server, pooled(ScrapeSettings(period=60.0, timeout=1.0)) as (pool, sink):
        one = target("a", server.port)
        await pool.sync([one])
        await asyncio.gather(*(pool.refresh([one.key, one.key]) for _ in range(5)))
        assert sink.count("a") == 1
        await pool.refresh([one.key])
        assert sink.count("a") == 1
        seen = pool.schedule(one.key)
        assert seen is not None
        assert (seen.reads, seen.extra_reads) == (1, 1)


async def test_extra_reads_are_bounded_in_number_and_time() -> None:
    # A period so long that no scheduled read falls into the test by chance.
    settings = ScrapeSettings(period=36_000.0, timeout=50.0, extra_in_flight=4, extra_budget=0.3)
    async with serving(hostile.never) as server, pooled(settings) as (pool, _):
        targets = [target(f"m{index}", server.port) for index in range(12)]
        await pool.sync(targets)
        began = asyncio.get_running_loop().time()
        await pool.refresh([each.key for each in targets])
        assert 0.25 < asyncio.get_running_loop().time() - began < 2.0
        assert len(server.heads) == 4


async def test_a_refresh_of_many_reads_each_once() -> None:
    settings = ScrapeSettings(period=36_000.0, timeout=5.0, extra_in_flight=4)
    async with serving(reply(BODY)) as server, pooled(settings) as (pool, sink):
        targets = [target(f"m{index}", server.port) for index in range(50)]
        await pool.sync(targets)
        await pool.refresh([*(each.key for each in targets), target("unknown", 1).key])
        assert Counter(name for name, _, _ in sink.bodies) == Counter(each.member for each in targets)


async def test_a_failure_is_told_with_its_time_and_logged_on_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="observer.collect.scrape")
    async with pooled() as (pool, sink):
        async with serving(reply(BODY)) as server:
            one = target("a", server.port)
            await pool.sync([one])
            await until(lambda: sink.count("a") >= 1)
        await until(lambda: len([each for each in sink.failures if each.kind is FailureKind.REFUSED]) >= 3)
        last = sink.failures[-1]
        assert last.target == one.key
        assert 0 <= last.duration_seconds < 0.2
        assert last.at.mono > sink.bodies[-1][1].mono
    texts = [record.getMessage() for record in caplog.records]
    assert len([text for text in texts if "Refused" in text]) == 1


async def test_a_bug_in_the_sink_breaks_only_its_target_visibly() -> None:
    async with serving(reply(BODY)) as server, pooled() as (pool, sink):
        one = target("a", server.port)
        sink.raises = ZeroDivisionError("bug")
        await pool.sync([one])
        await until(lambda: bool((seen := pool.schedule(one.key)) and seen.broken))
        seen = pool.schedule(one.key)
        assert seen is not None
        assert seen.broken == "ZeroDivisionError: bug"
        sink.raises = None
        await until(lambda: sink.count("a") >= 1)
        await until(lambda: bool((seen := pool.schedule(one.key)) and seen.broken is None))
