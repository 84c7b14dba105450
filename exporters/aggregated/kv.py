"""The KV part of a deployment as the subresource ``kv``: its document, or with ``hashes`` who holds those blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporters.aggregated.api import KvDocument
from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.resources import OBSERVED
from exporters.kv import KvSource, kv_document, lookup_document, parse_hashes
from router_contract.documents import Unavailable
from router_contract.targets import DeploymentKey


def kv_answers(source: KvSource) -> KvDocument:
    """The answers over one source."""

    def answer(key: DeploymentKey, query: Mapping[str, str]) -> dict[str, Any] | Unavailable:
        if key not in source.kv_deployments():
            return Unavailable(reason="NotFound", message=f"no KV events of {key} are followed")
        if "hashes" not in query:
            return kv_document(source, key)
        try:
            hashes = parse_hashes([text for text in query["hashes"].split(",") if text])
        except ValueError as error:
            raise RefusalError(400, str(error), plural=OBSERVED, name=key.name) from error
        return lookup_document(source.kv_lookup(key, hashes, query.get("model")))

    return answer
