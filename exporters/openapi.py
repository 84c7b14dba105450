"""Our plain HTTP API described for machines: one table of operations, and the OpenAPI document made from it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from exporters import api, canary, kv
from exporters.encoding import encode
from exporters.limits import LIMITS_PATH
from exporters.own_costs import SELF_PATH
from exporters.paging import MAX_LIMIT
from exporters.top import PATH as TOP_PATH
from router_contract.targets import Component
from router_contract.verdicts import TargetState

OPENAPI_PATH = "/api/v1/openapi.json"
DOCTOR_PATH = "/api/v1/namespaces/{namespace}/modeldeployments/{name}/doctor"
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "string", "enum": ["", "true", "false", "1", "0"]}
_JSON = "application/json"
_PLAIN = "text/plain"
_NOT_FOUND = (404, 503)
_BAD = (400,)
_SAID = {
    400: "The request cannot be honoured; the message names what was found and what is wanted.",
    404: "There is no such thing.",
    409: "Not now: the answer is no.",
    413: "The answer or the request is larger than is allowed.",
    422: "The query is not one that this facade answers.",
    503: "It is not known yet, or cannot be known now.",
}
_EVERYWHERE = {
    401: "This listener wants its token or a client certificate.",
    403: "This listener answers on loopback names only.",
    429: "Too many requests are being answered; try again.",
    500: "The answer could not be made.",
    504: "The answer took longer than is allowed.",
}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. ``query`` are its parameters' schemas by name; ``wanted`` the keys of a 200 body."""

    path: str
    summary: str
    method: str = "get"
    query: dict[str, dict[str, Any]] = {}
    body: dict[str, Any] | None = None
    form: bool = False
    content: tuple[str, ...] = (_JSON,)
    wanted: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    public: bool = False


_GATE_QUERY: Final[dict[str, dict[str, Any]]] = {
    "revision": _TEXT,
    "step": {"type": "integer", "minimum": 0, "maximum": 9999},
    "maxAge": _TEXT,
}
_TARGETS_QUERY: Final[dict[str, dict[str, Any]]] = {
    **dict.fromkeys(("namespace", "deployment", "software", "role", "pod"), _TEXT),
    "component": {"type": "string", "enum": [each.value for each in Component]},
    "state": {"type": "string", "enum": [each.value for each in TargetState]},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    "continue": _TEXT,
}
_LOOKUP_BODY: Final = {
    "type": "object",
    "required": ["hashes"],
    "additionalProperties": False,
    "properties": {
        "hashes": {"type": "array", "minItems": 1, "items": {"oneOf": [{"type": "integer"}, _TEXT]}},
        "model": {"type": ["string", "null"]},
    },
}
_METRICS_TYPES: Final = (_PLAIN, "application/openmetrics-text")
_GATE_WANTED: Final = ("verdict", "decision")

OPERATIONS: Final = (
    Operation(
        path="/api/v1/deployments", summary="Every deployment in short.", query={"namespace": _TEXT}, wanted=("items",)
    ),
    Operation(path=api.STATUS_PATH, summary="Everything judging says about one deployment.", codes=_NOT_FOUND),
    Operation(
        path=api.EXPLAIN_PATH,
        summary="One deployment explained in sentences.",
        query={"history": _FLAG},
        codes=(*_BAD, *_NOT_FOUND),
    ),
    Operation(path=api.CONTRACT_PATH, summary="Both sides of one deployment's router contract.", codes=_NOT_FOUND),
    Operation(
        path=api.METRICS_PATH,
        summary="One deployment's metrics document, with everything that is missing.",
        query={"fresh": _FLAG},
        wanted=("kind", "apiVersion", "metadata"),
        codes=(*_BAD, *_NOT_FOUND),
    ),
    Operation(
        path=api.AGGREGATED_PATH,
        summary="The same under the path of the aggregated API.",
        query={"fresh": _FLAG},
        wanted=("kind", "apiVersion", "metadata"),
        codes=(*_BAD, *_NOT_FOUND),
    ),
    Operation(
        path="/api/v1/targets",
        summary="How every target stands, a page at a time.",
        query=_TARGETS_QUERY,
        wanted=("items", "metadata"),
        codes=_BAD,
    ),
    Operation(
        path=LIMITS_PATH, summary="Every limit of ours with its use, the nearest first.", wanted=("state", "items")
    ),
    Operation(
        path=SELF_PATH,
        summary="What the observer itself costs: loop lag, parse time, queues, memory by part.",
        wanted=("durations", "queues", "memory"),
    ),
    Operation(path=TOP_PATH, summary="What `observer top` shows.", query={"namespace": _TEXT}, codes=_BAD),
    Operation(path=DOCTOR_PATH, summary="Why targets of a deployment are silent.", codes=(*_BAD, 404, 503)),
    Operation(
        path=kv.KV_PATH, summary="KV-event streams and blocks of a deployment.", wanted=("streams",), codes=(404,)
    ),
    Operation(
        path=kv.LOOKUP_PATH,
        summary="Who holds how long a prefix of some block hashes.",
        query={"hashes": _TEXT, "model": _TEXT},
        wanted=("holdings",),
        codes=(*_BAD, 404),
    ),
    Operation(
        path=kv.LOOKUP_PATH,
        method="post",
        summary="The same for a list of hashes in the body.",
        body=_LOOKUP_BODY,
        wanted=("holdings",),
        codes=(*_BAD, 404, 413),
    ),
    Operation(path=canary.LIST_PATH, summary="Every canary analysis.", wanted=("items",)),
    Operation(path=canary.STATUS_PATH, summary="One canary analysis.", codes=(404,)),
    Operation(
        path=canary.GATE_PATH,
        summary="The gate's answer.",
        query=_GATE_QUERY,
        wanted=_GATE_WANTED,
        codes=(*_BAD, *_NOT_FOUND),
    ),
    *(
        Operation(
            path=f"{canary.GATE_PATH}/flagger/{word}",
            method="post",
            summary=text,
            query=_GATE_QUERY,
            wanted=_GATE_WANTED,
            codes=(*_BAD, *_NOT_FOUND, 409),
        )
        for word, text in (("confirm", "200 when it may go on."), ("rollback", "200 when it must go back."))
    ),
    Operation(
        path=canary.FACADE_PATH,
        summary="One instant query of our canary families, as Prometheus answers it.",
        query={"query": _TEXT},
        wanted=("status",),
        codes=(*_BAD, 422),
    ),
    Operation(
        path=canary.FACADE_PATH,
        method="post",
        summary="The same with the query in a form.",
        body={"type": "object", "properties": {"query": _TEXT}},
        form=True,
        wanted=("status",),
        codes=(*_BAD, 413, 422),
    ),
    Operation(path="/metrics", summary="Our families in text or OpenMetrics.", content=_METRICS_TYPES),
    Operation(
        path="/livez", summary="Whether our own loop judges on time.", content=(_PLAIN,), codes=(503,), public=True
    ),
    Operation(
        path="/readyz", summary="Whether answers can be trusted yet.", content=(_PLAIN,), codes=(503,), public=True
    ),
    Operation(
        path="/api/v1/bundle",
        summary="A redacted recording of the next seconds, for whoever helps.",
        query={"seconds": {"type": "number", "minimum": 0, "maximum": 20}},
        content=("application/zip", _JSON),
        codes=_BAD,
    ),
    Operation(path=OPENAPI_PATH, summary="This document.", wanted=("openapi", "paths")),
)
"""Every operation. A test compares them with the routes of a running observer."""


def openapi_document(version: str) -> dict[str, Any]:
    """The document, in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "modeldeployment-observer",
            "version": version,
            "description": "Missing is not zero, no data is not a pass, stale is not fresh.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Status": _STATUS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_STATUS: Final = {
    "type": "object",
    "required": ["kind", "message", "reason", "code"],
    "properties": {"kind": {"const": "Status"}, "message": _TEXT, "reason": _TEXT, "code": {"type": "integer"}},
}
_FAILED: Final = {_JSON: {"schema": {"type": "object"}}}


def _described(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": _name(operation),
        "responses": _responses(operation),
    }
    if not operation.public:
        found["security"] = [{"token": []}, {}]
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        kind = "application/x-www-form-urlencoded" if operation.form else _JSON
        found["requestBody"] = {"required": True, "content": {kind: {"schema": operation.body}}}
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "required": list(operation.wanted)} if operation.wanted else {}
    good = {kind: {"schema": schema if kind == _JSON else _TEXT} for kind in operation.content}
    found: dict[str, Any] = {"200": {"description": operation.summary, "content": good}}
    for code in sorted({*operation.codes, 413}):
        content = {_PLAIN: {"schema": _TEXT}} if operation.content == (_PLAIN,) else _FAILED
        found[str(code)] = {"description": _SAID[code], "content": content}
    refusals = {"content": {_JSON: {"schema": {"$ref": "#/components/schemas/Status"}}}}
    return found | {str(code): {"description": text, **refusals} for code, text in _EVERYWHERE.items()}


def _name(operation: Operation) -> str:
    words = [part.strip("{}").replace(".", "-") for part in operation.path.split("/") if part]
    return "-".join((operation.method, *words))


class OpenApi:
    """The handler."""

    def __init__(self, version: str) -> None:
        self._body = encode(openapi_document(version))

    def routes(self) -> list[web.AbstractRouteDef]:
        """Its one path."""
        return [web.get(OPENAPI_PATH, self.document)]

    async def document(self, _: web.Request) -> web.Response:
        """The document."""
        return web.Response(body=self._body, content_type=_JSON)
