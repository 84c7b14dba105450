"""What is known of KV events and blocks, over HTTP: one document a deployment, and who holds a list of hashes.

Handlers answer from memory. Block hashes in JSON are decimal strings, or ``hex:`` and hexadecimal digits for bytes.
What is not known is left out; a stream that was never synced is listed as unknown, not as holding nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from aiohttp import web

from exporters.encoding import encode
from exporters.statuses import failure
from exporters.timestamps import rfc3339
from router_contract.kv_events import Hash, parse_hash
from router_contract.kv_media import tier_of
from router_contract.kv_streams import (
    Holding,
    KvIndexSummary,
    KvLookup,
    KvStreamSummary,
    MediumBlocks,
    ReceiverSummary,
    Residency,
    StaleBlocks,
)
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

KV_PATH = "/api/v1/namespaces/{namespace}/modeldeployments/{name}/kv"
LOOKUP_PATH = KV_PATH + "/lookup"
PATHS = (KV_PATH, LOOKUP_PATH)
MAX_HASHES = 10_000
"""Hashes of one look-up."""


class KvSource(Protocol):
    """Who knows about KV events; answers are made for the moment of the call."""

    def now(self) -> Instant:
        """This moment."""
        ...

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted, with or without publishers."""
        ...

    def kv_streams(self, deployment: DeploymentKey | None = None) -> tuple[KvStreamSummary, ...]:
        """Every stream, or those of one deployment, sorted by key."""
        ...

    def kv_index(self, deployment: DeploymentKey) -> KvIndexSummary:
        """The block index of one deployment."""
        ...

    def kv_size(self, deployment: DeploymentKey) -> KvIndexSummary:
        """What that index takes, without what it holds."""
        ...

    def kv_lookup(self, deployment: DeploymentKey, hashes: Sequence[Hash], model: str | None) -> KvLookup:
        """Who holds how long a prefix of these hashes."""
        ...

    def kv_receiver(self) -> ReceiverSummary:
        """What waits between the sockets and the index."""
        ...


def stream_document(stream: KvStreamSummary, now: Instant) -> dict[str, Any]:
    """One stream for JSON: names in camelCase, instants as text with their age."""
    source, counters = stream.source, msgspec.to_builtins(stream.counters)
    found: dict[str, Any] = {
        "pod": source.member,
        "uid": source.key.member_uid,
        "role": source.role,
        "rank": source.key.rank,
        "engine": source.engine,
        "version": source.version,
        "model": source.model,
        "endpoint": source.source.endpoint,
        "replayEndpoint": source.source.replay_endpoint,
        "state": stream.state,
        "since": rfc3339(stream.since.wall),
        "history": stream.history,
        "approximate": list(stream.approximate),
        "detail": stream.detail or None,
        "counters": {
            _camel(name): dict(value) if isinstance(value, (list, tuple)) else value for name, value in counters.items()
        },
        "lastSequence": stream.last_sequence,
        "lastEvent": _moment(stream.last_event, now),
        "lastBatch": _moment(stream.last_batch, now),
        "confirmed": _moment(stream.confirmed, now),
        "probeFailures": stream.probe_failures,
        "blocks": stream.blocks if stream.synced else None,
        "media": [_medium(stream, medium, now) for medium in stream.media],
        "unanchored": stream.unanchored if stream.synced else None,
        "churnBlocksPerSecond": round(stream.churn_blocks_per_second, 3),
        "blockSize": stream.block_size,
        "statedRank": stream.wrong_rank,
        "stale": _moment(stream.stale_since, now),
    }
    return {name: value for name, value in found.items() if value is not None}


def _medium(stream: KvStreamSummary, medium: MediumBlocks, now: Instant) -> dict[str, Any]:
    """What was said of one medium; what is held on it only where that is known of the life that runs."""
    held = {"blocks": medium.blocks, "estimatedBytes": medium.estimated_bytes} if stream.synced else {}
    named = {"medium": medium.medium, "tier": tier_of(stream.source.engine, medium.medium)}
    return named | held | {"storedEvents": medium.stored_events, "lastStored": _moment(medium.last_stored, now)}


def kv_document(source: KvSource, key: DeploymentKey) -> dict[str, Any]:
    """Everything known about one deployment's KV events and blocks."""
    now, index = source.now(), source.kv_index(key)
    return {
        "metadata": {"namespace": key.namespace, "name": key.name},
        "timestamp": rfc3339(now.wall),
        "streams": [stream_document(stream, now) for stream in source.kv_streams(key)],
        "residency": [_residency(item, now) for item in index.residency],
        "index": {
            "estimatedBytes": index.estimated_bytes,
            "budgetBytes": index.budget_bytes,
            "cleaning": index.cleaning,
        },
    }


def lookup_document(answer: KvLookup) -> dict[str, Any]:
    """A look-up's answer for JSON."""
    return {
        "asked": answer.asked,
        "holdings": [_holding(item) for item in answer.holdings],
        "unknown": [{"uid": key.member_uid, "rank": key.rank} for key in answer.unknown],
    }


def _holding(item: Holding) -> dict[str, Any]:
    found = {
        "pod": item.member,
        "uid": item.key.member_uid,
        "rank": item.key.rank,
        "space": {_camel(name): value for name, value in msgspec.to_builtins(item.space).items()},
        "group": item.group,
        "blocks": item.blocks,
        "tokens": item.tokens,
        "media": dict(item.media),
        "ageSeconds": None if item.age_seconds is None else round(item.age_seconds, 3),
        "state": item.state,
        "history": item.history,
        "approximate": list(item.approximate),
    }
    return {name: value for name, value in found.items() if value is not None}


def _residency(item: Residency, now: Instant) -> dict[str, Any]:
    found = {
        "space": {_camel(name): value for name, value in msgspec.to_builtins(item.space).items()},
        "medium": item.medium,
        "group": item.group,
        "unique": item.unique,
        "total": item.total,
        "shared": item.shared,
        "redundancy": None if item.redundancy is None else round(item.redundancy, 4),
        "stale": [_stale(each, now) for each in item.stale] or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _stale(item: StaleBlocks, now: Instant) -> dict[str, Any]:
    """What a stream apart held when it was last heard; no count has it."""
    named = {"pod": item.member, "uid": item.key.member_uid, "rank": item.key.rank, "blocks": item.blocks}
    return named | {"since": _moment(item.since, now)}


def _moment(at: Instant | None, now: Instant) -> dict[str, Any] | None:
    return None if at is None else {"at": rfc3339(at.wall), "ageSeconds": round(max(now.mono - at.mono, 0.0), 3)}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


class _LookupBody(msgspec.Struct, forbid_unknown_fields=True):
    hashes: list[str | int]
    model: str | None = None


def parse_hashes(texts: Sequence[str | int]) -> list[Hash]:
    """The hashes of a request. Raises ``ValueError`` for none, too many, an unreadable one, or integers beside bytes."""
    if not texts or len(texts) > MAX_HASHES:
        raise ValueError(
            f"hashes: {len(texts)} given; want 1 to {MAX_HASHES}, as ?hashes=1,2,3 or as a POST of "
            '{"hashes": [1, 2, 3]}, from the first block on'
        )
    hashes = [text if isinstance(text, int) else parse_hash(text.strip()) for text in texts]
    if len({isinstance(value, bytes) for value in hashes}) > 1:
        raise ValueError("hashes: integers and bytes together; want one kind, they are of different engines' settings")
    return hashes


class KvApi:
    """The handlers over one source."""

    def __init__(self, source: KvSource) -> None:
        self._source = source

    def routes(self) -> list[web.AbstractRouteDef]:
        """Every path with its handler."""
        return [
            web.get(KV_PATH, self.document),
            web.get(LOOKUP_PATH, self.lookup),
            web.post(LOOKUP_PATH, self.lookup),
        ]

    def _key(self, request: web.Request) -> DeploymentKey | None:
        key = DeploymentKey(request.match_info["namespace"], request.match_info["name"])
        return key if key in self._source.kv_deployments() else None

    async def document(self, request: web.Request) -> web.Response:
        """Streams, residency and index of one deployment."""
        key = self._key(request)
        if key is None:
            return _unknown(request)
        return _json(kv_document(self._source, key))

    async def lookup(self, request: web.Request) -> web.Response:
        """Who holds the given hashes: ``?hashes=1,2,3&model=`` or a JSON body with the same names."""
        key = self._key(request)
        if key is None:
            return _unknown(request)
        try:
            if request.method == "POST":
                body = msgspec.json.decode(await request.read(), type=_LookupBody)
                hashes, model = parse_hashes(body.hashes), body.model
            else:
                hashes = parse_hashes([text for text in request.query.get("hashes", "").split(",") if text])
                model = request.query.get("model")
        except (ValueError, RecursionError) as error:
            return failure(400, str(error), name=key.name)
        return _json(lookup_document(self._source.kv_lookup(key, hashes, model)))


def _json(value: object) -> web.Response:
    return web.Response(body=encode(value), content_type="application/json")


def _unknown(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    return failure(404, f"model deployment {request.match_info['namespace']}/{name} is not known", name=name)
