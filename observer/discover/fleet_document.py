"""The `Fleet` document: what a person writes to have deployments watched that no platform tells us about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from observer.yamldoc.quantities import Name, OneOrMany, Port, TextMap
from router_contract.targets import EndpointType, RoleKind


class Scheme(StrEnum):
    """How a target is asked."""

    HTTP = "http"
    HTTPS = "https"


class TlsDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to trust a target over HTTPS and how to be trusted by it. File paths are relative to the document's folder."""

    ca_file: Annotated[
        str | None, Meta(description="PEM file of the authorities to trust instead of the system's.")
    ] = None
    cert_file: Annotated[str | None, Meta(description="PEM file of our client certificate.")] = None
    key_file: Annotated[str | None, Meta(description="PEM file of its key; absent when `certFile` holds it too.")] = (
        None
    )
    server_name: Annotated[
        str | None, Meta(description="Name the certificate must carry, when it is not the host's.")
    ] = None
    skip_verify: Annotated[bool, Meta(description="Accept any certificate: anyone in between can then answer.")] = False


class Connection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to reach something. Set on a member, its role, its deployment or in `defaults`; the nearest one counts."""

    scheme: Annotated[
        Scheme | None, Meta(description="`https` where `tls` or an `https://` address is given, else `http`.")
    ] = None
    metrics_port: Annotated[
        Port | None, Meta(description="Port of the exposition, when it is not the address's own port.")
    ] = None
    metrics_path: Annotated[
        str | None,
        Meta(
            description="Path of the exposition; `/metrics` when absent.",
            pattern=r"^/[!-~]*$",
            extra={"wanted": "a path that begins with `/`"},
        ),
    ] = None
    api_port: Annotated[
        Port | None, Meta(description="Port of the program's API, when it is not the address's own port.")
    ] = None
    tls: Annotated[TlsDocument | None, Meta(description="Trust over HTTPS.")] = None
    headers: Annotated[
        tuple[tuple[str, str], ...],
        TextMap(secret=True),
        Meta(description="Headers sent with each read, as name: value."),
    ] = ()
    bearer_token_file: Annotated[
        str | None, Meta(description="File with a bearer token; read again before each use.")
    ] = None


class EngineDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which program it is. May be written as its name alone."""

    SHORTHAND: ClassVar[str] = "name"

    name: Annotated[str, Meta(min_length=1, description="`vllm`, `sglang`, or another table's name or alias.")]
    version: Annotated[str | None, Meta(description="Its version; when absent, what it reports counts.")] = None


class KvEventsDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One KV-event publisher. In an endpoint `*` as the host stands for the member's own host."""

    SHORTHAND: ClassVar[str] = "endpoint"

    endpoint: Annotated[str, Meta(description="`tcp://host:port` of the PUB socket.")]
    replay_endpoint: Annotated[str | None, Meta(description="`tcp://host:port` of the replay ROUTER socket.")] = None
    topic: Annotated[str, Meta(max_length=1024, description="Topic prefix; everything when empty.")] = ""
    rank: Annotated[int, Meta(ge=0, le=65_535, description="The data-parallel rank that publishes here.")] = 0


class MemberDocument(Connection, frozen=True, kw_only=True, rename="camel"):
    """One Pod or process. May be written as its address alone."""

    SHORTHAND: ClassVar[str] = "address"

    address: Annotated[
        str, Meta(min_length=1, description="`host`, `host:port`, `[IPv6]:port` or `https://host:port/path`.")
    ]
    name: Annotated[Name | None, Meta(description="Its name; made from deployment, role and place when absent.")] = None
    seat: Annotated[int | None, Meta(ge=0, le=65_535, description="Its place in the replica.")] = None
    serves: Annotated[
        bool, Meta(description="False for a member that answers no requests (a follower); it is never read.")
    ] = True
    kv_events: Annotated[
        tuple[KvEventsDocument, ...], OneOrMany(), Meta(description="Its KV-event publishers, one for each rank.")
    ] = ()
    revision: Annotated[
        str | None, Meta(min_length=1, max_length=253, description="The revision that it runs, for canary analyses.")
    ] = None
    retiring: Annotated[bool, Meta(description="Whether it is being taken out of service on purpose.")] = False
    replacing: Annotated[bool, Meta(description="Whether another member is about to take its place.")] = False


class ReplicaDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One serving instance of a role."""

    ordinal: Annotated[
        int | None, Meta(ge=0, le=1_000_000, description="Its number; its place in the list when absent.")
    ] = None
    members: Annotated[tuple[MemberDocument, ...], Meta(description="Its members.")]
    retiring: Annotated[bool, Meta(description="Whether it is being taken out of service on purpose.")] = False
    replacing: Annotated[bool, Meta(description="Whether another replica is about to take its place.")] = False


class RoleDocument(Connection, frozen=True, kw_only=True, rename="camel"):
    """One role of a deployment. `addresses` is the short form of replicas with one member each."""

    STAND_INS: ClassVar[Mapping[str, Any]] = {"name": "unnamed"}

    name: Annotated[Name, Meta(description="Its name in the deployment.")]
    kind: Annotated[RoleKind, Meta(description="What its replicas do.")] = RoleKind.SERVER
    desired: Annotated[
        int | None,
        Meta(ge=0, le=1_000_000, description="Replicas that should exist; 0 is parked; as many as listed when absent."),
    ] = None
    size: Annotated[
        int | None,
        Meta(ge=1, le=65_536, description="Members of each replica; the most that one lists when absent."),
    ] = None
    engine: Annotated[EngineDocument | None, Meta(description="Its engine, when not the deployment's.")] = None
    arguments: Annotated[tuple[str, ...], Meta(description="The engine's command line, for declared parallelism.")] = ()
    addresses: Annotated[
        tuple[MemberDocument, ...], Meta(description="Short form: each is a replica with this one member.")
    ] = ()
    replicas: Annotated[tuple[ReplicaDocument, ...], Meta(description="Long form: replicas with their members.")] = ()


class RouterDocument(Connection, frozen=True, kw_only=True, rename="camel"):
    """The router in front of a deployment. `addresses` and `members` are the same list."""

    name: Annotated[str, Meta(min_length=1, description="`llm-d`, `vllm-router`, `sglang-gateway`, or an alias.")]
    version: Annotated[str | None, Meta(description="Its version; when absent, what it reports counts.")] = None
    replicas: Annotated[
        int | None, Meta(ge=0, le=100_000, description="Router Pods that should exist; as many as listed when absent.")
    ] = None
    addresses: Annotated[tuple[MemberDocument, ...], Meta(description="Short form of `members`.")] = ()
    members: Annotated[tuple[MemberDocument, ...], Meta(description="Its Pods or processes.")] = ()


class StoreDocument(Connection, frozen=True, kw_only=True, rename="camel"):
    """A KV-cache store attached to a deployment."""

    STAND_INS: ClassVar[Mapping[str, Any]] = {"name": "unnamed"}

    name: Annotated[Name, Meta(description="Its name in the deployment.")]
    kind: Annotated[str, Meta(min_length=1, description="`mooncake`, `lmcache`, or an alias.")]
    version: Annotated[str | None, Meta(description="Its version; when absent, what it reports counts.")] = None
    tenant: Annotated[str | None, Meta(description="The deployment's name there, where a store has tenants.")] = None
    addresses: Annotated[tuple[MemberDocument, ...], Meta(description="Short form of `members`.")] = ()
    members: Annotated[tuple[MemberDocument, ...], Meta(description="Its Pods or processes.")] = ()


class DeploymentDocument(Connection, frozen=True, kw_only=True, rename="camel"):
    """One deployment: some engine members behind a router."""

    STAND_INS: ClassVar[Mapping[str, Any]] = {"name": "unnamed", "roles": ()}

    name: Annotated[Name, Meta(description="Its name, unique in its namespace.")]
    namespace: Annotated[Name, Meta(description="Its namespace.")] = "default"
    model: Annotated[str | None, Meta(min_length=1, description="The served model's name; all models when absent.")] = (
        None
    )
    endpoint_type: Annotated[
        EndpointType, Meta(description="What the model answers; decides the expected signals.")
    ] = EndpointType.CHAT
    engine: Annotated[EngineDocument | None, Meta(description="The engine of every role that names none.")] = None
    roles: Annotated[tuple[RoleDocument, ...], Meta(description="Its roles.")]
    router: Annotated[RouterDocument | None, Meta(description="The router in front of it.")] = None
    stores: Annotated[tuple[StoreDocument, ...], Meta(description="KV-cache stores attached to it.")] = ()


class FleetDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A `Fleet` document. Several may be given; their deployments are added up, `defaults` hold for their own."""

    api_version: Annotated[str, Meta(description="`observer.modeldeployment.io/v1alpha1`.")]
    kind: Annotated[str, Meta(description="`Fleet`.")]
    defaults: Annotated[Connection | None, Meta(description="How to reach everything in this document.")] = None
    deployments: Annotated[tuple[DeploymentDocument, ...], Meta(description="The deployments to watch.")] = ()
