"""What a program answers beside its exposition, as data: which path, on which listener, in which form.

The tables in ``engines`` and ``routers`` hold these rows; the collectors walk them and name no program. A path that is
in no row is never asked: some programs count every call, and some hand an unknown path on to an engine.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.router_views import ViewSource


class Listener(StrEnum):
    """Which of a member's listeners answers a path."""

    API = "api"
    METRICS = "metrics"


class ViewForm(StrEnum):
    """The shape of an answer about a router's workers."""

    OBSERVER = "observer"
    """The strict payload of the observer's own route."""
    OBSERVER_JOURNAL = "observer-journal"
    """The same, with a journal of recent dispatches that must be read."""
    WORKERS = "workers"
    """Worker objects with a health flag; their circuits are in the metrics."""
    URLS = "urls"
    """Worker URLs and nothing else."""
    PLUGIN_STATE = "plugin-state"
    """Requests in flight by endpoint: an addition to the endpoints that the metrics name."""


class ViewPath(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One way to a router's view. A table lists them strongest first.

    ``proxied`` marks a path that a router without this route hands on to one of its workers, and counts: it is asked
    first only where the platform is known to ship the route, else only when nothing else answers.
    """

    source: ViewSource
    form: ViewForm
    path: str
    listener: Listener = Listener.API
    proxied: bool = False


class EventsForm(StrEnum):
    """How an engine tells its KV-event publishers."""

    BY_RANK = "by-rank"
    """An object from the rank to that publisher's configuration; ports are the rank's own."""
    PORT_BASE = "port-base"
    """One object under ``kv_events``; a rank's port is the base plus the rank."""


class EventsPath(msgspec.Struct, frozen=True, gc=False):
    """Where an engine tells its KV-event publishers."""

    path: str
    form: EventsForm
