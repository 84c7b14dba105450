"""Turns: one at a time for each entry, at slots, at once when asked, with rests after bugs, none after it left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from observer.clock import SystemClock
from observer.collect.schedule import grain
from observer.collect.timetable import Entry, Timetable
from observer.supervise import BackOff, Supervisor

PERIOD = 0.1


class Told(Entry):
    """Notes its turns; can be held, or raise."""

    def __init__(self, name: str, shift: float = 0.0) -> None:
        super().__init__(name, shift)
        self.turns: list[tuple[float, bool]] = []
        self.running = self.most = 0
        self.free = asyncio.Event()
        self.free.set()
        self.error: BaseException | None = None

    async def turn(self, *, extra: bool) -> None:
        self.turns.append((SystemClock().now().mono, extra))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.free.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.running -= 1


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def keeping(period: float = PERIOD, first: float = 0.05) -> AsyncIterator[tuple[Timetable, Supervisor]]:
    clock = SystemClock()
    async with Supervisor(clock, BackOff(first=first, longest=4 * first, healthy=0.3)) as supervisor:
        yield Timetable("test", clock=clock, supervisor=supervisor, period=period), supervisor


async def test_every_entry_has_each_of_its_slots_and_never_early() -> None:
    async with keeping() as (table, supervisor):
        entries = [Told(f"e{index}", index * PERIOD / 50) for index in range(50)]
        for entry in entries:
            table.add(entry)
        await until(lambda: all(len(entry.turns) >= 4 for entry in entries))
        for entry in entries:
            places = [(at - entry.shift) / PERIOD for at, _ in entry.turns]
            slots = [math.floor(place + 1e-6) for place in places]
            assert len(set(slots)) == len(slots)
            assert (entry.most, entry.failures) == (1, 0)
        await until(lambda: supervisor.running == 1)  # between turns there is only the keeper


async def test_a_wish_during_a_turn_is_met_right_after_it() -> None:
    async with keeping(60.0) as (table, _):
        entry = Told("a")
        table.add(entry)
        entry.free.clear()
        table.poke(entry)
        await until(lambda: entry.running == 1)
        table.poke(entry)
        await asyncio.sleep(0.02)
        assert len(entry.turns) == 1
        entry.free.set()
        await until(lambda: len(entry.turns) == 2)
        assert (entry.most, [extra for _, extra in entry.turns]) == (1, [True, True])
        await asyncio.sleep(0.02)
        assert len(entry.turns) == 2


async def test_a_wish_does_not_cost_the_slot_nor_wait_for_the_grain() -> None:
    async with keeping(1.0) as (table, _):
        entry = Told("a", (SystemClock().now().mono + 0.5) % 1.0)
        table.add(entry)
        due = entry.next_due
        table.poke(entry)
        await until(lambda: len(entry.turns) == 1)
        assert due is not None
        assert entry.turns[0][0] < due - 0.2
        assert entry.next_due == due
        await until(lambda: len(entry.turns) == 2)
        assert [extra for _, extra in entry.turns] == [True, False]


async def test_after_remove_no_turn_is_under_way_nor_comes() -> None:
    async with keeping() as (table, supervisor):
        gone, stays, never = Told("gone"), Told("stays"), Told("never")
        gone.free.clear()
        table.add(gone)
        table.add(stays)
        await until(lambda: gone.running == 1)
        await table.remove(gone)
        assert gone.running == 0
        table.add(never)
        table.poke(never)
        await table.remove(never)
        turns = len(stays.turns)
        await until(lambda: len(stays.turns) >= turns + 3)
        assert (len(gone.turns), never.turns) == (1, [])
        await until(lambda: supervisor.running == 1)
        table.add(gone)
        gone.free.set()
        await until(lambda: len(gone.turns) >= 3)


async def test_entries_that_left_are_not_held_until_they_would_have_been_due() -> None:
    async with keeping(300.0) as (table, _):
        left = []
        for _ in range(20):
            entries = [Told(f"e{index}", index * 2.0) for index in range(100)]
            left += [weakref.ref(entry) for entry in entries]
            for entry in entries:
                table.add(entry)
            await table.remove(*entries)
            del entries, entry
        gc.collect()
        assert sum(each() is not None for each in left) <= 64


async def test_a_bug_makes_only_its_entry_rest_visibly_and_wishes_wait_for_the_end_of_its_rest() -> None:
    async with keeping(first=0.2) as (table, supervisor):
        bad, good = Told("bad"), Told("good")
        bad.error = ZeroDivisionError("bug")
        table.add(bad)
        table.add(good)
        await until(lambda: bad.broken is not None)
        assert [each.name for each in supervisor.broken()] == ["bad"]
        table.poke(bad)
        turns = len(good.turns)
        await until(lambda: len(bad.turns) == 2)
        assert bad.turns[1][0] - bad.turns[0][0] >= 0.19
        assert len(good.turns) > turns
        bad.error = None
        await until(lambda: bad.broken is None)
        assert supervisor.broken() == ()
        assert (bad.failures, bad.in_a_row) == (2, 2)


async def test_a_cancellation_from_inside_is_a_failure_and_the_entry_goes_on() -> None:
    async with keeping(first=0.01) as (table, supervisor):
        entry = Told("a")
        entry.error = asyncio.CancelledError()
        table.add(entry)
        await until(lambda: bool(supervisor.broken()))
        assert "cancelled from inside" in supervisor.broken()[0].error
        entry.error = None
        turns = len(entry.turns)
        await until(lambda: len(entry.turns) > turns)


async def test_leaving_ends_turns_that_run() -> None:
    entry = Told("a")
    entry.free.clear()
    async with keeping() as (table, _):
        table.add(entry)
        await until(lambda: entry.running == 1)
    assert entry.running == 0


@pytest.mark.parametrize(
    ("period", "members", "wanted"),
    [
        (15.0, 10_000, 1 / 128),
        (15.0, 1000, 1 / 16),
        (15.0, 1, 1 / 4),
        (5.0, 200, 1 / 8),
        (0.2, 100, 1 / 256),
        (1.0, 100_000, 1 / 1024),
    ],
)
def test_few_begin_together_and_never_much_too_late(period: float, members: int, wanted: float) -> None:
    assert grain(period, members) == wanted
