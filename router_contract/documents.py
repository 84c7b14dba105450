"""The published documents: `ModelDeploymentMetrics`, field for field as its readers know it, plus our optional fields.

Field names on the wire are camelCase. Fields that a reader of the original schema does not know are optional and are
left out when unset. `REASONS` is the closed list of sentences behind each `MissingCode`.
"""

from __future__ import annotations

import msgspec

from router_contract.readings import MissingCode


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Name and namespace of the deployment the document is about."""

    name: str
    namespace: str


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile from merged buckets: the interpolated value, the bracket it lies in, and whether it is exact.

    ``high`` is ``None`` when the rank lies beyond the last finite bound.
    """

    value: float
    low: float
    high: float | None
    exact: bool


class Gauge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


class CacheHit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


class WindowEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of ``latency``, ``traffic`` or ``transfer``: what moved on one Pod during the window.

    For latency ``value`` is the mean in ``unit`` and ``samples`` the observations; for traffic ``value`` is per second.
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
    p50: Estimate | msgspec.UnsetType = msgspec.UNSET
    p90: Estimate | msgspec.UnsetType = msgspec.UNSET
    p99: Estimate | msgspec.UnsetType = msgspec.UNSET


class Missing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that is not there, and why: ``code`` for machines, ``reason`` for people. ``pod`` may be empty."""

    pod: str
    source: str
    reason: str
    code: str | msgspec.UnsetType = msgspec.UNSET


class Skipped(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Pod that is not expected to serve (follower, worker, terminating, not started) and never makes it partial."""

    pod: str
    code: str
    reason: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many serving Pods were expected, read, failed, and how many Pods were skipped."""

    expected: int
    read: int
    failed: int
    skipped: int


class RoleLatency(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Latency of a whole role, its members' histograms merged on their common bounds."""

    name: str
    latency: tuple[WindowEntry, ...]


class ModelDeploymentMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


REASONS: dict[MissingCode, str] = {}
