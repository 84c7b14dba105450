"""500 targets under faults watched by a process that may open 256 files: what it shows, and how it answers meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.fakes.hostile import closed_port

FILES = 256
PERIOD, TIMEOUT = 4.0, 1.0
GOOD, HANGING, REFUSING, BROKEN = 330, 90, 50, 30
PROBES = ("/livez", "/readyz", "/api/v1/limits")
BODY = b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n" + b"".join(
    b'# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine="%d"} 5\n' % place for place in range(1)
)


class Seen(msgspec.Struct):
    """What was found. Times in seconds, memory in MiB."""

    targets: int = 0
    shed: int = 0
    worst_gap: float = 0.0
    unread: int = 0
    asked: int = 0
    unanswered: int = 0
    slowest: float = 0.0
    most_files: int = 0
    peak_memory: float = 0.0
    closed_idle: int = 0
    limits_state: str = ""
    states: dict[str, int] = {}

    def line(self) -> str:
        """The figures in one line."""
        return (
            f"{self.targets} targets, {FILES} descriptors: worst gap between reads {self.worst_gap:.1f} s of {4 * PERIOD:g} s, "
            f"{self.shed} shed, {self.unread} not read in time; {self.asked} probes, {self.unanswered} unanswered, slowest "
            f"{self.slowest:.2f} s; most files {self.most_files}, peak memory {self.peak_memory:.0f} MiB, "
            f"{self.closed_idle} idle connections closed"
        )


def host(network: int, place: int) -> str:
    return f"127.{network}.{place // 250}.{place % 250 + 1}"


@contextlib.asynccontextmanager
async def engines() -> AsyncIterator[tuple[list[str], dict[str, list[float]]]]:
    """Engines on loopback addresses of their own, of four kinds; when each was asked for its metrics."""
    asked: dict[str, list[float]] = defaultdict(list)
    writers: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")
        name = f"{address[0]}:{address[1]}"
        writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1]
                if path == b"/metrics":
                    asked[name].append(time.monotonic())
                if address[0].startswith("127.2."):
                    await reader.read()  # says nothing until the other side goes
                    break
                if address[0].startswith("127.3."):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
                    break
                status = b"200 OK" if path == b"/metrics" else b"404 Not Found"
                body = BODY if path == b"/metrics" else b""
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
                await writer.drain()
        writers.discard(writer)
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        names = []
        for network, count in ((1, GOOD), (2, HANGING), (3, BROKEN)):
            hosts = [host(network, place) for place in range(count)]
            server = await asyncio.start_server(answer, hosts, 0, backlog=64)
            stack.callback(server.close)
            names += [f"{each.getsockname()[0]}:{each.getsockname()[1]}" for each in server.sockets]
        dead = closed_port()
        names += [f"{host(4, place)}:{dead}" for place in range(REFUSING)]
        try:
            yield names, asked
        finally:
            for writer in list(writers):
                writer.transport.abort()
            await asyncio.sleep(0.1)


def fleet(names: list[str]) -> str:
    """The documents for the observer: many deployments of ten engines."""
    head = {"apiVersion": "observer.modeldeployment.io/v1alpha1"}
    settings = {
        **head,
        "kind": "Settings",
        "scrape": {"period": f"{PERIOD:g}s", "timeout": f"{TIMEOUT:g}s"},
        "kvEvents": {"enabled": False},
    }
    deployments = [
        {"name": f"d{place}", "roles": [{"name": "s", "engine": "vllm", "addresses": names[place : place + 10]}]}
        for place in range(0, len(names), 10)
    ]
    documents = (settings, {**head, "kind": "Fleet", "deployments": deployments})
    return "\n---\n".join(json.dumps(each) for each in documents)


async def watch(folder: Path, seconds: float) -> Seen:
    """Run the observer over the engines for so long, once it has begun to read."""
    seen = Seen()
    async with engines() as (names, asked):
        file = folder / "fleet.yaml"
        file.write_text(fleet(names))
        port = closed_port()
        log = (folder / "log").open("wb")
        bounded = ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh"]
        command = [
            *bounded,
            sys.executable,
            "-m",
            "observer",
            "serve",
            "--config",
            str(file),
            "--listen",
            f"127.0.0.1:{port}",
        ]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            await _ask_until_done(child, f"http://127.0.0.1:{port}", seconds, seen, asked)
        finally:
            child.terminate()
            child.wait(20)
            log.close()
    return seen


async def _ask_until_done(
    child: subprocess.Popen[bytes], url: str, seconds: float, seen: Seen, asked: dict[str, list[float]]
) -> None:
    idle: list[socket.socket] = []
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(url, connector=connector, timeout=aiohttp.ClientTimeout(total=5)) as session:
        await _listening(session, child)
        try:
            # Clients that connect and say nothing, twice as many as the listener may hold.
            idle = [socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) for _ in range(100)]
            begun = time.monotonic()
            while (now := time.monotonic()) - begun < seconds:
                for path in PROBES:
                    await _probe(session, path, seen)
                files = len(list(Path(f"/proc/{child.pid}/fd").iterdir()))
                seen.most_files = max(seen.most_files, files)
                await asyncio.sleep(max(0.0, 0.5 - (time.monotonic() - now)))
            async with session.get("/api/v1/targets?limit=1000") as answer:
                items = (await answer.json())["items"]
        finally:
            for each in idle:
                each.close()
    memory = Path(f"/proc/{child.pid}/status").read_text()
    seen.peak_memory = int(next(line for line in memory.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    _count(seen, items, asked, begun, seconds)


async def _listening(session: aiohttp.ClientSession, child: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(30):
        while True:
            assert child.poll() is None, "the observer ended"
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/livez"):
                    return
            await asyncio.sleep(0.1)


async def _probe(session: aiohttp.ClientSession, path: str, seen: Seen) -> None:
    before = time.monotonic()
    seen.asked += 1
    try:
        async with session.get(path) as answer:
            body = await answer.read()
            if path.endswith("limits"):
                _limits(seen, json.loads(body))
    except (aiohttp.ClientError, TimeoutError):
        seen.unanswered += 1
    seen.slowest = max(seen.slowest, time.monotonic() - before)


def _limits(seen: Seen, document: Any) -> None:
    items = {item["name"]: item for item in document["items"]}
    seen.closed_idle = max(seen.closed_idle, items["connectionsToTargets"]["reached"])
    seen.limits_state = document["state"]


def _count(seen: Seen, items: list[Any], asked: dict[str, list[float]], begun: float, seconds: float) -> None:
    """Gaps of those that can be heard (the engines' own notes), and numbers of reads of those that cannot."""
    seen.targets = len(items)
    wanted = int(seconds / (4 * PERIOD))
    for item in items:
        seen.states[item["state"]] = seen.states.get(item["state"], 0) + 1
        if item["state"] == "Shed":
            seen.shed += 1
            continue
        name = item["url"].split("/")[2]
        if name in asked:
            times = [begun, *(moment for moment in asked[name] if moment > begun), begun + seconds]
            gap = max(later - earlier for earlier, later in itertools.pairwise(times))
            seen.worst_gap = max(seen.worst_gap, gap)
            seen.unread += gap > 4 * PERIOD
        else:
            seen.unread += item["reads"] < wanted
