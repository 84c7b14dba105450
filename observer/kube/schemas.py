"""Whether we may write our conditions into somebody's status: only into a list that merges by type.

Where conditions are an atomic list, one manager owns all of it and a second one takes the whole list away or conflicts
for ever. What the schema does not say is not assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from observer.kube.resources import Resource


class Conditions(StrEnum):
    """How a kind keeps its conditions, from its schema. Only `MAP` is written to."""

    MAP = "Map"
    ATOMIC = "Atomic"
    NO_CONDITIONS = "NoConditions"
    NO_STATUS = "NoStatus"
    NOT_SERVED = "NotServed"
    UNKNOWN = "Unknown"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one kind, with the words for people. ``writable`` is True only where merging is certain."""

    conditions: Conditions
    reason: str

    @property
    def writable(self) -> bool:
        """Whether conditions of ours may be applied."""
        return self.conditions is Conditions.MAP


def of_definition(definition: Mapping[str, Any], resource: Resource) -> Policy:
    """The policy from a CustomResourceDefinition."""
    versions = _at(definition, "spec", "versions")
    found = next(
        (each for each in versions or () if isinstance(each, dict) and each.get("name") == resource.version), None
    )
    if found is None or not found.get("served"):
        return _policy(Conditions.NOT_SERVED, f"{resource.full_name} is not served by its definition")
    if _at(found, "subresources", "status") is None:
        return _policy(Conditions.NO_STATUS, f"{resource.full_name} has no status subresource")
    return _of_status(_at(found, "schema", "openAPIV3Schema", "properties", "status"), resource)


def of_openapi(document: Mapping[str, Any], resource: Resource) -> Policy:
    """The policy from the OpenAPI v3 document of the group's version: it needs no right to read definitions."""
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schemas = _at(document, "components", "schemas") or {}
    for schema in schemas.values():
        if wanted in (_at(schema, "x-kubernetes-group-version-kind") or ()):
            break
    else:
        return _policy(Conditions.NOT_SERVED, f"{resource.full_name} is not in the OpenAPI document")
    path = f"{resource.collection('{namespace}')}/{{name}}/status".replace("%7Bnamespace%7D", "{namespace}")
    if path not in (_at(document, "paths") or {}):
        return _policy(Conditions.NO_STATUS, f"{resource.full_name} has no status subresource")
    return _of_status(_at(schema, "properties", "status"), resource)


def _of_status(status: Any, resource: Resource) -> Policy:
    conditions = _at(status, "properties", "conditions")
    if conditions is None:
        return _policy(Conditions.NO_CONDITIONS, f"{resource.full_name} declares no status.conditions")
    kind, keys = conditions.get("x-kubernetes-list-type"), conditions.get("x-kubernetes-list-map-keys")
    if kind == "map" and keys == ["type"]:
        return _policy(Conditions.MAP, f"status.conditions of {resource.full_name} merges by type")
    if kind in {None, "atomic"}:
        return _policy(
            Conditions.ATOMIC,
            f"status.conditions of {resource.full_name} is an atomic list: found {kind or 'no list type'}, wanted map by type",
        )
    return _policy(
        Conditions.UNKNOWN,
        f"status.conditions of {resource.full_name}: found list type {kind} by {keys}, wanted map by type",
    )


def _policy(conditions: Conditions, reason: str) -> Policy:
    return Policy(conditions=conditions, reason=reason)


def _at(value: Any, *path: str) -> Any:
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
