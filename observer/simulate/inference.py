"""The inference calls of an engine over HTTP: read a request, run it in the core, answer whole or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from observer.simulate.core import EngineCore, Work
from observer.simulate.node import reply
from observer.simulate.prefix_cache import tokenize
from observer.simulate.spec import EngineSpec

DEFAULT_MAX_TOKENS = 16


class BadRequest(Exception):  # noqa: N818  it is an answer, not a failure of ours
    """The client's fault: ``status`` and a message that names the field, the value and what was wanted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Call:
    """One inference request as it came: its work, the rank it asked for, and which answer shape it wants."""

    work: Work
    rank: int | None
    shape: str


def _text_of(payload: dict[str, Any], shape: str) -> str | list[int]:
    if shape == "chat":
        messages = payload.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadRequest(400, f"messages: found {messages!r}, want a list of messages")
        parts: list[str] = []
        for message in messages:
            content = message.get("content", "") if isinstance(message, dict) else ""
            items = content if isinstance(content, list) else [{"text": content}]
            parts += [str(item.get("text", "image")) for item in items if isinstance(item, dict)]
        return " ".join(parts)
    name = "prompt" if shape == "completion" else "text"
    prompt = payload.get(name, payload.get("input_ids"))
    if isinstance(prompt, str) or (isinstance(prompt, list) and all(isinstance(item, int) for item in prompt)):
        return prompt
    raise BadRequest(400, f"{name}: found {prompt!r}, want a text or a list of token ids")


def read_call(body: bytes, headers: dict[str, str], shape: str, spec: EngineSpec, *, strict_model: bool) -> Call:
    """The call in a request body. Raises `BadRequest` for a body no engine would accept."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(400, f"body: {error}, want a JSON object") from error
    if not isinstance(payload, dict):
        raise BadRequest(400, f"body: found {type(payload).__name__}, want a JSON object")
    model = payload.get("model")
    if strict_model and model not in (None, "", spec.model):
        raise BadRequest(404, f"The model `{model}` does not exist.")
    sampling = payload.get("sampling_params") or {}
    maximum = (
        payload.get("max_completion_tokens")
        or payload.get("max_tokens")
        or sampling.get("max_new_tokens")
        or DEFAULT_MAX_TOKENS
    )
    if not isinstance(maximum, int) or maximum < 1:
        raise BadRequest(400, f"max_tokens: found {maximum!r}, want a whole number of at least 1")
    prompt = _text_of(payload, shape)
    tokens = tokenize(prompt) if isinstance(prompt, str) else prompt
    if len(tokens) + maximum > spec.max_model_len:
        raise BadRequest(
            400, f"prompt and max_tokens: found {len(tokens) + maximum}, want at most {spec.max_model_len}"
        )
    transfer = payload.get("kv_transfer_params") or {}
    rank = payload.get("data_parallel_rank", headers.get("X-data-parallel-rank"))
    work = Work(
        prompt=tokens or [0],
        max_tokens=maximum,
        streaming=bool(payload.get("stream")),
        transferred=bool(transfer.get("do_remote_prefill")) or "bootstrap_room" in payload,
    )
    return Call(work, int(rank) if rank is not None else None, shape)


def _usage(work: Work) -> dict[str, Any]:
    return {
        "prompt_tokens": len(work.prompt),
        "completion_tokens": work.generated,
        "total_tokens": len(work.prompt) + work.generated,
        "prompt_tokens_details": {"cached_tokens": work.cached},
    }


def whole_answer(call: Call, model: str) -> dict[str, Any]:
    """The JSON of a finished call in the shape its endpoint has."""
    work = call.work
    text = "token " * work.generated
    if call.shape == "generate":
        meta = {"prompt_tokens": len(work.prompt), "completion_tokens": work.generated, "cached_tokens": work.cached}
        return {"text": text, "meta_info": {**meta, "finish_reason": {"type": work.reason}}}
    choice: dict[str, Any] = {"index": 0, "finish_reason": work.reason}
    if call.shape == "chat":
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    kind = "chat.completion" if call.shape == "chat" else "text_completion"
    return {"id": "sim", "object": kind, "model": model, "choices": [choice], "usage": _usage(work)}


def _chunk(call: Call, model: str, tokens: int) -> bytes:
    text = "token " * tokens
    if call.shape == "generate":
        return b"data: " + orjson.dumps({"text": text, "meta_info": {}}) + b"\n\n"
    choice: dict[str, Any] = {"index": 0, "finish_reason": None}
    choice |= {"delta": {"content": text}} if call.shape == "chat" else {"text": text}
    return b"data: " + orjson.dumps({"id": "sim", "model": model, "choices": [choice]}) + b"\n\n"


async def answer(request: web.Request, call: Call, core: EngineCore, model: str) -> web.StreamResponse:
    """Run a call and answer it. Cancelling this (the client left) aborts the work."""
    pieces: AsyncIterator[int]
    async with aclosing(core.serve(call.work, call.rank)) as pieces:  # type: ignore[type-var]  # an async generator behind its iterator type
        if not call.work.streaming:
            async for _ in pieces:
                pass
            return reply(whole_answer(call, model))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        async for tokens in pieces:
            if not response.prepared:
                await response.prepare(request)
            await response.write(_chunk(call, model, tokens))
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response
