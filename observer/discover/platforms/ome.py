"""OME's records joined to a deployment: Instances feed the legs of its replicas, the rest is told.

Only rows of the current generation prove that nothing happens to a replica. A row that names an operation counts at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from observer.discover.platforms import loose
from observer.discover.platforms.loose import Json
from observer.discover.platforms.ome_canary_run import canary_run
from observer.discover.platforms.ome_notices import notices
from observer.discover.platforms.ome_records import (
    NATIVE,
    RAW,
    Instances,
    component_status,
    declared,
    hold,
    mode,
    placement,
    referenced,
    retries,
    scaler,
)
from observer.discover.platforms.told import Told
from observer.discover.platforms.world import Reader
from observer.kube.records import Document, Pod
from router_contract.platform_facts import SourceFault
from router_contract.platform_records import ComponentRecord, InstanceRow, PlacementRecord, PlatformRecords
from router_contract.targets import Replica, Role, RouterDeclaration

SOURCE: Final = "replicas"
"""What the platform's document calls the source of InferenceReplicas."""
MAX_TOLD: Final = 64
"""Most Instances of a component whose operations and failures are told."""
_GOING: Final = {"Delete": "Deleting", "Migrate": "Migrating"}
_CHANGING: Final = {"Update": "Updating", "Restart": "Restarting"}


def read(
    target: Document, roles: tuple[Role, ...], router: RouterDeclaration | None, pods: Sequence[Pod], reader: Reader
) -> Told:
    """The deployment of an InferenceService with all that OME says of it."""
    service = target.body
    held, missing, unread = _objects(target, reader)
    instances = {name: Instances(found) for name, found in held.items()}
    components = tuple(_component(service, name, instances[name], unread=unread) for name in held)
    placed = placement(service)
    owners = {pod.uid: pod.owner.name for pod in pods if pod.owner is not None}
    known = {component.name: component for component in components}
    records = PlatformRecords(
        components=components, placement=placed, notices=notices(service, components, placed, missing)
    )
    return Told(
        roles=tuple(
            _role(role, known[role.name], instances[role.name], placed, owners) if role.name in known else role
            for role in roles
        ),
        router=_router(router, instances.get("router"), known.get("router")),
        records=records,
        declared=all(component.mode == RAW for component in components),
        elsewhere=_elsewhere(target, placed) if not pods else (),
    )


def _elsewhere(target: Document, placed: PlacementRecord | None) -> tuple[SourceFault, ...]:
    """Homes that hold the Pods of a service of which none is here, as a kind that cannot be read here."""
    if placed is None or not placed.homes:
        return ()
    named = ", ".join(home.name for home in placed.homes[:5]) + (" and more" if len(placed.homes) > 5 else "")
    since = loose.time(loose.part(target.body, "metadata"), "creationTimestamp") or 0.0
    detail = f"its Pods are in other clusters ({named}); each needs an observer of its own"
    return (SourceFault(kind="Pod", why="Elsewhere", since=since, detail=detail),)


def _objects(target: Document, reader: Reader) -> tuple[dict[str, list[Json]], tuple[tuple[str, str], ...], bool]:
    """InferenceReplicas by component, referenced ones that do not exist, and whether nobody could look."""
    held: dict[str, list[Json]] = {}
    missing: list[tuple[str, str]] = []
    unread = False
    for component in declared(target.body):
        held[component] = []
        named = referenced(target.body, component)
        for name in named or (f"{target.name}-{component}",):
            found = reader.object(SOURCE, target.namespace, name)
            if isinstance(found, msgspec.UnsetType):
                unread = True
            elif found is None:
                missing += [(component, name)] if named else []
            elif named or _of(target, found.body):
                held[component].append(found.body)
    return held, tuple(missing), unread


def _of(target: Document, found: Json) -> bool:
    """Whether an InferenceReplica of the right name is projected from this service, and not a standalone one."""
    owners = loose.parts(loose.part(found, "metadata"), "ownerReferences")
    return any(loose.word(owner, "uid") == target.uid for owner in owners)


def _component(service: Json, name: str, instances: Instances, *, unread: bool) -> ComponentRecord:
    status = component_status(service, name)
    how = NATIVE if referenced(service, name) else mode(service, name, native=bool(instances.objects))
    own = [loose.part(found, "status") for found in instances.objects]
    lifecycle = loose.part(status, "lifecycle")
    held = (hold(each) for each in (*own, lifecycle))
    conditions = [item for each in own or [lifecycle] for item in loose.conditions(each)]
    told = [row for row in instances.rows.values() if row.operation is not None or row.last_failure is not None]
    contract, why = _contract(how, instances, unread=unread)
    return ComponentRecord(
        name=name,
        mode=how,
        contract=contract,
        why=why,
        objects=tuple(loose.word(loose.part(found, "metadata"), "name") for found in instances.objects),
        encoding=instances.encoding,
        fault="; ".join(instances.faults),
        phases=instances.phases,
        instances=tuple(told[:MAX_TOLD]),
        more=max(0, len(told) - MAX_TOLD),
        hold=next((each for each in held if each is not None), None),
        retries=tuple(each for one in own for each in retries(one)),
        conditions=tuple(conditions),
        scaler=scaler(status),
        canary=canary_run(service, name),
    )


def _contract(how: str, instances: Instances, *, unread: bool) -> tuple[bool | None, str]:
    """Whether a component rolls out by records that we read, and why not."""
    if how == NATIVE:
        if instances.objects:
            return True, ""
        return True, "its InferenceReplica cannot be read" if unread else "its InferenceReplica does not exist yet"
    if how:
        return False, f"{how} has no rollout contract: no Instances, no operations, no rollout phase"
    return None, "nothing says how it is deployed"


def _role(
    role: Role,
    component: ComponentRecord,
    instances: Instances,
    placed: PlacementRecord | None,
    owners: Mapping[str, str],
) -> Role:
    several = len(component.objects) > 1
    draining = placed is not None and bool(placed.homes) and all(home.draining for home in placed.homes)
    size = instances.size
    desired = instances.desired
    if desired is None and component.scaler is not None and component.scaler.desired is not None:
        desired = component.scaler.desired
    made = tuple(
        _replica(each, _owner(each, owners) if several else "", instances, draining=draining, several=several)
        for each in role.replicas
    )
    return msgspec.structs.replace(
        role,
        replicas=made,
        size=role.size if size is None else size,
        desired=role.desired if desired is None else desired,
    )


def _owner(replica: Replica, owners: Mapping[str, str]) -> str:
    return next((owners[member.uid] for member in replica.members if member.uid in owners), "")


def _replica(replica: Replica, owner: str, instances: Instances, *, draining: bool, several: bool) -> Replica:
    """A replica with what its Instance undergoes; numbers of several objects are no ordinals of one role.

    ``owner`` is the object that it is of, empty for the only one.
    """
    row = instances.row(replica.ordinal, owner)
    made = msgspec.structs.replace(
        replica,
        ordinal=None if several else replica.ordinal,
        size=instances.size if replica.size is None else replica.size,
    )
    if draining:
        return msgspec.structs.replace(made, retiring=True, retiring_reason="its home is asked to drain")
    leaving = next((name for name in instances.leaving if owner in {"", name}), "")
    if leaving:
        why = f"the InferenceReplica {leaving} is being deleted"
        return msgspec.structs.replace(made, retiring=True, retiring_reason=why)
    if row is None:
        return made
    kind = "" if row.operation is None else row.operation.type
    going = kind in _GOING or row.phase in _GOING.values()
    changing = kind in _CHANGING or row.phase in _CHANGING.values()
    still = False if instances.current else None
    return msgspec.structs.replace(
        made,
        retiring=True if going else still,
        retiring_reason=_why(row) if going else "",
        replacing=True if changing else still,
    )


def _why(row: InstanceRow) -> str:
    if row.operation is None:
        return f"Instance {row.index} is {row.phase}"
    about = ", ".join(each for each in (row.operation.reason, row.operation.step) if each)
    return f"operation {row.operation.type}" + (f" ({about})" if about else "")


def _router(
    router: RouterDeclaration | None, instances: Instances | None, component: ComponentRecord | None
) -> RouterDeclaration | None:
    if router is None or instances is None or component is None:
        return router
    desired = instances.desired
    if desired is None and component.scaler is not None:
        desired = component.scaler.desired
    return router if desired is None else msgspec.structs.replace(router, desired=desired)
