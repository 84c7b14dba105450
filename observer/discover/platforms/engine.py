"""Objects of one platform to what discovery yields: pure, one deployment at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import (
    PlatformDocument,
    PodRule,
    ReplicaRule,
    RouterRule,
    StatusPolicy,
    StoreRule,
)
from observer.discover.platforms.facts import facts
from observer.discover.platforms.load import Platform
from observer.discover.platforms.members import Listeners, MemberBuilder, Refusal, container_of, moment
from observer.discover.platforms.objects import Objects
from observer.discover.platforms.readers import told_by
from observer.discover.platforms.roles import RoleBuilder, Spec, specs
from observer.discover.platforms.select import IGNORE, Left, Selector, Wanted
from observer.discover.platforms.taking import Scope, count, label, present, text
from observer.discover.platforms.told import Told
from observer.discover.platforms.world import Need, Reader, World
from observer.kube.records import Document, Pod
from router_contract.discovered import Discovered, ObjectReference
from router_contract.platform_facts import OperatorStatus, PlatformFacts, SourceFault
from router_contract.targets import (
    Deployment,
    DeploymentKey,
    EndpointType,
    Role,
    RouterDeclaration,
    StoreDeclaration,
)

MAX_PAIRS = 64
"""Most labels or annotations of a target that are passed on."""
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment, what was looked at for it, and the Pods with its labels that were not taken."""

    discovered: Discovered
    needed: frozenset[Need]
    left: tuple[Left, ...] = ()


def targets(platform: Platform, documents: Iterable[Document], world: World) -> Iterator[Document]:
    """The objects that stand for deployments; where Pods do, one made up for each group of them."""
    if platform.document.target.group_by:
        seen: dict[tuple[str, str], Document] = {}
        for pod in world.pods():
            made = group_of(platform, pod)
            if made is not None:
                seen.setdefault((made.namespace, made.name), made)
        yield from seen.values()
        return
    yield from (each for each in documents if watched(platform, each))


def watched(platform: Platform, target: Document) -> bool:
    """Whether an object is a deployment of the platform that nobody opted out."""
    annotations = paths.first(target.body, "metadata.annotations")
    if isinstance(annotations, Mapping) and annotations.get(IGNORE) == "true":
        return False
    rule = platform.document.target
    scope = _scope(target)
    return (not rule.when or present(rule.when, scope)) and not present(rule.unless, scope)


def group_of(platform: Platform, pod: Pod) -> Document | None:
    """The made-up target of a Pod on a platform that groups Pods by labels, ``None`` when it lacks one of them."""
    keys = platform.document.target.group_by
    values = [label(pod.labels, key) for key in keys]
    if not keys or not all(values):
        return None
    name = "-".join(value for value in values if value)
    digest = hashlib.sha256("\0".join([platform.name, pod.namespace, *map(str, values)]).encode()).hexdigest()[:16]
    labels = dict(zip(keys, map(str, values), strict=True))
    return Document(
        uid=f"{platform.name}:{digest}",
        namespace=pod.namespace,
        name=name,
        resource_version="",
        generation=None,
        body={"metadata": {"name": name, "namespace": pod.namespace, "labels": labels}},
    )


def discover(
    platform: Platform,
    target: Document,
    world: World,
    *,
    now: float,
    refusal: Refusal,
    conditions_map: bool | None = None,
) -> Found:
    """One deployment. ``now`` (wall seconds) is when its object was last heard of; ``refusal`` judges the Pods' addresses."""
    document, reader, left = platform.document, Reader(world), list[Left]()
    scope = _scope(target)
    selector = Selector(platform, target, reader)
    rule = _pod_rule(platform, target)
    pods = selector.select(rule, scope, left)
    away = selector.elsewhere(rule, pods)
    complete = not away and _read(reader, selector, rule, scope)
    ended = sorted(each.pod for each in left if each.ended)
    members = MemberBuilder(document.replicas, document.ready, refusal)
    found = specs(document, scope, pods)
    namespaced = {source.name: source.namespaced for source in document.sources}
    objects = Objects(reader, target, namespaced)
    roles = _counted(RoleBuilder(document, members, left, complete=complete).build(found, pods), found, objects)
    router = _router(document.router, selector, scope, refusal, left)
    told = told_by(document, target, roles, router, pods, reader)
    roles, router = (roles, router) if told is None else (told.roles, told.router)
    said = facts(
        document,
        msgspec.structs.replace(scope, member_labels={pod.uid: pod.labels for pod in pods}),
        roles,
        router,
        objects,
        (*reader.faults(target.namespace), *_elsewhere(rule, away)),
        ended,
        now,
    )
    said = _recorded(said, told)
    operator = said.operator
    deployment = Deployment(
        key=DeploymentKey(target.namespace, target.name),
        uid=target.uid,
        platform=platform.name,
        source=platform.name,
        model=text(document.model, _at_first(scope, document, pods)) or None,
        endpoint_type=_endpoint_type(document, scope),
        generation=target.generation,
        observed_generation=operator.observed_generation if isinstance(operator, OperatorStatus) else None,
        created_at=moment(paths.as_text(scope.field("metadata.creationTimestamp"))),
        deleting=scope.field("metadata.deletionTimestamp") is not None,
        complete=complete and (told is None or not told.elsewhere),
        roles=roles,
        router=router,
        stores=tuple(_stores(document.stores, scope)),
        facts=tuple(_words(document, scope)),
    )
    return Found(
        discovered=Discovered(
            deployment=deployment,
            facts=said,
            target=None if document.target.group_by else _reference(platform, target),
            labels=_pairs(target, "labels"),
            annotations=_pairs(target, "annotations"),
            conditions_map=False if document.target.status_policy is StatusPolicy.NEVER else conditions_map,
        ),
        needed=frozenset(reader.needed),
        left=tuple(left),
    )


def _recorded(said: PlatformFacts, told: Told | None) -> PlatformFacts:
    """What the platform says, with what its records say."""
    if told is None:
        return said
    sources = (*said.sources, *told.elsewhere)
    return msgspec.structs.replace(said, records=told.records, declared=told.declared, sources=sources)


def engine_pods(platform: Platform, target: Document, world: World) -> tuple[tuple[Wanted, ...], tuple[Pod, ...]]:
    """What a target wants of its engine Pods' labels (nothing: no Pod can be its), and those that are its in a world."""
    rule, scope = _pod_rule(platform, target), _scope(target)
    selector = Selector(platform, target, Reader(world))
    return selector.requirements(rule, scope), selector.select(rule, scope, [])


def pod_namespace(platform: Platform, target: Document) -> str:
    """Where the engine Pods of a target are."""
    return text(platform.document.pods.namespace, _scope(target)) or target.namespace


def _read(reader: Reader, selector: Selector, rule: PodRule, scope: Scope) -> bool:
    """Whether a Pod that is not held does not exist: its namespace was listed, and what leads to it was read."""
    between = selector.between(rule.through) if rule.through is not None else ()
    return reader.complete(selector.namespace(rule, scope)) and not isinstance(between, msgspec.UnsetType)


def _elsewhere(rule: PodRule, away: Sequence[Document]) -> Iterator[SourceFault]:
    """That Pods are in other clusters, as a kind that could not be read here."""
    if not away or rule.through is None:
        return
    path = rule.through.cluster
    places = {paths.as_text(paths.first(each.body, path)) or "unknown" for each in away} if path is not None else set()
    named = ", ".join(each.name for each in away[:3]) + (f" and {len(away) - 3} more" if len(away) > 3 else "")
    where = f" (clusters: {', '.join(sorted(places))})" if places else ""
    made = [moment(paths.as_text(paths.first(each.body, "metadata.creationTimestamp"))) or 0.0 for each in away]
    detail = f"no Pod of {named} is here{where}: it may run in another cluster, which needs an observer of its own"
    yield SourceFault(kind="Pod", why="Elsewhere", since=min(made), detail=detail)


def _counted(roles: Sequence[Role], found: Sequence[Spec], objects: Objects) -> tuple[Role, ...]:
    """The roles, where nothing says how many replicas are wanted with the number that the objects keeping them want."""
    rules = {spec.name: spec.rule.workloads for spec in found}
    return tuple(
        msgspec.structs.replace(role, desired=objects.counted(rules[role.name])) if role.desired is None else role
        for role in roles
    )


def _scope(target: Document) -> Scope:
    return Scope(body=target.body, holes={"name": target.name, "namespace": target.namespace})


def _pod_rule(platform: Platform, target: Document) -> PodRule:
    """The rule for engine Pods; where Pods are grouped, their group is part of it."""
    rule = platform.document.pods
    keys = platform.document.target.group_by
    if not keys:
        return rule
    held = target.body["metadata"]["labels"]
    return msgspec.structs.replace(rule, labels=(*((key, held[key]) for key in keys), *rule.labels))


def _at_first(scope: Scope, document: PlatformDocument, pods: Sequence[Pod]) -> Scope:
    """The scope at one engine Pod: the model's name may stand only on its command line."""
    return scope.of_pod(pods[0], container_of(pods[0], document.container)) if pods else scope


def _router(
    rule: RouterRule | None, selector: Selector, scope: Scope, refusal: Refusal, left: list[Left]
) -> RouterDeclaration | None:
    """The declared router with its Pods. A router Pod serves, and is on no seat."""
    if rule is None or (rule.when and not present(rule.when, scope)):
        return None
    pods = selector.select(rule.pods, scope, left)
    if rule.when_pods and not pods:
        return None
    scopes = [scope.of_pod(pod, container_of(pod, rule.container)) for pod in pods]
    near = scopes[0] if scopes else scope
    builder = MemberBuilder(ReplicaRule(), ("Ready",), refusal)
    listeners = Listeners(api=rule.api, metrics=rule.metrics)
    return RouterDeclaration(
        name=text(rule.name, near) or "",
        software=text(rule.software, near) or "",
        version=text(rule.version, near) or None,
        desired=count(rule.desired, near),
        members=tuple(builder.build(each, listeners, serves=True) for each in scopes),
    )


def _stores(rules: Iterable[StoreRule], scope: Scope) -> Iterator[StoreDeclaration]:
    for rule in rules:
        name = text(rule.name, scope)
        if name:
            yield StoreDeclaration(
                name=name,
                software=text(rule.software, scope) or "",
                tenant=text(rule.tenant, scope) or None,
                connector=text(rule.connector, scope) or "",
            )


def _endpoint_type(document: PlatformDocument, scope: Scope) -> EndpointType:
    written = (text(document.endpoint_type, scope) or "").lower()
    return next((each for each in EndpointType if each.lower() == written), EndpointType.CHAT)


def _words(document: PlatformDocument, scope: Scope) -> Iterator[tuple[str, str]]:
    for name, path in document.status.words:
        value = paths.as_text(scope.field(path))
        if value is not None:
            yield name, value


def _reference(platform: Platform, target: Document) -> ObjectReference:
    rule = platform.document.target
    return ObjectReference(
        group=rule.group,
        version=rule.version,
        kind=rule.kind,
        plural=rule.plural,
        namespace=target.namespace,
        name=target.name,
        uid=target.uid,
    )


def _pairs(target: Document, key: str) -> tuple[tuple[str, str], ...]:
    held = paths.first(target.body, f"metadata.{key}")
    if not isinstance(held, Mapping):
        return ()
    return tuple(sorted((str(name), str(value)) for name, value in held.items() if name != _APPLIED)[:MAX_PAIRS])
