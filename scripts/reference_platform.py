"""The reference page of platform documents: one section for each kind of mapping in them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from reference_markdown import Page, code, page, table

from observer.discover.platforms.document import PlatformDocument
from observer.discover.platforms.values import Take
from observer.yamldoc.shape import Key, Shape, keys, shape

_NAMES = {PlatformDocument: "The document", Take: "value"}


def platform() -> Page:
    """Every key of every mapping."""
    lines = [
        "`kind: Platform`, `apiVersion: observer.modeldeployment.io/v1alpha1`. `docs/add-a-platform.md` says how to write one. Unknown",
        "keys are faults with their line. A *value* is a mapping as below, a plain text for its `field`, or a list of which the first that gives",
        "something counts.",
        "",
    ]
    covered = 0
    for struct in dict.fromkeys(_structs(PlatformDocument)):
        known = keys(struct)
        rows = [(code(key.name), _type(key.shape), _default(key), key.meaning) for key in known]
        about = (struct.__doc__ or "").strip().split("\n\n")[0]
        lines += [f"## {_name(struct)}", "", " ".join(about.split()).replace("``", "`"), ""]
        lines += table(("key", "type", "default", "meaning"), rows)
        covered += len(rows)
    return page("Platform documents", *lines), covered


def _structs(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    yield struct
    for key in keys(struct):
        inner = _inner(key.shape)
        if issubclass(inner.base, msgspec.Struct):
            yield from _structs(inner.base)


def _inner(found: Shape) -> Shape:
    return shape(found.item) if found.base is tuple and found.text_map is None else found


def _name(struct: type[msgspec.Struct]) -> str:
    return _NAMES.get(struct) or struct.__name__.removesuffix("Rule").lower()


def _type(found: Shape) -> str:
    inner = _inner(found)
    if not issubclass(inner.base, msgspec.Struct):
        return found.type_name
    name = _name(inner.base)
    if found.one_or_many:
        return f"*{name}* or list of them"
    return f"list of *{name}*" if found.base is tuple else f"*{name}*"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    value = key.default
    if value is None or value == () or isinstance(value, msgspec.Struct):
        return ""
    if isinstance(value, tuple):
        return code(", ".join(map(str, value)))
    return code(str(value).lower() if isinstance(value, bool) else str(value))
