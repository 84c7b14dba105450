"""Real routers from their packages, started against engines on loopback with the flags their recordings were made with."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import real_env

PROGRAMS = {
    "sglang_gateway": ("sglang-router==0.3.2", ("smg", "launch")),
    "vllm_router": ("vllm-router==0.1.17", ("vllm-router",)),
}
FLAGS = {
    "policy": "round_robin",
    "worker-startup-check-interval": "1",
    "health-check-interval-secs": "1",
    "health-failure-threshold": "2",
    "health-success-threshold": "1",
    "health-check-timeout-secs": "1",
    "retry-max-retries": "2",
    "cb-failure-threshold": "3",
    "cb-timeout-duration-secs": "5",
}
START_SECONDS = 30.0


def program(kind: str) -> list[str]:
    """The command of a real router; without its environment the test is skipped by name, and fails where CI=true."""
    requirement, (executable, *arguments) = PROGRAMS[kind]
    if real_env.ready(requirement):
        return [str(real_env.environment(requirement) / "bin" / executable), *arguments]
    message = f"{requirement} is not installed: run scripts/real_env.py {requirement}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@dataclass
class RealRouter:
    """A running router: where to ask it, and its process."""

    kind: str
    api: str
    metrics: str
    process: asyncio.subprocess.Process
    log: Path


def free_port() -> int:
    """A port that nothing uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def wait_ready(router: RealRouter, session: aiohttp.ClientSession) -> None:
    """Wait for readiness; a router that ends or never gets ready fails with the end of its log."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                if router.process.returncode is not None:
                    break
                try:
                    async with session.get(f"{router.api}/readiness") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)
    except TimeoutError:
        pass
    raise AssertionError(f"{router.kind} did not get ready:\n{router.log.read_text()[-3000:]}")


async def listed(router: RealRouter, session: aiohttp.ClientSession) -> dict[str, dict[str, object]]:
    """The rows of the router's own worker list by URL."""
    async with session.get(f"{router.api}/workers") as answer:
        return {row["url"]: row for row in (await answer.json(content_type=None))["workers"]}


async def change_worker(router: RealRouter, session: aiohttp.ClientSession, url: str, *, add: bool) -> None:
    """Add or remove a worker through the router's own API and wait until its list shows it."""
    if router.kind == "vllm_router":
        verb = "add_worker" if add else "remove_worker"
        call = session.post(f"{router.api}/{verb}", params={"url": url})
    elif add:
        call = session.post(f"{router.api}/workers", json={"url": url})
    else:
        call = session.delete(f"{router.api}/workers/{(await listed(router, session))[url]['id']}")
    async with call as answer:
        assert answer.status in (200, 202), await answer.text()
    async with asyncio.timeout(START_SECONDS):
        while (url in await listed(router, session)) is not add:
            await asyncio.sleep(0.05)


async def stop(process: asyncio.subprocess.Process) -> None:
    """End the process and wait for it."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(3.0):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def real_router(
    kind: str,
    engines: Sequence[str],
    folder: Path,
    *,
    prefill: Sequence[str] = (),
    decode: Sequence[str] = (),
    **flags: str,
) -> AsyncIterator[RealRouter]:
    """A real router in front of engine URLs, or of prefill and decode ones. ``flags`` replace those of `FLAGS`."""
    command = program(kind)
    api, metrics = free_port(), free_port()
    command += ["--host", "127.0.0.1", "--port", str(api)]
    command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics)]
    if prefill:
        command.append("--pd-disaggregation" if kind == "sglang_gateway" else "--vllm-pd-disaggregation")
        for number, url in enumerate(prefill):
            command += ["--prefill", url, *([str(20_000 + number)] if kind == "sglang_gateway" else [])]
        for url in decode:
            command += ["--decode", url]
    else:
        command += ["--worker-urls", *engines]
    for name, value in (FLAGS | {name.replace("_", "-"): value for name, value in flags.items()}).items():
        command += [f"--{name}", value]
    log = folder / f"{kind}-{api}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output, cwd=folder)
        router = RealRouter(kind, f"http://127.0.0.1:{api}", f"http://127.0.0.1:{metrics}", process, log)
        try:
            async with aiohttp.ClientSession() as session:
                await wait_ready(router, session)
            yield router
        finally:
            await stop(process)
