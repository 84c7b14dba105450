"""Facts from objects that the target refers to, or that refer to its Pods: binding, quota, weights, the router's object."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import RouterRule
from observer.discover.platforms.document_facts import (
    BindingRule,
    ObjectRule,
    OwnedCount,
    PoolRule,
    QuotaRule,
    ScalerRule,
    UrlRule,
    WeightsRule,
    WorkloadRule,
)
from observer.discover.platforms.select import controller
from observer.discover.platforms.taking import Scope, text
from observer.discover.platforms.world import Reader, owner_uids
from observer.kube.records import Document
from router_contract.platform_facts import (
    BindingFact,
    PoolFact,
    RouterObjectsFact,
    ScalerFact,
    Unset,
    WeightsFact,
    WorkloadFact,
)
from router_contract.platform_words import UrlFact
from router_contract.targets import Ready, Role, RouterDeclaration

MAX_URLS = 64
"""Most published URLs of one deployment."""


class Objects:
    """Looks up objects for one deployment. ``namespaced`` says of each source whether its objects lie in namespaces."""

    def __init__(self, reader: Reader, target: Document, namespaced: Mapping[str, bool]) -> None:
        self._reader = reader
        self._target = target
        self._namespaced = namespaced

    def _named(self, source: str, name: str) -> Document | Unset | None:
        namespace = self._target.namespace if self._namespaced[source] else ""
        return self._reader.object(source, namespace, name)

    def _referred(self, rule: ObjectRule, scope: Scope) -> tuple[str, Document | Unset | None]:
        """The name referred to, empty for none, and the object."""
        name = text(rule.name, scope) or ""
        return name, self._named(rule.source, name) if name else None

    def binding(self, rule: BindingRule | None, scope: Scope) -> BindingFact | Unset | None:
        """The cache binding, ``None`` when the referenced one does not exist (or none is referred to)."""
        if rule is None:
            return msgspec.UNSET
        name, found = self._referred(rule, scope)
        if found is None or isinstance(found, msgspec.UnsetType):
            return found
        return BindingFact(
            name=name,
            ready=_fits(found.body, rule.ready),
            deleting=_deleting(found),
            domain_read=rule.domain is None or paths.first(found.body, rule.domain) is not None,
        )

    def pool(self, rule: PoolRule | None, scope: Scope) -> PoolFact | Unset | None:
        """The attached cache pool, ``None`` when the target names none. It may lie in another namespace, or in none."""
        if rule is None:
            return msgspec.UNSET
        name = text(rule.name, scope) or ""
        found = self._reader.named(rule.source, self._target.namespace, name) if name else None
        if isinstance(found, msgspec.UnsetType):
            return found
        if not name or found is None:
            return PoolFact(name=name, found=False) if name else None
        return PoolFact(name=name, found=True, endpoint=paths.as_text(paths.first(found.body, rule.path)) or None)

    def scaler(self, rule: ScalerRule | None) -> ScalerFact | Unset | None:
        """Who owns the replica count, ``None`` when nothing says so, and whether an object of the name is there."""
        if rule is None:
            return msgspec.UNSET
        held = self._target.body.get("metadata", {}).get("annotations") or {}
        binding, decision = held.get(rule.binding), held.get(rule.decision)
        if binding is None and decision is None:
            return None
        fact = ScalerFact(binding=str(binding or ""), decision=str(decision or ""), name=named_in(str(binding or "")))
        if rule.source is None or not fact.name:
            return fact
        found = self._reader.named(rule.source, self._target.namespace, fact.name)
        there = msgspec.UNSET if isinstance(found, msgspec.UnsetType) else found is not None
        return msgspec.structs.replace(fact, found=there)

    def weights(self, rule: WeightsRule | None, scope: Scope, roles: Sequence[Role]) -> WeightsFact | Unset | None:
        """The model artifact, ``None`` when none is referred to. That Pods have the weights shows in their containers."""
        if rule is None:
            return msgspec.UNSET
        name, found = self._referred(rule, scope)
        if not name:
            return None
        if isinstance(found, msgspec.UnsetType):
            return msgspec.UNSET
        delivery = text(rule.delivery, scope)
        return WeightsFact(
            found=found is not None,
            resolved=found is not None and paths.first(found.body, rule.resolved) is not None,
            delivery=delivery or "Mount",
            pods_have_them=_have(roles, delivery),
        )

    def workloads(self, rule: QuotaRule | None, roles: Sequence[Role]) -> tuple[WorkloadFact, ...] | Unset:
        """The quota objects of the deployment's Pods. Role and ordinal are those of the Pods, never parsed from names."""
        if rule is None:
            return msgspec.UNSET
        places = {
            member.uid: (role.name, replica.ordinal)
            for role in roles
            for replica in role.replicas
            for member in replica.members
        }
        found = self._reader.owned(rule.source, self._target.namespace, sorted(places))
        if isinstance(found, msgspec.UnsetType):
            return msgspec.UNSET
        return tuple(_workload(rule, each, places) for each in found)

    def urls(self, rule: UrlRule | None) -> tuple[UrlFact, ...]:
        """The URLs that the target's objects publish; none where nobody could look."""
        found = self.owned(rule.source) if rule is not None else ()
        if rule is None or isinstance(found, msgspec.UnsetType):
            return ()
        named = ((each.name, paths.as_text(paths.first(each.body, rule.url))) for each in found[:MAX_URLS])
        return tuple(UrlFact(name=name, url=url, path=rule.path) for name, url in named if url)

    def owned(self, source: str) -> tuple[Document, ...] | Unset:
        """The objects of a source that the target owns; UNSET when nobody could look."""
        namespace = self._target.namespace if self._namespaced[source] else ""
        return self._reader.owned(source, namespace, (self._target.uid,))

    def counted(self, rules: Sequence[OwnedCount]) -> int | None:
        """The numbers in the target's own objects added; ``None`` where there is none, or one could not be read."""
        numbers: list[int | None] = []
        for rule in rules:
            found = self.owned(rule.source)
            if isinstance(found, msgspec.UnsetType):
                return None
            numbers += [paths.whole(paths.first(each.body, rule.path)) for each in found]
        return None if not numbers or None in numbers else sum(number or 0 for number in numbers)

    def router(
        self, rule: RouterRule | None, scope: Scope, router: RouterDeclaration | None
    ) -> RouterObjectsFact | Unset | None:
        """The object that keeps the router's Pods; one of the same name that is somebody else's is none."""
        if rule is None or rule.workload is None or router is None:
            return msgspec.UNSET
        found = self._named(rule.workload.source, text(rule.workload.name, scope) or "")
        if isinstance(found, msgspec.UnsetType):
            return msgspec.UNSET
        if found is None or controller(found)[2] != self._target.uid:
            return RouterObjectsFact(deployed=False)
        return RouterObjectsFact(ready=_ready(found.body, rule.workload))


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IDENTIFIER = re.compile(r"[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+")
"""UIDs, digests and numbers: they have the form of a name and are none."""


def named_in(said: str) -> str:
    """The name of an object in an annotation: of JSON its ``name``, else a plain name; empty where it cannot be told."""
    name: object = said.strip()
    if said.lstrip().startswith("{"):
        try:
            name = msgspec.json.decode(said, type=dict[str, Any]).get("name")
        except (msgspec.MsgspecError, RecursionError):
            return ""
    fits = isinstance(name, str) and _NAME.fullmatch(name) and not _IDENTIFIER.fullmatch(name)
    return str(name) if fits else ""


def _ready(body: Mapping[str, Any], rule: WorkloadRule) -> int | None:
    """Ready replicas of an object. Its writer leaves a 0 out, and says nothing at all before it has looked."""
    told = paths.first(body, rule.ready)
    if told is None:
        return None if paths.first(body, rule.observed) is None else 0
    number = paths.whole(told)
    return None if number is None or number < 0 else number


def _deleting(document: Document) -> bool:
    return paths.first(document.body, "metadata.deletionTimestamp") is not None


def _have(roles: Sequence[Role], delivery: str | None) -> bool | None:
    """Whether the Pods that run have the weights: a mounted claim before any container starts, a download before Ready.

    A Pod that leaves is not ready for another reason, and one whose readiness nobody tells says nothing.
    """
    members = (member for role in roles for member in role.members())
    running = [member for member in members if member.started and not member.ancillary and not member.terminating]
    if not running or delivery is None:
        return None
    if delivery == "Mount":
        return True
    states = {member.ready for member in running}
    return False if Ready.FALSE in states else None if Ready.UNKNOWN in states else True


def _fits(body: Mapping[str, Any], wanted: Sequence[tuple[str, str]]) -> bool | None:
    """Whether every path has one of its values (`a|b`); ``None`` where one tells nothing yet and none has another."""
    told = [(paths.as_text(paths.first(body, path)), words.split("|")) for path, words in wanted]
    if any(found is not None and found not in words for found, words in told):
        return False
    return None if any(found is None for found, _ in told) else True


def _workload(rule: QuotaRule, found: Document, places: Mapping[str, tuple[str, int | None]]) -> WorkloadFact:
    role, ordinal = next(places[uid] for uid in owner_uids(found) if uid in places)
    conditions = paths.every(found.body, "status.conditions[status=True]")
    types = {str(each.get("type")) for each in conditions}
    reasons = {f"{each.get('type')}/{each.get('reason')}" for each in conditions}
    return WorkloadFact(
        role=role,
        ordinal=ordinal,
        reserved=rule.reserved in types,
        preempted=any(word in types or word in reasons for word in rule.preempted),
        deactivated=rule.active is not None and paths.first(found.body, rule.active) is False,
        flavors=_flavors(rule, found.body),
    )


def _flavors(rule: QuotaRule, body: Mapping[str, Any]) -> tuple[str, ...]:
    if rule.flavors is None:
        return ()
    found = set()
    for mapping in paths.every(body, rule.flavors):
        if isinstance(mapping, Mapping):
            found |= {str(flavor) for resource, flavor in mapping.items() if resource not in rule.common}
    return tuple(sorted(found))
