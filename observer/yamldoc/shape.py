"""What a document type looks like: its keys, their types, bounds, defaults and meanings, from the struct itself."""

from __future__ import annotations

import functools
import types
import typing
from enum import StrEnum
from typing import Any

import msgspec

from observer.yamldoc.quantities import OneOrMany, TextMap, Written


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One type, unwrapped. ``base`` is ``str``, ``int``, ``float``, ``bool``, an enum, a struct or ``tuple``."""

    base: type
    item: Any = None
    optional: bool = False
    written: Written | None = None
    text_map: TextMap | None = None
    one_or_many: bool = False
    meta: msgspec.Meta = msgspec.Meta()

    @property
    def type_name(self) -> str:
        """The type in a reader's words, as documentation shows it."""
        if self.written is not None:
            return self.written.type_name
        if self.text_map is not None:
            return "mapping of texts"
        if self.base is tuple:
            inner = shape(self.item).type_name
            return f"{inner} or list of them" if self.one_or_many else f"list of {inner}"
        if issubclass(self.base, StrEnum):
            return " or ".join(self.base)
        names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
        return names.get(self.base, "mapping")

    @property
    def wanted(self) -> str:
        """What a person should have written, bounds included."""
        extra = (self.meta.extra or {}).get("wanted")
        if extra is not None:
            return str(extra)
        if self.written is not None:
            return self.written.wanted + self._bounds()
        if self.base is tuple and self.text_map is None:
            return f"a {self.type_name}"
        article = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        if issubclass(self.base, StrEnum):
            return "one of " + ", ".join(self.base)
        return article.get(self.base, "a mapping") + self._bounds()

    def _bounds(self) -> str:
        show = self.written.show if self.written is not None else str
        rows = (
            ("of at least", self.meta.ge),
            ("above", self.meta.gt),
            ("of at most", self.meta.le),
            ("below", self.meta.lt),
        )
        text = " and ".join(f"{word} {show(bound)}" for word, bound in rows if bound is not None)
        return f" {text}" if text else ""

    def violates(self, value: Any) -> bool:
        """Whether a value of the right type breaks a bound of its `msgspec.Meta`."""
        meta = self.meta
        if isinstance(value, str):
            short = meta.min_length is not None and len(value) < meta.min_length
            long = meta.max_length is not None and len(value) > meta.max_length
            return short or long or (meta.pattern is not None and _compiled(meta.pattern).search(value) is None)
        return (
            (meta.ge is not None and value < meta.ge)
            or (meta.gt is not None and value <= meta.gt)
            or (meta.le is not None and value > meta.le)
            or (meta.lt is not None and value >= meta.lt)
        )


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a mapping: the struct's field, the name in the document, its shape, its default and its meaning."""

    field: str
    name: str
    shape: Shape
    required: bool
    default: Any = None
    meaning: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the generated reference: key path, type, default as a person writes it, meaning."""

    path: str
    type: str
    default: str
    meaning: str


@functools.cache
def _compiled(pattern: str) -> Any:
    import re  # noqa: PLC0415 - only names have patterns, and the cache makes this run once for each

    return re.compile(pattern)


def shape(annotation: Any) -> Shape:
    """Unwrap an annotation: ``Annotated`` layers, ``| None`` and ``tuple[X, ...]``."""
    facts: dict[str, Any] = {}
    metas: list[msgspec.Meta] = []
    optional = False
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            for mark in annotation.__metadata__:
                if isinstance(mark, Written):
                    facts["written"] = mark
                elif isinstance(mark, TextMap):
                    facts["text_map"] = mark
                elif isinstance(mark, OneOrMany):
                    facts["one_or_many"] = True
                elif isinstance(mark, msgspec.Meta):
                    metas.append(mark)
            annotation = typing.get_args(annotation)[0]
        elif origin in {types.UnionType, typing.Union}:
            annotation = next(arm for arm in typing.get_args(annotation) if arm is not type(None))
            optional = True
        else:
            break
    item = typing.get_args(annotation)[0] if origin is tuple else None
    return Shape(
        base=tuple if origin is tuple else annotation, item=item, optional=optional, meta=_merged(metas), **facts
    )


def _merged(metas: list[msgspec.Meta]) -> msgspec.Meta:
    """One `msgspec.Meta` of several; a later (outer) layer wins."""
    names = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "description", "extra")
    facts: dict[str, Any] = {}
    for meta in metas:
        facts |= {name: getattr(meta, name) for name in names if getattr(meta, name) is not None}
    return msgspec.Meta(**facts)


@functools.cache
def keys(struct: type[msgspec.Struct]) -> tuple[Key, ...]:
    """The keys of a struct in order, from its annotations."""
    hints = typing.get_type_hints(struct, include_extras=True)
    found: list[Key] = []
    for field in msgspec.structs.fields(struct):
        unwrapped = shape(hints[field.name])
        default = field.default
        if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        found.append(
            Key(
                field=field.name,
                name=field.encode_name,
                shape=unwrapped,
                required=field.required,
                default=None if default is msgspec.NODEFAULT else default,
                meaning=unwrapped.meta.description or "",
            )
        )
    return tuple(found)


def describe(struct: type[msgspec.Struct], prefix: str = "") -> list[Row]:
    """Every key below a struct, depth first: one `Row` each, lists of mappings as ``name[]``."""
    rows: list[Row] = []
    for key in keys(struct):
        path = f"{prefix}{key.name}"
        inner = key.shape
        if inner.base is tuple and inner.text_map is None:
            path, inner = f"{path}[]", shape(inner.item)
        rows.append(Row(path=path, type=key.shape.type_name, default=_default(key), meaning=key.meaning))
        if issubclass(inner.base, msgspec.Struct):
            rows += describe(inner.base, f"{path}.")
    return rows


def _default(key: Key) -> str:
    if key.required:
        return "required"
    value = key.default
    if value is None or value == () or isinstance(value, msgspec.Struct):
        return ""
    if key.shape.written is not None:
        return key.shape.written.show(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
