"""Engines whose every observation is known: vLLM's exposition over real HTTP, written from a ledger by the test."""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

BOUNDS = (1.0, 2.0, 5.0)
_REASONS = ("stop", "error")


class Scripted:
    """One engine. ``ledger`` has all that ever happened: (seconds to the first token, how it finished)."""

    def __init__(self, name: str, revision: str, bounds: Sequence[float] = BOUNDS) -> None:
        self.name, self.revision, self.bounds = name, revision, tuple(bounds)
        self.ledger: list[tuple[float, str]] = []
        self.address = ""
        self.reads = 0
        self._begin()

    def _begin(self) -> None:
        self.started = time.time()
        self._buckets = [0] * (len(self.bounds) + 1)
        self._sum = 0.0
        self._finished = dict.fromkeys(_REASONS, 0)

    def serve(self, seconds: Iterable[float], reason: str = "stop") -> None:
        """Requests that are answered now, all between two reads."""
        for each in seconds:
            self.ledger.append((each, reason))
            self._buckets[bisect.bisect_left(self.bounds, each)] += 1
            self._sum += each
            self._finished[reason] += 1

    def restart(self) -> None:
        """A new process: what it tells begins at 0."""
        self._begin()

    def exposition(self) -> str:
        labels = 'engine="0",model_name="tiny"'
        lines = ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {self.started}"]
        lines.append("# TYPE vllm:request_success counter")
        for reason, count in self._finished.items():
            lines.append(f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}.0')
        lines.append("# TYPE vllm:time_to_first_token_seconds histogram")
        total = 0
        for bound, count in zip((*self.bounds, math.inf), self._buckets, strict=True):
            total += count
            le = "+Inf" if math.isinf(bound) else repr(bound)
            lines.append(f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{le}"}} {total}.0')
        lines.append(f"vllm:time_to_first_token_seconds_sum{{{labels}}} {self._sum}")
        lines.append(f"vllm:time_to_first_token_seconds_count{{{labels}}} {total}.0")
        return "\n".join(lines) + "\n"

    async def answer(self, _: web.Request) -> web.Response:
        self.reads += 1
        return web.Response(text=self.exposition(), content_type="text/plain")


async def models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "tiny", "object": "model"}]})


async def version(_: web.Request) -> web.Response:
    return web.json_response({"version": "0.32.0"})


@asynccontextmanager
async def running(engine: Scripted) -> AsyncIterator[Scripted]:
    """The engine on a free loopback port."""
    application = web.Application()
    application.router.add_get("/metrics", engine.answer)
    application.router.add_get("/v1/models", models)
    application.router.add_get("/version", version)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        engine.address = f"{host}:{port}"
        yield engine
    finally:
        await runner.cleanup()
