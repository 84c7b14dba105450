"""Our own HTTP client against aiohttp's session, as the observer uses it for https: CPU of one GET in the client.

    python -m benchmarks.fetching [--rounds N] [--seconds S]

Both ask the same listeners (`benchmarks.target_server`) for a chunked exposition of about 192 kB and for an API answer of
about 80 B: paced, a few hundred a second with cold caches, alone or in the small groups in which the schedule begins
reads (`observer.collect.schedule.grain`), and flat out with 32 in flight. The cost of pacing alone is measured beside them
and taken off. Bodies are compared once before.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from yarl import URL

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measuring import Report, Rounds, spread
from benchmarks.processes import Servers
from observer.clock import SystemClock
from observer.collect.allocator import raise_file_limit, tune_allocator
from observer.collect.fetch import Fetched, Fetcher, Request
from observer.collect.options import BodyLimits
from observer.collect.schedule import TOGETHER
from router_contract.targets import Address

TARGETS = 64
RATE = 250.0
IN_FLIGHT = 32
PACED = {"alone": 1, "in groups": TOGETHER}
PATHS = {"191 kB": "/metrics", "80 B": "/v1/models"}
RATIO = 0.5
SMALL_US = 80.0
Ask = Callable[[Address], Awaitable[object]]


class Library(Fetcher):
    """The same, but everything goes over aiohttp."""

    def _make(self, address: Address, headers: dict[str, str]) -> Request:
        return Request(None, URL(address.url, encoded=True), headers)


async def nothing(_: Address) -> None:
    """What pacing alone costs."""


def asking(fetcher: Fetcher) -> Ask:
    async def ask(address: Address) -> None:
        outcome = await fetcher.fetch(address, 5.0)
        assert isinstance(outcome, Fetched), outcome

    return ask


async def paced(ask: Ask, addresses: list[Address], seconds: float, together: int) -> float:
    """CPU seconds of one GET at a steady rate, so many begun at once."""
    count = int(seconds * RATE)
    loop = asyncio.get_running_loop()
    begun, start = time.process_time(), loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            if number % together == 0:
                await asyncio.sleep(max(0.0, start + number / RATE - loop.time()))
            group.create_task(ask(addresses[number % len(addresses)]))
    return (time.process_time() - begun) / count


async def flat_out(ask: Ask, addresses: list[Address], seconds: float) -> float:
    """CPU seconds of one GET with so many always in flight."""
    end, count = time.monotonic() + seconds, 0
    begun = time.process_time()

    async def one(share: list[Address]) -> None:
        nonlocal count
        while time.monotonic() < end:
            for address in share:
                await ask(address)
                count += 1

    await asyncio.gather(*(one(addresses[place::IN_FLIGHT]) for place in range(IN_FLIGHT)))
    return (time.process_time() - begun) / count


async def measure(ports: list[int], rounds: int, seconds: float) -> Rounds:
    """CPU seconds a GET by way, body and client."""
    found: Rounds = {}
    async with AsyncExitStack() as stack:
        limits = BodyLimits()
        ours = await stack.enter_async_context(Fetcher(SystemClock(), limits))
        library = await stack.enter_async_context(Library(SystemClock(), limits))
        at = {body: [Address(host="127.0.0.1", port=port, path=path) for port in ports] for body, path in PATHS.items()}
        # The exposition moves every few seconds; the other does not.
        assert await ours.fetch(at["80 B"][0], 5.0) == await library.fetch(at["80 B"][0], 5.0)
        clients = {"ours": asking(ours), "aiohttp": asking(library), "pacing": nothing}
        for number in range(rounds):
            print(f"fetching: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for body, addresses in at.items():
                for client, ask in clients.items():
                    gc.collect()
                    for way, together in PACED.items():
                        value = await paced(ask, addresses, seconds, together)
                        found.setdefault(f"{way} {body} {client}", []).append(value)
                    if ask is not nothing:
                        value = await flat_out(ask, addresses, seconds / 3)
                        found.setdefault(f"flat out {body} {client}", []).append(value)
    return found


def tell(found: Rounds) -> int:
    """Print and judge."""
    report = Report("fetching", "aiohttp", "uvloop")
    for way in (*PACED, "flat out"):
        for body in PATHS:
            names = {name: f"{way} {body} {name}" for name in ("ours", "aiohttp", "pacing")}
            rest = found.get(names["pacing"], [0.0] * len(found[names["ours"]]))
            cost = {
                name: [each - more for each, more in zip(found[names[name]], rest, strict=True)]
                for name in ("ours", "aiohttp")
            }
            ratio = statistics.median(a / b for a, b in zip(cost["ours"], cost["aiohttp"], strict=True))
            told = f"{spread(cost['ours'], 1e6)} us, aiohttp {spread(cost['aiohttp'], 1e6)} us"
            report.line(f"{body} {way}, of aiohttp's CPU", told, round(ratio, 3), RATIO, at_least=False)
            if way in PACED and body == "80 B":
                value = statistics.median(cost["ours"]) * 1e6
                limit = SMALL_US if way == "in groups" else None
                report.line(f"{body} {way}, CPU of one", f"{value:.0f} us", round(value, 1), limit, at_least=False)
    return report.end()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=2.0)
    chosen = options.parse_args()
    tune_allocator()
    raise_file_limit()
    with Servers(TARGETS, 1) as servers, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return tell(runner.run(measure(servers.ports, chosen.rounds, chosen.seconds)))


if __name__ == "__main__":
    sys.exit(main())
