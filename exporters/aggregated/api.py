"""What is answered: discovery, OpenAPI, version, and the objects in the shape that was asked for. All from memory.

A deployment that another replica owns is asked of it; when it does not answer in its time, what this replica knows, or
reads directly, is sent with ``partial: true``.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from exporters.aggregated import discovery, objects, openapi, tables
from exporters.aggregated.accept import DISCOVERY, MEDIA_TYPE, As, negotiate
from exporters.aggregated.forwarding import Alone, Elsewhere, Nowhere, Peers, said_by
from exporters.aggregated.listing import VERSION as LIST_VERSION
from exporters.aggregated.listing import read_query
from exporters.aggregated.lists import Lists, Reports
from exporters.aggregated.refusals import RefusalError, not_found
from exporters.aggregated.request import Asked
from exporters.aggregated.resources import (
    API_VERSION,
    BASE,
    GROUP,
    METRICS,
    Resource,
    resource,
)
from exporters.encoding import encode
from exporters.protocols import Documents, Looks
from exporters.signals_read import DOCUMENT_SIGNALS, NO_SIGNALS, document_report
from exporters.status import contract_document, explain_document
from router_contract.documents import Unavailable
from router_contract.platform_words import Look
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport

Json = dict[str, Any]
Query = Mapping[str, str]
_OBJECT = frozenset({As.PLAIN, As.TABLE, As.PARTIAL})
_LIST = frozenset({As.PLAIN, As.TABLE, As.PARTIAL_LIST})
_GROUPS = frozenset({As.PLAIN, As.DISCOVERY})
_TRUE = {"true", "1"}


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A success. ``etag`` is there where a client may keep the body; ``status`` 304 has none."""

    body: bytes
    content_type: str = MEDIA_TYPE
    etag: str = ""
    status: int = 200
    vary: bool = False


KvDocument = Callable[[DeploymentKey, Query], Json | Unavailable]
"""The KV part's answers: with ``hashes`` in the query who holds those blocks, else streams and residency."""


class AggregatedContent:
    """Every answer over one source. ``now`` tells wall seconds; ``pods`` bounds those of one document (0 does not)."""

    def __init__(
        self,
        source: Reports,
        now: Callable[[], float],
        version: str,
        *,
        described: objects.Described = objects.no_labels,
        kv: KvDocument | None = None,
        peers: Peers | None = None,
        elsewhere: Elsewhere | None = None,
        pods: int = 0,
        looks: Looks | None = None,
        documents: Documents | None = None,
    ) -> None:
        self._looks = looks
        self._documents = documents
        self._source = source
        self._now = now
        self._described = described
        self._kv = kv
        self._peers = peers if peers is not None else Alone()
        self._elsewhere = elsewhere if elsewhere is not None else Nowhere()
        self._pods = pods
        self._lists = Lists(source, described, self._peers, self._elsewhere, now, pods)
        self._version = encode(_version(version))
        group = openapi.openapi_v3()
        aggregated = discovery.document(discovery.group_discovery_list())
        self._groups = {
            As.DISCOVERY: aggregated,
            As.PLAIN: discovery.document(discovery.api_group_list()),
        }
        self._group = discovery.document(discovery.api_group())
        self._resources = discovery.document(discovery.api_resource_list())
        self._kept = {
            "/openapi/v2": openapi.openapi_v2(),
            "/openapi/v3": openapi.openapi_v3_index(group),
            f"/openapi/v3{BASE}": group,
        }

    async def answer(self, asked: Asked, headers: Query, query: Query, *, forwarded: bool) -> Reply:
        """The answer to one GET. Raises `RefusalError`. ``forwarded`` says that another replica asks."""
        if asked.is_resource:
            return await self._object(asked, headers, query, forwarded=forwarded)
        path = asked.path.rstrip("/")
        if path in self._kept:
            negotiate(headers.get("Accept"), frozenset({As.PLAIN}))
            return _kept(self._kept[path], headers)
        if path == "/apis":
            return self._group_list(headers)
        # Discovery of a group or a version is always sent whole: the aggregator takes a 304 here for a failure.
        if path == f"/apis/{GROUP}":
            return Reply(body=self._group.body)
        if path == BASE:
            return Reply(body=self._resources.body)
        if path == "/version":
            return Reply(body=self._version)
        raise RefusalError(404, f"the server could not find the requested resource: nothing is at {path[:200] or '/'}")

    def _group_list(self, headers: Query) -> Reply:
        wanted = negotiate(headers.get("Accept"), _GROUPS)
        if wanted.shape is As.DISCOVERY:
            return _kept(self._groups[As.DISCOVERY], headers, DISCOVERY)
        return Reply(body=self._groups[As.PLAIN].body, vary=True)

    async def _object(self, asked: Asked, headers: Query, query: Query, *, forwarded: bool) -> Reply:
        what = asked.attributes
        found = resource(what.resource)
        if found is None or (what.subresource and found.subresource(what.subresource) is None) or asked.tail:
            raise RefusalError(404, "the server could not find the requested resource", plural=what.resource)
        if asked.watch:
            raise RefusalError(
                405, f"{what.resource}.{GROUP} cannot be watched: ask again instead", plural=what.resource
            )
        if what.name:
            if not what.namespace:
                raise RefusalError(404, "the server could not find the requested resource: its namespace is missing")
            return await self._one(asked, found, headers, query, forwarded=forwarded)
        if not found.list_kind:
            message = f"{found.plural}.{GROUP} can only be asked for by name; {METRICS}.{GROUP} can be listed"
            raise RefusalError(405, message, plural=found.plural)
        return await self._list(found, what.namespace, headers, query, forwarded=forwarded)

    async def _one(self, asked: Asked, found: Resource, headers: Query, query: Query, *, forwarded: bool) -> Reply:
        what = asked.attributes
        wanted = negotiate(headers.get("Accept"), _OBJECT)
        include = tables.included(query.get("includeObject"))
        key = DeploymentKey(what.namespace, what.name)
        owner = None if forwarded else self._peers.owner(key)
        value = None if owner is None else await said_by(self._peers, owner, asked.path, query)
        if value is None and owner is None and wanted.shape is As.PLAIN and _is_metrics(found, what.subresource):
            made = self._written(key)
            if made is not None:
                return Reply(body=made, vary=True)
        if value is None:
            signals = DOCUMENT_SIGNALS if _is_metrics(found, what.subresource) else NO_SIGNALS
            report, whole = await self._report(found, key, signals, forwarded=forwarded)
            looks = await self._looks.look(key) if self._looks is not None and what.subresource == "explain" else ()
            value = self._make(found, what.subresource, report, query, looks)
            if (owner is not None or not whole) and "partial" in value:
                value["partial"] = True
        if wanted.shape is As.TABLE:
            metadata = {"resourceVersion": LIST_VERSION}
            return _made(tables.table([value], value["kind"], wanted.version, include, metadata))
        return _made(tables.partial(value, wanted.version) if wanted.shape is As.PARTIAL else value)

    def _written(self, key: DeploymentKey) -> bytes | None:
        """This replica's own document as it is sent; ``None`` where there is none, and the object says why."""
        if self._documents is None:
            return None
        made = self._documents.document(key, lambda of: objects.meta(of, self._described))
        return made if isinstance(made, bytes) else None

    async def _report(
        self, found: Resource, key: DeploymentKey, signals: frozenset[str], *, forwarded: bool
    ) -> tuple[DeploymentReport, bool]:
        """A deployment's report, and whether it is this replica's own: else it was read directly. Raises `RefusalError`.

        Who is asked by another replica and does not own a deployment says so, and the other reads it itself.
        """
        report = document_report(self._source, key) if signals else self._source.deployment(key, signals)
        if report is not None:
            return report, True
        if forwarded and self._elsewhere.known(key) is not None:
            raise RefusalError(503, "this replica does not own it", plural=found.plural, name=key.name, retry_after=1)
        report = await self._elsewhere.read(key)
        if report is None:
            raise not_found(found.plural, key.name)
        return report, False

    def _make(
        self, found: Resource, subresource: str, report: DeploymentReport, query: Query, looks: tuple[Look, ...]
    ) -> Json:
        key = report.key
        if _is_metrics(found, subresource):
            return objects.metrics(report, self._described, self._pods)
        if not subresource:
            return objects.observed(report, self._described)
        part = found.subresource(subresource)
        made = self._part(subresource, report, query, looks)
        if isinstance(made, Unavailable):
            code = 404 if made.reason == "NotFound" else 503
            raise RefusalError(
                code, made.message, plural=found.plural, name=key.name, retry_after=5 if code == 503 else None
            )
        return objects.foreign(made, part.kind if part is not None else "", report, self._described)

    def _part(self, name: str, report: DeploymentReport, query: Query, looks: tuple[Look, ...]) -> Json | Unavailable:
        key = report.key
        if name == "explain":
            return explain_document(report, key, history=query.get("history", "") in _TRUE, looks=looks)
        if name == "contract":
            return contract_document(report, key)
        if self._kv is None:
            return Unavailable(reason="NotFound", message="KV events are not followed by this observer")
        return self._kv(key, query)

    async def _list(self, found: Resource, namespace: str, headers: Query, query: Query, *, forwarded: bool) -> Reply:
        wanted = negotiate(headers.get("Accept"), _LIST)
        include = tables.included(query.get("includeObject"))
        selected = read_query(query, self._now())
        part = await self._lists.page(found.plural, namespace, selected, forwarded=forwarded)
        if wanted.shape is As.TABLE:
            return _made(tables.table(part.items, found.kind, wanted.version, include, part.metadata))
        if wanted.shape is As.PARTIAL_LIST:
            return _made(tables.partial_list(part.items, wanted.version, part.metadata))
        whole = {"kind": found.list_kind, "apiVersion": API_VERSION, "metadata": part.metadata, "items": part.items}
        return _made(whole)


def _is_metrics(found: Resource, subresource: str) -> bool:
    return found.plural == METRICS or subresource == "metrics"


def _made(value: Json) -> Reply:
    return Reply(body=encode(value), vary=True)


def _kept(document: discovery.Document, headers: Query, content_type: str = MEDIA_TYPE) -> Reply:
    """A document that clients keep: whole, or that theirs is still the one."""
    tags = [tag.strip().removeprefix("W/") for tag in headers.get("If-None-Match", "").split(",")]
    if document.etag in tags or tags == ["*"]:
        return Reply(body=b"", content_type=content_type, etag=document.etag, status=304, vary=True)
    return Reply(body=document.body, content_type=content_type, etag=document.etag, vary=True)


def _version(version: str) -> Json:
    """As every API server tells it."""
    major, minor, *_ = (*version.split("."), "0", "0")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
