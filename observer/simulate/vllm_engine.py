"""A simulated vLLM API server with the endpoints, expositions and habits of release 0.32.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from aiohttp import web

from observer.simulate.engine import EngineMeter, SimulatedEngine
from observer.simulate.meter_vllm import VllmMeter
from observer.simulate.node import reply
from observer.simulate.prefix_cache import tokenize


class VllmEngine(SimulatedEngine):
    """vLLM: refuses connections while it loads, answers 404 for a model it does not serve, counts no disconnects."""

    content_type = "text/plain; version=1.0.0; charset=utf-8"
    strict_model = True

    def make_meter(self) -> EngineMeter:
        """Fresh metrics for a new process life."""
        return VllmMeter(self.spec, self.clock, 100 + self.lives)

    def warm_up(self) -> None:
        """VLLM books no request of its own: every counter starts at zero."""

    def inference_paths(self) -> dict[str, str]:
        """The OpenAI paths."""
        return {"/v1/chat/completions": "chat", "/v1/completions": "completion"}

    def routes(self) -> Iterable[web.RouteDef]:
        """Probes, discovery and cache control."""
        return (
            web.get("/health", self._health),
            web.get("/ping", self._health),
            web.get("/version", self._version),
            web.get("/load", self._load),
            web.get("/v1/models", self._models),
            web.get("/kv_event_sources", self._kv_event_sources),
            web.post("/tokenize", self._tokenize),
            web.post("/reset_prefix_cache", self._reset_prefix_cache),
        )

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return reply({"version": self.spec.shown_version})

    async def _load(self, _: web.Request) -> web.Response:
        return reply({"server_load": 0})

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self.spec.model,
            "object": "model",
            "created": int(self.clock.now().wall),
            "owned_by": "vllm",
            "root": self.spec.model,
            "parent": None,
            "max_model_len": self.spec.max_model_len,
        }
        return reply({"object": "list", "data": [model]})

    async def _kv_event_sources(self, _: web.Request) -> web.Response:
        sources: dict[str, dict[str, Any]] = {
            str(source.rank): {
                "enable_kv_cache_events": True,
                "publisher": "zmq",
                "endpoint": source.endpoint,
                "replay_endpoint": source.replay_endpoint,
                "buffer_steps": 10000,
                "hwm": 100000,
                "max_queue_size": 100000,
                "topic": source.topic,
            }
            for source in self.hook.sources()
        }
        return reply(sources)

    async def _tokenize(self, request: web.Request) -> web.Response:
        payload = orjson.loads(await request.read())
        tokens = tokenize(str(payload.get("prompt", "")))
        return reply({"count": len(tokens), "max_model_len": self.spec.max_model_len, "tokens": tokens})

    async def _reset_prefix_cache(self, _: web.Request) -> web.Response:
        self.core.reset_cache(at_next_step=True)
        return web.Response()
