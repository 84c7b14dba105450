"""The discovery documents of the group, in the old form and in the aggregated one. They are constants of a build."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from exporters.aggregated.resources import API_VERSION, GROUP, RESOURCES, VERSION, Resource
from exporters.encoding import encode

Json = dict[str, Any]


class Document(msgspec.Struct, frozen=True):
    """A body and its entity tag (quoted)."""

    body: bytes
    etag: str


def document(value: Json) -> Document:
    """A value as JSON with the tag that belongs to it."""
    body = encode(value)
    return Document(body, f'"{hashlib.sha256(body).hexdigest().upper()}"')


_VERSION: Json = {"groupVersion": API_VERSION, "version": VERSION}


def api_group() -> Json:
    """``APIGroup`` of our group."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def api_group_list() -> Json:
    """``APIGroupList`` with our one group."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def _group() -> Json:
    return {"name": GROUP, "versions": [_VERSION], "preferredVersion": _VERSION}


def api_resource_list() -> Json:
    """``APIResourceList`` of our version; a subresource is an entry of its own. It is never empty."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [entry for resource in RESOURCES for entry in _entries(resource)],
    }


def _entries(resource: Resource) -> list[Json]:
    own: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": True,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        own["shortNames"] = list(resource.short_names)
    parts = [
        {
            "name": f"{resource.plural}/{part.name}",
            "singularName": "",
            "namespaced": True,
            "kind": part.kind,
            "verbs": ["get"],
        }
        for part in resource.subresources
    ]
    return [own, *parts]


def group_discovery_list() -> Json:
    """``APIGroupDiscoveryList``: every version in one document. A kind is always told: old clients fall over null."""
    version = {
        "version": VERSION,
        "freshness": "Current",
        "resources": [_discovered(resource) for resource in RESOURCES],
    }
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{"metadata": {"name": GROUP, "creationTimestamp": None}, "versions": [version]}],
    }


def _discovered(resource: Resource) -> Json:
    found: Json = {
        "resource": resource.plural,
        "responseKind": _kind(resource.kind),
        "scope": "Namespaced",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.subresources:
        found["subresources"] = [
            {"subresource": part.name, "responseKind": _kind(part.kind), "verbs": ["get"]}
            for part in resource.subresources
        ]
    return found


def _kind(kind: str) -> Json:
    return {"group": GROUP, "version": VERSION, "kind": kind}
