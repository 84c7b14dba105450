"""What we watch and why we believe it exists: deployments, roles, replicas, members, and the targets they imply.

Discovery yields the whole set of `Deployment` values each time, never deltas. A `Target` is one address that is read
on a schedule of its own; a `KvEventSource` is one KV-event publisher. Nothing here says whether any of it answers.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterator
from enum import StrEnum

import msgspec


class Component(StrEnum):
    """Which kind of program a target is, and so which catalog holds its table."""

    ENGINE = "engine"
    ROUTER = "router"
    STORE = "store"


class RoleKind(StrEnum):
    """The role kinds we know. An operator's unknown kind is kept as written, so `Role.kind` is a plain string."""

    SERVER = "Server"
    ENCODE = "Encode"
    PREFILL = "Prefill"
    DECODE = "Decode"


def role_kind(text: str) -> str:
    """The canonical spelling of a kind in any letter case (empty reads as Server), or the text as written."""
    if not text:
        return RoleKind.SERVER
    return next((kind.value for kind in RoleKind if kind.value.lower() == text.lower()), text)


class EndpointType(StrEnum):
    """What the deployment's model answers; it decides which signals are expected."""

    CHAT = "Chat"
    EMBEDDINGS = "Embeddings"
    RERANK = "Rerank"


class Ready(StrEnum):
    """A readiness as reported by whoever watches the Pod. Nobody having reported is Unknown, not False."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Tls(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How to trust and be trusted over HTTPS. Paths are read by the collector, never here."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    skip_verify: bool = False


@functools.lru_cache(maxsize=32_768)
def host_key(host: str) -> str:
    """A host as it is compared: names in lower case without the last dot, IPv6 addresses in their shortest form."""
    low = host.lower().removesuffix(".")
    if ":" not in low:
        return low
    try:
        return ipaddress.ip_address(low).compressed
    except ValueError:
        return low


class Address(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where and how to ask over HTTP.

    ``host`` is a name, an IPv4 or a bare IPv6 address (no brackets). ``bearer_token_file`` is read again before each
    use. ``headers`` are sent as they are; their values are secrets and never printed.
    """

    scheme: str = "http"
    host: str
    port: int
    path: str = "/metrics"
    tls: Tls | None = None
    headers: tuple[tuple[str, str], ...] = ()
    bearer_token_file: str | None = None

    @property
    def authority(self) -> str:
        """``host:port`` with brackets around IPv6, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL without any secret."""
        return f"{self.scheme}://{self.authority}{self.path}"


class KvEventSource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One KV-event publisher of one member: a data-parallel rank's PUB socket and, if it has one, its replay ROUTER."""

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""
    rank: int = 0


class DeploymentKey(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Identity of a deployment for people: namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class TargetKey(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Identity of a target: a member's UID and one listener on it. A replaced Pod has another UID, so another key."""

    deployment: DeploymentKey
    member_uid: str
    component: str
    port: int


class Target(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One exposition to read: who it belongs to, where it is, and which table says what it means."""

    key: TargetKey
    component: Component
    software: str
    version: str | None = None
    model: str | None = None
    role: str = ""
    member: str = ""
    address: Address


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One Pod (or process, for static targets) of a replica or of a router.

    ``seat`` is its place in the replica, ``None`` when none is stated. ``serves`` is False for a member that is part
    of a replica but answers no requests (a follower of a leader-served replica, an Elastic worker, a Ray head): it is
    listed as skipped and never expected to expose anything. ``started`` is False while no container runs.
    ``readiness_gated`` says whether ``ready`` means that the engine answered, not only that a process started.
    ``restarts`` and ``started_at`` (wall seconds) describe the serving container where the platform tells them.
    ``ports`` are the container ports the Pod declares (empty: only those of ``api`` and ``metrics`` are known).
    ``ancillary`` marks a Pod that belongs to the replica and is no member of its group (a Ray head).
    ``rank`` is set where each data-parallel rank of a Pod has a listener of its own and is a member by itself; its
    ``uid`` is then that of `rank_uid`.
    """

    uid: str
    name: str
    seat: int | None = None
    host: str | None = None
    metrics: Address | None = None
    api: Address | None = None
    kv_events: tuple[KvEventSource, ...] = ()
    ready: Ready = Ready.UNKNOWN
    readiness_gated: bool = False
    serves: bool = True
    started: bool = True
    terminating: bool = False
    node: str | None = None
    revision: str | None = None
    restarts: int | None = None
    started_at: float | None = None
    declared_total: int | None = None
    skipped_reason: str = ""
    ports: tuple[int, ...] = ()
    ancillary: bool = False
    rank: int | None = None


def rank_uid(pod_uid: str, rank: int) -> str:
    """The UID of a member that is one data-parallel rank of a Pod: the Pod's own for the first."""
    return pod_uid if rank == 0 else f"{pod_uid}-rank-{rank}"


class Replica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One serving instance of a role. ``ordinal`` is ``None`` on platforms that number nothing; 0 is a real ordinal.

    ``size`` is the number of members the replica was built with, ``None`` when nobody says. ``instance`` names the
    operator's own unit that it is part of, where the operator counts those.
    ``retiring`` and ``replacing`` are three-valued through ``None``: True, False, or not known.
    """

    ordinal: int | None = None
    size: int | None = None
    members: tuple[Member, ...] = ()
    retiring: bool | None = None
    retiring_reason: str = ""
    replacing: bool | None = None
    instance: str = ""


class Role(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One role of a deployment. ``desired`` is in replicas, 0 is a value (parked) and ``None`` is not known."""

    name: str
    kind: str = RoleKind.SERVER
    desired: int | None = None
    size: int = 1
    engine: str = ""
    engine_version: str | None = None
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    port_protocol: str = "TCP"
    load_balance_external: bool = False
    elastic: bool = False
    replicas: tuple[Replica, ...] = ()

    def members(self) -> Iterator[Member]:
        """Every member of every replica, in order."""
        for replica in self.replicas:
            yield from replica.members


class RouterDeclaration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The router a deployment declares. ``software`` is the table's name (``llm_d``, ``vllm_router``, …)."""

    name: str
    software: str
    version: str | None = None
    desired: int | None = None
    members: tuple[Member, ...] = ()


class StoreDeclaration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A KV-cache store attached to the deployment; ``tenant`` is its domain name there, where stores have tenants."""

    name: str
    software: str
    version: str | None = None
    tenant: str | None = None
    connector: str = ""
    members: tuple[Member, ...] = ()


class Deployment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One LLM deployment as discovery sees it: what is declared and which members exist. It says nothing of values.

    ``source`` names who told us (``static:<file>`` or the platform). ``complete`` is False when a list behind it
    failed: then absence of a member is not evidence that it is gone. ``facts`` carries what a platform says in its
    own words (mirrored status), for the judges and for ``explain``.
    """

    key: DeploymentKey
    uid: str
    platform: str = "static"
    source: str = ""
    model: str | None = None
    endpoint_type: EndpointType = EndpointType.CHAT
    generation: int | None = None
    observed_generation: int | None = None
    created_at: float | None = None
    deleting: bool = False
    complete: bool = True
    roles: tuple[Role, ...] = ()
    router: RouterDeclaration | None = None
    stores: tuple[StoreDeclaration, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def targets(self) -> Iterator[Target]:
        """Every exposition that this deployment implies: serving members, router members, store members."""
        for role in self.roles:
            for member in role.members():
                if member.serves and member.metrics is not None:
                    yield self._target(
                        member, member.metrics, Component.ENGINE, role.engine, role.engine_version, role.name
                    )
        if self.router is not None:
            for member in self.router.members:
                if member.metrics is not None:
                    yield self._target(
                        member, member.metrics, Component.ROUTER, self.router.software, self.router.version
                    )
        for store in self.stores:
            for member in store.members:
                if member.metrics is not None:
                    yield self._target(member, member.metrics, Component.STORE, store.software, store.version)

    def _target(
        self, member: Member, address: Address, component: Component, software: str, version: str | None, role: str = ""
    ) -> Target:
        return Target(
            key=TargetKey(self.key, member.uid, component, address.port),
            component=component,
            software=software,
            version=version,
            model=self.model if component is Component.ENGINE else None,
            role=role,
            member=member.name,
            address=address,
        )
