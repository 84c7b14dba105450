"""The objects an informer holds, and what changed: by single events, and by comparing a whole new list.

A list is the truth: what it lacks was deleted while we did not hear it, and such a deletion is synthesised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Generic

import msgspec

from observer.kube.records import R

Key = tuple[str, str]
"""Namespace and name."""


class ChangeKind(StrEnum):
    """What happened to an object."""

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"


class Change(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """One change. ``before`` is ``None`` for an added object, ``record`` is the last known state of a deleted one.

    ``synthesised`` marks what no event told: it was found by comparing lists, or by another UID under the same name.
    """

    kind: ChangeKind
    record: R
    before: R | None = None
    synthesised: bool = False


class Cache(Generic[R]):
    """The present objects by namespace and name. Owned by one task."""

    def __init__(self) -> None:
        self._held: dict[Key, R] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[R]:
        return iter(self._held.values())

    def get(self, name: str, namespace: str = "") -> R | None:
        """The object of this name, ``None`` when there is none that we know of."""
        return self._held.get((namespace, name))

    def put(self, record: R) -> list[Change[R]]:
        """An added or modified object: the changes it makes, none when this version is already held."""
        key = (record.namespace, record.name)
        before = self._held.get(key)
        if before is None:
            self._held[key] = record
            return [Change(kind=ChangeKind.ADDED, record=record)]
        if before.uid != record.uid:
            self._held[key] = record
            return [
                Change(kind=ChangeKind.DELETED, record=before, before=before, synthesised=True),
                Change(kind=ChangeKind.ADDED, record=record),
            ]
        if before.resource_version == record.resource_version:
            return []
        self._held[key] = record
        return [Change(kind=ChangeKind.MODIFIED, record=record, before=before)]

    def remove(self, record: R) -> list[Change[R]]:
        """A deleted object. A late deletion of an earlier object of the same name changes nothing."""
        key = (record.namespace, record.name)
        before = self._held.get(key)
        if before is None or before.uid != record.uid:
            return []
        del self._held[key]
        return [Change(kind=ChangeKind.DELETED, record=record, before=before)]

    def replace(self, records: Iterable[R], *, unread: bool = False) -> list[Change[R]]:
        """A whole new list: what it lacks is deleted, the rest added or modified.

        With ``unread`` the list held objects that could not be read: any of ours may be among them, so nothing is
        deleted for its absence.
        """
        present: set[Key] = set()
        changes: list[Change[R]] = []
        for record in records:
            present.add((record.namespace, record.name))
            changes.extend(self.put(record))
        if unread:
            return changes
        gone = [(key, record) for key, record in self._held.items() if key not in present]
        for key, record in gone:
            del self._held[key]
            changes.append(Change(kind=ChangeKind.DELETED, record=record, before=record, synthesised=True))
        return changes
