"""Strict parsers from what an engine's API answers to versions, model ids and KV-event publishers.

The content type is not looked at: some programs send JSON as plain text. Every parser returns or raises `ProbeError`,
whose text names what was found and what was wanted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from router_contract.endpoints import EventsForm
from router_contract.kv_sources import Sources, from_sglang, from_vllm

MAX_MODELS = 4096
MAX_TEXT = 1024
_WILDCARDS = frozenset({"*", "::", "[::]", "0.0.0.0"})  # noqa: S104 - compared, not bound


class ProbeError(ValueError):
    """An engine's answer is not the shape that its API promises."""


def parse_version_told(body: bytes, field: str) -> str:
    """The non-empty text at a key of a JSON object. Raises `ProbeError`."""
    found = _object(body).get(field)
    if not isinstance(found, str) or not found.strip() or len(found) > MAX_TEXT:
        raise ProbeError(f"{field} is {_shown(found)}, the version as text is wanted")
    return found.strip()


def parse_models(body: bytes) -> tuple[str, ...]:
    """The ids under ``data``, sorted; an empty list is an answer. Raises `ProbeError`."""
    data = _object(body).get("data")
    if not isinstance(data, list):
        raise ProbeError(f"data is {_shown(data)}, an array of models is wanted")
    if len(data) > MAX_MODELS:
        raise ProbeError(f"data has {len(data)} models, at most {MAX_MODELS} are read")
    ids: set[str] = set()
    for index, row in enumerate(data):
        name = row.get("id") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name or len(name) > MAX_TEXT:
            raise ProbeError(f"data[{index}].id is {_shown(name)}, a model's name is wanted")
        ids.add(name)
    return tuple(sorted(ids))


def parse_event_sources(body: bytes, form: EventsForm, host: str) -> Sources:
    """The publishers that can be dialled at ``host``, and a sentence for each that cannot. Raises `ProbeError`.

    An engine that does not mention KV events at all says nothing of them: that is an error, not "publishes nothing".
    """
    document = _object(body)
    try:
        if form is EventsForm.BY_RANK:
            if not all(isinstance(each, dict) for each in document.values()):
                raise ProbeError("a rank's publisher is no object")
            return from_vllm(body, host)
        if "kv_events" not in document:
            raise ProbeError("there is no kv_events: this release does not tell its publishers")
        listens = _listens_elsewhere(document["kv_events"], host)
        return Sources(problems=(listens,)) if listens else from_sglang(body, host)
    except ProbeError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProbeError(str(error)[:200]) from None


def _listens_elsewhere(found: object, host: str) -> str:
    """Why publishers at a host that is not the member's cannot be dialled, or nothing."""
    at = found.get("endpoint_host", "*") if isinstance(found, dict) else "*"
    if isinstance(at, str) and (at in _WILDCARDS or at.strip("[]") == host):
        return ""
    return (
        f"the publishers are at {_shown(at)}, which is not this member ({host}): they connect there or bind elsewhere"
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:  # DecodeError is one; so is an integer of thousands of digits
        raise ProbeError(f"body of {len(body)} bytes is not one JSON document: {error}") from None
    if not isinstance(document, dict):
        raise ProbeError(f"body is {type(document).__name__}, an object is wanted")
    return document


def _shown(value: object) -> str:
    """A foreign value in a sentence: short, however deep it is, and absent said as such."""
    if isinstance(value, list | dict):
        return f"{type(value).__name__} of {len(value)}"
    return "absent" if value is None else repr(value)[:80]
