"""Children that fail, recover, end and are stopped."""

from __future__ import annotations

import asyncio
import logging

import pytest

from observer.clock import SystemClock
from observer.supervise import BackOff, Supervisor

QUICK = BackOff(first=0.001, longest=0.01, healthy=0.05)


async def until(condition: object, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]  # a callable
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(("failures", "pause"), [(1, 1.0), (2, 2.0), (3, 4.0), (7, 60.0), (1000, 60.0)])
def test_pauses_double_up_to_the_longest(failures: int, pause: float) -> None:
    assert BackOff().pause(failures) == pause


async def test_a_failing_child_is_visible_restarted_and_logged_once_for_each_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = iter(["one", "one", "one", "two"])
    done = asyncio.Event()

    async def run() -> None:
        text = next(texts, None)
        if text is None:
            done.set()
            await asyncio.Event().wait()
        raise ValueError(text)

    caplog.set_level(logging.INFO)
    async with Supervisor(SystemClock(), QUICK) as supervisor:
        child = supervisor.start("reader", run)
        await done.wait()
        (broken,) = supervisor.broken()
        assert (broken.name, broken.error, broken.failures) == ("reader", "ValueError: two", 4)
        await until(lambda: not supervisor.broken())
        assert child.failures == 4
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO"]


async def test_a_child_does_not_disturb_another() -> None:
    ticks = 0

    async def good() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async def bad() -> None:
        raise RuntimeError("no")

    async with Supervisor(SystemClock(), QUICK) as supervisor:
        supervisor.start("good", good)
        supervisor.start("bad", bad)
        await until(lambda: ticks > 20)
        assert [each.name for each in supervisor.broken()] == ["bad"]


async def test_a_child_that_returns_is_done() -> None:
    async def run() -> None:
        return

    async with Supervisor(SystemClock()) as supervisor:
        supervisor.start("once", run)
        await until(lambda: supervisor.running == 0)
        assert supervisor.broken() == ()


async def test_stop_awaits_what_the_child_does_at_its_end() -> None:
    ended: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("closed")

    async with Supervisor(SystemClock()) as supervisor:
        child = supervisor.start("slow to end", run)
        never_ran = supervisor.start("not begun", run)
        await supervisor.stop(never_ran)
        await asyncio.sleep(0)
        await supervisor.stop(child)
        assert "closed" in ended
        assert supervisor.running == 0


async def test_a_cancellation_from_inside_is_a_failure_not_silence() -> None:
    async def run() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with Supervisor(SystemClock(), QUICK) as supervisor:
        supervisor.start("cancelled", run)
        await until(lambda: bool(supervisor.broken()))
        assert "cancelled from inside" in supervisor.broken()[0].error
        assert supervisor.running == 1


async def test_leaving_stops_every_child_and_lets_errors_of_the_body_out() -> None:
    ended = 0

    async def run() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    async def body() -> None:
        async with Supervisor(SystemClock()) as supervisor:
            for index in range(5):
                supervisor.start(f"child {index}", run)
            await asyncio.sleep(0)
            raise KeyError("body")

    with pytest.raises(BaseExceptionGroup) as caught:
        await body()
    assert isinstance(caught.value.exceptions[0], KeyError)
    assert ended == 5


async def test_what_is_no_ordinary_exception_ends_the_program() -> None:
    class Fatal(BaseException):
        pass

    async def run() -> None:
        raise Fatal

    async def body() -> None:
        async with Supervisor(SystemClock()) as supervisor:
            supervisor.start("fatal", run)
            await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup):
        await body()
