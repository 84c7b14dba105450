"""A simulated SGLang gateway (smg 0.3.2): worker registry, retries, circuits, prefill/decode pairs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import web

from observer.simulate.gateway_series import GatewaySeries
from observer.simulate.merged_metrics import merge_expositions
from observer.simulate.node import reply
from observer.simulate.observer_endpoints import RegistryRevision, observer_row
from observer.simulate.router import NEEDED, Failed, SimulatedRouter
from observer.simulate.router_series import Ask
from observer.simulate.workers import DECODE, PREFILL, REGULAR, Worker, WorkerAddress, worker_row, workers_document

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TEXT = "text/plain; charset=utf-8"


class Failure(web.Response):
    """An error answer with the code that the gateway's own counters show."""

    def __init__(self, status: int, code: str, message: str) -> None:
        error = {"type": "Service Unavailable", "code": code, "message": message}
        super().__init__(
            status=status, body=orjson.dumps({"error": error}), headers={"Content-Type": "application/json"}
        )
        self.code = code


class SglangGateway(SimulatedRouter[GatewaySeries]):
    """Registers only workers that answered once, keeps them when they die, and says ready whatever the circuits say.

    In regular mode its circuits count a worker's 4xx as a failure; in prefill/decode mode they do not.
    """

    circuit_fails_from = 400

    def make_series(self) -> GatewaySeries:
        """The metrics of a new process life."""
        self._revision = RegistryRevision()
        self._in_flight = 0
        return GatewaySeries(self.spec.policy, self.policy_of(DECODE), pd=self.pd, seed=self.lives)

    def policy_of(self, kind: str) -> str:
        """Decode workers may have a policy of their own."""
        return self.spec.decode_policy or self.spec.policy if kind == DECODE else self.spec.policy

    async def inspect(self, address: WorkerAddress) -> tuple[str, dict[str, str], int]:
        """Model and metadata come from SGLang's own endpoints; vLLM has none, so its model stays unknown."""
        server = await self.fetch_json(f"{address.url}/server_info")
        if "served_model_name" not in server:
            return "unknown", {}, 1
        model = await self.fetch_json(f"{address.url}/model_info")
        names = ("model_path", "served_model_name", "tp_size", "dp_size", "disaggregation_mode", "load_balance_method")
        metadata = {name: str(server[name]) for name in names if name in server}
        if "model_type" in model:
            metadata["model_type"] = str(model["model_type"])
            metadata["architectures"] = orjson.dumps(model.get("architectures", [])).decode()
        return str(server["served_model_name"]), metadata, int(server.get("dp_size", 1))

    def refresh(self) -> None:
        """The age gauge appears about 15 seconds after the start."""
        if self.clock.now().wall - self.started_at >= 15.0:
            self.series.ages(self._in_flight)

    def middlewares(self) -> list[Any]:
        """Every request on the API port is counted, probes included; unknown paths are not."""

        @web.middleware
        async def booked(request: web.Request, handler: Handler) -> web.StreamResponse:
            begun = self.clock.now().mono
            self._in_flight += 1
            try:
                response = await handler(request)
            except web.HTTPException as refused:
                return web.Response(status=refused.status)
            finally:
                self._in_flight -= 1
            path = request.match_info.route.resource.canonical if request.match_info.route.resource else request.path
            code = response.code if isinstance(response, Failure) else ""
            seconds = self.clock.now().mono - begun
            self.series.http(request.method, path, response.status, code, seconds)
            return response

        return [booked]

    async def infer(self, request: web.Request, ask: Ask) -> web.StreamResponse:
        """Count the request, then let one worker or a pair answer it. A body it cannot read is answered here."""
        if not any(ask.payload.get(name) for name in NEEDED[ask.endpoint]):
            return web.Response(status=400, text=f"missing field `{NEEDED[ask.endpoint][0]}`")
        self.series.arrived(ask)
        outcome = await (self._pairs(request, ask) if self.pd else self.with_retries(request, ask))
        if not isinstance(outcome, Failed):
            return outcome
        if outcome.body and not outcome.code:
            return web.Response(status=outcome.status, body=outcome.body, content_type="application/json")
        return Failure(outcome.status, outcome.code, outcome.body.decode(errors="replace"))

    async def _pairs(self, request: web.Request, ask: Ask) -> web.StreamResponse | Failed:
        failed = Failed(503, "server_selection_failed", b"No prefill/decode pair is available")
        for attempt in range(1, self.spec.max_attempts + 1):
            prefill, decode = self.pick(PREFILL), self.pick(DECODE)
            if prefill is None or decode is None:
                failed = Failed(503, "server_selection_failed", b"No prefill/decode pair is available")
            else:
                outcome = await self._pair(request, ask, prefill, decode)
                if not isinstance(outcome, Failed):
                    return outcome
                failed = outcome
            if attempt < self.spec.max_attempts:
                pause = self.spec.backoff_seconds * attempt
                self.series.retry(ask, attempt, pause)
                await asyncio.sleep(pause)
        self.series.exhausted(ask)
        return failed

    async def _pair(
        self, request: web.Request, ask: Ask, prefill: Worker, decode: Worker
    ) -> web.StreamResponse | Failed:
        both = (prefill, decode)
        for worker in both:
            worker.active += 1
            worker.dispatched += 1
            self.series.selected(worker, ask)
        room = {
            "bootstrap_host": urlsplit(prefill.address.url).hostname,
            "bootstrap_port": prefill.address.bootstrap_port,
            "bootstrap_room": prefill.dispatched * 65_536 + decode.dispatched,
        }
        body = orjson.dumps(ask.payload | room)
        answers = contextlib.ExitStack()

        async def decoding() -> aiohttp.ClientResponse:
            # A client may leave while only this answer has begun: then nobody else is there to close it.
            response = await self.call(decode, ask.route, body)
            answers.callback(response.close)
            return response

        try:
            with answers:
                sent = await asyncio.gather(self._prefill(prefill, ask, body), decoding(), return_exceptions=True)
                return await self._paired(request, ask, both, sent[0], sent[1])
        finally:
            for worker in both:
                worker.active -= 1
                self.series.released(worker)

    async def _prefill(self, prefill: Worker, ask: Ask, body: bytes) -> int:
        async with await self.call(prefill, ask.route, body) as response:
            await response.read()
            return response.status

    async def _paired(
        self,
        request: web.Request,
        ask: Ask,
        both: tuple[Worker, Worker],
        prefilled: int | BaseException,
        decoding: aiohttp.ClientResponse | BaseException,
    ) -> web.StreamResponse | Failed:
        for error in (prefilled, decoding):
            if isinstance(error, BaseException) and not isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
                raise error
        good = (
            not isinstance(prefilled, BaseException)
            and prefilled < 500
            and not isinstance(decoding, BaseException)
            and decoding.status < 500
        )
        for worker in both:
            self.record(worker, success=good)
            if not good:
                self.series.failed(worker)
        if isinstance(decoding, BaseException):
            return Failed(502, "decode_server_error", b"decode request failed")
        async with decoding as upstream:
            if not good:
                side = "decode" if upstream.status >= 500 else "prefill"
                return Failed(500, f"{side}_internal_error", b"a worker of the pair failed")
            if upstream.status >= 400:
                self.series.passed_on(ask, upstream.status)
                return Failure(upstream.status, "decode_bad_request", "the decode worker refused the request")
            self.series.answered(ask, self.since(ask))
            return await self.relay(request, upstream)

    def routes(self) -> Iterable[web.RouteDef]:
        """The worker registry, probes, and the merged metrics of the engines."""
        observer = [web.get("/observer/endpoints", self._observer)] if self.spec.observer_endpoints else []
        return (
            *observer,
            web.get("/workers", self._workers),
            web.post("/workers", self._add),
            web.get("/workers/{id}", self._one),
            web.delete("/workers/{id}", self._delete),
            web.get("/get_loads", self._get_loads),
            web.get("/health", self._ok),
            web.get("/liveness", self._ok),
            web.get("/readiness", self._readiness),
            web.get("/health_generate", self._health_generate),
            web.get("/v1/models", self._models),
            web.get("/get_server_info", self._server_info),
            web.get("/get_model_info", self._model_info),
            web.get("/engine_metrics", self._engine_metrics),
        )

    def _rows(self) -> list[dict[str, Any]]:
        return [worker_row(worker, "HTTP", identity=True) for worker in self.workers]

    async def _observer(self, _: web.Request) -> web.Response:
        if self.view_lost:
            return web.Response(status=503)
        rows = [observer_row(worker) | {"lane": {"busy": worker.active, "waiting": 0}} for worker in self.workers]
        return reply(self._revision.document(rows, int(self.started_at * 1000), self.clock.now().wall))

    async def _workers(self, _: web.Request) -> web.Response:
        return web.Response(status=503) if self.view_lost else reply(workers_document(self._rows()))

    async def _add(self, request: web.Request) -> web.Response:
        url = str(orjson.loads(await request.read()).get("url", ""))
        self.add_worker(WorkerAddress(url))
        self._background.spawn(self.register(), f"{self.name}: register {url}")
        location = "/workers/pending"
        return reply({"status": "accepted", "worker_id": "pending", "url": url, "location": location}, 202)

    def _find(self, request: web.Request) -> Worker | None:
        return next((worker for worker in self.workers if worker.identity == request.match_info["id"]), None)

    async def _one(self, request: web.Request) -> web.Response:
        worker = self._find(request)
        if worker is None:
            return Failure(404, "worker_not_found", "Worker not found")
        return reply(worker_row(worker, "HTTP", identity=True))

    async def _delete(self, request: web.Request) -> web.Response:
        worker = self._find(request)
        if worker is None:
            return Failure(404, "worker_not_found", "Worker not found")
        self.remove_worker(worker.address.url)
        return reply({"status": "accepted", "worker_id": worker.identity}, 202)

    async def _get_loads(self, _: web.Request) -> web.Response:
        return reply({"workers": [{"worker": worker.url, "load": -1} for worker in self.workers]})

    async def _ok(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    def _ready(self) -> bool:
        kinds = (PREFILL, DECODE) if self.pd else (REGULAR,)
        return all(any(worker.healthy for worker in self.workers.of(kind)) for kind in kinds)

    async def _readiness(self, _: web.Request) -> web.Response:
        if not self._ready():
            return reply({"status": "not ready", "reason": "insufficient healthy workers"}, 503)
        healthy = sum(worker.healthy for worker in self.workers)
        return reply({"status": "ready", "healthy_workers": healthy, "total_workers": len(self.workers)})

    async def _health_generate(self, _: web.Request) -> web.Response:
        if self._ready():
            return web.Response(text="At least one router has healthy workers")
        return web.Response(status=503, text="No routers with healthy workers available")

    async def _models(self, _: web.Request) -> web.Response:
        models = list(dict.fromkeys(worker.model for worker in self.workers))
        if not models:
            return web.Response(status=503, text="No models available")
        data = [{"id": model, "object": "model", "owned_by": "local"} for model in models]
        return reply({"object": "list", "data": data}, content_type=TEXT)

    async def _server_info(self, _: web.Request) -> web.Response:
        count = len(self.workers)
        return reply({"router_manager": True, "routers_count": 1, "workers_count": count}, content_type=TEXT)

    async def _model_info(self, _: web.Request) -> web.Response:
        for worker in self.workers:
            if worker.healthy:
                found = await self.fetch_json(f"{worker.address.url}/get_model_info")
                return reply(found) if found else reply({"detail": "Not Found"}, 404)
        return Failure(503, "no_workers", "No workers are available")

    async def _engine_metrics(self, _: web.Request) -> web.Response:
        if not len(self.workers):
            return web.Response(status=500, text="No available workers")
        bodies = {}
        for url in dict.fromkeys(worker.address.url for worker in self.workers):
            try:
                async with self.session.get(f"{url}/metrics") as response:
                    if response.status == 200:
                        bodies[url] = await response.text()
            except (aiohttp.ClientError, TimeoutError, OSError):
                continue
        if not bodies:
            return web.Response(status=500, text="All backend requests failed")
        return web.Response(text=merge_expositions(bodies))
