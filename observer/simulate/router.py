"""A simulated router process: registration, health checks, selection, retries and the relay of answers.

Subclasses are programs: they decide which endpoints exist and which series each of these moments moves.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import aiohttp
import orjson
from aiohttp import web

from observer.clock import Clock
from observer.simulate.background import Background
from observer.simulate.node import Listener
from observer.simulate.router_series import RETRYABLE, Ask, RouterSeries
from observer.simulate.spec import RouterSpec
from observer.simulate.workers import PREFILL, REGULAR, Worker, WorkerAddress, WorkerSet

ENDPOINTS = {"/v1/chat/completions": "chat", "/v1/completions": "completions", "/generate": "generate"}
NEEDED = {"chat": ("messages",), "completions": ("prompt",), "generate": ("text", "input_ids")}


@dataclass
class Failed:
    """How an attempt ended badly: what the client would be answered if it was the last."""

    status: int
    code: str
    body: bytes = b""


SeriesT = TypeVar("SeriesT", bound=RouterSeries)


class SimulatedRouter(ABC, Generic[SeriesT]):
    """One router Pod with an API port and a metrics port that last through its lives."""

    metrics_content_type = "text/plain"
    circuit_fails_from = 500

    def __init__(
        self,
        name: str,
        spec: RouterSpec,
        configured: Iterable[WorkerAddress],
        clock: Clock,
        background: Background,
        *,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.spec = spec
        self.clock = clock
        self.configured = list(configured)
        self.checks_health = True
        self.view_lost = False
        self.breaks_circuits = True
        self.cut_off: set[str] = set()
        self.lives = 0
        self.workers = WorkerSet(spec, seed)
        self.series = self.make_series()
        self.api = Listener(self._api_app)
        self.metrics = Listener(self._metrics_app)
        self._seed = seed
        self._background = background
        self._session: aiohttp.ClientSession | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self.started_at = 0.0

    @abstractmethod
    def make_series(self) -> SeriesT:
        """The metrics of a new process life."""

    @abstractmethod
    def routes(self) -> Iterable[web.RouteDef]:
        """The endpoints of the API port beside inference."""

    @abstractmethod
    async def infer(self, request: web.Request, ask: Ask) -> web.StreamResponse:
        """Answer an inference request."""

    @property
    def pd(self) -> bool:
        """Whether this router pairs prefill with decode workers."""
        return any(address.kind == PREFILL for address in self.configured)

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._session is not None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The client it calls workers with."""
        if self._session is None:
            raise RuntimeError(f"router {self.name} is not running")
        return self._session

    async def start(self) -> None:
        """Begin a process life: register what is reachable, listen, keep checking."""
        if self._session is not None:
            return
        self.lives += 1
        self.started_at = self.clock.now().wall
        self.workers = WorkerSet(self.spec, self._seed + self.lives)
        self.series = self.make_series()
        timeout = aiohttp.ClientTimeout(total=self.spec.request_timeout)
        self._session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        await self.metrics.start()
        await self.register()
        await self._open_api()
        self._loop_task = self._background.spawn(self._keep_checking(), f"{self.name}: health checks")

    async def _open_api(self) -> None:
        await self.api.start()

    async def die(self) -> None:
        """End the process at once."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            self._loop_task = None
        await self.api.die()
        await self.metrics.die()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def restart(self) -> None:
        """Die and start again on the same ports."""
        await self.die()
        await self.start()

    async def close(self) -> None:
        """Die for good and give the ports back."""
        await self.die()
        await self.api.close()
        await self.metrics.close()

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(self.spec.health_interval)
            await self.register()
            await self._open_api()
            if self.checks_health:
                await asyncio.gather(*(self._check(worker) for worker in list(self.workers)))

    async def _probe(self, url: str) -> bool:
        if url in self.cut_off:
            return False
        try:
            async with self.session.get(
                f"{url}/health", timeout=aiohttp.ClientTimeout(total=self.spec.health_timeout)
            ) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _check(self, worker: Worker) -> None:
        success = await self._probe(worker.address.url)
        worker.checked(self.spec, success=success)
        self.series.checked(worker, success=success)

    async def fetch_json(self, url: str) -> dict[str, Any]:
        """A JSON object from a worker, empty when it has none to give."""
        try:
            async with self.session.get(url, timeout=aiohttp.ClientTimeout(total=self.spec.health_timeout)) as response:
                found = orjson.loads(await response.read()) if response.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, OSError, orjson.JSONDecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    async def register(self) -> None:
        """Take in configured workers that answer and are not registered yet."""
        for address in self.configured:
            if not self.workers.known(address.url) and await self._probe(address.url):
                await self._admit(address)

    async def _admit(self, address: WorkerAddress) -> None:
        model, metadata, ranks = await self.inspect(address)
        if self.workers.known(address.url):
            return
        for rank in range(ranks) if self.spec.dp_aware and ranks > 1 else (None,):
            self.series.registered(self.workers.add(address, rank, model, metadata), self.workers.all)

    async def inspect(self, address: WorkerAddress) -> tuple[str, dict[str, str], int]:
        """What the router learns of a worker at registration: model, metadata, number of ranks."""
        _ = address
        return "unknown", {}, 1

    def add_worker(self, address: WorkerAddress) -> None:
        """Configure one more worker; it is registered at the next round."""
        if address not in self.configured:
            self.configured.append(address)

    def remove_worker(self, url: str) -> None:
        """Forget a worker, whatever its state."""
        self.configured = [address for address in self.configured if address.url != url]
        for worker in self.workers.remove(url):
            self.series.removed(worker, self.workers.all)

    def pick(self, kind: str) -> Worker | None:
        """Select a worker of a type by the policy."""
        now = self.clock.now().mono
        worker, moved = self.workers.pick(kind, self.policy_of(kind), now)
        for changed, left in moved:
            self.series.transition(changed, left)
        return worker

    def policy_of(self, kind: str) -> str:
        """The selection policy for a worker type."""
        _ = kind
        return self.spec.policy

    def record(self, worker: Worker, *, success: bool) -> None:
        """Book how a request to a worker ended for its circuit."""
        booked = success or not self.breaks_circuits
        left = worker.breaker.record(success=booked, now=self.clock.now().mono)
        self.series.outcome(worker, success=success)
        if left is not None:
            self.series.transition(worker, left)

    async def call(self, worker: Worker, path: str, body: bytes, **headers: str) -> aiohttp.ClientResponse:
        """Send a body to a worker. Raises what aiohttp raises."""
        if worker.address.url in self.cut_off:
            raise aiohttp.ClientConnectionError(f"{worker.address.url} is cut off from {self.name}")
        sent = {"Content-Type": "application/json", **headers}
        if worker.rank is not None:
            sent["X-data-parallel-rank"] = str(worker.rank)
        return await self.session.post(worker.address.url + path, data=body, headers=sent)

    async def relay(self, request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass a worker's answer on, streams piece by piece."""
        kind = upstream.headers.get("Content-Type", "application/json")
        if not kind.startswith("text/event-stream"):
            return web.Response(status=upstream.status, body=await upstream.read(), headers={"Content-Type": kind})
        response = web.StreamResponse(status=upstream.status, headers={"Content-Type": kind})
        await response.prepare(request)
        try:
            async for piece in upstream.content.iter_any():
                await response.write(piece)
            await response.write_eof()
        except (aiohttp.ClientError, OSError):
            # The head has left: no other worker can answer now, the client sees a broken stream.
            if request.transport is not None:
                request.transport.abort()
        return response

    def since(self, ask: Ask) -> float:
        """Seconds since a request arrived."""
        return self.clock.now().mono - ask.begun

    async def attempt(self, request: web.Request, worker: Worker, ask: Ask) -> web.StreamResponse | Failed:
        """Try one worker: its answer relayed, or why another attempt is due."""
        worker.active += 1
        worker.dispatched += 1
        self.series.selected(worker, ask)
        try:
            async with await self.call(worker, ask.route, ask.body) as upstream:
                self.record(worker, success=upstream.status < self.circuit_fails_from)
                self.series.upstream(worker, ask, upstream.status, "", self.since(ask))
                if upstream.status in RETRYABLE:
                    return Failed(upstream.status, "", await upstream.read())
                return await self.relay(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.record(worker, success=False)
            self.series.upstream(worker, ask, 500, "call_upstream_request_error", self.since(ask))
            return Failed(500, "call_upstream_request_error", f"Request failed: {error}".encode())
        finally:
            worker.active -= 1
            self.series.released(worker)

    async def with_retries(self, request: web.Request, ask: Ask) -> web.StreamResponse | Failed:
        """Attempts until an answer or until they are exhausted (regular mode)."""
        failed = Failed(503, "no_available_workers", b"No available workers")
        for attempt in range(1, self.spec.max_attempts + 1):
            worker = self.pick(REGULAR)
            if worker is None:
                failed = Failed(503, "no_available_workers", b"No available workers")
                self.series.nobody(ask)
            else:
                outcome = await self.attempt(request, worker, ask)
                if not isinstance(outcome, Failed):
                    return outcome
                failed = outcome
            if attempt < self.spec.max_attempts:
                pause = self.spec.backoff_seconds * attempt
                self.series.retry(ask, attempt, pause)
                await asyncio.sleep(pause)
        self.series.exhausted(ask)
        return failed

    def _api_app(self) -> web.Application:
        app = web.Application(middlewares=self.middlewares(), client_max_size=16 * 2**20)
        app.add_routes([*self.routes(), *(web.post(path, self._infer) for path in ENDPOINTS)])
        return app

    def middlewares(self) -> list[Any]:
        """Middlewares of the API port."""
        return []

    def _metrics_app(self) -> web.Application:
        app = web.Application()
        app.add_routes([*self.metrics_routes(), web.get("/{path:.*}", self._metrics)])
        return app

    def metrics_routes(self) -> Iterable[web.RouteDef]:
        """Endpoints of the metrics port that are not the exposition."""
        return ()

    async def _metrics(self, request: web.Request) -> web.Response:
        if self.spec.metrics_token and request.headers.get("Authorization") != f"Bearer {self.spec.metrics_token}":
            return web.Response(status=401, text="Unauthorized")
        self.refresh()
        return web.Response(body=self.series.registry.render(), headers={"Content-Type": self.metrics_content_type})

    def refresh(self) -> None:
        """Bring gauges up to date before a rendering."""

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            payload = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return web.Response(status=400, text=f"Failed to parse the request body as JSON: {error}")
        if not isinstance(payload, dict):
            return web.Response(status=400, text="Failed to deserialize the JSON body into the target type")
        ask = Ask(request.path, ENDPOINTS[request.path], body, payload, self.clock.now().mono)
        return await self.infer(request, ask)
