"""Answers that are not the thing asked for, as Kubernetes-like ``Status`` objects that name what was wanted."""

from __future__ import annotations

from aiohttp import web

from exporters.encoding import encode
from router_contract.documents import Unavailable

GROUP = "metrics.modeldeployment.io"
RESOURCE = "modeldeployments"

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    413: "RequestEntityTooLarge",
    414: "RequestURITooLong",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def failure(code: int, message: str, *, name: str = "", headers: dict[str, str] | None = None) -> web.Response:
    """A ``Status`` of a failure. ``name`` is the deployment it is about, if it is about one."""
    body: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS.get(code, "Unknown"),
        "code": code,
    }
    if name:
        body["details"] = {"name": name, "group": GROUP, "kind": RESOURCE}
    return web.Response(status=code, body=encode(body), content_type="application/json", headers=headers)


def unavailable(found: Unavailable, name: str) -> web.Response:
    """The ``Status`` of a document that cannot be made: 404 or 503."""
    return failure(404 if found.reason == "NotFound" else 503, found.message, name=name)
