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

    def __call__(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
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
