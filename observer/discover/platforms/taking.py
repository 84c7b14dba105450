"""Values out of objects: evaluates the sources of a value in a scope of target, role, Pod and container."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.values import Count, Take
from observer.kube.records import Container, Pairs, Pod

MAX_VALUE = 4096
"""Longer values (characters) are not searched by patterns."""

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What is at hand. ``holes`` fill templates; ``item`` is the list item a role is made from.

    ``member_labels`` are those of the deployment's engine Pods by UID, ``None`` before they were selected.
    """

    body: Mapping[str, Any]
    holes: Mapping[str, str]
    item: Any = None
    pod: Pod | None = None
    container: Container | None = None
    member_labels: Mapping[str, Pairs] | None = None

    def of_role(self, name: str, item: Any) -> Scope:
        """The same in a role."""
        return msgspec.structs.replace(self, item=item, holes={**self.holes, "role": name})

    def of_pod(self, pod: Pod, container: Container | None) -> Scope:
        """The same at a Pod."""
        return msgspec.structs.replace(self, pod=pod, container=container)

    def filled(self, path: str) -> str:
        """A path or template with its holes filled."""
        return paths.fill(path, self.holes)

    def field(self, path: str) -> Any:
        """The first value of a path in the target."""
        return paths.first(self.body, path, self.holes)


def label(pairs: Pairs, key: str) -> str | None:
    """The value of a label or annotation, ``None`` without it."""
    for name, value in pairs:
        if name == key:
            return value
    return None


def text(takes: Sequence[Take], scope: Scope) -> str | None:
    """The first value that is there, as text; a list or mapping is there, and is an empty text."""
    for take in takes:
        value = _raw(take, scope)
        if value is None:
            continue
        found = paths.as_text(value)
        found = _shaped(take, "" if found is None else found)
        if found is not None:
            return found
    return None


def present(takes: Sequence[Take], scope: Scope) -> bool:
    """Whether one of the sources gives anything but an empty text; a pattern or an exclusive map must give something."""
    return any(_present(take, _raw(take, scope)) for take in takes)


def _present(take: Take, value: Any) -> bool:
    if take.pattern is None and not take.only_mapped:
        return value is not None and value != ""
    written = paths.as_text(value)
    return written is not None and bool(_shaped(take, written))


def count(rule: Count | None, scope: Scope) -> int | None:
    """A counted number, ``None`` when it is not known; nobody counts less than nothing."""
    if rule is None:
        return None
    found = text(rule.value, scope)
    number = rule.absent if found is None else paths.whole(found)
    for take in rule.times:
        factor = paths.whole(text((take,), scope))
        number = None if number is None or factor is None else paths.whole(number * factor)
    return None if number is None or number + rule.plus < 0 else number + rule.plus


def arguments(container: Container | None) -> tuple[str, ...]:
    """The words of a container's command line; a shell's script is split into its words."""
    if container is None:
        return ()
    words = (*container.command, *container.args)
    if len(words) > 2 and words[0].rpartition("/")[2] in _SHELLS and words[1].startswith("-") and "c" in words[1]:
        try:
            return tuple(_script(words[2])) + words[3:]
        except ValueError:
            return words
    return words


def _script(text: str) -> Iterator[str]:
    """The words of a script; what it evaluates is a script too. Raises `ValueError` for quotes that do not end."""
    words = shlex.split(text.replace("\\\n", " "), comments=False)
    for place, word in enumerate(words):
        if place and words[place - 1] == "eval":
            yield from shlex.split(word, comments=False)
        else:
            yield word


def _raw(take: Take, scope: Scope) -> Any:
    """The value before it is shaped, ``None`` when there is none."""
    found = _found(take, scope)
    return take.absent if found is None else found


def _found(take: Take, scope: Scope) -> Any:
    if take.field is not None:
        return scope.field(take.field)
    if take.item is not None:
        return paths.first(scope.item, take.item, scope.holes)
    if take.fixed is not None:
        return scope.filled(take.fixed)
    if take.owner is not None:
        owner = None if scope.pod is None else scope.pod.owner
        return owner.name if owner is not None and owner.kind == take.owner else None
    if take.label is not None or take.annotation is not None:
        return _metadata(take, scope)
    container = scope.container
    if container is None:
        return None
    if take.image:
        return container.image or None
    if take.argument is not None:
        return _argument(arguments(container), take.argument)
    pod = scope.pod
    beside = pod.containers if pod is not None and not take.own else ()
    declared = [port for each in beside for port in each.ports]
    return next((port.container_port for port in (*container.ports, *declared) if port.name == take.port), None)


def _metadata(take: Take, scope: Scope) -> str | None:
    if scope.pod is not None:
        if take.label is not None:
            return label(scope.pod.labels, take.label)
        return label(scope.pod.annotations, take.annotation or "")
    metadata = scope.body.get("metadata", {})
    held = metadata.get("labels" if take.label is not None else "annotations") or {}
    value = held.get(take.label if take.label is not None else take.annotation)
    return value if isinstance(value, str) else None


def _argument(words: Sequence[str], flag: str) -> str | None:
    """The last value of a flag, written as one word or two; a flag without a value gives an empty text."""
    found: str | None = None
    for place, word in enumerate(words):
        if word == flag:
            following = words[place + 1] if place + 1 < len(words) else ""
            found = "" if following.startswith("--") else following
        elif word.startswith(flag + "="):
            found = word[len(flag) + 1 :]
    return found


def _shaped(take: Take, value: str) -> str | None:
    if take.pattern is not None:
        if len(value) > MAX_VALUE:
            return None
        found = paths.pattern(take.pattern).search(value)
        if found is None or found[1] is None:
            return None
        value = found[1]
    if take.map:
        lowered = value.lower()
        mapped = next((new for old, new in take.map if old.lower() == lowered), None)
        return mapped if mapped is not None or take.only_mapped else value
    return value
