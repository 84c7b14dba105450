"""What we want an object's status to say, in the API's words: conditions, texts without counters, rounded numbers.

A status is written only when its meaning changes, so what goes into it must not change without meaning.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from observer.kube.records import Document
from observer.kube.resources import Resource

MANAGER = "modeldeployment-observer"
"""The one field manager of all replicas: with a name each, two replicas would fight over every field."""

LONGEST_MESSAGE = 32_768
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Key = tuple[Resource, str, str]
"""Resource, namespace and name of the object whose status is meant."""


class WantedCondition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of ours. ``status`` is ``True``, ``False`` or ``Unknown``; ``reason`` is one CamelCase word.

    ``message`` holds no time and no counter. ``provenance`` is written into our own kind only. ``last_transition`` (wall
    seconds) is when the status flipped, ``None`` for "when it is written". The flip of a ``prompt`` one is not dwelt on.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    provenance: str = ""
    last_transition: float | None = None
    prompt: bool = False


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of what we say about one object, every time: server-side apply drops what a later apply leaves out.

    ``uid`` is the object that was judged and ``observed_generation`` its generation then. With a ``prefix`` we own only
    the condition types that begin with it (somebody else's status); without, the whole status (our own kind), so also
    ``fields``. ``riders`` are written along with a change and never cause one. A ``pressing`` one is written without
    waiting for its interval: something was taken back.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    observed_generation: int | None
    conditions: tuple[WantedCondition, ...]
    prefix: str = ""
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)
    riders: Mapping[str, Any] = msgspec.field(default_factory=dict)
    pressing: bool = False

    def __post_init__(self) -> None:
        for condition in self.conditions:
            if not condition.type.startswith(self.prefix):
                raise ValueError(f"condition {condition.type!r}: wanted a type that begins with {self.prefix!r}")
            if condition.status not in {"True", "False", "Unknown"}:
                raise ValueError(f"condition {condition.type!r}: found status {condition.status!r}")
            if not condition.reason:
                raise ValueError(f"condition {condition.type!r}: found no reason, wanted one word")
        if self.prefix and any(condition.provenance for condition in self.conditions):
            raise ValueError(f"{self.resource.full_name} {self.name!r}: a provenance is written into our own kind only")
        if self.prefix and (self.fields or self.riders):
            raise ValueError(f"{self.resource.full_name} {self.name!r}: only conditions are ours in another's status")

    @property
    def key(self) -> Key:
        """The object that is meant, by name."""
        return (self.resource, self.namespace, self.name)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server holds of the object, as the informer last heard it."""

    uid: str
    resource_version: str
    status: Mapping[str, Any]

    @classmethod
    def of(cls, document: Document) -> Stored:
        """The part of a watched object that writing needs."""
        status = document.body.get("status")
        return cls(
            uid=document.uid,
            resource_version=document.resource_version,
            status=status if isinstance(status, dict) else {},
        )

    def conditions(self, prefix: str) -> dict[str, dict[str, Any]]:
        """The conditions whose type begins with the prefix, by type."""
        found = self.status.get("conditions")
        return {
            str(each["type"]): each
            for each in (found if isinstance(found, list) else ())
            if isinstance(each, dict) and str(each.get("type", "")).startswith(prefix) and "type" in each
        }


def rfc3339(wall: float) -> str:
    """A wall time (s) as ``metav1.Time`` has it: UTC, whole seconds. Raises ``OverflowError`` beyond the year 9999."""
    return (_EPOCH + dt.timedelta(seconds=int(wall))).isoformat().replace("+00:00", "Z")


def rounded(value: float) -> float:
    """A number to two significant digits: a status that carried more would change with every reading."""
    return float(f"{value:.2g}")


def percent(fraction: float) -> int:
    """A share in [0, 1] as whole percent."""
    return round(100 * fraction)


def listed(names: Iterable[str], most: int = 10) -> str:
    """Names in one order for one set of them: sorted, the first few, and how many more."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:most])
    return f"{shown}, +{len(ordered) - most} more" if len(ordered) > most else shown


def bounded(message: str) -> str:
    """A message that the API accepts: cut to its limit of bytes, at a character."""
    data = message.encode()
    if len(data) <= LONGEST_MESSAGE:
        return message
    return data[: LONGEST_MESSAGE - 4].decode("utf-8", "ignore") + "…"
