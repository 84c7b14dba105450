"""What an engine's API said beside its exposition: version, models, health, KV-event publishers; each with its moment.

A question that was not asked, or is not in the engine's table, is ``None`` on both sides. What was found stays until
something newer replaces it; a failure stands beside it while the latest attempt failed.
"""

from __future__ import annotations

import msgspec

from router_contract.readings import FailureKind, Instant
from router_contract.targets import DeploymentKey, KvEventSource


class ProbeFailed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The latest attempt gave nothing. ``at`` is when it began, ``status`` the HTTP status where one was received."""

    at: Instant
    path: str
    kind: FailureKind
    detail: str
    status: int | None = None


class VersionTold(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The version the program tells of itself, as written."""

    at: Instant
    path: str
    version: str


class ModelsListed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The ids that the engine lists. An empty tuple is an answer: it serves none."""

    at: Instant
    models: tuple[str, ...]


class HealthAnswered(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An answer of the health route, good (200) or bad; no answer at all is a `ProbeFailed`."""

    at: Instant
    healthy: bool
    status: int


class EventSourcesTold(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The publishers an engine tells of. Empty ``sources`` without ``notes``: it publishes nothing.

    ``notes`` has one sentence for each publisher that exists and cannot be dialled.
    """

    at: Instant
    path: str
    sources: tuple[KvEventSource, ...]
    notes: tuple[str, ...] = ()
    undialable: tuple[tuple[int, str], ...] = ()
    """Of ``notes`` those about a rank, with it."""


class MemberProbe(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Everything that one engine member's API said so far.

    After a restart all is ``None`` until it is told again, except ``events``: they stay until the new process tells
    its own, so that a subscription is not given up for a moment's doubt; their ``at`` says how old they are.
    """

    deployment: DeploymentKey
    uid: str
    member: str
    software: str
    version: VersionTold | None = None
    version_failed: ProbeFailed | None = None
    models: ModelsListed | None = None
    models_failed: ProbeFailed | None = None
    health: HealthAnswered | None = None
    health_failed: ProbeFailed | None = None
    events: EventSourcesTold | None = None
    events_failed: ProbeFailed | None = None
