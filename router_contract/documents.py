"""The published documents: `ModelDeploymentMetrics`, field for field as its readers know it, plus our optional fields.

Field names on the wire are camelCase. Fields that a reader of the original schema does not know are optional and are
left out when unset. `REASONS` is the closed list of sentences behind each `MissingCode`, `SKIPPED` the one behind each
`SkipCode`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.readings import Estimate, MissingCode

__all__ = [
    "REASONS",
    "SKIPPED",
    "CacheHit",
    "Coverage",
    "Estimate",
    "Gauge",
    "Metadata",
    "Missing",
    "ModelDeploymentMetrics",
    "Reason",
    "RoleLatency",
    "SkipCode",
    "Skipped",
    "Unavailable",
    "WindowEntry",
]


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Name and namespace of the deployment the document is about."""

    name: str
    namespace: str


class Gauge(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An entry of ``processing`` or ``queueing``: a level summed (or weighed) over ``podCount`` Pods."""

    name: str
    source: str
    scope: str
    unit: str
    value: float
    pod_count: int
    observed_at: str
    age_seconds: float | msgspec.UnsetType = msgspec.UNSET
    state: str | msgspec.UnsetType = msgspec.UNSET


class CacheHit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An entry of ``cacheHits``: what one Pod's cache tier (``scope``) answered during the window, in tokens."""

    pod: str
    source: str
    scope: str
    unit: str
    hits: float
    queries: float
    rate: float
    window_seconds: float
    pod_count: int
    observed_at: str
    age_seconds: float | msgspec.UnsetType = msgspec.UNSET
    state: str | msgspec.UnsetType = msgspec.UNSET
    lossy: bool | msgspec.UnsetType = msgspec.UNSET


class WindowEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An entry of ``latency``, ``traffic`` or ``transfer``: what moved on one Pod during the window.

    For latency ``value`` is the mean in ``unit`` and ``samples`` the observations; for traffic ``value`` is per second.
    ``at_least`` is there where a program counts something else along: then ``value`` and ``samples`` are upper bounds
    and the true value, in the same unit, is not below ``at_least``.
    """

    name: str
    pod: str
    source: str
    scope: str
    unit: str
    value: float
    samples: float
    window_seconds: float
    observed_at: str
    age_seconds: float | msgspec.UnsetType = msgspec.UNSET
    state: str | msgspec.UnsetType = msgspec.UNSET
    lossy: bool | msgspec.UnsetType = msgspec.UNSET
    at_least: float | msgspec.UnsetType = msgspec.UNSET
    p50: Estimate | msgspec.UnsetType = msgspec.UNSET
    p90: Estimate | msgspec.UnsetType = msgspec.UNSET
    p99: Estimate | msgspec.UnsetType = msgspec.UNSET


class Missing(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A value that is not there, and why: ``code`` for machines, ``reason`` for people. ``pod`` may be empty.

    ``name`` is the entry that would stand there; several entries may be made of one source. Absent for a whole Pod.
    """

    pod: str
    source: str
    reason: str
    code: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET


class Skipped(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A Pod that is not expected to serve (follower, worker, terminating, not started) and never makes it partial."""

    pod: str
    code: str
    reason: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How many serving Pods were expected, read, failed, and how many Pods were skipped."""

    expected: int
    read: int
    failed: int
    skipped: int


class RoleLatency(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Latency of a whole role, its members' histograms merged on their common bounds. ``pod`` of an entry is empty."""

    role: str
    latency: tuple[WindowEntry, ...]


class ModelDeploymentMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The metrics subresource: what a deployment's routers and engines say now, with everything that is missing."""

    api_version: str = "metrics.modeldeployment.io/v1"
    kind: str = "ModelDeploymentMetrics"
    metadata: Metadata
    timestamp: str
    processing: tuple[Gauge, ...] | msgspec.UnsetType = msgspec.UNSET
    queueing: tuple[Gauge, ...] | msgspec.UnsetType = msgspec.UNSET
    cache_hits: tuple[CacheHit, ...] | msgspec.UnsetType = msgspec.UNSET
    latency: tuple[WindowEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    traffic: tuple[WindowEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    transfer: tuple[WindowEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    missing: tuple[Missing, ...] | msgspec.UnsetType = msgspec.UNSET
    partial: bool
    coverage: Coverage | msgspec.UnsetType = msgspec.UNSET
    skipped: tuple[Skipped, ...] | msgspec.UnsetType = msgspec.UNSET
    roles: tuple[RoleLatency, ...] | msgspec.UnsetType = msgspec.UNSET


class Unavailable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer instead of a document: ``reason`` is ``NotFound`` or ``ServiceUnavailable``, ``message`` says why."""

    reason: str
    message: str


class SkipCode(StrEnum):
    """Why a Pod of the deployment is not expected to serve. Closed."""

    FOLLOWER = "Follower"
    TERMINATING = "Terminating"
    NOT_STARTED = "NotStarted"


SKIPPED: dict[SkipCode, str] = {
    SkipCode.FOLLOWER: "this Pod is part of a replica that another Pod answers for",
    SkipCode.TERMINATING: "this Pod is being deleted",
    SkipCode.NOT_STARTED: "no container of this Pod runs yet",
}


class Reason(msgspec.Struct, frozen=True, gc=False):
    """How a `MissingCode` reads. ``sentence`` may hold ``{detail}``; ``partial`` says whether it marks the document."""

    sentence: str
    partial: bool = True

    def text(self, detail: str) -> str:
        """The sentence with its detail; a sentence without a place for one is returned as it is."""
        return self.sentence.format(detail=detail)


REASONS: dict[MissingCode, Reason] = {
    MissingCode.NO_OWNED_POD: Reason("no Pod of this role exists, {detail}"),
    MissingCode.PODS_MISSING: Reason("{detail} Pods that should serve are present"),
    MissingCode.TOO_MANY_PODS: Reason("not read: the limit on Pods of one deployment is reached"),
    MissingCode.LIST_FAILED: Reason("the last list of Pods failed, so there may be others"),
    MissingCode.NO_ADDRESS: Reason("no metrics address is known for this Pod"),
    MissingCode.NEVER_READ: Reason("not read yet"),
    MissingCode.SCRAPE_FAILED: Reason("the last read failed: {detail}"),
    MissingCode.EXPIRED: Reason("the last good read is too old to show"),
    MissingCode.UNKNOWN_SOFTWARE: Reason("no table says what the metrics of {detail} mean"),
    MissingCode.ABSENT: Reason("the Pod answered without this metric"),
    MissingCode.UNREADABLE: Reason("the Pod answered, but this metric could not be read"),
    MissingCode.NOT_FINITE: Reason("the Pod answered with a number that is not finite or is below zero"),
    MissingCode.AWAITING_SECOND_SAMPLE: Reason("a second read is needed before anything can be said to have moved"),
    MissingCode.COUNTER_RESET: Reason("the counter restarted and no two reads of the window belong together"),
    MissingCode.INCOMPATIBLE_DENOMINATOR: Reason(
        "more hits than queries in the window: the two do not belong together"
    ),
    MissingCode.NO_QUERIES: Reason("nothing was looked up during the window"),
    MissingCode.NO_OBSERVATIONS: Reason("nothing was observed during the window"),
    MissingCode.DIFFERENT_WINDOWS: Reason("requests and failures were read over different windows"),
    MissingCode.NO_REQUESTS: Reason("no request ended during the window"),
    MissingCode.ERRORS_EXCEED_REQUESTS: Reason("more failures than requests in the window"),
    MissingCode.COUNTER_NOT_YET: Reason(
        "not exported before its first increment; its companion was read in the same answer", partial=False
    ),
    MissingCode.HISTOGRAM_NOT_YET: Reason(
        "not exported before its first observation; its companion observed nothing in the window", partial=False
    ),
    MissingCode.IDLE: Reason("idle window: this Pod had no work", partial=False),
    MissingCode.UNSUPPORTED_SOURCE: Reason("unsupported source: this program does not export it", partial=False),
    MissingCode.NO_ROUTER_GAUGE: Reason(
        "unsupported source: this router has no such gauge when prefill and decode are separate", partial=False
    ),
    MissingCode.NOT_BY_POLICY: Reason(
        "unsupported source: this router counts it only under some policies, from its first dispatch on", partial=False
    ),
    MissingCode.NO_CONNECTOR: Reason(
        "unsupported source: no KV connector is configured and nothing was ever looked up through one", partial=False
    ),
    MissingCode.NOT_THE_STORE: Reason(
        "unsupported source: these counters do not measure an attached store on this Pod", partial=False
    ),
    MissingCode.NO_HOST_TIER: Reason("unsupported source: no host cache tier is configured", partial=False),
    MissingCode.NO_STORAGE_TIER: Reason("unsupported source: no storage cache tier is configured", partial=False),
}
