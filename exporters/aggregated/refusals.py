"""Every answer that is not the thing asked for: a `RefusalError` is raised and becomes a Kubernetes ``Status``."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from exporters.aggregated.resources import GROUP

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    410: "Expired",
    413: "RequestEntityTooLarge",
    414: "RequestURITooLong",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class RefusalError(Exception):
    """Ends a request. ``code`` is one of `REASONS`, ``retry_after`` is in whole seconds, ``close`` ends the connection."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        plural: str = "",
        name: str = "",
        retry_after: int | None = None,
        close: bool = False,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.plural = plural
        self.name = name
        self.retry_after = retry_after
        self.close = close
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)

    def status(self) -> dict[str, Any]:
        """The body."""
        details: dict[str, Any] = {}
        if self.name:
            details["name"] = self.name
        if self.plural:
            details |= {"group": GROUP, "kind": self.plural}
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": REASONS.get(self.code) or HTTPStatus(self.code).phrase.replace(" ", ""),
            **({"details": details} if details else {}),
            "code": self.code,
        }


def not_found(plural: str, name: str) -> RefusalError:
    """The words in which every API server says it, so that clients recognise them."""
    return RefusalError(404, f'{plural}.{GROUP} "{name}" not found', plural=plural, name=name)
