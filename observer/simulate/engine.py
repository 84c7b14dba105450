"""A simulated engine process: its lives on one port, its behaviour, and the truth about what it answered."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Any, Protocol

from aiohttp import web

from observer.clock import Clock
from observer.simulate.background import Background
from observer.simulate.behaviour import Behaviour
from observer.simulate.core import EngineCore, Meter
from observer.simulate.inference import BadRequest, answer, read_call
from observer.simulate.kv_hook import KvEventHook, NoKvEvents
from observer.simulate.node import Listener, reply
from observer.simulate.spec import EngineSpec
from observer.simulate.tables import ProcessMetrics
from router_contract.targets import RoleKind

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Phase(StrEnum):
    """Where a process is in its life."""

    STOPPED = "Stopped"
    LOADING = "Loading"
    WARMING = "Warming"
    SERVING = "Serving"


class EngineMeter(Meter, Protocol):
    """A meter with its registry and its HTTP books."""

    metrics: ProcessMetrics

    def answered(self, method: str, path: str, status: int, seconds: float, sent: int, received: int) -> None:
        """Book one HTTP answer. Sizes in bytes."""
        ...


class SimulatedEngine(ABC):
    """One engine member: start it, kill it, make it misbehave. Port and identity last through its lives."""

    content_type = "text/plain; charset=utf-8"
    strict_model = False

    def __init__(
        self,
        name: str,
        spec: EngineSpec,
        clock: Clock,
        background: Background,
        *,
        kind: str = RoleKind.SERVER,
        hook: KvEventHook | None = None,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.spec = spec
        self.kind = kind
        self.clock = clock
        self.hook: KvEventHook = hook if hook is not None else NoKvEvents()
        self.behaviour = Behaviour(seed)
        self.phase = Phase.STOPPED
        self.answers: Counter[int] = Counter()
        self.disconnects = 0
        self.lives = 0
        self.load_seconds = spec.load_seconds
        self.warm_seconds = spec.warm_seconds
        self.listener = Listener(self._app)
        self._background = background
        self._coming: asyncio.Task[None] | None = None
        self._frozen: bytes | None = None
        self.meter: EngineMeter = self.make_meter()
        self.core = self._make_core()

    @abstractmethod
    def make_meter(self) -> EngineMeter:
        """Fresh metrics for a new process life."""

    @abstractmethod
    def routes(self) -> Iterable[web.RouteDef]:
        """The endpoints of this program beside inference and metrics."""

    @abstractmethod
    def inference_paths(self) -> dict[str, str]:
        """POST paths and the shape of their answers: ``chat``, ``completion`` or ``generate``."""

    @abstractmethod
    def warm_up(self) -> None:
        """Book what the program generates by itself before it is ready."""

    @property
    def url(self) -> str:
        """The base URL, the same in every life."""
        return self.listener.url

    def _make_core(self) -> EngineCore:
        return EngineCore(self.spec, self.meter, self.behaviour, self.hook, self.clock)

    async def start(self) -> None:
        """Begin a process life: empty counters, a new start time. Loading and warming go on in the background."""
        if self.phase is not Phase.STOPPED:
            return
        self.lives += 1
        self._frozen = None
        self.meter = self.make_meter()
        self.core = self._make_core()
        self.hook.started()
        self.phase = Phase.LOADING
        if self.load_seconds <= 0 and self.warm_seconds <= 0:
            await self.listener.start()
            self._ready()
        else:
            self._coming = self._background.spawn(self._come_up(), f"{self.name}: start")

    async def _come_up(self) -> None:
        await asyncio.sleep(self.load_seconds)
        await self.listener.start()
        self.phase = Phase.WARMING
        await asyncio.sleep(self.warm_seconds)
        self._coming = None
        self._ready()

    def _ready(self) -> None:
        self.warm_up()
        self.phase = Phase.SERVING

    async def die(self) -> None:
        """End the process at once: connections break, the port refuses."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.cancel()
        if self.phase is not Phase.STOPPED:
            self.phase = Phase.STOPPED
            self.hook.stopped()
        await self.listener.die()

    async def restart(self) -> None:
        """Die and start again on the same port."""
        await self.die()
        await self.start()

    async def close(self) -> None:
        """Die for good and give the port back."""
        await self.die()
        self.hook.closed()
        await self.listener.close()

    def exposition(self) -> bytes:
        """The metrics body as of now; a hanging engine repeats the first one that showed work running."""
        if not self.behaviour.hanging:
            self._frozen = None
            return self.meter.metrics.registry.render()
        if self._frozen is None:
            body = self.meter.metrics.registry.render()
            if any(rank.running for rank in self.core.ranks):
                self._frozen = body
            return body
        return self._frozen

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._booked], client_max_size=16 * 2**20)
        app.add_routes(self.routes())
        app.router.add_get("/metrics", self._metrics)
        for path, shape in self.inference_paths().items():
            app.router.add_post(path, self._inference(shape))
        return app

    @web.middleware
    async def _booked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        begun = self.clock.now().mono
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = reply({"detail": "Not Found"}, status=404)
        except web.HTTPMethodNotAllowed:
            response = reply({"detail": "Method Not Allowed"}, status=405)
        size = response.content_length or 0 if isinstance(response, web.Response) else 0
        seconds = self.clock.now().mono - begun
        self.meter.answered(request.method, request.path, response.status, seconds, size, request.content_length or 0)
        return response

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.exposition(), headers={"Content-Type": self.content_type})

    def _inference(self, shape: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            try:
                response = await self._serve(request, body, shape)
            except BadRequest as refused:
                error: dict[str, Any] = {"message": refused.message, "type": "BadRequestError", "code": refused.status}
                response = reply({"error": error}, status=refused.status)
            except asyncio.CancelledError:
                self.disconnects += 1
                raise
            self.answers[response.status] += 1
            return response

        return handle

    async def _serve(self, request: web.Request, body: bytes, shape: str) -> web.StreamResponse:
        if self.behaviour.draws_error():
            status = self.behaviour.error_status
            return reply({"error": {"message": "simulated failure", "code": status}}, status=status)
        headers = {name: value for name, value in request.headers.items() if name == "X-data-parallel-rank"}
        call = read_call(body, headers, shape, self.spec, strict_model=self.strict_model)
        if self.kind == RoleKind.PREFILL:
            call.work.max_tokens, call.work.transferred = 1, False
        if self.kind == RoleKind.ENCODE:
            await self.core.encode(call.work)
            return reply({"id": "sim", "object": "chat.completion", "model": self.spec.model, "choices": []})
        return await answer(request, call, self.core, self.spec.model)
