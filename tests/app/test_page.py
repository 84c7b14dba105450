"""Raw bodies kept of few targets, and the board's turns within a budget."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from observer.app.page import INTEREST_SECONDS, KEPT_BODIES, KEPT_BYTES, KEPT_BYTES_FAILING, Bodies
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey
from tests.exporters.judged import judged
from tests.exporters.page_world import PageWorld
from tests.exporters.reports import NOW
from tests.fleets import HandClock, at, key

ONE, OTHER = key("p0", 8000), key("p1", 8001)


def saw(
    bodies: Bodies, of: object = ONE, data: bytes = b"a 1\n", seconds: float = 1, *, understood: bool = True
) -> None:
    bodies.saw(of, data, "text/plain", at(seconds), understood=understood)


def test_bodies_are_kept_only_of_targets_that_somebody_looks_at() -> None:
    bodies = Bodies(HandClock())
    saw(bodies)
    assert bodies.body(ONE) is None
    saw(bodies)
    saw(bodies, OTHER)
    kept = bodies.body(ONE)
    assert kept is not None
    assert (kept.text, kept.size, kept.cut, kept.at) == ("a 1\n", 4, False, at(1))
    assert bodies.body(OTHER) is None


def test_a_body_that_could_not_be_understood_is_kept_until_one_can() -> None:
    bodies = Bodies(HandClock())
    saw(bodies, data=b"<" * (KEPT_BYTES_FAILING + 1), understood=False)
    kept = bodies._kept[ONE]
    assert (kept.kept, kept.cut) == (KEPT_BYTES_FAILING, True)
    saw(bodies)
    assert ONE not in bodies._kept


def test_what_is_kept_is_bounded_in_bytes_number_and_time() -> None:
    clock = HandClock()
    bodies = Bodies(clock)
    bodies.body(ONE)
    saw(bodies, data=b"\xff" * (KEPT_BYTES + 5))
    kept = bodies.body(ONE)
    assert kept is not None
    assert (kept.kept, kept.size, kept.cut) == (KEPT_BYTES, KEPT_BYTES + 5, True)
    for port in range(KEPT_BODIES + 5):
        saw(bodies, key("many", port), understood=False)
    assert len(bodies._kept) == KEPT_BODIES
    saw(bodies, seconds=INTEREST_SECONDS + 1)
    assert ONE not in bodies._kept


def test_nothing_is_kept_of_a_target_that_is_gone() -> None:
    bodies = Bodies(HandClock())
    bodies.body(ONE)
    saw(bodies)
    bodies.retain(frozenset({OTHER}))
    assert bodies.body(ONE) is None


def many(count: int) -> PageWorld:
    base = judged()
    keys = [DeploymentKey("prod", f"d{number}") for number in range(count)]
    return PageWorld(*(replace(base, deployment=replace(base.deployment, key=each)) for each in keys))


def names(world: PageWorld) -> Sequence[str]:
    return [line.row.key.name for line in world.page.board.lines()]


async def test_a_turn_makes_at_least_one_line_and_the_oldest_first() -> None:
    world = many(3)
    for made in (1, 2, 3):
        assert await world.page.board.turn(0.0) == 1
        assert len(names(world)) == made
    later = Instant(NOW.mono + 60, NOW.wall + 60)
    world.reports.reports = {each: replace(report, at=later) for each, report in world.reports.reports.items()}
    await world.page.board.turn(0.0)
    assert [line.row.at == later for line in world.page.board.lines()] == [True, False, False]
    await world.page.board.turn(0.0)
    assert [line.row.at == later for line in world.page.board.lines()] == [True, True, False]


async def test_a_turn_forgets_deployments_that_are_gone_with_their_past() -> None:
    world = many(2)
    await world.page.board.turn(10.0)
    gone, stays = world.reports.keys()
    assert world.history.past(gone, world.clock.now()).times
    del world.reports.reports[gone]
    await world.page.board.turn(10.0)
    assert names(world) == [stays.name]
    assert world.history.past(gone, world.clock.now()).times == ()


async def test_what_was_not_judged_has_no_past() -> None:
    world = PageWorld(replace(judged(), judged=False))
    await world.page.board.turn(10.0)
    (only,) = world.reports.keys()
    assert world.history.past(only, world.clock.now()).times == ()
