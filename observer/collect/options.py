"""What collecting can be told: schedules, timeouts and limits of reads. `observer.settings` puts these in its tree."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from observer.yamldoc.quantities import Duration, Network, Size, TextMap


class ScrapeSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How expositions of engines, routers and stores are read. Durations in seconds."""

    period: Annotated[
        Duration, Meta(ge=0.2, le=300.0, description="Each target is read once in this time, spread by its identity.")
    ] = 5.0
    timeout: Annotated[
        Duration,
        Meta(ge=0.05, le=60.0, description="One read, from connecting to the last byte; shorter than the period."),
    ] = 2.0
    extra_in_flight: Annotated[
        int, Meta(ge=1, le=1024, description="Extra reads asked for with `?fresh=true` that may run at once.")
    ] = 32
    extra_budget: Annotated[
        Duration, Meta(ge=0.1, le=60.0, description="How long one request with `?fresh=true` waits for extra reads.")
    ] = 8.0
    keep_alive: Annotated[
        Duration, Meta(ge=1.0, le=3600.0, description="How long an idle connection to a target is kept.")
    ] = 60.0

    @property
    def fresh_seconds(self) -> float:
        """A reading at most this old is Fresh: two periods and a timeout."""
        return 2 * self.period + self.timeout


class BodyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a body may be, in bytes.

    A body may grow to ``own`` bytes from its own allowance; beyond it, up to ``body``, it draws on a pool of
    ``shared`` bytes for all reads in flight together. So bodies that never end cannot take the memory of the others.
    """

    body: int = 16 << 20
    own: int = 1 << 20
    shared: int = 256 << 20


class KvEventSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How KV-event publishers are followed and what their block indexes may cost. Durations in seconds."""

    enabled: Annotated[bool, Meta(description="Whether KV-event publishers are subscribed to.")] = True
    high_water_mark: Annotated[
        int,
        Meta(ge=100, le=10_000_000, description="Messages the socket holds before it drops (a gap, then a replay)."),
    ] = 100_000
    max_message_bytes: Annotated[
        Size, Meta(ge=4096, le=256 << 20, description="A larger message is counted and dropped.")
    ] = 16 << 20
    drain_batch: Annotated[
        int, Meta(ge=1, le=65_536, description="Messages taken from a socket before others get their turn.")
    ] = 512
    live_buffer: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Live batches held while a replay runs; past it the gap is unrepaired."),
    ] = 10_000
    remembered_batches: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Batches whose sequence and checksum are kept, to know a new life.")
    ] = 1024
    replay_timeout: Annotated[
        Duration, Meta(ge=0.1, le=300.0, description="One replay request waits this long between two replies.")
    ] = 5.0
    silent_after: Annotated[
        Duration,
        Meta(ge=1.0, le=3600.0, description="Without a batch for this long, a replay is asked for from the last."),
    ] = 60.0
    tail_grace: Annotated[
        Duration, Meta(ge=0.05, le=60.0, description="Replayed batches that do not arrive live in this time were lost.")
    ] = 1.0
    reconnect_first: Annotated[
        Duration, Meta(ge=0.01, le=60.0, description="Wait before the first reconnection; it doubles from there.")
    ] = 0.1
    reconnect_max: Annotated[
        Duration, Meta(ge=0.1, le=600.0, description="The longest wait between two reconnections.")
    ] = 10.0
    deployment_budget: Annotated[
        Size,
        Meta(ge=1 << 20, le=64 << 30, description="Memory of one deployment's block indexes; past it: approximate."),
    ] = 256 << 20
    process_budget: Annotated[
        Size, Meta(ge=1 << 20, le=64 << 30, description="Memory of all block indexes together; past it: approximate.")
    ] = 1 << 30


class CanaryProvider(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A source of queries that analyses may name."""

    name: Annotated[str, Meta(min_length=1, max_length=253, description="What `providerRef.name` says.")]
    server_address: Annotated[str, Meta(min_length=1, description="`http://` or `https://` URL of the query API.")]
    namespaces: Annotated[tuple[str, ...], Meta(description="Namespaces that may use it; all when empty.")] = ()
    headers: Annotated[
        tuple[tuple[str, str], ...], TextMap(secret=True), Meta(description="Headers sent with each query.")
    ] = ()
    token_file: Annotated[str | None, Meta(description="File with a bearer token; read again before each use.")] = None
    username: Annotated[str | None, Meta(description="User of basic auth, beside `passwordFile`.")] = None
    password_file: Annotated[str | None, Meta(description="File with its password; read again before each use.")] = None
    ca_file: Annotated[str | None, Meta(description="PEM file of the authorities that may sign its certificate.")] = (
        None
    )


class CanarySecret(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Secret that analyses of its namespace may name in `authRef`."""

    namespace: Annotated[str, Meta(min_length=1, max_length=63, description="The analysis's own namespace.")]
    name: Annotated[str, Meta(min_length=1, max_length=253, description="The Secret's name.")]


class CanarySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the queries of canary analyses may go."""

    providers: Annotated[tuple[CanaryProvider, ...], Meta(description="Sources bound to names.")] = ()
    default_provider: Annotated[str | None, Meta(description="The provider of analyses that name none.")] = None
    allow_server_address: Annotated[
        bool, Meta(description="Whether an analysis may name an address itself; loopback and the like stay refused.")
    ] = False
    secrets: Annotated[
        tuple[CanarySecret, ...], Meta(description="Secrets that may be read for `authRef`; no other is, in a cluster.")
    ] = ()


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What we refuse."""

    allow_cidrs: Annotated[
        tuple[Network, ...],
        Meta(description="Opens loopback, link-local and metadata addresses for discovered targets and sources."),
    ] = msgspec.field(default=(), name="allowCIDRs")
