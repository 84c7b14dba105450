"""Where an engine says its KV-event publishers are: readers of vLLM's and SGLang's own answers.

Engines tell their publishers as they were configured, with a wildcard host; the member's host takes its place. A
publisher that connects outwards, or has no fixed port, cannot be dialled and is said so; no port is ever guessed.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec

from router_contract.router_views import MAX_SHOWN, parse_rank
from router_contract.targets import KvEventSource

VLLM_PATH = "/kv_event_sources"
SGLANG_PATH = "/server_info"
MAX_TOPIC = 4096
"""Characters of a topic."""
_MAX_PORT = 65_535
_MAX_RANKS = 1024


class Sources(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Dialable publishers, and one sentence for each that is not; ``undialable`` has those of a known rank with it."""

    sources: tuple[KvEventSource, ...] = ()
    problems: tuple[str, ...] = ()
    undialable: tuple[tuple[int, str], ...] = ()


def tcp(host: str, port: int) -> str:
    """A ZMQ endpoint; IPv6 addresses get their brackets."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def from_vllm(body: bytes, host: str) -> Sources:
    """Read ``GET /kv_event_sources``: one configuration for each data-parallel rank."""
    try:
        ranks = msgspec.json.decode(body, type=dict[str, dict[str, Any]])
    except ValueError as error:
        return Sources(problems=(f"{VLLM_PATH}: {error}",))
    sources: list[KvEventSource] = []
    problems: list[str] = []
    undialable: list[tuple[int, str]] = []
    for name, found in sorted(ranks.items()):
        if not found.get("enable_kv_cache_events") or found.get("publisher") != "zmq":
            continue
        endpoint = _dialable(found.get("endpoint"), host)
        rank = parse_rank(name) if name.isascii() and name.isdecimal() else None
        if endpoint is None or rank is None:
            at = repr(found.get("endpoint"))[:MAX_SHOWN]
            problems.append(f"rank {name[:MAX_SHOWN]}: the publisher at {at} cannot be dialled")
            undialable += [(rank, problems[-1])] if rank is not None else []
            continue
        sources.append(
            KvEventSource(
                endpoint=endpoint,
                replay_endpoint=_dialable(found.get("replay_endpoint"), host),
                topic=_topic(found),
                rank=rank,
            )
        )
    return Sources(sources=tuple(sources), problems=tuple(problems), undialable=tuple(undialable))


def from_sglang(body: bytes, host: str) -> Sources:
    """Read ``GET /server_info``: a base port for publishing, one for replay, and the number of ranks."""
    try:
        found = msgspec.json.decode(body, type=dict[str, Any]).get("kv_events")
    except ValueError as error:
        return Sources(problems=(f"{SGLANG_PATH}: {error}",))
    if not isinstance(found, dict) or found.get("publisher") != "zmq":
        return Sources()
    base, ranks, replay = (
        found.get("endpoint_port_base"),
        found.get("dp_size", 1),
        found.get("replay_endpoint_port_base"),
    )
    counted = isinstance(ranks, int) and not isinstance(ranks, bool) and 0 <= ranks <= _MAX_RANKS
    if not isinstance(ranks, int) or not counted or not _is_port(base) or not _is_port(base + max(ranks - 1, 0)):
        told = f"endpoint_port_base {repr(base)[:MAX_SHOWN]} and dp_size {repr(ranks)[:MAX_SHOWN]}"
        problem = f"{SGLANG_PATH}: {told}: wanted ports and at most {_MAX_RANKS} ranks"
        return Sources(problems=(problem,), undialable=((0, problem),))
    return Sources(
        sources=tuple(
            KvEventSource(
                endpoint=tcp(host, base + rank),
                replay_endpoint=tcp(host, replay + rank) if _is_port(replay) and _is_port(replay + rank) else None,
                topic=_topic(found),
                rank=rank,
            )
            for rank in range(ranks)
        )
    )


def _is_port(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_PORT


def _topic(found: dict[str, Any]) -> str:
    """What to subscribe to; a topic that no publisher can have is none: then everything is received."""
    topic = found.get("topic")
    return topic if isinstance(topic, str) and len(topic) <= MAX_TOPIC else ""


def _dialable(endpoint: object, host: str) -> str | None:
    """A configured endpoint seen from outside, ``None`` when nothing listens there that we could reach."""
    if not isinstance(endpoint, str) or not endpoint.startswith("tcp://"):
        return None
    address, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= len(str(_MAX_PORT)) and _is_port(int(port))):
        return None
    # The publishers bind wildcards only; any other address makes them connect outwards, unless it was resolved to the
    # member's own by the engine (``tcp://*:0``).
    if address in ("*", "0.0.0.0", "::", "[::]") or address.strip("[]") == host:  # noqa: S104 - compared, not bound
        return tcp(host, int(port))
    return None
