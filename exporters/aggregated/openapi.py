"""OpenAPI v2 and v3 of the group, generated from the structs of our documents. `kubectl explain` reads v3."""

from __future__ import annotations

from typing import Any

import msgspec

from exporters.aggregated.discovery import Document, document
from exporters.aggregated.field_notes import FIELDS, KINDS
from exporters.aggregated.objects import ObjectMeta, ObservedModelDeployment
from exporters.aggregated.resources import BASE, GROUP, RESOURCES, VERSION, Resource
from router_contract.documents import ModelDeploymentMetrics

Json = dict[str, Any]
_PREFIX = f"{'.'.join(reversed(GROUP.split('.')))}.{VERSION}."
_V3, _V2 = "#/components/schemas/", "#/definitions/"
_STRUCTS = (ModelDeploymentMetrics, ObservedModelDeployment, ObjectMeta)
_GVK = "x-kubernetes-group-version-kind"
_LIST_PARAMETERS = ("labelSelector", "fieldSelector", "limit", "continue", "includeObject", "timeout")
_TITLE = {"title": "ModelDeployment metrics", "version": VERSION}


def openapi_v3() -> Document:
    """The document of ``/openapi/v3/apis/<group>/<version>``."""
    return document(
        {
            "openapi": "3.0.0",
            "info": _TITLE,
            "paths": _paths(_V3),
            "components": {"schemas": _schemas(_V3)},
        }
    )


def openapi_v3_index(group: Document) -> Document:
    """``/openapi/v3``: where the group's document is; its hash lets caches keep it."""
    path = f"apis/{GROUP}/{VERSION}"
    return document({"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={group.etag.strip(chr(34))}"}}})


def openapi_v2() -> Document:
    """``/openapi/v2``, which kube-apiserver merges into its own."""
    return document({"swagger": "2.0", "info": _TITLE, "paths": _paths(_V2), "definitions": _schemas(_V2)})


def _schemas(root: str) -> Json:
    _, made = msgspec.json.schema_components(_STRUCTS, ref_template=f"{root}{_PREFIX}{{name}}")
    made.pop("Metadata", None)  # what is served has our ObjectMeta instead, with labels
    found = {_PREFIX + name: _schema(name, value, root) for name, value in sorted(made.items())}
    for resource in RESOURCES:
        if resource.list_kind:
            found[_PREFIX + resource.list_kind] = _list_schema(resource, root)
        for part in resource.subresources:
            found.setdefault(_PREFIX + part.kind, _open_schema(part.kind, root))
    for kind, schema in found.items():
        if kind.removeprefix(_PREFIX) in KINDS:
            schema[_GVK] = [_gvk(kind.removeprefix(_PREFIX))]
    return found


def _schema(name: str, value: Json, root: str) -> Json:
    """One struct's schema: descriptions for every field, formats for numbers, no titles."""
    properties = {field: _field(name, field, schema, root) for field, schema in value["properties"].items()}
    found: Json = {
        "type": "object",
        "description": KINDS.get(name) or _plain(value["description"]),
        "properties": properties,
    }
    if value.get("required"):
        found["required"] = value["required"]
    return found


def _field(struct: str, field: str, schema: Json, root: str) -> Json:
    described = {"description": FIELDS.get((struct, field)) or FIELDS["", field]}
    if field == "metadata":
        schema = {"$ref": f"{root}{_PREFIX}ObjectMeta"}
    if "anyOf" in schema:  # a value that may be null
        schema = {"nullable": True, **next(each for each in schema["anyOf"] if each.get("type") != "null")}
        if root == _V2:
            schema.pop("nullable")
    if "$ref" in schema:
        # A reference has no neighbours in v3.
        return described | ({"allOf": [schema], "default": {}} if root == _V3 else schema)
    kept = {key: value for key, value in schema.items() if key != "default"}
    if kept.get("type") == "number":
        kept["format"] = "double"
    elif kept.get("type") == "integer":
        kept |= {"format": "int64"}
    elif kept.get("type") == "array":
        kept["x-kubernetes-list-type"] = "atomic"
    elif field == "status":
        kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return described | kept


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "").split())


def _list_schema(resource: Resource, root: str) -> Json:
    item = {"$ref": f"{root}{_PREFIX}{resource.kind}"}
    return {
        "type": "object",
        "description": KINDS[resource.list_kind],
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": FIELDS["", "apiVersion"]},
            "kind": {"type": "string", "description": FIELDS["", "kind"]},
            "metadata": {"type": "object", "description": "Version of the list and the token of its next page."},
            "items": {"type": "array", "items": item, "description": "The objects, by namespace and name."},
        },
    }


def _open_schema(kind: str, root: str) -> Json:
    """A kind whose body is described in words."""
    reference = {"$ref": f"{root}{_PREFIX}ObjectMeta"}
    described = {"description": FIELDS["", "metadata"]}
    return {
        "type": "object",
        "description": KINDS[kind],
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "apiVersion": {"type": "string", "description": FIELDS["", "apiVersion"]},
            "kind": {"type": "string", "description": FIELDS["", "kind"]},
            "metadata": described | ({"allOf": [reference], "default": {}} if root == _V3 else reference),
        },
    }


def _gvk(kind: str) -> Json:
    return {"group": GROUP, "version": VERSION, "kind": kind}


def _paths(root: str) -> Json:
    found: Json = {}
    for resource in RESOURCES:
        namespaced = f"{BASE}/namespaces/{{namespace}}/{resource.plural}"
        if resource.list_kind:
            found[f"{BASE}/{resource.plural}"] = _path(resource, "list", resource.list_kind, root, everywhere=True)
            found[namespaced] = _path(resource, "list", resource.list_kind, root)
        found[f"{namespaced}/{{name}}"] = _path(resource, "get", resource.kind, root)
        for part in resource.subresources:
            found[f"{namespaced}/{{name}}/{part.name}"] = _path(resource, "get", part.kind, root, part.name)
    return found


def _path(resource: Resource, action: str, kind: str, root: str, part: str = "", *, everywhere: bool = False) -> Json:
    """One path's only operation. Operation identifiers are unique in a whole cluster."""
    places = () if everywhere else (("namespace", "name") if action == "get" else ("namespace",))
    group = "".join(word.title() for word in GROUP.split("."))
    where = "ForAllNamespaces" if everywhere else ""
    schema = {"$ref": f"{root}{_PREFIX}{kind}"}
    answer: Json = {"description": "OK"}
    answer |= {"schema": schema} if root == _V2 else {"content": {"application/json": {"schema": schema}}}
    operation: Json = {
        "description": f"{action} {kind}",
        "operationId": f"{action}{group}{VERSION.title()}{resource.plural.title()}{part.title()}{where}",
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        _GVK: _gvk(resource.kind if action == "list" else kind),
    }
    if root == _V2:
        operation |= {"produces": ["application/json"], "schemes": ["https"]}
    queries = [_parameter(name, "query", root) for name in (_LIST_PARAMETERS if action == "list" else ())]
    return {"get": operation, "parameters": [*(_parameter(name, "path", root) for name in places), *queries]}


def _parameter(name: str, place: str, root: str) -> Json:
    kind = {"type": "integer" if name == "limit" else "string"}
    shape = kind if root == _V2 else {"schema": kind}
    return {"name": name, "in": place, "description": FIELDS["query", name], "required": place == "path"} | shape


def kinds() -> frozenset[str]:
    """Every kind that the group serves or that wraps one of them."""
    parts = {part.kind for resource in RESOURCES for part in resource.subresources}
    whole = {kind for resource in RESOURCES for kind in (resource.kind, resource.list_kind) if kind}
    return frozenset(parts | whole)
