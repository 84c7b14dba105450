"""`Fleet` documents to deployments: identity, nearest-wins connections, and every contradiction between keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from observer.discover.connections import Reach, Resolver
from observer.discover.fleet_document import (
    Connection,
    DeploymentDocument,
    EngineDocument,
    FleetDocument,
    MemberDocument,
    ReplicaDocument,
    RoleDocument,
    RouterDocument,
    StoreDocument,
)
from observer.yamldoc.decode import Tracker
from observer.yamldoc.faults import Fault, did_you_mean, shown
from router_contract import catalog
from router_contract.targets import (
    Component,
    Deployment,
    DeploymentKey,
    Member,
    Replica,
    Role,
    RouterDeclaration,
    StoreDeclaration,
)
from router_contract.vocabulary import has_version


def static_uid(*parts: object) -> str:
    """Identity of a static thing: ``static:`` and 16 hex digits of a hash over its parts (``None`` is a value)."""
    text = "\0".join("-" if part is None else f"={part}" for part in parts)
    return "static:" + hashlib.sha256(text.encode()).hexdigest()[:16]


def deployments(document: FleetDocument, tracker: Tracker) -> tuple[list[Deployment], list[Fault]]:
    """The deployments of one document, and notices: what is wrong but does not stop us from watching.

    Contradictions are recorded in ``tracker``. Notices are programs that no table knows (visible at run time as
    unknown, and refused by `observer check`) and files that do not exist (yet).
    """
    mapper = _Mapper(document, tracker)
    made = [mapper.deployment(each) for each in document.deployments]
    unknown = (msgspec.structs.replace(notice, refused=True) for notice in mapper.unknown)
    return made, list(dict.fromkeys([*unknown, *mapper.notices]))


def record_duplicates(found: Iterable[tuple[Deployment, DeploymentDocument, Tracker]]) -> None:
    """Record each deployment that was named before, in the same document or another."""
    first: dict[DeploymentKey, str] = {}
    for made, document, tracker in found:
        if not tracker.clean(document, "name", "namespace"):
            continue
        file, line, _ = tracker.place(tracker.path(document))
        if made.key in first:
            hint = f"First at {first[made.key]}."
            tracker.fault(document, "name", f"{made.key} a second time", "each deployment once", hint)
        first.setdefault(made.key, f"{file}:{line}")


class _Mapper:
    """Walks one document. Holds nothing but where to record what is wrong."""

    def __init__(self, document: FleetDocument, tracker: Tracker) -> None:
        self._defaults = document.defaults
        self._tracker = tracker
        self.notices: list[Fault] = []
        self.unknown: list[Fault] = []
        self._resolver = Resolver(tracker, Path(tracker.file).parent, self.notices)

    def deployment(self, document: DeploymentDocument) -> Deployment:
        around = (document, self._defaults)
        self._resolver.check(self._defaults)
        self._resolver.check(document)
        key = DeploymentKey(document.namespace, document.name)
        seen = _Seen(self._tracker)
        self._unique(document.roles, "role")
        self._unique(document.stores, "store")
        if not document.roles and self._tracker.clean(document, "roles"):
            self._tracker.fault(document, "roles", "an empty list", "at least one role")
        return Deployment(
            key=key,
            uid=static_uid(key.namespace, key.name),
            source=f"static:{self._tracker.file}",
            model=document.model,
            endpoint_type=document.endpoint_type,
            roles=tuple(self._role(document, role, around, key, seen) for role in document.roles),
            router=self._router(document.router, around, key, seen),
            stores=tuple(self._store(store, around, key, seen) for store in document.stores),
        )

    def _unique(self, items: Iterable[RoleDocument | StoreDocument], what: str) -> None:
        names: set[str] = set()
        for item in items:
            if item.name in names and self._tracker.clean(item, "name"):
                self._tracker.fault(item, "name", f"the {what} {shown(item.name)} a second time", f"each {what} once")
            names.add(item.name)

    def _role(
        self,
        deployment: DeploymentDocument,
        document: RoleDocument,
        around: tuple[Connection | None, ...],
        key: DeploymentKey,
        seen: _Seen,
    ) -> Role:
        self._resolver.check(document)
        engine = document.engine or deployment.engine
        listed = self._replica_documents(document)
        most = max((len(replica.members) for replica in listed), default=1)
        size = document.size or max(most, 1)
        for replica in listed:
            if len(replica.members) > size:
                self._tracker.fault(
                    replica, "members", f"{len(replica.members)} members", f"at most the role's size, {size}"
                )
        if (
            not listed
            and document.desired is None
            and self._tracker.clean(document, "replicas", "addresses", "desired")
        ):
            self._tracker.fault(
                document, "replicas", "none", "`replicas`, `addresses`, or `desired: 0` for a parked role"
            )
        replicas = tuple(
            self._replica(replica, index, size, document, around, key, seen) for index, replica in enumerate(listed)
        )
        self._ordinals(listed, replicas)
        return Role(
            name=document.name,
            kind=document.kind,
            desired=len(listed) if document.desired is None else document.desired,
            size=size,
            engine=self._engine(deployment, document, engine),
            engine_version=self._version(engine, engine.version) if engine is not None else None,
            arguments=document.arguments,
            replicas=replicas,
        )

    def _engine(self, deployment: DeploymentDocument, role: RoleDocument, engine: EngineDocument | None) -> str:
        if engine is None:
            if self._tracker.clean(role, "engine") and self._tracker.clean(deployment, "engine"):
                self._tracker.fault(
                    role, "engine", "nothing", "an engine here or on the deployment", "As `engine: vllm`."
                )
            return ""
        return self._software(engine, "name", engine.name, Component.ENGINE)

    def _software(self, owner: msgspec.Struct, name_key: str, name: str, component: Component) -> str:
        """The table's name; an unknown one stays as written, with a notice."""
        try:
            return catalog.lookup(component, name).name
        except catalog.UnknownSoftware as error:
            hint = did_you_mean(name, error.known)
            hint = hint or f"No table reads this {component.value}: its values will be missing."
            wanted = f"one of {', '.join(error.known)}"
            self._tracker.fault(owner, name_key, shown(name), wanted, hint, into=self.unknown)
            return name

    def _version(self, owner: msgspec.Struct, version: str | None) -> str | None:
        """The version as written; one that is none chooses no rows, which is said."""
        if version is not None and not has_version(version):
            hint = "Until then every row of the program's table is tried."
            self._tracker.fault(
                owner, "version", shown(version), "a version that begins with a number", hint, into=self.notices
            )
        return version

    def _replica_documents(self, role: RoleDocument) -> tuple[ReplicaDocument, ...]:
        if role.addresses and role.replicas:
            self._tracker.fault(role, "addresses", "`addresses` beside `replicas`", "one of the two")
        if role.addresses and (role.size or 1) > 1:
            self._tracker.fault(role, "addresses", f"single addresses with size {role.size}", "`replicas` with members")
        return role.replicas or tuple(ReplicaDocument(members=(member,)) for member in role.addresses)

    def _ordinals(self, documents: tuple[ReplicaDocument, ...], replicas: tuple[Replica, ...]) -> None:
        seen: set[int | None] = set()
        for document, replica in zip(documents, replicas, strict=True):
            if replica.ordinal in seen:
                self._tracker.fault(
                    document, "ordinal", f"ordinal {replica.ordinal} a second time", "each ordinal once"
                )
            seen.add(replica.ordinal)

    def _replica(
        self,
        document: ReplicaDocument,
        index: int,
        size: int,
        role: RoleDocument,
        around: tuple[Connection | None, ...],
        key: DeploymentKey,
        seen: _Seen,
    ) -> Replica:
        ordinal = index if document.ordinal is None else document.ordinal
        short = bool(role.addresses) and not role.replicas
        if not document.members and self._tracker.clean(document, "members"):
            self._tracker.fault(document, "members", "an empty list", "at least one member")
        seats: set[int] = set()
        members: list[Member] = []
        for place, each in enumerate(document.members):
            seat = each.seat if each.seat is not None else (place if len(document.members) > 1 or size > 1 else None)
            if seat is not None and seat in seats:
                self._tracker.fault(each, "seat", f"seat {seat} a second time", "each seat of a replica once")
            seats.update(() if seat is None else (seat,))
            name = f"{key.name}-{role.name}-{ordinal}" + (f"-{seat}" if seat is not None else "")
            reach = self._resolver.reach(each, (role, *around), holder=role if short else None)
            made = self._member(each, reach, name, (role.name, ordinal, seat), key, seen)
            members.append(msgspec.structs.replace(made, seat=seat, declared_total=size))
        retiring = document.retiring or any(member.retiring for member in document.members)
        return Replica(
            ordinal=ordinal,
            size=size,
            members=tuple(members),
            retiring=retiring,
            retiring_reason="file" if retiring else "declared",
            replacing=document.replacing or any(member.replacing for member in document.members),
        )

    def _member(
        self,
        document: MemberDocument,
        reach: Reach,
        name: str,
        place: tuple[str, Any, Any],
        key: DeploymentKey,
        seen: _Seen,
    ) -> Member:
        name = document.name or name
        if document.serves and reach.host and reach.metrics is None:
            self._tracker.fault(
                document, "address", f"{shown(document.address)} without a port", "host:port, or `metricsPort`"
            )
        seen.member(document, name, reach)
        address = reach.metrics.authority if reach.metrics is not None else reach.host
        return Member(
            uid=static_uid(key.namespace, key.name, *place, address),
            name=name,
            host=reach.host,
            metrics=reach.metrics if document.serves else None,
            api=reach.api if document.serves else None,
            kv_events=self._resolver.kv_events(document, reach.host),
            serves=document.serves,
            revision=document.revision,
            skipped_reason="" if document.serves else "the file says that it serves no requests",
        )

    def _listed(
        self,
        document: RouterDocument | StoreDocument,
        what: str,
        around: tuple[Connection | None, ...],
        key: DeploymentKey,
        seen: _Seen,
    ) -> tuple[Member, ...]:
        self._resolver.check(document)
        if document.addresses and document.members:
            self._tracker.fault(document, "addresses", "`addresses` beside `members`", "one of the two")
        made: list[Member] = []
        for index, each in enumerate(document.members or document.addresses):
            short = document if document.addresses else None
            reach = self._resolver.reach(each, (document, *around), holder=short)
            name = f"{key.name}-{what.replace('/', '-')}-{index}"
            made.append(self._member(each, reach, name, (what, None, each.seat), key, seen))
        return tuple(made)

    def _router(
        self, document: RouterDocument | None, around: tuple[Connection | None, ...], key: DeploymentKey, seen: _Seen
    ) -> RouterDeclaration | None:
        if document is None:
            return None
        members = self._listed(document, "router", around, key, seen)
        return RouterDeclaration(
            name=document.name,
            software=self._software(document, "name", document.name, Component.ROUTER),
            version=self._version(document, document.version),
            desired=len(members) if document.replicas is None else document.replicas,
            members=members,
        )

    def _store(
        self, document: StoreDocument, around: tuple[Connection | None, ...], key: DeploymentKey, seen: _Seen
    ) -> StoreDeclaration:
        return StoreDeclaration(
            name=document.name,
            software=self._software(document, "kind", document.kind, Component.STORE),
            version=self._version(document, document.version),
            tenant=document.tenant,
            members=self._listed(document, f"store/{document.name}", around, key, seen),
        )


class _Seen:
    """Names and addresses of one deployment, to find those given twice."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._names: dict[str, bool] = {}
        self._addresses: dict[str, int] = {}

    def member(self, document: MemberDocument, name: str, reach: Reach) -> None:
        explicit = document.name is not None
        if name in self._names and (explicit or self._names[name]):
            self._tracker.fault(document, "name", f"the member {shown(name)} a second time", "each member name once")
        self._names[name] = explicit  # two made names clash only where seats or ordinals do, which is said there
        if reach.metrics is None or not document.serves:
            return
        where = f"{reach.metrics.authority}{reach.metrics.path}"
        line = self._tracker.place(self._tracker.path(document))[1]
        if where in self._addresses:
            hint = f"First at line {self._addresses[where]}."
            self._tracker.fault(document, "address", f"the address {where} a second time", "each address once", hint)
        self._addresses.setdefault(where, line)
