"""Collections are measured, kept short while that is asked for, and left as they were found."""

from __future__ import annotations

import asyncio
import gc

from observer.app import pauses
from observer.app.pauses import Pauses
from observer.clock import SystemClock
from router_contract.readings import Instant


class Told:
    def __init__(self) -> None:
        self.rows: list[tuple[int, float, int]] = []

    def paused(self, generation: int, seconds: float, found: int) -> None:
        self.rows.append((generation, seconds, found))


def cycle() -> None:
    one: list[object] = []
    one.append(one)


def test_each_collection_is_told_with_its_generation_and_what_it_found():
    told = Told()
    watched = Pauses(SystemClock(), told)
    gc.collect()
    gc.disable()
    try:
        with watched.short():
            cycle()
            gc.collect(0)
            gc.collect(2)
            assert told.rows == []
            watched.tell()
    finally:
        gc.enable()
    assert [row[0] for row in told.rows] == [0, 2]
    assert told.rows[0][2] >= 1
    assert all(0 <= row[1] < 60 for row in told.rows)


def test_no_full_collection_comes_by_itself_and_all_is_left_as_it_was():
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    told = Told()
    watched = Pauses(SystemClock(), told)
    with watched.short():
        assert gc.get_threshold()[2] == pauses.NEVER
        kept = [[number] for number in range(pauses.YOUNG * (pauses.MIDDLE + 3))]
    watched.tell()
    assert len(kept) > pauses.YOUNG
    assert {row[0] for row in told.rows} == {0, 1}
    assert gc.get_threshold() == before
    assert gc.callbacks == callbacks


def test_each_look_is_at_the_young_and_every_fifth_at_the_middle_aged_too():
    told = Told()
    watched = Pauses(SystemClock(), told)
    gc.disable()
    try:
        with watched.short():
            for _ in range(2 * pauses.LOOKS):
                watched.look()
    finally:
        gc.enable()
    assert [row[0] for row in told.rows] == 2 * ([0] * (pauses.LOOKS - 1) + [1])


async def test_a_run_looks_through_everything_when_it_is_due_and_ends_as_it_began(monkeypatch):
    monkeypatch.setattr(pauses, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(pauses, "LONGEST_REST", 0.0)
    monkeypatch.setattr(pauses, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(pauses, "FULL_SECONDS", 0.0)
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    full = asyncio.Event()

    class Waiting(Told):
        def paused(self, generation: int, seconds: float, found: int) -> None:
            super().paused(generation, seconds, found)
            if [row[0] for row in self.rows].count(2) == 2:
                full.set()

    task = asyncio.ensure_future(Pauses(SystemClock(), Waiting()).run())
    await full.wait()
    assert gc.get_freeze_count() > 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before
    assert gc.callbacks == callbacks


class Scripted:
    """A clock that moves on by so much each time that it is asked."""

    def __init__(self, step: float) -> None:
        self.step = step
        self._mono = 0.0

    def now(self) -> Instant:
        self._mono += self.step
        return Instant(self._mono, self._mono)


def test_rests_are_long_while_there_is_little_to_look_at_and_short_again_when_there_is_much():
    clock = Scripted(pauses.SHORT / 10)
    watched = Pauses(clock, Told())
    for _ in range(4 * pauses.LOOKS):
        watched.look()
    assert watched.rest == pauses.LONGEST_REST
    clock.step = 2 * pauses.LONG
    for _ in range(4 * pauses.LOOKS):
        watched.look()
    assert watched.rest == pauses.LOOK_SECONDS
