"""Names: hanging ones delay nobody else, found ones outlive a hanging look-up."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from observer.collect import resolve
from observer.collect.resolve import Resolver
from router_contract.readings import Instant


class HandClock:
    def __init__(self) -> None:
        self.mono = 100.0

    def now(self) -> Instant:
        return Instant(self.mono, self.mono)


class Names:
    """A name service in the test's hands: names hang until released, or answer at once."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.hanging: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        self.trouble: OSError | None = None

    def __call__(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        if self.trouble is not None:
            raise self.trouble
        if host in self.hanging:
            self.hanging[host].wait(20)
        if host not in self.answers:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.answers[host], 0))]

    def release(self) -> None:
        for event in self.hanging.values():
            event.set()


async def address(resolver: Resolver, host: str) -> str:
    return (await resolver.resolve(host, 80))[0]["host"]


async def test_an_answer_is_kept_for_its_time_and_then_looked_up_again() -> None:
    clock, names = HandClock(), Names()
    names.answers["a"] = "10.0.0.1"
    resolver = Resolver(clock, getaddrinfo=names)
    assert [await address(resolver, "a") for _ in range(3)] == ["10.0.0.1"] * 3
    assert names.asked == ["a"]
    names.answers["a"] = "10.0.0.2"
    clock.mono += 11
    assert await address(resolver, "a") == "10.0.0.1"
    async with asyncio.timeout(5):
        while await address(resolver, "a") != "10.0.0.2":
            await asyncio.sleep(0.005)


async def test_a_found_name_keeps_its_answer_while_its_next_lookup_hangs() -> None:
    clock, names = HandClock(), Names()
    names.answers["a"] = "10.0.0.1"
    resolver = Resolver(clock, getaddrinfo=names)
    await address(resolver, "a")
    names.hanging["a"] = threading.Event()
    clock.mono += 299
    assert await address(resolver, "a") == "10.0.0.1"
    clock.mono += 2
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await address(resolver, "a")
    names.release()
    await resolver.close()


async def test_a_name_that_vanished_is_not_answered_from_memory() -> None:
    clock, names = HandClock(), Names()
    names.answers["a"] = "10.0.0.1"
    resolver = Resolver(clock, getaddrinfo=names)
    await address(resolver, "a")
    del names.answers["a"]
    clock.mono += 11

    async def until_unknown() -> None:
        while True:
            await address(resolver, "a")
            await asyncio.sleep(0.005)

    with pytest.raises(OSError, match="not known"):
        await asyncio.wait_for(until_unknown(), 5)


TROUBLES = (
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"),
    OSError(24, "Too many open files"),
)


@pytest.mark.parametrize("trouble", TROUBLES, ids=[str(each) for each in TROUBLES])
async def test_a_found_name_keeps_its_answer_while_nobody_can_say_a_newer_one(trouble: OSError) -> None:
    clock, names = HandClock(), Names()
    names.answers["a"] = "10.0.0.1"
    resolver = Resolver(clock, getaddrinfo=names)
    await address(resolver, "a")
    names.trouble = trouble
    for asked in (2, 3):
        clock.mono += 11
        assert await address(resolver, "a") == "10.0.0.1"
        await looked_up(names, asked)
    assert await address(resolver, "a") == "10.0.0.1"
    clock.mono += 300
    with pytest.raises(OSError, match=str(trouble.args[1])):
        await address(resolver, "a")


async def looked_up(names: Names, times: int) -> None:
    """So many look-ups are over, and told of."""
    async with asyncio.timeout(5):
        while len(names.asked) < times or any(each.name.startswith("dns ") for each in threading.enumerate()):
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.01)


async def test_a_look_up_that_no_thread_can_be_had_for_is_a_failure_of_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, names = HandClock(), Names()
    names.answers |= {"known": "10.0.0.1", "new": "10.0.0.2"}
    resolver = Resolver(clock, getaddrinfo=names)
    await address(resolver, "known")
    clock.mono += 11

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert await address(resolver, "known") == "10.0.0.1"
        with pytest.raises(OSError, match="could not begin"):
            await address(resolver, "new")
    assert await asyncio.wait_for(address(resolver, "new"), 5) == "10.0.0.2"


async def test_a_found_name_keeps_its_answer_while_too_many_others_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "MAX_LOOKUPS", 1)
    clock, names = HandClock(), Names()
    names.answers["a"] = "10.0.0.1"
    resolver = Resolver(clock, getaddrinfo=names)
    await address(resolver, "a")
    names.hanging["h"] = threading.Event()
    waiting = asyncio.ensure_future(address(resolver, "h"))
    await asyncio.sleep(0)
    clock.mono += 11
    assert await address(resolver, "a") == "10.0.0.1"
    names.release()
    assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], OSError)


async def test_hanging_names_delay_no_other_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "MAX_LOOKUPS", 8)
    names = Names()
    names.answers["good"] = "10.0.0.1"
    resolver = Resolver(HandClock(), getaddrinfo=names)
    for index in range(7):
        names.hanging[f"h{index}"] = threading.Event()
    waiting = [asyncio.ensure_future(address(resolver, f"h{index}")) for index in range(7)]
    twice = asyncio.ensure_future(address(resolver, "h0"))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await address(resolver, "good") == "10.0.0.1"
    names.hanging["last"] = threading.Event()
    waiting.append(asyncio.ensure_future(address(resolver, "last")))
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="8 other names"):
        await address(resolver, "one too many")
    assert names.asked.count("h0") == 1
    names.release()
    results = await asyncio.gather(*waiting, twice, return_exceptions=True)
    assert all(isinstance(each, OSError) for each in results)
