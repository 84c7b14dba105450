"""One platform in a cluster: its feeds into a world, which deployments a change concerns, and what was found of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from observer.clock import Clock
from observer.discover.feeds import Feed, Feeds, Wanted
from observer.discover.platforms.document import PodRule, SourceRule
from observer.discover.platforms.engine import Found, discover, group_of, watched
from observer.discover.platforms.load import Platform
from observer.discover.platforms.members import Refusal
from observer.discover.platforms.world import PODS_SOURCE, Need, World, object_needs, pod_needs
from observer.discover.proving import prove
from observer.kube.cache import Change, ChangeKind
from observer.kube.client import ApiClient
from observer.kube.records import Document, Pod
from observer.kube.resources import PODS, Resource
from router_contract.discovered import ObjectReference
from router_contract.judging import MembershipProof
from router_contract.platform_facts import OperatorStatus, SourceFault

Key = tuple[str, str]
"""Namespace and name of a target."""

TARGET_SOURCE = "target"
"""The source name that stands for the targets themselves."""


class Followed:
    """The state of one platform. Owned by one task; `rebuild` is the only costly part."""

    def __init__(
        self,
        platform: Platform,
        feeds: Feeds,
        *,
        namespaces: Sequence[str],
        label_selector: str,
        enabled: Sequence[str] | None,
        on_object: Callable[[ObjectReference], None],
        on_dirty: Callable[[], None],
    ) -> None:
        self.platform = platform
        self.found: dict[Key, Found] = {}
        self.conditions_map: bool | None = None
        self.dirty: set[Key] = set()
        self.gone = False
        self._feeds = feeds
        self._places: Sequence[str | None] = list(namespaces) or [None]
        self._label_selector = label_selector
        self._enabled = enabled
        self._on_object = on_object
        self._on_dirty = on_dirty
        self._world = World(source.name for source in platform.document.sources)
        self._targets: dict[Key, Document] = {}
        self._groups: dict[Key, set[str]] = {}
        self._interest: dict[Need, set[Key]] = {}
        self._own: list[tuple[str, str, Feed]] = []
        self._grouped = bool(platform.document.target.group_by)
        self._opened = False

    def start(self) -> None:
        """Begin to follow the targets; the rest follows once there can be any."""
        if self._grouped:
            self.open()
            return
        for place in self._places:
            selector = _joined(self.platform.document.target.label_selector, self._label_selector)
            wanted = Wanted(resource=self.platform.target, namespace=place, label_selector=selector)
            self._hear(TARGET_SOURCE, place, self._feeds.open(wanted), self._target_changed)

    def open(self) -> None:
        """Follow Pods and sources, once there is a target anywhere: a platform that nobody uses reads nothing more."""
        if self._opened or not (self._grouped or self._targets):
            return
        self._opened = True
        selector = _joined(pod_selector(self.platform), self._label_selector if self._grouped else "")
        for place in self._places:
            wanted = Wanted(resource=PODS, namespace=place, label_selector=selector)
            self._hear(PODS_SOURCE, place, self._feeds.open(wanted), self._pod_changed)
        for source in self.platform.document.sources:
            if self._enabled is None or source.name in self._enabled:
                self._follow(source)

    def _follow(self, source: SourceRule) -> None:
        resource = Resource(
            group=source.group,
            version=source.version,
            plural=source.plural,
            kind=source.kind,
            namespaced=source.namespaced,
        )
        for place in self._places if source.namespaced else [None]:
            keep = self.platform.document.kept(source)
            wanted = Wanted(resource=resource, namespace=place, label_selector=source.label_selector, keep=keep)
            self._hear(source.name, place, self._feeds.open(wanted), _SourceTold(self, source.name))

    def _hear(self, source: str, place: str | None, feed: Feed, told: Callable[[Change[Any]], None]) -> None:
        self._own.append((source, place or "", feed))
        feed.hear(told)

    @property
    def settled(self) -> bool:
        """Whether a first answer is worth giving: targets and Pods are held (or forbidden), every source was tried."""
        needed = {TARGET_SOURCE, PODS_SOURCE}
        return all(feed.settled if source in needed else feed.tried for source, _, feed in self._own)

    def look(self, now: float) -> None:
        """Take the state of the feeds over; what changed there dirties everything."""
        faults: dict[tuple[str, str], SourceFault] = {}
        for source, place, feed in self._own:
            fault = feed.fault()
            if fault is not None:
                faults[source, place] = fault
        before = self._world.faults
        if self._enabled is not None and self._opened:
            for rule in self.platform.document.sources:
                if rule.name not in self._enabled:
                    held = before.get((rule.name, ""))
                    since = held.since if held is not None else now
                    detail = f"the source {rule.name} is switched off"
                    faults[rule.name, ""] = SourceFault(kind=rule.kind, why="Forbidden", since=since, detail=detail)
        self._world.faults = faults
        if _essence(faults) != _essence(before):
            self.everything()

    def faults(self) -> Iterator[SourceFault]:
        """What cannot be read now."""
        yield from self._world.faults.values()

    def target(self, key: Key) -> Document | None:
        """The target of this name."""
        return self._targets.get(key)

    async def prove(self, client: ApiClient, clock: Clock, key: Key) -> MembershipProof | None:
        """An uncached list of a deployment's engine Pods, ``None`` when there is no such deployment."""
        target = self._targets.get(key)
        return None if target is None else await prove(client, clock, self.platform, target, self._world)

    def everything(self) -> None:
        """Build all deployments anew."""
        self.dirty |= self._targets.keys()
        self._on_dirty()

    def rebuild(self, key: Key, now: float, refusal: Refusal) -> bool:
        """Build one dirty deployment; whether anything about it changed."""
        self.dirty.discard(key)
        target = self._targets.get(key)
        before = self.found.get(key)
        if target is None:
            return False
        at = self.heard(key[0], now)
        made = discover(self.platform, target, self._world, now=at, refusal=refusal, conditions_map=self.conditions_map)
        self._needs(key, before.needed if before is not None else frozenset(), made.needed)
        self.found[key] = made
        return before is None or _content(before) != _content(made)

    def heard(self, namespace: str, now: float) -> float:
        """When the server last said anything about targets of a namespace (wall); now where no object stands for them."""
        for source, place, feed in self._own:
            if source == TARGET_SOURCE and place in {"", namespace}:
                at = feed.informer.health.heard_at
                return now if at is None else at.wall
        return now

    def refresh(self, now: float) -> None:
        """What is watched and did not change is so as of the server's last word: the operators' words are as old as that."""
        for key, found in self.found.items():
            facts = found.discovered.facts
            operator = facts.operator
            if isinstance(operator, OperatorStatus):
                operator = msgspec.structs.replace(operator, read_at=self.heard(key[0], now))
                facts = msgspec.structs.replace(facts, operator=operator)
                discovered = msgspec.structs.replace(found.discovered, facts=facts)
                self.found[key] = msgspec.structs.replace(found, discovered=discovered)

    def _needs(self, key: Key, before: frozenset[Need], after: frozenset[Need]) -> None:
        for need in before - after:
            held = self._interest.get(need)
            if held is not None:
                held.discard(key)
                if not held:
                    del self._interest[need]
        for need in after - before:
            self._interest.setdefault(need, set()).add(key)

    def concern(self, needs: Iterator[Need]) -> None:
        """Dirty whoever looked at one of these."""
        dirty = set().union(*(self._interest.get(need, ()) for need in needs))
        if dirty:
            self.dirty |= dirty
            self._on_dirty()

    def _target_changed(self, change: Change[Document]) -> None:
        record = change.record
        if change.kind is not ChangeKind.DELETED and watched(self.platform, record):
            self._add((record.namespace, record.name), record)
        else:
            self._drop((record.namespace, record.name))
        rule = self.platform.document.target
        self._on_object(
            ObjectReference(
                group=rule.group,
                version=rule.version,
                kind=rule.kind,
                plural=rule.plural,
                namespace=record.namespace,
                name=record.name,
                uid=record.uid,
            )
        )

    def _add(self, key: Key, target: Document) -> None:
        self._targets[key] = target
        self.dirty.add(key)
        self._on_dirty()

    def _drop(self, key: Key) -> None:
        self._targets.pop(key, None)
        self.dirty.discard(key)
        found = self.found.pop(key, None)
        if found is not None:
            self._needs(key, found.needed, frozenset())
            self.gone = True
            self._on_dirty()

    def _pod_changed(self, change: Change[Pod]) -> None:
        pods = [pod for pod in (change.before, change.record) if pod is not None]
        if change.kind is ChangeKind.DELETED:
            self._world.remove_pod(change.record)
        else:
            self._world.put_pod(change.record)
        if self._grouped:
            after = None if change.kind is ChangeKind.DELETED else group_of(self.platform, change.record)
            before = group_of(self.platform, pods[0])
            self._regroup(change.record.uid, before, after)
        for pod in pods:
            self.concern(pod_needs(pod))

    def _regroup(self, uid: str, before: Document | None, after: Document | None) -> None:
        """A group is there as long as one Pod of it is."""
        if after is not None:
            key = (after.namespace, after.name)
            self._groups.setdefault(key, set()).add(uid)
            if key not in self._targets:
                self._add(key, after)
        if before is not None and (after is None or before.name != after.name):
            key = (before.namespace, before.name)
            held = self._groups.get(key, set())
            held.discard(uid)
            if not held:
                self._groups.pop(key, None)
                self._drop(key)

    def source_changed(self, source: str, change: Change[Document]) -> None:
        """An object of a source came, changed or went."""
        if change.kind is ChangeKind.DELETED:
            self._world.remove(source, change.record)
        else:
            self._world.put(source, change.record)
        for each in (change.before, change.record):
            if each is not None:
                self.concern(object_needs(source, each))


class _SourceTold:
    """Hears one source."""

    def __init__(self, followed: Followed, source: str) -> None:
        self._followed = followed
        self._source = source

    def __call__(self, change: Change[Document]) -> None:
        self._followed.source_changed(self._source, change)


def pod_selector(platform: Platform) -> str:
    """What the server can be asked for: the labels that all of the platform's Pods have, with constant or any values."""
    rules: list[PodRule] = [platform.document.pods]
    if platform.document.router is not None:
        rules.append(platform.document.router.pods)
    common = set(_constant(rules[0]))
    for rule in rules[1:]:
        common &= set(_constant(rule))
    grouped = platform.document.target.group_by if len(rules) == 1 else ()
    return _joined(*(key if value == "*" else f"{key}={value}" for key, value in sorted(common)), *grouped)


def _constant(rule: PodRule) -> Iterator[tuple[str, str]]:
    known = ((key, value) for key, value in rule.labels if "{" not in key)
    return ((key, value) for key, value in known if value == "*" or not any(mark in value for mark in "{|*!"))


def _joined(*selectors: str) -> str:
    return ",".join(selector for selector in selectors if selector)


def _essence(faults: Mapping[tuple[str, str], SourceFault]) -> dict[tuple[str, str], tuple[str, float]]:
    """What of faults deployments depend on: a text that words a failure anew changes nothing."""
    return {key: (fault.why, fault.since) for key, fault in faults.items()}


def _content(found: Found) -> tuple[object, ...]:
    """What of a finding matters to others: not when it was made."""
    facts = found.discovered.facts
    operator = facts.operator
    if isinstance(operator, OperatorStatus):
        facts = msgspec.structs.replace(facts, operator=msgspec.structs.replace(operator, read_at=0.0))
    return msgspec.structs.astuple(msgspec.structs.replace(found.discovered, facts=facts))
