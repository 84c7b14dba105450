"""A simulated SGLang server with the endpoints, expositions and habits of release 0.5.23."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from observer.simulate.engine import EngineMeter, Phase, SimulatedEngine
from observer.simulate.meter_sglang import ENGINE_TYPES, SglangMeter
from observer.simulate.node import reply
from observer.simulate.prefix_cache import tokenize

WARM_UP_PROMPT = 27
WARM_UP_TOKENS = 8


class SglangEngine(SimulatedEngine):
    """SGLang: listens early and answers 503 until warm, counts its warm-up, its probes and clients that leave."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def make_meter(self) -> EngineMeter:
        """Fresh metrics for a new process life."""
        return SglangMeter(self.spec, self.clock, 10_000 + self.lives, self.kind)

    def warm_up(self) -> None:
        """One generation a rank before anyone can ask."""
        if isinstance(self.meter, SglangMeter):
            self.meter.warmed(WARM_UP_PROMPT, WARM_UP_TOKENS)

    def inference_paths(self) -> dict[str, str]:
        """The OpenAI paths and the native one."""
        return {"/v1/chat/completions": "chat", "/v1/completions": "completion", "/generate": "generate"}

    def routes(self) -> Iterable[web.RouteDef]:
        """Probes, discovery, loads and cache control."""
        return (
            web.get("/health", self._health),
            web.get("/health_generate", self._health),
            web.get("/v1/models", self._models),
            web.get("/server_info", self._server_info),
            web.get("/get_server_info", self._server_info),
            web.get("/model_info", self._model_info),
            web.get("/get_model_info", self._model_info),
            web.get("/v1/loads", self._loads),
            web.post("/tokenize", self._tokenize),
            web.post("/flush_cache", self._flush_cache),
        )

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.phase is Phase.SERVING else 503)

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self.spec.model,
            "object": "model",
            "created": int(self.clock.now().wall),
            "owned_by": "sglang",
            "root": self.spec.model,
            "parent": None,
            "max_model_len": self.spec.max_model_len,
        }
        return reply({"object": "list", "data": [model]})

    @property
    def _mode(self) -> str:
        return ENGINE_TYPES.get(self.kind, "null")

    def _kv_events(self) -> dict[str, Any] | None:
        sources = self.hook.sources()
        if not sources:
            return None
        live, replay = urlsplit(sources[0].endpoint), sources[0].replay_endpoint
        found: dict[str, Any] = {
            "publisher": "zmq",
            "endpoint_host": "*",
            "endpoint_port_base": live.port,
            "topic": sources[0].topic,
            "block_size": self.spec.block_size,
            "dp_size": self.spec.dp_size,
        }
        return found if replay is None else found | {"replay_endpoint_port_base": urlsplit(replay).port}

    async def _server_info(self, _: web.Request) -> web.Response:
        spec = self.spec
        return reply(
            {
                "model_path": f"local/{spec.model}",
                "tokenizer_path": f"local/{spec.model}",
                "served_model_name": spec.model,
                "context_length": spec.max_model_len,
                "tp_size": spec.tp_size,
                "pp_size": 1,
                "dp_size": spec.dp_size,
                "load_balance_method": "round_robin",
                "page_size": spec.block_size,
                "max_running_requests": spec.max_running,
                "max_total_tokens": spec.num_blocks * spec.block_size,
                "max_total_num_tokens": spec.num_blocks * spec.block_size,
                "disaggregation_mode": self._mode,
                "enable_metrics": True,
                "kv_events": self._kv_events(),
                "internal_states": [
                    {"effective_max_running_requests_per_dp": spec.max_running} for _ in self.core.ranks
                ],
                "version": spec.shown_version,
            }
        )

    async def _model_info(self, _: web.Request) -> web.Response:
        return reply(
            {
                "model_path": f"local/{self.spec.model}",
                "served_model_name": self.spec.model,
                "tokenizer_path": f"local/{self.spec.model}",
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": "default",
                "disaggregation_mode": self._mode,
                "model_type": "qwen2",
                "architectures": ["Qwen2ForCausalLM"],
            }
        )

    async def _loads(self, _: web.Request) -> web.Response:
        now = self.clock.now().wall
        total = self.spec.num_blocks * self.spec.block_size
        loads = []
        for rank in self.core.ranks:
            used = min(rank.used_blocks * self.spec.block_size, total)
            waiting = len(rank.queue)
            loads.append(
                {
                    "timestamp": now,
                    "dp_rank": rank.index,
                    "num_running_reqs": rank.running,
                    "num_waiting_reqs": waiting,
                    "num_used_tokens": used,
                    "max_total_num_tokens": total,
                    "max_running_requests": self.spec.max_running,
                    "token_usage": round(used / total, 4),
                    "cache_hit_rate": 0.0,
                    "disaggregation": {"mode": self._mode},
                    "queues": {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
                }
            )
        stamp = datetime.fromtimestamp(now, UTC).isoformat()
        return reply({"timestamp": stamp, "version": self.spec.shown_version, "accelerator": None, "loads": loads})

    async def _tokenize(self, request: web.Request) -> web.Response:
        payload = orjson.loads(await request.read())
        tokens = tokenize(str(payload.get("prompt", "")))
        return reply({"tokens": tokens, "count": len(tokens), "max_model_len": self.spec.max_model_len})

    async def _flush_cache(self, _: web.Request) -> web.Response:
        self.core.reset_cache(at_next_step=False)
        return web.Response(text="Cache flushed.")
