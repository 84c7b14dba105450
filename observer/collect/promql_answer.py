"""The body of a query API's answer to an outcome: strict JSON, bounded series and labels, numbers as the API writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final, NoReturn

import msgspec

from router_contract.canary_inputs import Point, QueryAnswer, QueryTrouble, ResultType
from router_contract.canary_results import Reason

MAX_SERIES: Final = 1000
MAX_LABELS: Final = 64
LOOKBACK_SECONDS: Final = 300.0
AHEAD_SECONDS: Final = 30.0
HIDDEN: Final = "(hidden)"
_VALUE: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|[+-]?Inf")
_WORD: Final = re.compile(r"[a-z_]{1,40}")
_NOT_READ: Final = "the answer is not what the query API promises"


class _BadError(ValueError):
    """A body that breaks the API's promise; the text says how, without anything of the body."""


class _LargeError(ValueError):
    """More series or labels than are read."""


def parse_answer(body: bytes, query: str, asked_at: float) -> QueryAnswer | QueryTrouble:
    """The outcome of a 200 body. ``asked_at`` (wall seconds) is the time that was queried."""
    try:
        document = _document(body)
        if document.get("status") == "error":
            return QueryTrouble(reason=Reason.QUERY_ERROR, detail=_error(document), query=query)
        answer = _answer(document, query)
    except _LargeError as error:
        return QueryTrouble(reason=Reason.TOO_LARGE, detail=str(error), query=query)
    except (_BadError, RecursionError) as error:
        how = str(error) if isinstance(error, _BadError) else "it is nested too deeply"
        return QueryTrouble(reason=Reason.BAD_RESPONSE, detail=f"{_NOT_READ}: {how}", query=query)
    return _in_time(answer, asked_at)


def without(answer: QueryAnswer, secrets: Collection[str]) -> QueryAnswer:
    """The answer, in whose labels and texts what we sent as a secret is not shown: a source may send it back."""

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, HIDDEN)
        return text

    points = tuple(
        msgspec.structs.replace(point, labels=tuple((clean(name), clean(value)) for name, value in point.labels))
        for point in answer.points
    )
    infos, warnings = tuple(map(clean, answer.infos)), tuple(map(clean, answer.warnings))
    return msgspec.structs.replace(answer, points=points, infos=infos, warnings=warnings)


def error_type(body: bytes) -> str:
    """The ``errorType`` of an error's body where it is a plain word, else an empty text."""
    try:
        found = _document(body).get("errorType")
    except (_BadError, RecursionError):
        return ""
    return found if isinstance(found, str) and _WORD.fullmatch(found) else ""


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise _BadError("it is not UTF-8") from None
    except _BadError:
        raise
    except ValueError:
        raise _BadError("it is empty" if not body.strip() else "it is not JSON") from None
    if not isinstance(document, dict) or not _is_one_of(document.get("status"), ("success", "error")):
        raise _BadError("it is JSON without a status of success or error")
    return document


def _is_one_of(found: Any, words: tuple[str, ...]) -> bool:
    """Whether a foreign value is one of these words. A set cannot be asked: an object or array has no hash."""
    return isinstance(found, str) and found in words


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _BadError("a key stands twice in one object")
    return made


def _no_constant(_: str) -> NoReturn:
    raise _BadError("it has a bare NaN or Infinity")


def _error(document: dict[str, Any]) -> str:
    kind = document.get("errorType")
    word = kind if isinstance(kind, str) and _WORD.fullmatch(kind) else "unknown"
    return f"the source answered status error, errorType {word}; any data beside it is ignored"


def _answer(document: dict[str, Any], query: str) -> QueryAnswer:
    data = document.get("data")
    kind = data.get("resultType") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not _is_one_of(kind, tuple(ResultType)):
        raise _BadError("no data with a known resultType")
    result = data.get("result")
    if not isinstance(result, list):
        raise _BadError("the result is not a list")
    type_ = ResultType(str(kind))
    points: tuple[Point, ...] = ()
    if type_ is ResultType.SCALAR:
        points = (_point((), result),)
    elif type_ is ResultType.VECTOR:
        if len(result) > MAX_SERIES:
            raise _LargeError(f"{len(result)} series, at most {MAX_SERIES} are read: aggregate them in the query")
        points = tuple(_series(each) for each in result)
    warnings, infos = _texts(document, "warnings"), _texts(document, "infos")
    return QueryAnswer(type=type_, points=points, warnings=warnings, infos=infos, query=query)


def _series(each: Any) -> Point:
    labels = each.get("metric") if isinstance(each, dict) else None
    if not isinstance(each, dict) or not isinstance(labels, dict):
        raise _BadError("a series without its labels")
    if len(labels) > MAX_LABELS:
        raise _LargeError(
            f"a series with {len(labels)} labels, at most {MAX_LABELS} are read: aggregate them in the query"
        )
    if not all(isinstance(value, str) for value in labels.values()):
        raise _BadError("a label that is not text")
    pairs = tuple(sorted(labels.items()))
    if "value" not in each and "histogram" in each:
        pair = each["histogram"]
        if not isinstance(pair, list) or len(pair) != 2:
            raise _BadError("a histogram that is not a time and its buckets")
        return Point(labels=pairs, value=None, at=_time(pair[0]))
    return _point(pairs, each.get("value"))


def _point(labels: tuple[tuple[str, str], ...], pair: Any) -> Point:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
        raise _BadError("a value that is not a time and a text")
    text = pair[1]
    if len(text) > 400 or _VALUE.fullmatch(text) is None:
        raise _BadError("a value that is no number")
    return Point(labels=labels, value=float(text), at=_time(pair[0]))


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise _BadError("a time that is no number")
    return float(value)


def _texts(document: dict[str, Any], key: str) -> tuple[str, ...]:
    found = document.get(key)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _BadError(f"{key} that are not texts")
    return tuple(each[:200] for each in found[:20])


def _in_time(answer: QueryAnswer, asked_at: float) -> QueryAnswer | QueryTrouble:
    """A value much older than the time asked for is stale; one from the future comes from another clock."""
    oldest = min((point.at for point in answer.points), default=asked_at)
    newest = max((point.at for point in answer.points), default=asked_at)
    if newest > asked_at + AHEAD_SECONDS:
        detail = f"a value is {newest - asked_at:.0f} s ahead of our clock: check both clocks"
        return QueryTrouble(reason=Reason.CLOCK_SKEW, detail=detail, query=answer.query)
    if oldest < asked_at - LOOKBACK_SECONDS:
        detail = f"a value is {asked_at - oldest:.0f} s old, at most {LOOKBACK_SECONDS:.0f} s may be"
        return QueryTrouble(reason=Reason.STALE_SAMPLE, detail=detail, query=answer.query)
    return answer
