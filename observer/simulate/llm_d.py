"""A simulated llm-d router: the proxy that serves clients and the endpoint picker (EPP 0.10.0) beside it.

No EPP could be run, so its series follow definitions read in its source: old and new names are exposed together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import web

from observer.simulate.llm_d_series import EndpointPickerSeries, PodLoad
from observer.simulate.node import reply
from observer.simulate.observer_endpoints import RegistryRevision, observer_row
from observer.simulate.router import Failed, SimulatedRouter
from observer.simulate.router_series import Ask
from observer.simulate.workers import DECODE, ENCODE, PREFILL, REGULAR, Worker

FRESH_SECONDS = 2.0
RECENT_SECONDS = 15.0
SERIES_READ = {
    "waiting": (b"vllm:num_requests_waiting{", b"sglang:num_queue_reqs{"),
    "running": (b"vllm:num_requests_running{", b"sglang:num_running_reqs{"),
    "usage": (b"vllm:kv_cache_usage_perc{", b"sglang:token_usage{"),
}


def read_load(body: bytes) -> dict[str, float]:
    """Queue, running requests and cache usage from an engine's exposition, summed over its ranks."""
    found = dict.fromkeys(SERIES_READ, 0.0)
    for line in body.split(b"\n"):
        for name, prefixes in SERIES_READ.items():
            if line.startswith(prefixes):
                found[name] += float(line.rsplit(b" ", 1)[1])
    return found


class LlmDRouter(SimulatedRouter[EndpointPickerSeries]):
    """Picks endpoints by the load it scrapes itself; a Pod it cannot scrape is not ready but stays an endpoint."""

    metrics_content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

    def make_series(self) -> EndpointPickerSeries:
        """The metrics of a new process life."""
        self._revision = RegistryRevision()
        self._loads: dict[str, PodLoad] = {}
        self._sent_at: dict[str, float] = {}
        return EndpointPickerSeries(f"{self.name}-pool", old_names_only=self.spec.shown_version.startswith("0.8"))

    async def register(self) -> None:
        """Every configured endpoint is in the datastore, answering or not."""
        for address in self.configured:
            if not self.workers.known(address.url):
                await self._admit(address)
                for worker in self.workers:
                    if worker.address == address:
                        await self._check(worker)
        self._aggregate()

    async def _check(self, worker: Worker) -> None:
        url = f"{worker.address.url}/metrics"
        limit = aiohttp.ClientTimeout(total=self.spec.health_timeout)
        try:
            async with self.session.get(url, timeout=limit) as response:
                body = await response.read()
                if response.status != 200:
                    return
        except (aiohttp.ClientError, TimeoutError, OSError):
            return
        self._loads[worker.url] = PodLoad(self.clock.now().mono, **read_load(body))

    def _fresh(self, worker: Worker) -> PodLoad | None:
        load = self._loads.get(worker.url)
        limit = FRESH_SECONDS + self.spec.health_interval
        return load if load is not None and self.clock.now().mono - load.at <= limit else None

    def _aggregate(self) -> None:
        fresh = [load for load in map(self._fresh, self.workers) if load is not None]
        queues = {self._endpoint(w): self._loads[w.url].waiting for w in self.workers if w.url in self._loads}
        self.series.pool(fresh, queues)

    def refresh(self) -> None:
        """Pool gauges as of now."""
        self._aggregate()

    @staticmethod
    def _endpoint(worker: Worker) -> str:
        name = worker.address.pod or urlsplit(worker.address.url).netloc
        return name if re.search(r"-rank-[0-9]+$", name) else f"{name}-rank-0"

    def _choose(self, kind: str) -> Worker | None:
        able = [(load, worker) for worker in self.workers.of(kind) if (load := self._fresh(worker)) is not None]
        if not able:
            return None
        return min(able, key=lambda pair: (pair[1].active + pair[0].waiting, pair[1].dispatched))[1]

    async def infer(self, request: web.Request, ask: Ask) -> web.StreamResponse:
        """Schedule, run the stages before decode, relay the decode Pod's answer."""
        self.series.arrived(ask)
        stages = [kind for kind in (ENCODE, PREFILL) if self.workers.of(kind)]
        if not _has_image(ask):
            stages = [kind for kind in stages if kind != ENCODE]
        chosen = [self._choose(kind) for kind in (*stages, DECODE if self.workers.of(DECODE) else REGULAR)]
        picked = [worker for worker in chosen if worker is not None]
        try:
            if len(picked) < len(chosen):
                self.series.refused(ask, "ServiceUnavailable")
                return web.Response(status=503, text="no endpoints are available to serve the request")
            if self.pd:
                self.series.decided(ask, [worker.kind for worker in picked])
            outcome = await self._run(request, ask, picked)
        finally:
            self.series.ended(ask)
        if isinstance(outcome, Failed):
            return web.Response(status=outcome.status, body=outcome.body)
        return outcome

    async def _run(self, request: web.Request, ask: Ask, picked: list[Worker]) -> web.StreamResponse | Failed:
        *before, last = picked
        for worker in before:
            body = ask.payload | {"max_tokens": 1, "stream": False, "kv_transfer_params": {"do_remote_decode": True}}
            outcome = await self._stage(worker, ask, orjson.dumps(body))
            if outcome is not None:
                return outcome
        transfer = {"kv_transfer_params": {"do_remote_prefill": True}} if before else {}
        self._sent(last, ask)
        last.active += 1
        try:
            async with await self.call(last, ask.route, orjson.dumps(ask.payload | transfer)) as upstream:
                if upstream.status < 400:
                    self.series.answered(ask, self.since(ask))
                return await self.relay(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Failed(503, "upstream", f"upstream connect error: {error}".encode())
        finally:
            last.active -= 1
            self._in_flight(last)

    async def _stage(self, worker: Worker, ask: Ask, body: bytes) -> Failed | None:
        self._sent(worker, ask)
        worker.active += 1
        try:
            async with await self.call(worker, ask.route, body) as response:
                found = await response.read()
                return None if response.status < 400 else Failed(response.status, "", found)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Failed(503, "upstream", f"upstream connect error: {error}".encode())
        finally:
            worker.active -= 1
            self._in_flight(worker)

    def _sent(self, worker: Worker, ask: Ask) -> None:
        worker.dispatched += 1
        self._sent_at[worker.url] = self.clock.now().mono
        self.series.scheduled(ask, worker)
        self._in_flight(worker)

    def _in_flight(self, worker: Worker) -> None:
        self.series.in_flight(worker.address.pod, worker.active)

    def routes(self) -> Iterable[web.RouteDef]:
        """The proxy passes the model list on; it has no worker API."""
        return (web.get("/v1/models", self._models),)

    async def _models(self, _: web.Request) -> web.Response:
        for worker in self.workers:
            found = await self.fetch_json(f"{worker.address.url}/v1/models")
            if found:
                return reply(found)
        return web.Response(status=503, text="no healthy upstream")

    def metrics_routes(self) -> Iterable[web.RouteDef]:
        """The picker's own debugging views, and the patched one where it is built in."""
        observer = [web.get("/observer/endpoints", self._observer)] if self.spec.observer_endpoints else []
        return (*observer, web.get("/debug/plugins/state", self._plugins))

    def _refuses(self, request: web.Request) -> bool:
        token = self.spec.metrics_token
        return bool(token) and request.headers.get("Authorization") != f"Bearer {token}"

    async def _plugins(self, request: web.Request) -> web.Response:
        if self._refuses(request):
            return web.Response(status=401, text="Unauthorized")
        rows = [
            {"endpoint": self._endpoint(worker), "requests": worker.active, "tokens": worker.active * 128}
            for worker in self.workers
            if worker.dispatched
        ]
        return reply({"plugins": {"inflight-load-producer": {"state": {"endpoints": rows}}}})

    async def _observer(self, _: web.Request) -> web.Response:
        busy = any(worker.active for worker in self.workers)
        if self.view_lost or busy:
            return web.Response(status=503, text="a selection or send window is open")
        now = self.clock.now()
        rows = []
        for worker in self.workers:
            worker.healthy = True
            recent = now.mono - self._sent_at.get(worker.url, -RECENT_SECONDS) < RECENT_SECONDS
            rows.append(observer_row(worker, job={"recent_dispatch": recent}))
        return reply(self._revision.document(rows, int(self.started_at * 1e9), now.wall))


def _has_image(ask: Ask) -> bool:
    messages = ask.payload.get("messages") or []
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    items = [item for content in contents if isinstance(content, list) for item in content]
    return any(isinstance(item, dict) and item.get("type") == "image_url" for item in items)
