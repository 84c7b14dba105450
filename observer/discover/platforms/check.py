"""Relations inside a platform document that its shape cannot say: paths, patterns, names of sources, one source of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from observer.discover.platforms.document import PlatformDocument, PodRule, RoleRule
from observer.discover.platforms.document_facts import QuotaRule, StatusRule
from observer.discover.platforms.paths import BadPathError, check_template, parse, pattern
from observer.discover.platforms.readers import SOURCES
from observer.discover.platforms.values import Count, Take
from observer.yamldoc.decode import Tracker
from observer.yamldoc.faults import did_you_mean, shown

_SOURCES = ("field", "item", "label", "annotation", "image", "argument", "port", "owner", "fixed")
_PATH_KEYS = {
    "field",
    "names",
    "item",
    "each",
    "command",
    "arguments",
    "environment",
    "selector",
    "ranks",
    "path",
    "conditions",
    "observed_generation",
    "phase",
    "message",
    "retirement",
    "contract",
    "resolved",
    "domain",
    "active",
    "flavors",
    "observed",
}
"""Fields of the rules that hold paths, by their names in the structs."""


def check(document: PlatformDocument, tracker: Tracker) -> None:
    """Record every contradiction in ``tracker``."""
    for owner in _structs(document):
        _paths(owner, tracker)
        if isinstance(owner, Take):
            _take(owner, tracker)
        elif isinstance(owner, PodRule):
            _labels(owner, "labels", owner.labels, tracker)
        elif isinstance(owner, RoleRule):
            _role(owner, tracker)
        elif isinstance(owner, QuotaRule) and not owner.reserved:
            tracker.fault(owner, "reserved", "nothing", "a condition type")
    _target(document, tracker)
    _names(document, tracker)


def _structs(value: object) -> Iterator[msgspec.Struct]:
    """Every struct of a document, depth first."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from _structs(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _structs(each)


def _said(owner: msgspec.Struct, key: str, tracker: Tracker, attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except BadPathError as error:
        tracker.fault(
            owner,
            key,
            str(error),
            "a path such as `spec.roles[name=x].kind`" if "path" in str(error) else "one that can be used",
        )


def _paths(owner: msgspec.Struct, tracker: Tracker) -> None:
    for name, encoded in zip(owner.__struct_fields__, owner.__struct_encode_fields__, strict=True):
        value = getattr(owner, name)
        if name in _PATH_KEYS and isinstance(value, str):
            _said(owner, encoded, tracker, partial(parse, value))
            _said(owner, encoded, tracker, partial(check_template, value))
    if isinstance(owner, StatusRule):
        for key, path in owner.words:
            _said(owner, f"words.{key}", tracker, partial(parse, path))


def _take(take: Take, tracker: Tracker) -> None:
    given = [name for name in _SOURCES if getattr(take, name) not in {None, False}]
    if len(given) != 1:
        tracker.fault(
            take, given[1] if given else "", " and ".join(given) or "no source", f"one of {', '.join(_SOURCES)}"
        )
    if take.pattern is not None:
        _said(take, "pattern", tracker, partial(pattern, take.pattern))
    if take.fixed is not None:
        _said(take, "fixed", tracker, partial(check_template, take.fixed))
    if take.only_mapped and not take.map:
        tracker.fault(take, "onlyMapped", "true without `map`", "a `map`")


def _labels(owner: msgspec.Struct, key: str, labels: tuple[tuple[str, str], ...], tracker: Tracker) -> None:
    for name, value in labels:
        _said(owner, f"{key}.{name}", tracker, partial(check_template, value))


def _role(role: RoleRule, tracker: Tracker) -> None:
    _labels(role, "labels", role.labels, tracker)
    _labels(role, "ancillary", role.ancillary, tracker)
    if role.each is not None and role.each_label is not None:
        tracker.fault(role, "eachLabel", "`eachLabel` beside `each`", "one of the two")
    if role.each_label is None and not role.name:
        tracker.fault(role, "name", "nothing", "a name, as `{fixed: engine}`")
    for name in ("desired", "size"):
        count = getattr(role, name)
        if isinstance(count, Count) and not count.value:
            tracker.fault(count, "value", "an empty list", "at least one source")


def _target(document: PlatformDocument, tracker: Tracker) -> None:
    target = document.target
    named = [name for name in ("version", "kind", "plural") if getattr(target, name)]
    if target.group_by and (named or target.group):
        tracker.fault(target, "groupBy", "`groupBy` beside an object's names", "one of the two")
    if not target.group_by:
        for name in {"version", "kind", "plural"} - set(named):
            tracker.fault(target, name, "nothing", "the object's names, or `groupBy`")
    if target.group_by and (document.pods.owner or document.pods.selector):
        tracker.fault(document.pods, "owner", "an owner or a selector of a target that is no object", "neither")
    rules = [] if target.group_by else [document.pods]
    rules += [document.router.pods] if document.router is not None else []
    for rule in rules:
        if not (rule.labels or rule.through or rule.selector or rule.selector_of):
            tracker.fault(rule, "labels", "nothing", "`labels` or a `selector`")


def _names(document: PlatformDocument, tracker: Tracker) -> None:
    known: dict[str, str] = {}
    kinds = {source.kind for source in document.sources}
    for source in document.sources:
        if source.name in known:
            tracker.fault(source, "name", f"the source {shown(source.name)} a second time", "each source once")
        known[source.name] = source.kind
    _reader(document, known, tracker)
    for owner in _structs(document):
        _source(owner, known, tracker)
    for rule in (document.pods, *((document.router.pods,) if document.router is not None else ())):
        _owners(rule, document.target.kind, kinds, tracker)


def _owners(rule: PodRule, target: str, kinds: set[str], tracker: Tracker) -> None:
    """The chains of owners: kinds that are read, and the target's at the end."""
    for kind in rule.owner[:-1]:
        if kind not in kinds:
            tracker.fault(
                rule, "owner", shown(kind), f"a kind of `sources`: {', '.join(sorted(kinds)) or 'none is declared'}"
            )
    if rule.owner and rule.owner[-1] != target:
        tracker.fault(rule, "owner", shown(rule.owner[-1]), f"the target's kind {target} at the end")
    for chain in rule.other_owners:
        *steps, last = chain.split("/")
        if last != target or not set(steps) <= kinds:
            wanted = f"kinds of `sources` and {target} at the end, as `ReplicaSet/{target}`"
            tracker.fault(rule, "otherOwners", shown(chain), wanted)


def _reader(document: PlatformDocument, known: dict[str, str], tracker: Tracker) -> None:
    """A reader of records that exists, and the source that it looks into."""
    reader = document.facts.records
    if reader and SOURCES.get(reader) not in known:
        wanted = (
            f"the source {shown(SOURCES[reader])} declared" if reader in SOURCES else f"one of {', '.join(SOURCES)}"
        )
        tracker.fault(document.facts, "records", shown(reader), wanted)


def _source(owner: msgspec.Struct, known: dict[str, str], tracker: Tracker) -> None:
    name = getattr(owner, "source", None)
    if isinstance(name, str) and name not in known:
        tracker.fault(
            owner, "source", shown(name), f"one of {', '.join(known) or 'none declared'}", did_you_mean(name, known)
        )
