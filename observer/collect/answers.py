"""Asking a member's API: where a path is, and failures in words that fit an API rather than an exposition.

Transport failures keep the collector's one mapping (`failures`); only the sentences that speak of metrics are replaced.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from observer.collect.failures import Failure
from observer.yamldoc.quantities import show_size
from router_contract.endpoints import Listener
from router_contract.readings import FailureKind
from router_contract.targets import Address, Member

JSON = "application/json, */*;q=0.1"
ABSENT = frozenset({404, 405, 501})
"""Statuses that say: this program has no such route."""
UNREACHED = frozenset({FailureKind.REFUSED, FailureKind.UNREACHABLE, FailureKind.DNS, FailureKind.TLS})
"""Failures of the listener, not of a path: another path of it would fail alike."""

_WHY = {
    401: "it wants credentials: set `bearerTokenFile` or `headers`",
    403: "the credentials are not enough to read this path",
    404: "this program has no such route",
    405: "this program does not answer a GET there",
    501: "this program does not implement it",
    503: "it is busy or not ready to tell",
}


class Reach(StrEnum):
    """How far a failed question came."""

    ABSENT = "absent"
    BUSY = "busy"
    UNREACHED = "unreached"
    FAILED = "failed"


def reach(failure: Failure) -> Reach:
    """What a failure says about the path and its listener."""
    if failure.status in ABSENT:
        return Reach.ABSENT
    if failure.status == 503:
        return Reach.BUSY
    return Reach.UNREACHED if failure.kind in UNREACHED else Reach.FAILED


def at(member: Member, listener: Listener, path: str) -> Address | None:
    """Where a member answers a path, ``None`` when no such listener of it is known."""
    known = member.api if listener is Listener.API else member.metrics
    return None if known is None or not known.host or not known.port else msgspec.structs.replace(known, path=path)


def in_words(failure: Failure, address: Address, limit: int) -> Failure:
    """The same failure, its sentence without advice about metrics. ``limit`` is the allowed body (bytes)."""
    if failure.kind is FailureKind.HTTP and failure.status is not None:
        why = _WHY.get(failure.status, "only 200 carries an answer")
        return msgspec.structs.replace(failure, detail=f"{address.url} answered {failure.status}: {why}")
    if failure.kind is FailureKind.TOO_LARGE and "sharedBodies" not in failure.detail:
        return msgspec.structs.replace(failure, detail=f"the answer of {address.url} passes {show_size(limit)}")
    return failure


def malformed(url: str, why: str) -> Failure:
    """An answer that is not what its API promises."""
    return Failure(kind=FailureKind.MALFORMED, detail=f"{url}: {why}"[:500])
