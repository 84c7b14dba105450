"""Readiness and liveness, and the report at the moment of the call."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from observer.app.judging import Judging
from observer.app.source import Source
from observer.collect.fetch import Fetcher
from observer.collect.options import BodyLimits
from observer.collect.scrape import TargetPool
from observer.settings import Settings
from observer.store import Store
from observer.supervise import Supervisor
from router_contract.readings import FailureKind, ScrapeFailed
from router_contract.targets import Target
from router_contract.verdicts import TargetState
from tests.fleets import KEY, HandClock, at, body, deployment, store, take, target


class World:
    """A source over a store that a test fills; its pool knows the targets and is never given the time to read one."""

    def __init__(self, pool: TargetPool, clock: HandClock) -> None:
        self.clock, self.pool = clock, pool
        self.store: Store = store(clock)
        self.judging = Judging(self.store, Settings())
        self.source = Source(self.store, pool, self.judging, clock, Settings())


class Nobody:
    """A sink for reads that never come."""

    def on_body(self, *_: object) -> None: ...

    def on_failure(self, _target: Target, _failure: ScrapeFailed) -> None: ...


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = HandClock(100.0)
    async with Fetcher(clock, BodyLimits()) as fetcher, Supervisor(clock) as supervisor:
        settings = Settings().scrape
        pool = TargetPool(
            fetcher=fetcher, sink=Nobody(), clock=clock, supervisor=supervisor, settings=settings, max_targets=2
        )
        yield World(pool, clock)


async def test_ready_once_every_target_was_tried_and_all_was_judged(world: World) -> None:
    assert world.source.ready() == (False, "the list of targets was not read yet")
    of = deployment("a", "b")
    world.store.set_deployments((of,), at(100))
    world.source.loaded = True
    assert world.source.ready() == (False, "2 targets were not tried yet")
    take(world.store, of, "a", body(), 100.0)
    failure = ScrapeFailed(target=target(of, "b").key, at=at(100), kind=FailureKind.REFUSED, detail="")
    world.store.on_failure(target(of, "b"), failure)
    assert world.source.ready() == (False, "nothing was judged yet")
    world.judging.judge_all(at(100))
    assert world.source.ready() == (True, "2 targets are watched")
    world.store.set_deployments((deployment("a", "b", "c"),), at(101))
    assert world.source.ready() == (True, "3 targets are watched")


async def test_a_target_that_was_read_before_it_was_shed_stands_for_no_other(world: World) -> None:
    of = deployment("a", "b", "c")
    world.store.set_deployments((of,), at(100))
    world.source.loaded = True
    await world.pool.sync(of.targets())
    (shed,) = [each for each in of.targets() if each.key in world.pool.shed]
    take(world.store, of, shed.member, body(), 100.0)
    assert world.source.ready() == (False, "2 targets were not tried yet")
    states = {status.member: status.state for status in world.source.targets()}
    assert states[shed.member] is TargetState.SHED
    assert list(states.values()).count(TargetState.PENDING) == 2


async def test_alive_while_passes_come_on_time(world: World) -> None:
    assert world.source.alive() == (True, "the list of targets is still to come")
    world.source.watching_since = at(100)
    assert world.source.alive()[0]
    world.clock.set(111.0)
    assert world.source.alive() == (False, "the first judging pass was due 11 s ago; at most 10 s are normal")
    world.judging.judge_all(at(111))
    world.clock.set(112.5)
    assert world.source.alive() == (True, "the last judging pass began 1.5 s ago")
    world.clock.set(122.0)
    assert world.source.alive()[0] is False


async def test_a_report_is_of_the_moment_it_is_asked_for(world: World) -> None:
    of = deployment("a")
    world.store.set_deployments((of,), at(100))
    take(world.store, of, "a", body(), 100.0)
    world.clock.set(103.0)
    report = world.source.deployment(KEY)
    assert report is not None
    assert (report.at, report.judged, report.targets[0].status.age_seconds) == (at(103.0), False, 3.0)
    world.judging.judge_all(at(103))
    report = world.source.deployment(KEY)
    assert report is not None
    assert report.judged
    assert world.source.keys() == (KEY,)
    world.store.set_deployments((), at(104))
    assert world.source.deployment(KEY) is None
    await world.source.refresh(KEY)
