"""What holds for any objects: nothing raises, nothing unread is absent, order and increments change nothing."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.discover.platforms.engine import discover
from observer.discover.platforms.load import built_in
from observer.discover.platforms.world import World, object_needs, pod_needs
from observer.kube.records import PodDecoder, document
from router_contract.platform_facts import SourceFault
from tests.discover.platforms.shapes import (
    NOW,
    deployment,
    find,
    gpustack,
    md,
    pod,
    raw,
    replica_set,
    router_pod,
    thing,
    workload,
    world_of,
)

GPUSTACK = gpustack()
WORDS = ["name", "kind", "replicas", "size", "router", "roles", "status", "conditions", "selector", "kvCache", "retirement", "matchLabels", "matchExpressions", "values", "operator", "metadata", "components", "spec", "port"]  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), JSON, max_size=6)


@given(OBJECTS, OBJECTS)
@settings(max_examples=60, deadline=None)
def test_no_spec_and_no_status_makes_any_platform_raise(spec, status):
    for platform in built_in():
        rule = platform.document.target
        if rule.group_by:
            continue
        target = thing(platform.target.api_version, rule.kind, "chat", spec=spec, status=status)
        labels = {"app": "x", "app.kubernetes.io/instance": "chat", "app.kubernetes.io/component": "server"}
        world = world_of(platform, pod("a", labels=labels))
        made = discover(platform, document(raw(target)), world, now=NOW, refusal=lambda _: None)
        msgspec.json.encode(made.discovered.deployment)


@settings(deadline=None)
@given(st.sets(st.sampled_from([source.name for source in GPUSTACK.document.sources])), st.booleans())
def test_what_was_not_read_is_never_called_absent(barred, pods):
    world = world_of(GPUSTACK)
    for name in barred:
        world.faults[name, ""] = SourceFault(kind=GPUSTACK.source(name).kind, why="Forbidden", since=NOW)
    if pods:
        world.faults["pods", ""] = SourceFault(kind="Pod", why="Failing", since=NOW)
    spec = {
        "router": {"name": "llm-d-router"},
        "kvCache": {"poolRef": {"name": "g"}},
        "model": {"name": "m", "artifactRef": {"name": "w"}},
    }
    named = {"modeldeployment.gpustack.ai/scaler-binding": "by-load"}
    status = {"kvCache": {"pool": "p"}}
    found = find(md(spec=spec, status=status, annotations=named), world=world).discovered
    facts = found.facts
    values = {
        "workloads": facts.workloads,
        "bindings": facts.binding,
        "artifacts": facts.weights,
        "pools": facts.pool,
        "scalers": facts.scaler.found,
        "deployments": facts.router_objects,
    }
    assert {name for name, value in values.items() if value is msgspec.UNSET} == barred & values.keys()
    assert {fault.kind for fault in facts.sources} == {GPUSTACK.source(name).kind for name in barred} | (
        {"Pod"} if pods else set()
    )
    assert found.deployment.complete is not pods


ALL = [pod(f"p{number}", ordinal=number % 4, total="1") for number in range(6)] + [
    router_pod(),
    replica_set(),
    deployment(),
    workload("w", "p0", "p4"),
]
TARGET = md(spec={"router": {"name": "sglang-gateway"}})


@settings(deadline=None)
@given(st.permutations(ALL))
def test_the_order_of_objects_changes_nothing(objects):
    assert find(TARGET, *objects) == find(TARGET, *ALL)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(ALL) - 1), st.booleans()), max_size=30))
def test_changes_one_by_one_are_the_same_as_at_once_and_concern_who_looked(steps):
    """A deployment that no change's needs name is as it was: rebuilding only the concerned ones is enough."""
    world = world_of(GPUSTACK)
    kinds = {source.kind: source.name for source in GPUSTACK.document.sources}
    present = {}
    last = find(TARGET, world=world)
    for index, there in steps:
        each = ALL[index]
        if each["kind"] == "Pod":
            record = PodDecoder()(raw(each))
            (world.put_pod if there else world.remove_pod)(record)
            needs = set(pod_needs(record))
        else:
            record = document(raw(each))
            (world.put if there else world.remove)(kinds[each["kind"]], record)
            needs = set(object_needs(kinds[each["kind"]], record))
        if there:
            present[index] = each
        else:
            present.pop(index, None)
        made = find(TARGET, *present.values())
        if needs & last.needed:
            last = find(TARGET, world=world)
        assert msgspec.structs.replace(last, needed=frozenset()) == msgspec.structs.replace(made, needed=frozenset())


def test_an_index_that_is_made_late_has_what_came_before_and_after():
    world = World()
    one, two = (PodDecoder()(raw(pod(name, labels={"k": "v"}))) for name in ("one", "two"))
    world.put_pod(one)
    assert [each.name for each in world.labelled("llm", "k", "v")] == ["one"]
    world.put_pod(two)
    world.remove_pod(one)
    assert [each.name for each in world.labelled("llm", "k", "v")] == ["two"]
    assert world.labelled("llm", "k", "w") == ()
