"""Composed nodes to a frozen struct, collecting every fault; each struct keeps its place for checks between keys."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from observer.yamldoc.faults import Fault, did_you_mean, shown
from observer.yamldoc.shape import Key, Shape, keys, shape

MAX_VISITS = 200_000
MAX_DEPTH = 64
BAD: Final = object()
"""Stands for a value that could not be decoded; its fault has been recorded."""

T = TypeVar("T", bound=msgspec.Struct)


class Tracker:
    """Decodes one document (or several merged ones) and remembers where everything stands.

    ``faults`` grows with each thing found wrong. After decoding, `fault` records a fault of a relation at the place
    of a decoded struct's key. A struct's ``STAND_INS`` are values for required keys that are bad, so that the rest of it
    is checked too; whoever uses them must look at ``clean``.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self._marks: dict[str, tuple[str, int, int]] = {}
        self._paths: dict[int, str] = {}
        self._alive: list[msgspec.Struct] = []
        self._short: set[int] = set()
        self._keys_of_nothing: dict[int, Node] = {}
        self._visits = 0
        self._open: list[int] = []

    def decode(self, node: MappingNode, struct: type[T]) -> T | None:
        """The struct of a root mapping, or ``None`` when too little of it could be read (the faults say why)."""
        value = self._value(node, shape(struct), "")
        return value if isinstance(value, struct) else None

    def path(self, owner: msgspec.Struct, key: str = "") -> str:
        """The key path of a decoded struct, or of one of its keys (written as in the document)."""
        base = self._paths.get(id(owner), "")
        if id(owner) in self._short and key == getattr(owner, "SHORTHAND", None):
            return base
        return f"{base}.{key}" if base and key else base or key

    def place(self, path: str) -> tuple[str, int, int]:
        """File, line and column of a path, or of its nearest known parent."""
        while path not in self._marks and path:
            cut = max(path.rfind("."), path.rfind("["))
            path = path[: max(cut, 0)]
        return self._marks.get(path, (self.file, 0, 0))

    def fault(
        self,
        owner: msgspec.Struct,
        key: str,
        found: str,
        wanted: str,
        hint: str = "",
        *,
        into: list[Fault] | None = None,
    ) -> None:
        """Record that ``key`` of a decoded struct contradicts something else; ``into`` another list where given."""
        self._record(self.path(owner, key), found, wanted, hint, into)

    def fault_at(self, path: str, found: str, wanted: str, hint: str = "") -> None:
        """Record a fault at a key path."""
        self._record(path, found, wanted, hint)

    def clean(self, owner: msgspec.Struct, *names: str) -> bool:
        """Whether no fault was recorded at or below these keys: a check that finds them absent may then say so."""
        below = tuple(self.path(owner, name) for name in names)
        return not any(fault.path.startswith(below) for fault in self.faults)

    def knows(self, path: str) -> bool:
        """Whether the document has this key path."""
        return path in self._marks

    def _record(self, path: str, found: str, wanted: str, hint: str = "", into: list[Fault] | None = None) -> Any:
        file, line, column = self.place(path)
        fault = Fault(file=file, line=line, column=column, path=path, found=found, wanted=wanted, hint=hint)
        (self.faults if into is None else into).append(fault)
        return BAD

    def _value(self, node: Node, want: Shape, path: str) -> Any:
        self._marks[path] = self._mark(node)
        if not self._afford(path):
            return BAD
        if isinstance(node, ScalarNode):
            return self._decoded(node, want, path)
        if id(node) in self._open or len(self._open) > MAX_DEPTH:
            return self._record(path, "an alias inside its own anchor or very deep nesting", "a document without loops")
        self._open.append(id(node))
        try:
            return self._decoded(node, want, path)
        finally:
            self._open.pop()

    def _mark(self, node: Node) -> tuple[str, int, int]:
        """Where a node stands. A value that is not there stands at its key: YAML places it at the next token."""
        mark = self._keys_of_nothing.get(id(node), node).start_mark
        return (str(mark.name), mark.line + 1, mark.column + 1)

    def _afford(self, path: str) -> bool:
        """Count one visit; past the limit nothing more is decoded, and that is recorded once."""
        self._visits += 1
        if self._visits == MAX_VISITS + 1:
            self._record(path, f"more than {MAX_VISITS} values (aliases counted each time)", "fewer; check `*` aliases")
        return self._visits <= MAX_VISITS

    def _decoded(self, node: Node, want: Shape, path: str) -> Any:
        if _is_null(node):
            return None if want.optional else self._record(path, "nothing", want.wanted)
        if want.text_map is not None:
            return self._texts(node, want, path)
        if want.base is tuple:
            return self._list(node, want, path)
        if issubclass(want.base, msgspec.Struct):
            return self._struct(node, want.base, path)
        if not isinstance(node, ScalarNode):
            return self._record(path, _kind(node), want.wanted)
        return self._scalar(node, want, path)

    def _scalar(self, node: ScalarNode, want: Shape, path: str) -> Any:
        text, tag = str(node.value), (node.tag or "").rpartition(":")[2]
        value: Any = BAD
        if want.written is not None:
            try:
                value = want.written.read(text)
            except ValueError:
                value = BAD
        elif issubclass(want.base, StrEnum):
            value = next((word for word in want.base if word.lower() == text.lower()), BAD)
        elif want.base is bool:
            value = text.lower() == "true" if tag == "bool" else BAD
        elif want.base is str:
            value = text if tag != "bool" else BAD
        else:
            value = _number(text, tag, want.base)
        if value is BAD or want.violates(value):
            hint = did_you_mean(text, want.base) if issubclass(want.base, StrEnum) else ""
            return self._record(path, shown(text), want.wanted, hint)
        return value

    def _list(self, node: Node, want: Shape, path: str) -> Any:
        inner = shape(want.item)
        if not isinstance(node, SequenceNode):
            if not want.one_or_many:
                return self._record(path, _kind(node), want.wanted)
            item = self._decoded(node, inner, path)
            return () if item is BAD else (item,)
        values = [self._value(child, inner, f"{path}[{index}]") for index, child in enumerate(node.value)]
        return tuple(value for value in values if value is not BAD)

    def _texts(self, node: Node, want: Shape, path: str) -> Any:
        if not isinstance(node, MappingNode):
            return self._record(path, _kind(node), want.wanted)
        pairs: list[tuple[str, str]] = []
        for name, child in self._entries(node, path).items():
            below = f"{path}.{name}"
            self._marks[below] = self._mark(child)
            if isinstance(child, ScalarNode) and not _is_null(child):
                pairs.append((name, str(child.value)))
            else:
                self._record(below, _kind(child), "text")
        return tuple(pairs)

    def _struct(self, node: Node, struct: type[msgspec.Struct], path: str) -> Any:
        shorthand = getattr(struct, "SHORTHAND", None)
        if isinstance(node, ScalarNode) and shorthand is not None:
            key = next(key for key in keys(struct) if key.field == shorthand)
            value = self._value(node, key.shape, path)
            if value is BAD:
                return BAD
            made = self._built(struct, {key.field: value}, path)
            self._short.add(id(made))
            return made
        if not isinstance(node, MappingNode):
            return self._record(path, _kind(node), f"a mapping with the keys {_names(keys(struct))}")
        entries = self._entries(node, path)
        known = {key.name: key for key in keys(struct)}
        values: dict[str, Any] = {}
        stand_ins: dict[str, Any] = getattr(struct, "STAND_INS", {})
        complete = True
        for name, child in entries.items():
            below = f"{path}.{name}" if path else name
            found = known.get(name)
            if found is None:
                self._unknown(child, below, name, tuple(known))
                continue
            value = self._value(child, found.shape, below)
            if value is BAD:
                complete = complete and (not found.required or found.field in stand_ins)
            elif value is not None:
                values[found.field] = value
        for key in known.values():
            if key.required and key.name not in entries:
                complete = complete and key.field in stand_ins
                self._record(
                    f"{path}.{key.name}" if path else key.name, "nothing", key.shape.wanted, "The key is required."
                )
        return self._built(struct, {**stand_ins, **values}, path) if complete else BAD

    def _unknown(self, child: Node, path: str, name: str, known: tuple[str, ...]) -> None:
        self._marks[path] = self._mark(child)
        hint = did_you_mean(name, known)
        self._record(path, f"the unknown key {shown(name)}", "one of " + ", ".join(known), hint)

    def _built(self, struct: type[msgspec.Struct], values: dict[str, Any], path: str) -> msgspec.Struct:
        made = struct(**values)
        self._paths[id(made)] = path
        self._alive.append(made)
        return made

    def _entries(self, node: MappingNode, path: str) -> dict[str, Node]:
        """Keys and values of a mapping; keys merged in by ``<<`` come last and never replace the mapping's own."""
        own: dict[str, Node] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._marks[f"{path}.?"] = (
                    str(key.start_mark.name),
                    key.start_mark.line + 1,
                    key.start_mark.column + 1,
                )
                self._record(f"{path}.?", f"{_kind(key)} as a key", "a plain key")
            elif (key.tag or "").endswith(":merge"):
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif key.value in own:
                mark, first = key.start_mark, own[key.value].start_mark
                below = f"{path}.{key.value}" if path else str(key.value)
                self._marks[below] = (str(mark.name), mark.line + 1, mark.column + 1)
                self._record(
                    below, "the key a second time", "each key once", f"First at {first.name}:{first.line + 1}."
                )
            else:
                own[str(key.value)] = value
                if _is_null(value):
                    self._keys_of_nothing[id(value)] = key
        return self._with_merged(own, merged, node, path)

    def _with_merged(self, own: dict[str, Node], merged: list[Node], node: MappingNode, path: str) -> dict[str, Node]:
        for other in merged:
            if not self._afford(path):
                break
            if not isinstance(other, MappingNode) or other is node or len(self._open) > MAX_DEPTH:
                self._record(path, f"{_kind(other)} merged by `<<`", "an alias of another mapping")
                continue
            self._open.append(id(other))
            if self._open.count(id(other)) == 1:
                for name, value in self._entries(other, path).items():
                    own.setdefault(name, value)
            self._open.pop()
        return own


def _number(text: str, tag: str, base: type) -> Any:
    """A whole number or a finite number as YAML tagged it, or `BAD`."""
    if tag not in {"int", "float"} or len(text) > 40:
        return BAD
    try:
        if base is int:
            return int(text.replace("_", ""), 0) if tag == "int" else BAD
        value = float(text)
    except ValueError:
        return BAD
    return value if math.isfinite(value) else BAD


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and (node.tag or "").endswith(":null")


def _kind(node: Node) -> str:
    if _is_null(node):
        return "nothing"
    if isinstance(node, ScalarNode):
        return shown(str(node.value))
    return "a mapping" if isinstance(node, MappingNode) else "a list"


def _names(known: tuple[Key, ...]) -> str:
    return ", ".join(key.name for key in known)
