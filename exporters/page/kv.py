"""The KV page: streams with their gaps and replays, which blocks are where, and who holds a list of hashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporters.kv import kv_document, lookup_document, parse_hashes
from exporters.page.protocols import Services
from exporters.page.query import Column, checked, contains, headings, one_of, sort
from exporters.page.render import Built, Fragment, Renderer, Twin, element_id, path_of
from router_contract.kv_streams import KvStreamSummary, StreamState
from router_contract.targets import DeploymentKey

FILTERS = ("q", "state", "sort", "of", "hashes", "model")
MOST_ROWS = 2_000
LOOKUP_CHARACTERS = 8_000
"""Characters of hashes in a look-up by the form; the API takes more."""

COLUMNS = (
    Column(
        name="stream", title="Stream", key=lambda each: (str(each.key.deployment), each.source.member, each.key.rank)
    ),
    Column(name="state", title="State", key=lambda each: each.state.value),
    Column(name="since", title="Since", key=lambda each: each.since.wall),
    Column(name="last", title="Last event", key=lambda each: each.last_event.wall if each.last_event else None),
    Column(name="batches", title="Batches", key=lambda each: each.counters.batches, numeric=True),
    Column(name="gaps", title="Gaps", key=lambda each: each.counters.gaps, numeric=True),
    Column(name="missed", title="Missed", key=lambda each: each.counters.missed, numeric=True),
    Column(name="replays", title="Replays", key=lambda each: sum(n for _, n in each.counters.replays), numeric=True),
    Column(name="resets", title="New lives", key=lambda each: each.counters.resets, numeric=True),
    Column(name="blocks", title="Blocks", key=lambda each: each.blocks if each.synced else None, numeric=True),
)


class KvPage:
    """Streams and residency of every deployment, and one look-up."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def _found(self, query: Mapping[str, str]) -> tuple[list[KvStreamSummary], dict[str, str]]:
        short = {name: text for name, text in query.items() if name != "hashes"}
        told = checked(short, FILTERS) | ({"hashes": query["hashes"]} if query.get("hashes") else {})
        state = one_of(told, "state", [each.value for each in StreamState])
        kept = [
            each
            for each in self._services.kv.kv_streams()
            if (state is None or each.state.value == state)
            and ("q" not in told or contains(told["q"], str(each.key.deployment), each.source.member))
        ]
        return sort(kept, COLUMNS, told.get("sort")), told

    def build(self, _: Mapping[str, str], query: Mapping[str, str]) -> Built:
        """Streams that pass the query, residency of their deployments, and the answer of a look-up."""
        found, told = self._found(query)
        streams = found[:MOST_ROWS]
        now = self._services.kv.now()
        rows = [self._row(each) for each in streams]
        residency = [
            self._renderer.part("residency.html", element_id("i", key.namespace, key.name), key=key, index=index)
            for key in sorted({each.key.deployment for each in streams})
            if (index := self._services.kv.kv_index(key)).residency or index.estimated_bytes
        ]
        answer, why = self._lookup(told)
        if answer is not None:
            for each in answer["holdings"]:
                age = each.pop("ageSeconds", None)
                each["seenAt"] = None if age is None else now.wall - age
        note = self._renderer.part(
            "note.html", "kv-note", count=len(rows), more=len(found) > len(rows), what="KV-event streams"
        )
        lookup = self._renderer.part("lookup.html", "kv-lookup", answer=answer, why=why)
        receiver = self._renderer.part("receiver.html", "kv-receiver", receiver=self._services.kv.kv_receiver())
        keys = self._services.kv.kv_deployments()
        context = {
            "headings": headings(COLUMNS, "/kv", told),
            "query": told,
            "states": [each.value for each in StreamState],
            "deployments": [str(key) for key in keys],
        }
        groups = {"note": (note,), "receiver": (receiver,), "rows": rows, "residency": residency, "lookup": (lookup,)}
        return Built(template="kv.html", title="KV events", context=context, groups=groups)

    def _row(self, stream: KvStreamSummary) -> Fragment:
        key = stream.key
        ident = element_id("s", key.deployment.namespace, key.deployment.name, key.member_uid, str(key.rank))
        path = path_of("deployments", key.deployment.namespace, key.deployment.name)
        return self._renderer.part("stream_row.html", ident, stream=stream, path=path)

    def _lookup(self, told: Mapping[str, str]) -> tuple[dict[str, Any] | None, str]:
        """The answer of the look-up that the query asks for, or why there is none."""
        if "hashes" not in told:
            return None, ""
        namespace, _, name = told.get("of", "").partition("/")
        key = DeploymentKey(namespace, name)
        if key not in self._services.kv.kv_deployments():
            return None, f"no deployment {told.get('of', '')!r} is observed"
        if len(told["hashes"]) > LOOKUP_CHARACTERS:
            return None, f"the hashes have {len(told['hashes'])} characters; at most {LOOKUP_CHARACTERS} here"
        try:
            hashes = parse_hashes([text for text in told["hashes"].replace(",", " ").split() if text])
        except ValueError as error:
            return None, str(error)
        return lookup_document(self._services.kv.kv_lookup(key, hashes, told.get("model"))), ""

    def twin(self, _: Mapping[str, str], query: Mapping[str, str]) -> Twin:
        """Each deployment's KV document, and the look-up."""
        found, told = self._found(query)
        keys = sorted({each.key.deployment for each in found})
        answer, why = self._lookup(told)
        value: dict[str, Any] = {"items": [kv_document(self._services.kv, key) for key in keys]}
        if "hashes" in told:
            value["lookup"] = answer if answer is not None else {"error": why}
        return Twin(value=value)
