"""Our own kind, `ModelDeploymentObservation`: its name, the object we create, and what is read back from a stored one.

One stands beside each observed object, owned by it, so that it goes when the object goes. What judging must not forget
stands in its status, so a restart or another replica begins where the last one ended.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from observer.kube.records import Document
from observer.kube.resources import Resource
from router_contract.discovered import Discovered, ObjectReference
from router_contract.judging import Stored, StoredCondition
from router_contract.verdicts import Status

OBSERVATIONS = Resource(
    group="observer.modeldeployment.io",
    version="v1alpha1",
    plural="modeldeploymentobservations",
    kind="ModelDeploymentObservation",
)
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER_LABEL = "modeldeployment-observer"
LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
"""What the API server takes as a name; labels, which name deployments on some platforms, may hold more."""


def observation_name(found: Discovered) -> str:
    """``<platform>-<name>``; one that would be too long, or that is no name, ends in a hash of the whole."""
    name = f"{found.facts.platform}-{found.deployment.key.name}"
    if len(name) <= LONGEST_NAME and _NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[: LONGEST_NAME - 17].strip("-")
    return f"{plain}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def observation(found: Discovered) -> dict[str, Any]:
    """The object to create. A deployment without an object of its own has no owner, and we delete what stands for it."""
    key, target = found.deployment.key, found.target
    metadata: dict[str, Any] = {
        "name": observation_name(found),
        "namespace": key.namespace,
        "labels": {MANAGED_BY: MANAGER_LABEL},
    }
    spec: dict[str, Any] = {"platform": found.facts.platform, "deployment": {"name": key.name, "uid": owned_uid(found)}}
    if target is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": target.api_version, "kind": target.kind, "name": target.name, "uid": target.uid}
        ]
        spec["targetRef"] = {
            "apiVersion": target.api_version,
            "kind": target.kind,
            "resource": target.plural,
            "name": target.name,
            "uid": target.uid,
        }
    return {"apiVersion": OBSERVATIONS.api_version, "kind": OBSERVATIONS.kind, "metadata": metadata, "spec": spec}


def owned_uid(found: Discovered) -> str:
    """The identity of what is observed: the object's UID, else the deployment's own."""
    return found.target.uid if found.target is not None else found.deployment.uid


def about(document: Document) -> str:
    """The UID of what a stored observation is about, empty when it does not say."""
    spec = document.body.get("spec")
    told = spec.get("deployment") if isinstance(spec, dict) else None
    uid = told.get("uid") if isinstance(told, dict) else None
    return uid if isinstance(uid, str) else ""


def ours(document: Document) -> bool:
    """Whether an observation is one that we made, and so may delete."""
    labels = document.body.get("metadata", {}).get("labels")
    return isinstance(labels, dict) and labels.get(MANAGED_BY) == MANAGER_LABEL


def replaceable(document: Document, followed: Collection[str]) -> bool:
    """Whether one that stands in the way may go: it is ours, and about nothing of what is there (``followed``, by UID).

    Two deployments whose names come to one would replace each other's for ever.
    """
    return ours(document) and about(document) not in followed


def target_of(document: Document) -> ObjectReference | None:
    """The observed object that a stored observation names, ``None`` when there is none or it cannot be read."""
    spec = document.body.get("spec")
    try:
        told = msgspec.convert(spec.get("targetRef") if isinstance(spec, dict) else None, _TargetRef)
    except msgspec.ValidationError:
        return None
    group, _, version = told.api_version.rpartition("/")
    return ObjectReference(
        group=group,
        version=version,
        kind=told.kind,
        plural=told.resource,
        namespace=document.namespace,
        name=told.name,
        uid=told.uid,
    )


def resource_of(target: ObjectReference) -> Resource:
    """The resource that serves an object."""
    return Resource(group=target.group, version=target.version, plural=target.plural, kind=target.kind)


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """What judging remembered, and what could not be read of it (empty when all could)."""

    stored: Stored | None
    trouble: str = ""


def recalled(document: Document, uid: str) -> Recalled:
    """What a stored observation remembers of the deployment of this UID; of another one of its name, nothing.

    When the whole memory cannot be read, at least the published conditions keep their times.
    """
    if about(document) != uid:
        return Recalled(stored=None)
    status = document.body.get("status")
    if not isinstance(status, Mapping) or not status:
        return Recalled(stored=None)
    memory, trouble = status.get("memory"), ""
    if memory is not None:
        try:
            return Recalled(stored=msgspec.convert(memory, Stored))
        except msgspec.ValidationError as error:
            trouble = f"the memory of {document.namespace}/{document.name} cannot be read: {error}"
    listed = status.get("conditions")
    published = map(_condition, listed if isinstance(listed, list) else ())
    conditions = tuple(found for found in published if found is not None)
    return Recalled(stored=Stored(conditions=conditions) if conditions else None, trouble=trouble)


class _TargetRef(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    resource: str
    name: str
    uid: str


class _Published(msgspec.Struct, rename="camel"):
    type: str
    status: Status
    last_transition_time: dt.datetime
    reason: str = ""


def _condition(value: Any) -> StoredCondition | None:
    try:
        told = msgspec.convert(value, _Published)
    except msgspec.ValidationError:
        return None
    made = StoredCondition(
        type=told.type,
        status=told.status,
        reason=told.reason,
        last_transition=told.last_transition_time.timestamp(),
    )
    try:
        return msgspec.convert(msgspec.to_builtins(made), StoredCondition)  # its limits hold on reading
    except msgspec.ValidationError:
        return None
