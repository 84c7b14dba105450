"""Programs that die, hang, lie and flood, all at once beside good ones: each is named for what it does, and spoils nothing.

Prints its figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import uvloop

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.allocator import raise_file_limit, tune_allocator
from observer.collect.options import ScrapeSettings
from observer.settings import JudgingSettings, LimitSettings, Settings
from router_contract.readings import MissingCode, State
from router_contract.targets import Address, Deployment, DeploymentKey, Tls
from tests.fakes import hostile
from tests.fakes.authority import Authority
from tests.fakes.hostile import Answer, raw, reply, serving
from tests.fleets import body, deployment, member
from tests.whole.world import Asking, asking

MIB = 1 << 20
PERIOD, TIMEOUT = 1.0, 0.5
SETTINGS = Settings(
    scrape=ScrapeSettings(period=PERIOD, timeout=TIMEOUT),
    judging=JudgingSettings(period=0.5),
    limits=LimitSettings(body=4 * MIB, shared_bodies=32 * MIB),
)
GOOD = 8
FAMILY = "vllm:request_success_total"
NAMED = f"# TYPE {FAMILY} counter\n"


def exploding(series: int) -> bytes:
    lines = (f'{FAMILY}{{engine="0",finished_reason="r{number}"}} {number}\n' for number in range(series))
    return body(more=NAMED + "".join(lines))


ANSWERS: dict[str, tuple[Answer, str]] = {
    "empty body": (reply(b""), "NotExposition"),
    "HTML body": (reply(b"<!doctype html><html><body>hello</body></html>"), "NotExposition"),
    "endless body": (hostile.endless, "TooLarge"),
    "one byte a second": (hostile.dripping(1.0), "Timeout"),
    "half a line": (reply(body(more=NAMED + FAMILY + '{engine="0",finished_rea')), f"Up {FAMILY}"),
    "gzip bomb": (reply(hostile.gzip_bomb(64 * MIB), headers="Content-Encoding: gzip\r\n"), "TooLarge"),
    "content length too long": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + body()), "Truncated"),
    "content length too short": (reply(body(), length=len(body()) - 7), "Malformed"),
    "series explosion": (reply(exploding(30_000)), f"Up {FAMILY}"),
    "label of 1 MB": (
        reply(body(more=f'{NAMED}{FAMILY}{{finished_reason="{"x" * MIB}"}} 1\n')),
        f"Up {FAMILY}",
    ),
    "unknown engine": (reply(body()), "Up UnknownSoftware"),
}


def place(name: str, port: int, *, software: str = "vllm", **address: Any) -> Deployment:
    """A deployment of one engine."""
    where = Address(host="127.0.0.1", port=port, **address)
    who = member(name, uid=f"uid-{name}", host="127.0.0.1", metrics=where, api=where)
    return deployment(members=(who,), software=software, key=DeploymentKey("hostile", name.replace(" ", "-")))


def resident() -> float:
    """Resident MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MIB


def told(item: dict[str, Any]) -> str:
    """A target as it is shown: its failure kind, or what is wrong inside its body."""
    if item["state"] == "Failing":
        return str(item["lastErrorKind"])
    problems = [problem["family"] or problem["kind"] for problem in item["problems"]]
    return f"{item['state']} {','.join(sorted(set(problems)))}".strip()


class Seen:
    """What was shown while it went on: kinds by target, the oldest age of a good value, memory."""

    def __init__(self) -> None:
        self.kinds: dict[str, Counter[str]] = {}
        self.oldest = 0.0
        self.memory: list[float] = []
        self.looks = 0

    async def look(self, asked: Asking) -> None:
        """One look at everything, as a user has it over HTTP, and at the good ones' values."""
        for name, item in (await asked.targets()).items():
            if item["reads"]:
                self.kinds.setdefault(name.rpartition("#")[0] or name, Counter())[told(item)] += 1
        for key in asked.watcher.source.keys():  # noqa: SIM118 - a source is no mapping
            for target in asked.report(key).targets:
                if target.status.member.startswith("good"):
                    (running,) = target.of("requests-running")
                    assert running.missing is not MissingCode.EXPIRED
                    if running.missing is None:
                        assert running.state is State.FRESH, (
                            running.age_seconds,
                            target.status.reads,
                            target.status.last_error,
                        )
                        self.oldest = max(self.oldest, running.age_seconds or 0.0)
        self.looks += 1

    async def run(self, asked: Asking, seconds: float, pause: float) -> None:
        """Look again and again. Memory is taken after a third of the time, when every body has come once, and last."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for share in (1 / 3, 2 / 3, 1.0):
            while loop.time() < begin + share * seconds:
                await self.look(asked)
                await asyncio.sleep(pause)
            self.memory.append(resident())

    @property
    def grown(self) -> float:
        return self.memory[-1] - self.memory[0]


async def every_kind(folder: Path) -> tuple[Seen, float]:
    """All of them at once, beside good ones."""
    authority = Authority(folder)
    other = authority.server(authority.issue("elsewhere", names=("engine.example",)))
    async with contextlib.AsyncExitStack() as stack:
        places = []
        for name, (answer, _) in ANSWERS.items():
            server = await stack.enter_async_context(serving(answer))
            places.append(place(name, server.port, software="mystery" if name == "unknown engine" else "vllm"))
        secure = await stack.enter_async_context(serving(reply(body()), other))
        trust = Tls(ca_file=authority.ca_file)
        places.append(place("TLS name mismatch", secure.port, scheme="https", tls=trust))
        places.append(place("accepts and never answers", stack.enter_context(hostile.mute())))
        for number in range(GOOD):
            server = await stack.enter_async_context(serving(reply(body())))
            places.append(place(f"good#{number}", server.port))
        seen = Seen()
        asked = await stack.enter_async_context(asking(Watcher(SETTINGS, SystemClock(), listen="127.0.0.1:0")))
        await asked.watcher.watch(places)
        await asked.ready(1)
        await seen.run(asked, 8.0, 0.2)
        lags = {labels["le"]: count for labels, count in (await asked.metrics())["observer_loop_lag_seconds_bucket"]}
    return seen, lags["0.25"] / lags["+Inf"]


def test_each_lie_has_its_kind_and_the_good_ones_stay_fresh(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    tune_allocator()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen, on_time = runner.run(every_kind(tmp_path))
    wanted = {name: kind for name, (_, kind) in ANSWERS.items()}
    wanted |= {"TLS name mismatch": "Tls", "accepts and never answers": "Timeout", "good": "Up"}
    shown = {name: sorted(kinds) for name, kinds in seen.kinds.items()}
    print(f"figure: hostile kinds seen { ({name: kinds[0] for name, kinds in shown.items()}) }")
    print(
        f"figure: hostile run of 8 s, {len(wanted) - 1} hostile and {GOOD} good targets, {seen.looks} looks: oldest value "
        f"of a good target {seen.oldest:.2f} s (fresh up to {SETTINGS.scrape.fresh_seconds:g} s); resident "
        f"{seen.memory[0]:.0f} to {seen.memory[-1]:.0f} MiB ({seen.grown:+.1f}); {on_time:.0%} of loop steps within 250 ms"
    )
    assert shown == {name: [kind] for name, kind in wanted.items()}
    assert seen.oldest <= SETTINGS.scrape.fresh_seconds
    assert seen.grown < 24


DEAD = {
    "refused": (200, "Refused"),
    "mute": (150, "Timeout"),
    "full": (50, "Timeout"),
    "error": (50, "Http"),
    "cut": (50, "Truncated"),
}
MANY = Settings(scrape=ScrapeSettings(period=4.0, timeout=2.0), judging=JudgingSettings(period=2.0))


def crowd(name: str, count: int, *ports: int) -> list[Deployment]:
    """Deployments of fifty engines at some ports, scraped only: what their APIs say is not the matter here."""
    places = [Address(host="127.0.0.1", port=port) for port in ports]
    found = []
    for begin in range(0, count, 50):
        members = tuple(
            member(f"{name}#{index}", host="127.0.0.1", metrics=places[index % len(places)], api=None)
            for index in range(begin, begin + 50)
        )
        found.append(deployment(members=members, key=DeploymentKey("many", f"{name}-{begin}")))
    return found


async def half_dead() -> tuple[Seen, dict[str, float]]:
    seen = Seen()
    async with contextlib.AsyncExitStack() as stack:
        # Many ports: the queue of new connections of a single one is shorter than what a busy machine lets pile up.
        good = [await stack.enter_async_context(serving(reply(body()))) for _ in range(25)]
        broken = await stack.enter_async_context(serving(reply(status="500 Oops")))
        cut = await stack.enter_async_context(serving(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\na 1")))
        ports = {"refused": hostile.closed_port(), "mute": stack.enter_context(hostile.mute())}
        ports |= {"full": stack.enter_context(hostile.full_backlog()), "error": broken.port, "cut": cut.port}
        asked = await stack.enter_async_context(asking(Watcher(MANY, SystemClock(), listen="127.0.0.1:0")))
        places = crowd("good", 500, *(server.port for server in good))
        for name, (count, _) in DEAD.items():
            places += crowd(name, count, ports[name])
        await asked.watcher.watch(places)
        await asked.ready(1)
        await seen.run(asked, 10.0, 1.0)
        statuses = asked.watcher.source.targets()
        assert len(statuses) == 1000
        return seen, {status.member: status.reads for status in statuses}


def test_half_of_a_thousand_targets_are_dead(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    tune_allocator()
    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen, reads = runner.run(half_dead())
    shown = {name: sorted(kinds) for name, kinds in seen.kinds.items()}
    print(
        f"figure: 1000 targets, 500 dead, whole application, 10 s: {sum(reads.values())} reads, {seen.looks} looks; oldest "
        f"value of a good target {seen.oldest:.2f} s (fresh up to {MANY.scrape.fresh_seconds:g} s); resident "
        f"{seen.memory[0]:.0f} to {seen.memory[-1]:.0f} MiB ({seen.grown:+.1f})"
    )
    assert shown == {"good": ["Up"]} | {name: [kind] for name, (_, kind) in DEAD.items()}
    assert min(reads.values()) >= 2
    assert seen.oldest <= MANY.scrape.fresh_seconds
    assert seen.grown < 24
