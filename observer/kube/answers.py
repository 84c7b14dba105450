"""What the API server said, as values: one answer, its outcome, and the Status document that explains a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Outcome(StrEnum):
    """How one call ended. Closed: the tables of `watching` and `writing` have a row for each."""

    OK = "Ok"
    EXPIRED = "Expired"
    TOO_NEW = "TooNew"
    NOT_FOUND = "NotFound"
    CONFLICT = "Conflict"
    OWNED = "Owned"
    FORBIDDEN = "Forbidden"
    UNAUTHORIZED = "Unauthorized"
    INVALID = "Invalid"
    UNDECLARED = "Undeclared"
    THROTTLED = "Throttled"
    UNAVAILABLE = "Unavailable"
    NO_ANSWER = "NoAnswer"
    SILENT = "Silent"
    MALFORMED = "Malformed"
    TOO_LARGE = "TooLarge"


class Cause(msgspec.Struct, frozen=True):
    """One reason inside a Status: for a field that another manager owns, its name stands in ``message``."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The machine's part of a Status."""

    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float | None = None


class StatusDocument(msgspec.Struct, frozen=True):
    """``kind: Status`` as the API returns it for a failure, also as the object of an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, or what stands for one that never came.

    ``status`` is the HTTP status, 0 without an answer. ``message`` is for people. ``retry_after`` is in seconds, as the
    server asked for.
    """

    outcome: Outcome
    status: int = 0
    body: bytes = b""
    message: str = ""
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the call did what it was to do."""
        return self.outcome is Outcome.OK

    def document(self) -> dict[str, Any]:
        """The body as an object. Raises `msgspec.DecodeError` when it is none."""
        return msgspec.json.decode(self.body, type=dict[str, Any])


_BY_CODE = {
    400: Outcome.INVALID,
    401: Outcome.UNAUTHORIZED,
    403: Outcome.FORBIDDEN,
    404: Outcome.NOT_FOUND,
    405: Outcome.INVALID,
    406: Outcome.INVALID,
    409: Outcome.CONFLICT,
    410: Outcome.EXPIRED,
    413: Outcome.TOO_LARGE,
    415: Outcome.INVALID,
    422: Outcome.INVALID,
    429: Outcome.THROTTLED,
}
_MANAGER_CONFLICT = "FieldManagerConflict"
_status = msgspec.json.Decoder(StatusDocument)


def answered(status: int, body: bytes, retry_after: str = "") -> Answer:
    """The answer to an HTTP response. A failure whose body is no Status (the aggregator's 503 is text) keeps its text."""
    if 200 <= status < 300:
        return Answer(outcome=Outcome.OK, status=status, body=body)
    document = _document(body)
    pause = _seconds(retry_after)
    if pause is None and document.details is not None:
        pause = document.details.retry_after_seconds
    return Answer(
        outcome=outcome_of(status, document),
        status=status,
        body=body,
        message=" ".join(document.message.split()) or f"HTTP {status}",
        retry_after=pause,
    )


def error_event(raw: bytes | msgspec.Raw) -> Answer:
    """The answer that an ERROR event of a watch stands for: its object is a Status, its ``code`` the status."""
    document = _document(bytes(raw))
    code = document.code or 500
    pause = document.details.retry_after_seconds if document.details is not None else None
    return Answer(
        outcome=outcome_of(code, document),
        status=code,
        message=" ".join(document.message.split()) or f"ERROR event {code}",
        retry_after=pause,
    )


def no_answer(message: str, outcome: Outcome = Outcome.NO_ANSWER) -> Answer:
    """What stands for an answer that did not come or could not be read."""
    return Answer(outcome=outcome, message=message)


def outcome_of(status: int, document: StatusDocument) -> Outcome:
    """The outcome of a failed call. Where one code means several things, the Status's words decide."""
    if status == 409 and document.details is not None:
        causes = document.details.causes or ()
        if any(cause.reason == _MANAGER_CONFLICT for cause in causes):
            return Outcome.OWNED
    if status == 504 and "Too large resource version" in document.message:
        return Outcome.TOO_NEW
    if status == 500 and "not declared in schema" in document.message:
        # Server-side apply answers an unknown field this way, and the whole apply is lost.
        return Outcome.UNDECLARED
    if status in _BY_CODE:
        return _BY_CODE[status]
    return Outcome.UNAVAILABLE if status >= 500 else Outcome.INVALID


def _document(body: bytes) -> StatusDocument:
    try:
        return _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return StatusDocument(message=body[:200].decode("utf-8", "replace").strip())


def _seconds(text: str) -> float | None:
    return float(text) if text.isdigit() else None
