"""What is known of a cluster for one platform: Pods by label, objects by name and by owner, and what cannot be read.

One build reads through a `Reader`, which remembers what was asked: a later change dirties only who asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from observer.kube.records import Document, Pod
from router_contract.platform_facts import SourceFault, Unset

Need = tuple[str, ...]
"""One thing a build looked at: ``("label", namespace, key, value)``, ``("pods", namespace)``,
``("named", source, name)``,
``("object", source, namespace, name)`` or ``("owned", source, uid)``."""

PODS_SOURCE = "pods"
"""The source name that stands for the Pods themselves."""


class World:
    """Owned by one task. ``sources`` are the names of the platform's sources; what nobody added is observed absent."""

    def __init__(self, sources: Iterable[str] = ()) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._labels: dict[str, dict[tuple[str, str], dict[str, Pod]]] = {}
        names = tuple(sources)
        self._objects: dict[str, dict[tuple[str, str], Document]] = {name: {} for name in names}
        self._owned: dict[str, dict[str, dict[str, Document]]] = {name: {} for name in names}
        self.faults: dict[tuple[str, str], SourceFault] = {}
        """By source name and namespace (empty: all of them): what cannot be read."""

    def put_pod(self, pod: Pod) -> None:
        """Add a Pod, or replace it by its UID."""
        self.remove_pod(pod)
        self._pods.setdefault(pod.namespace, {})[pod.uid] = pod
        for key, index in self._labels.items():
            _enter(index, key, pod)

    def remove_pod(self, pod: Pod) -> None:
        """Forget a Pod of this UID, whatever it looked like."""
        before = self._pods.get(pod.namespace, {}).pop(pod.uid, None)
        if before is None:
            return
        for key, index in self._labels.items():
            for name, value in before.labels:
                if name == key:
                    index[before.namespace, value].pop(before.uid, None)

    def pods(self) -> Iterator[Pod]:
        """Every Pod."""
        for held in self._pods.values():
            yield from held.values()

    def in_namespace(self, namespace: str) -> Sequence[Pod]:
        """The Pods of a namespace."""
        return tuple(self._pods.get(namespace, {}).values())

    def labelled(self, namespace: str, key: str, value: str) -> Sequence[Pod]:
        """The Pods of a namespace with this label. The index of a key is made when it is first asked for."""
        return tuple(self._index(key).get((namespace, value), {}).values())

    def count(self, namespace: str, key: str, value: str) -> int:
        """How many Pods of a namespace have this label."""
        return len(self._index(key).get((namespace, value), {}))

    def _index(self, key: str) -> dict[tuple[str, str], dict[str, Pod]]:
        index = self._labels.get(key)
        if index is None:
            index = self._labels[key] = {}
            for pod in self.pods():
                _enter(index, key, pod)
        return index

    def with_pods(self, pods: Iterable[Pod]) -> World:
        """The same objects and faults with only these Pods, which are then the whole of them."""
        other = World()
        other._objects, other._owned = self._objects, self._owned
        other.faults = {key: fault for key, fault in self.faults.items() if key[0] != PODS_SOURCE}
        for pod in pods:
            other.put_pod(pod)
        return other

    def put(self, source: str, document: Document) -> None:
        """Add an object of a source, or replace it."""
        self.remove(source, document)
        self._objects[source][document.namespace, document.name] = document
        for uid in owner_uids(document):
            self._owned[source].setdefault(uid, {})[document.uid] = document

    def remove(self, source: str, document: Document) -> None:
        """Forget the object of this name."""
        before = self._objects[source].pop((document.namespace, document.name), None)
        for uid in owner_uids(before) if before is not None else ():
            held = self._owned[source].get(uid, {})
            held.pop(before.uid if before is not None else "", None)
            if not held:
                self._owned[source].pop(uid, None)

    def fault(self, source: str, namespace: str) -> SourceFault | None:
        """Why a source cannot be read in a namespace, ``None`` when it can."""
        return self.faults.get((source, "")) or self.faults.get((source, namespace))

    def object(self, source: str, namespace: str, name: str) -> Document | None:
        """The object of this name."""
        return self._objects[source].get((namespace, name))

    def named(self, source: str, name: str) -> dict[str, Document]:
        """The objects of this name by their namespace, which is empty for those that lie in none."""
        return {place: each for (place, found), each in self._objects[source].items() if found == name}

    def unreadable(self, source: str) -> bool:
        """Whether a source cannot be read in some namespace."""
        return any(found == source for found, _ in self.faults)

    def owned(self, source: str, uid: str) -> Sequence[Document]:
        """The objects with an owner of this UID."""
        return tuple(self._owned[source].get(uid, {}).values())


class Reader:
    """One build's view of a world. ``needed`` grows with what is asked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.needed: set[Need] = set()

    def labelled(self, namespace: str, key: str, value: str) -> Sequence[Pod]:
        """As `World.labelled`."""
        self.needed.add(("label", namespace, key, value))
        return self._world.labelled(namespace, key, value)

    def fewest(self, namespace: str, labels: Sequence[tuple[str, str]]) -> Sequence[Pod]:
        """The Pods with the label of these that the fewest have. Whoever has all of them is among those, now and later."""
        key, value = min(labels, key=lambda pair: self._world.count(namespace, *pair))
        return self.labelled(namespace, key, value)

    def in_namespace(self, namespace: str) -> Sequence[Pod]:
        """As `World.in_namespace`."""
        self.needed.add(("pods", namespace))
        return self._world.in_namespace(namespace)

    def object(self, source: str, namespace: str, name: str) -> Document | Unset | None:
        """An object; UNSET when nobody could look."""
        self.needed.add(("object", source, namespace, name))
        found = self._world.object(source, namespace, name)
        return msgspec.UNSET if found is None and self._world.fault(source, namespace) is not None else found

    def named(self, source: str, namespace: str, name: str) -> Document | Unset | None:
        """An object of this name: in this namespace, in none, else the only one anywhere.

        UNSET when several have it elsewhere, or when it is not here and nobody could look everywhere.
        """
        self.needed.add(("named", source, name))
        held = self._world.named(source, name)
        for place in (namespace, ""):
            if place in held:
                return held[place]
        if len(held) > 1 or self._world.unreadable(source):
            return msgspec.UNSET
        return next(iter(held.values()), None)

    def owned(self, source: str, namespace: str, uids: Iterable[str]) -> tuple[Document, ...] | Unset:
        """The objects with one of these owners, each once, by name; UNSET when nobody could look."""
        found: dict[str, Document] = {}
        for uid in uids:
            self.needed.add(("owned", source, uid))
            found |= {each.uid: each for each in self._world.owned(source, uid)}
        if self._world.fault(source, namespace) is not None:
            return msgspec.UNSET
        return tuple(sorted(found.values(), key=lambda each: each.name))

    def complete(self, namespace: str) -> bool:
        """Whether a Pod that is not held does not exist."""
        return self._world.fault(PODS_SOURCE, namespace) is None

    def faults(self, namespace: str) -> tuple[SourceFault, ...]:
        """What cannot be read where the deployment is, each kind once."""
        found = {fault.kind: fault for (_, place), fault in self._world.faults.items() if place in {"", namespace}}
        return tuple(found[kind] for kind in sorted(found))


def pod_needs(pod: Pod) -> Iterator[Need]:
    """Whom a change of this Pod concerns."""
    yield ("pods", pod.namespace)
    for key, value in pod.labels:
        yield ("label", pod.namespace, key, value)


def object_needs(source: str, document: Document) -> Iterator[Need]:
    """Whom a change of this object concerns."""
    yield ("object", source, document.namespace, document.name)
    yield ("named", source, document.name)
    for uid in owner_uids(document):
        yield ("owned", source, uid)


def owner_uids(document: Document) -> tuple[str, ...]:
    """The UIDs of an object's owners."""
    owners = document.body.get("metadata", {}).get("ownerReferences") or ()
    return tuple(each["uid"] for each in owners if isinstance(each, dict) and isinstance(each.get("uid"), str))


def _enter(index: dict[tuple[str, str], dict[str, Pod]], key: str, pod: Pod) -> None:
    for name, value in pod.labels:
        if name == key:
            index.setdefault((pod.namespace, value), {})[pod.uid] = pod
