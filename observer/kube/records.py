"""What is kept of watched objects: little of a Pod, and whole documents without their managedFields.

A Pod on the wire is about 9 kB, 45 % of it managedFields; of ten thousand only what discovery reads stays in memory.
Strings and tuples that many Pods share are held once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from observer.kube.resources import PODS, Resource
from router_contract.targets import Ready

Pairs = tuple[tuple[str, str], ...]
"""Labels or annotations, sorted by key: half the size of a dict, and equal ones are one object."""

LONGEST_ANNOTATION = 1024
"""Longer values (bytes of text) are not kept: they are applied manifests and other programs' notes."""


class Record(Protocol):
    """What every kept object has."""

    @property
    def uid(self) -> str:
        """The object's identity for its whole life."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace, empty for cluster-wide objects."""
        ...

    @property
    def name(self) -> str:
        """Its name, which a later object may have again."""
        ...

    @property
    def resource_version(self) -> str:
        """Opaque."""
        ...


R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)


class Owner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The controller of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Port(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One declared container port."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One container: what is declared, and what runs. ``restarts`` and ``started_at`` are ``None`` when nobody says.

    ``started_at`` is as the API writes it (RFC 3339). ``readiness_probe`` says whether Ready means that it answered.
    """

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    readiness_probe: bool = False
    restarts: int | None = None
    started_at: str | None = None


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is kept of a Pod. ``ip`` is ``None`` before it has one; ``phase`` is as written, empty when nobody says.

    ``conditions`` are the types and statuses of all its conditions.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    labels: Pairs = ()
    annotations: Pairs = ()
    owner: Owner | None = None
    node: str | None = None
    ip: str | None = None
    phase: str = ""
    ready: Ready = Ready.UNKNOWN
    conditions: Pairs = ()
    terminating: bool = False
    created: str = ""
    containers: tuple[Container, ...] = ()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A whole object as JSON gives it, without managedFields. ``generation`` is ``None`` where the kind has none."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    generation: int | None
    body: dict[str, Any]


class Watched(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """What one informer follows: a resource in a namespace (``None``: all), by selectors, and how to keep an object.

    ``decode`` turns one object's JSON into a record; it raises `msgspec.DecodeError` for what it cannot read.
    """

    resource: Resource
    decode: Callable[[msgspec.Raw], R]
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""


class _OwnerWire(Owner, frozen=True, gc=False):
    controller: bool = False


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str = ""
    namespace: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_OwnerWire] | None = None


class _ContainerWire(msgspec.Struct, rename="camel"):
    name: str
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    ports: tuple[Port, ...] | None = None
    readiness_probe: msgspec.Raw = msgspec.Raw()


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: list[_ContainerWire] | None = None
    node_name: str | None = None


class _Running(msgspec.Struct, rename="camel"):
    started_at: str | None = None


class _ContainerState(msgspec.Struct):
    running: _Running | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    restart_count: int | None = None
    state: _ContainerState | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str = "Unknown"


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None


class _PodWire(msgspec.Struct):
    metadata: _Meta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _DocumentWire(msgspec.Struct):
    metadata: _Meta


class VersionOnly(msgspec.Struct, rename="camel"):
    """The version of an object or list, for where nothing else of it is read."""

    resource_version: str = ""


class Pool:
    """Holds equal values once. Bounded: a full pool is emptied, which costs memory later and never correctness."""

    def __init__(self, limit: int = 20_000) -> None:
        self._held: dict[Any, Any] = {}
        self._limit = limit

    def share(self, value: Any) -> Any:
        """An equal value seen before, or this one."""
        if len(self._held) >= self._limit:
            self._held.clear()
        return self._held.setdefault(value, value)


class PodDecoder:
    """Turns a Pod's JSON into what is kept of it."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_PodWire).decode
        self._share = Pool().share

    def __call__(self, raw: msgspec.Raw) -> Pod:
        """One Pod. Raises `msgspec.DecodeError` when it is not one."""
        wire = self._decode(raw)
        meta, spec, status = wire.metadata, wire.spec, wire.status
        statuses = {each.name: each for each in status.container_statuses or ()}
        return Pod(
            uid=meta.uid,
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            resource_version=meta.resource_version,
            labels=self._pairs(meta.labels),
            annotations=self._pairs(meta.annotations),
            owner=self._owner(meta.owner_references),
            node=sys.intern(spec.node_name) if spec.node_name else None,
            ip=status.pod_ip or None,
            phase=sys.intern(status.phase),
            ready=_ready(status.conditions),
            conditions=self._pairs({each.type: each.status for each in status.conditions or ()}),
            terminating=meta.deletion_timestamp is not None,
            created=sys.intern(meta.creation_timestamp or ""),
            containers=tuple(self._container(each, statuses.get(each.name)) for each in spec.containers or ()),
        )

    def _pairs(self, values: dict[str, str] | None) -> Pairs:
        kept = sorted((values or {}).items())
        share = self._share
        return share(  # type: ignore[no-any-return]  # a pool returns what it was given, or its equal
            tuple(
                share((sys.intern(key), sys.intern(value))) for key, value in kept if len(value) <= LONGEST_ANNOTATION
            )
        )

    def _owner(self, owners: list[_OwnerWire] | None) -> Owner | None:
        found = next((each for each in owners or () if each.controller), None)
        if found is None:
            return None
        owner = Owner(api_version=found.api_version, kind=found.kind, name=found.name, uid=found.uid)
        return self._share(owner)  # type: ignore[no-any-return]  # as above

    def _container(self, wire: _ContainerWire, status: _ContainerStatus | None) -> Container:
        running = status.state.running if status is not None and status.state is not None else None
        container = Container(
            name=wire.name,
            image=wire.image,
            command=wire.command or (),
            args=wire.args or (),
            ports=wire.ports or (),
            readiness_probe=bytes(wire.readiness_probe) not in {b"", b"null"},
            restarts=status.restart_count if status is not None else None,
            started_at=running.started_at if running is not None else None,
        )
        return self._share(container)  # type: ignore[no-any-return]  # as above


def document(raw: msgspec.Raw) -> Document:
    """Any object, whole but for managedFields. Raises `msgspec.DecodeError` when it is not one."""
    meta = _document_meta(raw).metadata
    body = msgspec.json.decode(raw, type=dict[str, Any])
    body["metadata"].pop("managedFields", None)
    return Document(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        generation=meta.generation,
        body=body,
    )


def watched_pods(namespace: str | None = None, *, label_selector: str = "") -> Watched[Pod]:
    """The Pods that a label selector names: others never arrive."""
    return Watched(resource=PODS, decode=PodDecoder(), namespace=namespace, label_selector=label_selector)


def watched_documents(resource: Resource, namespace: str | None = None, **selectors: str) -> Watched[Document]:
    """Whole objects of a resource; ``selectors`` are ``label_selector`` and ``field_selector``."""
    return Watched(resource=resource, decode=document, namespace=namespace, **selectors)


def _ready(conditions: list[_Condition] | None) -> Ready:
    found = next((each.status for each in conditions or () if each.type == "Ready"), "")
    return Ready(found) if found in {"True", "False"} else Ready.UNKNOWN


_document_meta = msgspec.json.Decoder(_DocumentWire).decode
