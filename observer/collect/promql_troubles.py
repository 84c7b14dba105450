"""Everything that can go wrong between us and a query API, as a `QueryTrouble` with a sentence of our own."""

from __future__ import annotations

from typing import Final

from observer.collect.failures import Failure, Progress
from observer.judge.canary.display import duration
from router_contract.canary_inputs import QueryTrouble
from router_contract.canary_results import Reason
from router_contract.readings import FailureKind

_KINDS: Final = {
    FailureKind.TOO_LARGE: Reason.TOO_LARGE,
    FailureKind.TRUNCATED: Reason.BAD_RESPONSE,
    FailureKind.BAD_ENCODING: Reason.BAD_RESPONSE,
    FailureKind.MALFORMED: Reason.BAD_RESPONSE,
    FailureKind.TIMEOUT: Reason.TIMEOUT,
}
_STATUSES: Final = {
    400: (Reason.BAD_QUERY, "the source rejects the query", True),
    401: (Reason.AUTH_REJECTED, "the source wants other credentials", True),
    403: (Reason.AUTH_REJECTED, "the source forbids this query", True),
    404: (Reason.WRONG_ENDPOINT, "there is no query API at this address", False),
    405: (Reason.WRONG_ENDPOINT, "the address does not take queries by POST", False),
    422: (Reason.BAD_QUERY, "the source cannot execute the query", True),
}


def failed(query: str, failure: Failure) -> QueryTrouble:
    """A transport's failure. Its detail names only our own configuration and the address."""
    reason = _KINDS.get(failure.kind, Reason.SOURCE_UNREACHABLE)
    detail = f"{failure.kind}: {failure.detail}"
    if reason is Reason.TOO_LARGE:
        detail = "the answer is larger than 1 MiB as sent or decoded: aggregate in the query"
    return QueryTrouble(reason=reason, detail=detail, query=query)


def timed_out(query: str, progress: Progress, seconds: float, *, whole: bool) -> QueryTrouble:
    """Which timeout it was: while connecting, while waiting for the answer, while reading it; the metric's or the sample's."""
    if not progress.connected:
        stage = "connect timeout: no connection"
    elif not progress.answered:
        stage = "read timeout: no answer"
    else:
        stage = "read timeout: the answer did not end"
    whose = "left of the sample's deadline" if whole else "the metric's timeout"
    detail = f"{stage} within {duration(seconds) if seconds >= 1 else f'{seconds * 1000:.0f}ms'} ({whose})"
    return QueryTrouble(reason=Reason.TIMEOUT, detail=detail, query=query)


def status_trouble(query: str, status: int, word: str, retry_after: str) -> QueryTrouble:
    """An answer that is not 200. ``word`` is the API's errorType where its body had one."""
    reason, what, permanent = _STATUSES.get(status, (Reason.SOURCE_UNAVAILABLE, "the source cannot answer now", False))
    if 300 <= status < 400 and status not in _STATUSES:
        reason, what = Reason.REDIRECT_REFUSED, "the source sends us elsewhere"
    elif status < 500 and status not in {*_STATUSES, 429}:
        reason, what = Reason.WRONG_ENDPOINT, "this is no answer of a query API"
    named = f", errorType {word}" if word else ""
    wait = int(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) <= 6 else None
    asks = status == 429 or status >= 500
    return QueryTrouble(
        reason=reason,
        detail=f"{what} (HTTP {status}{named})",
        permanent=permanent,
        status=status,
        retry_after=float(wait) if wait is not None and asks else None,
        query=query,
    )
