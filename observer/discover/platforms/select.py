"""Which Pods belong to a deployment: labels, the chain of owners, and the reason for each that was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import PodRule, ThroughRule
from observer.discover.platforms.load import Platform
from observer.discover.platforms.taking import Scope, label, text
from observer.discover.platforms.world import Reader
from observer.kube.records import Document, Pairs, Pod
from router_contract.platform_facts import Unset

IGNORE = "observer.modeldeployment.io/ignore"
"""Annotation of a target or Pod that is not to be watched, when it is `true`."""

_NOTHING = ("\0",)
"""Values that no label can have."""

_ENDED = frozenset({"Succeeded", "Failed"})


class Left(msgspec.Struct, frozen=True):
    """A Pod that was not taken, and why. ``ended`` marks one that belongs and whose containers will not run again."""

    pod: str
    why: str
    ended: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """What one label must be: one of ``values`` or of the form of one of ``patterns``, or any value, or absent."""

    key: str
    values: tuple[str, ...] = ()
    absent: bool = False
    unless: bool = False
    or_absent: bool = False
    patterns: tuple[str, ...] = ()

    def fits(self, pairs: Pairs) -> bool:
        """Whether labels are as wanted."""
        value = label(pairs, self.key)
        if self.absent:
            return value is None
        if self.unless:
            return value not in self.values
        if value is None:
            return self.or_absent
        if self.patterns and any(fnmatchcase(value, each) for each in self.patterns):
            return True
        return value in self.values if self.values or self.patterns else True


def wanted(labels: Iterable[tuple[str, str]], fill: Callable[[str], str]) -> tuple[Wanted, ...]:
    """The requirements of a mapping of labels: `a|b`, `*`, `a-*` and `!` are as in the document."""
    found = []
    for key, value in labels:
        if value in {"*", "!"}:
            found.append(Wanted(fill(key), absent=value == "!"))
        else:
            pieces = value.split("|")
            filled = tuple(fill(each) for each in pieces if each != "!")
            values, forms = (tuple(each for each in filled if ("*" in each) is form) for form in (False, True))
            found.append(Wanted(fill(key), values, or_absent="!" in pieces, patterns=forms))
    return tuple(found)


def fits(pairs: Pairs, requirements: Iterable[Wanted]) -> bool:
    """Whether labels are as wanted in everything."""
    return all(each.fits(pairs) for each in requirements)


def _of_selector(selector: Mapping[str, Any]) -> tuple[Wanted, ...]:
    """A LabelSelector, or a plain mapping of labels. What we do not understand of it fits nothing."""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return _of_labels(selector)
    expressions = selector.get("matchExpressions") or ()
    listed = expressions if isinstance(expressions, list | tuple) else ({},)
    return (*_of_labels(selector.get("matchLabels") or {}), *(_of_expression(each) for each in listed))


def _of_labels(labels: Any) -> tuple[Wanted, ...]:
    if not isinstance(labels, Mapping):
        return (Wanted("", _NOTHING),)
    return tuple(Wanted(key, (value,) if isinstance(value, str) else _NOTHING) for key, value in labels.items())


def _of_expression(found: Any) -> Wanted:
    if not isinstance(found, Mapping):
        return Wanted("", _NOTHING)
    key, listed = str(found.get("key")), found.get("values")
    values = tuple(map(str, listed)) if isinstance(listed, list | tuple) else ()
    shapes = {
        "In": Wanted(key, values or _NOTHING),
        "NotIn": Wanted(key, values, unless=True) if values else Wanted(key, _NOTHING),
        "Exists": Wanted(key),
        "DoesNotExist": Wanted(key, absent=True),
    }
    return shapes.get(str(found.get("operator")), Wanted(key, _NOTHING))


class Selector:
    """Selects Pods for one target."""

    def __init__(self, platform: Platform, target: Document, reader: Reader) -> None:
        self._platform = platform
        self._target = target
        self._reader = reader
        self._kinds = {source.kind: source.name for source in platform.document.sources}
        self._namespaced = {source.name: source.namespaced for source in platform.document.sources}

    def requirements(self, rule: PodRule, scope: Scope) -> tuple[Wanted, ...]:
        """Everything that a rule wants of a Pod's labels; nothing when a selector is absent or empty: no Pod then."""
        referred = self._referred(rule, scope)
        if referred is not None:
            return referred
        found = wanted(rule.labels, scope.filled)
        if rule.through is not None:
            values = tuple(
                rule.through.value.replace("{object}", each.name) for each in self.between(rule.through) or ()
            )
            if not values:
                return ()
            found = (*found, Wanted(rule.through.label, values))
        for selector in self._selectors(rule, scope):
            more = _of_selector(selector) if isinstance(selector, Mapping) else ()
            if not more:
                return ()
            found = (*found, *more)
        return found

    def _referred(self, rule: PodRule, scope: Scope) -> tuple[Wanted, ...] | None:
        """What the selectors of named objects want together; ``None`` where none is named, nothing where none is read."""
        named = [(each, name) for each in rule.referred for name in paths.every(scope.body, each.names, scope.holes)]
        if not named:
            return None
        selectors: list[dict[str, str]] = []
        for each, name in named:
            namespace = self._target.namespace if self._namespaced[each.source] else ""
            held = self._reader.object(each.source, namespace, str(name))
            if isinstance(held, Document):
                written = paths.as_text(paths.first(held.body, each.path)) or ""
                selectors.append(dict(pair.split("=", 1) for pair in written.split(",") if "=" in pair))
        known = [each for each in selectors if each]
        keys = set(known[0]).intersection(*known[1:]) if known else set()
        return tuple(Wanted(key, tuple(dict.fromkeys(each[key] for each in known))) for key in sorted(keys))

    def _selectors(self, rule: PodRule, scope: Scope) -> Iterator[Any]:
        if rule.selector is not None:
            yield scope.field(rule.selector)
        other = rule.selector_of
        if other is not None:
            name = text(other.name, scope)
            namespace = self._target.namespace if self._namespaced[other.source] else ""
            held = self._reader.object(other.source, namespace, name) if name else None
            yield paths.first(held.body, other.path) if isinstance(held, Document) else None

    def between(self, rule: ThroughRule) -> tuple[Document, ...] | Unset:
        """The objects between the target and its Pods; UNSET when nobody could look."""
        namespace = self._target.namespace if self._namespaced[rule.source] else ""
        return self._reader.owned(rule.source, namespace, (self._target.uid,))

    def namespace(self, rule: PodRule, scope: Scope) -> str:
        """Where the Pods of a rule are."""
        return text(rule.namespace, scope) or self._target.namespace

    def elsewhere(self, rule: PodRule, pods: Sequence[Pod]) -> tuple[Document, ...]:
        """The objects between the target and its Pods of which none of ``pods`` is: those have their Pods elsewhere."""
        through = rule.through
        found = self.between(through) if through is not None else ()
        if through is None or isinstance(found, msgspec.UnsetType):
            return ()
        here = {label(pod.labels, through.label) for pod in pods}
        return tuple(each for each in found if through.value.replace("{object}", each.name) not in here)

    def select(self, rule: PodRule, scope: Scope, left: list[Left]) -> tuple[Pod, ...]:
        """The Pods that a rule names, by name. What has the labels and is not taken goes to ``left``."""
        wants = self.requirements(rule, scope)
        if not wants:
            return ()
        namespace = self.namespace(rule, scope)
        taken = self._taken(rule, (pod for pod in self._candidates(wants, namespace) if fits(pod.labels, wants)), left)
        if rule.companions is not None:
            held, key = {pod.uid for pod in taken}, rule.companions
            values = sorted({value for pod in taken if (value := label(pod.labels, key))})
            more = (pod for value in values for pod in self._reader.labelled(namespace, key, value))
            taken += self._taken(rule, (pod for pod in more if pod.uid not in held), left)
        return tuple(sorted(taken, key=lambda pod: pod.name))

    def _taken(self, rule: PodRule, pods: Iterable[Pod], left: list[Left]) -> list[Pod]:
        """Those of Pods with the right labels that belong; the others go to ``left``."""
        taken = []
        for pod in pods:
            why = _ignored(pod) or self._owners_fault(rule, pod)
            if why:
                left.append(Left(pod.name, why))
            elif pod.phase in _ENDED:
                left.append(Left(pod.name, f"it ended: phase {pod.phase}", ended=True))
            else:
                taken.append(pod)
        return taken

    def _candidates(self, wants: Sequence[Wanted], namespace: str) -> Sequence[Pod]:
        """As few Pods as one index gives; all of the namespace where no label is wanted exactly."""
        exact = [
            (each.key, each.values[0])
            for each in wants
            if len(each.values) == 1 and not (each.unless or each.or_absent or each.patterns)
        ]
        return self._reader.fewest(namespace, exact) if exact else self._reader.in_namespace(namespace)

    def _owners_fault(self, rule: PodRule, pod: Pod) -> str:
        """Why no chain of owners leads from a Pod to the target, by the first of them; nothing when one does."""
        why = self._owner_fault(rule.owner, pod)
        others = (tuple(chain.split("/")) for chain in rule.other_owners)
        return "" if why and any(not self._owner_fault(chain, pod) for chain in others) else why

    def _owner_fault(self, chain: tuple[str, ...], pod: Pod) -> str:
        """Why a Pod is not the target's by its controllers, or nothing. A step that nobody may read is believed."""
        if not chain:
            return ""
        owner = pod.owner
        child = "it"
        kind, name, uid = ("", "", "") if owner is None else (owner.kind, owner.name, owner.uid)
        for place, wanted_kind in enumerate(chain):
            if kind != wanted_kind:
                found = f"a {kind} {name}" if kind else "nothing"
                return f"{child} is controlled by {found}, wanted a {wanted_kind}"
            if place == len(chain) - 1:
                break
            source = self._kinds[wanted_kind]
            found_object = self._reader.object(source, self._target.namespace if self._namespaced[source] else "", name)
            if isinstance(found_object, msgspec.UnsetType):
                return ""
            if found_object is None or found_object.uid != uid:
                return f"its {wanted_kind} {name} does not exist" + (" any more" if found_object is not None else "")
            child = f"its {wanted_kind} {name}"
            kind, name, uid = controller(found_object)
        if uid != self._target.uid:
            return f"{child} is controlled by another {kind} {name} (UID {uid})"
        return ""


def controller(document: Document) -> tuple[str, str, str]:
    """Kind, name and UID of an object's controller, empty without one."""
    owners = paths.every(document.body, "metadata.ownerReferences[controller=true]")
    if not owners:
        return "", "", ""
    return tuple(str(owners[0].get(key, "")) for key in ("kind", "name", "uid"))  # type: ignore[return-value]  # three keys


def _ignored(pod: Pod) -> str:
    return f"its annotation {IGNORE} says so" if label(pod.annotations, IGNORE) == "true" else ""
