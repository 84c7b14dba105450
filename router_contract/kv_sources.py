"""Where an engine says its KV-event publishers are: readers of vLLM's and SGLang's own answers.

Engines tell their publishers as they were configured, with a wildcard host; the member's host takes its place. A
publisher that connects outwards, or has no fixed port, cannot be dialled and is said so; no port is ever guessed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from router_contract.targets import KvEventSource

VLLM_PATH = "/kv_event_sources"
SGLANG_PATH = "/server_info"


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Dialable publishers, and one sentence for each that is not."""

    sources: tuple[KvEventSource, ...] = ()
    problems: tuple[str, ...] = ()


def tcp(host: str, port: int) -> str:
    """A ZMQ endpoint; IPv6 addresses get their brackets."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def from_vllm(body: bytes, host: str) -> Sources:
    """Read ``GET /kv_event_sources``: one configuration for each data-parallel rank."""
    try:
        ranks = msgspec.json.decode(body, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError as error:
        return Sources(problems=(f"{VLLM_PATH}: {error}",))
    sources: list[KvEventSource] = []
    problems: list[str] = []
    for name, found in sorted(ranks.items()):
        if not found.get("enable_kv_cache_events") or found.get("publisher") != "zmq":
            continue
        endpoint = _dialable(found.get("endpoint"), host)
        if endpoint is None or not name.isdigit():
            problems.append(f"rank {name}: the publisher at {found.get('endpoint')!r} cannot be dialled")
            continue
        sources.append(
            KvEventSource(
                endpoint=endpoint,
                replay_endpoint=_dialable(found.get("replay_endpoint"), host),
                topic=str(found.get("topic") or ""),
                rank=int(name),
            )
        )
    return Sources(sources=tuple(sources), problems=tuple(problems))


def from_sglang(body: bytes, host: str) -> Sources:
    """Read ``GET /server_info``: a base port for publishing, one for replay, and the number of ranks."""
    try:
        found = msgspec.json.decode(body, type=dict[str, Any]).get("kv_events")
    except msgspec.DecodeError as error:
        return Sources(problems=(f"{SGLANG_PATH}: {error}",))
    if not isinstance(found, dict) or found.get("publisher") != "zmq":
        return Sources()
    base, ranks, replay = (
        found.get("endpoint_port_base"),
        found.get("dp_size", 1),
        found.get("replay_endpoint_port_base"),
    )
    if not isinstance(base, int) or not isinstance(ranks, int):
        return Sources(problems=(f"{SGLANG_PATH}: endpoint_port_base {base!r} and dp_size {ranks!r}: wanted integers",))
    return Sources(
        sources=tuple(
            KvEventSource(
                endpoint=tcp(host, base + rank),
                replay_endpoint=tcp(host, replay + rank) if isinstance(replay, int) else None,
                topic=str(found.get("topic") or ""),
                rank=rank,
            )
            for rank in range(min(ranks, 1024))
        )
    )


def _dialable(endpoint: object, host: str) -> str | None:
    """A configured endpoint seen from outside, ``None`` when nothing listens there that we could reach."""
    if not isinstance(endpoint, str) or not endpoint.startswith("tcp://"):
        return None
    address, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not port.isdigit() or port == "0":
        return None
    # The publishers bind wildcards only; any other address makes them connect outwards, unless it was resolved to the
    # member's own by the engine (``tcp://*:0``).
    if address in ("*", "0.0.0.0", "::", "[::]") or address.strip("[]") == host:  # noqa: S104 - compared, not bound
        return tcp(host, int(port))
    return None
