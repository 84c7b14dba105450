"""Keys of platform documents for operators that number some Pods, name further objects, and keep records of their own."""

from __future__ import annotations

from typing import Any

import pytest

from observer.discover.platforms import PlatformError, read_platform
from observer.discover.platforms.dump import Dump, explain
from router_contract.targets import Ready
from tests.discover.platforms.shapes import NOW, owner, thing

HEAD = """apiVersion: observer.modeldeployment.io/v1alpha1
kind: Platform
name: own
target: {group: x.io, version: v1, kind: Thing, plural: things}
sources: [{name: pools, group: x.io, version: v1, kind: Pool, plural: pools}]
"""
BODY = """pods:
  labels: {thing: "{name}"}
  referred: [{source: pools, names: "spec.pools[]", path: status.selector}]
roles: [{name: {fixed: engine}}]
replicas:
  ordinal: {label: number}
  group: [{owner: Pool}, {label: gang}]
  unnumbered: true
  leader: {labels: {place: first|!}}
ready: [Ready, "gate?"]
"""


def pod(name: str, pool: str = "a", conditions: Any = None, **labels: str) -> Any:
    held = {"Ready": "True"} if conditions is None else conditions
    return thing(
        "v1",
        "Pod",
        name,
        "ns",
        meta={"labels": labels, "ownerReferences": [owner("Pool", pool, f"uid-{pool}", "x.io/v1")] if pool else []},
        spec={"containers": [{"name": "c", "image": "i"}]},
        status={
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": k, "status": v} for k, v in held.items()],
        },
    )


def found(*objects: Any, pools: Any = ()) -> Any:
    target = thing("x.io/v1", "Thing", "t", "ns", spec={"pools": list(pools)})
    held: dict[tuple[str, str], list[object]] = {}
    for each in (target, *objects):
        held.setdefault((each["apiVersion"], each["kind"]), []).append(each)
    (made,) = explain(read_platform(HEAD + BODY), Dump(objects=held), now=NOW, refusal=lambda _: None).found
    return made.discovered.deployment.roles[0].replicas


def names(replicas: Any) -> list[tuple[int | None, list[str]]]:
    return [(each.ordinal, [member.name for member in each.members]) for each in replicas]


def pool(name: str, selector: str | None) -> Any:
    return thing("x.io/v1", "Pool", name, "ns", status={} if selector is None else {"selector": selector})


REPLICAS: dict[str, tuple[list[Any], list[tuple[int | None, list[str]]]]] = {
    "a number is of one owner": (
        [pod("a", "p", thing="t", number="0"), pod("b", "q", thing="t", number="0")],
        [(0, ["a"]), (0, ["b"])],
    ),
    "one number of one owner": (
        [pod("a", "p", thing="t", number="0"), pod("b", "p", thing="t", number="0")],
        [(0, ["a", "b"])],
    ),
    "without a number by the gang": (
        [pod("a", "", thing="t", gang="g"), pod("b", "", thing="t", gang="g"), pod("c", "", thing="t")],
        [(None, ["a", "b"]), (None, ["c"])],
    ),
    "a number that is none is on no place": ([pod("a", thing="t", number="x")], []),
}


@pytest.mark.parametrize("case", REPLICAS, ids=str)
def test_replicas(case: str) -> None:
    pods, wanted = REPLICAS[case]
    assert names(found(*pods)) == wanted


LEADERS = {"named": ({"place": "first"}, True), "not said": ({}, True), "another": ({"place": "second"}, False)}


@pytest.mark.parametrize("case", LEADERS, ids=str)
def test_a_label_may_be_absent(case: str) -> None:
    labels, serves = LEADERS[case]
    (replica,) = found(pod("a", thing="t", number="0", **labels))
    assert replica.members[0].serves is serves


CONDITIONS = {
    "both": ({"Ready": "True", "gate": "True"}, Ready.TRUE),
    "without the gate": ({"Ready": "True"}, Ready.TRUE),
    "a gate that is shut": ({"Ready": "True", "gate": "False"}, Ready.FALSE),
    "a gate that nobody decided": ({"Ready": "True", "gate": "Unknown"}, Ready.UNKNOWN),
    "only the gate": ({"gate": "True"}, Ready.UNKNOWN),
}


@pytest.mark.parametrize("case", CONDITIONS, ids=str)
def test_a_condition_counts_where_a_pod_has_it(case: str) -> None:
    conditions, ready = CONDITIONS[case]
    (replica,) = found(pod("a", thing="t", number="0", conditions=conditions))
    assert replica.members[0].ready is ready


MINE, THEIRS = pod("mine", thing="t", number="0"), pod("theirs", "b", of="b", kind="x", number="0")
REFERRED: dict[str, tuple[list[Any], list[str], list[str]]] = {
    "nothing is named": ([MINE, THEIRS], [], ["mine"]),
    "one is": ([MINE, THEIRS, pool("b", "of=b,kind=x")], ["b"], ["theirs"]),
    "two with the same keys": (
        [THEIRS, pod("third", "c", of="c", kind="x", number="1"), pool("b", "of=b,kind=x"), pool("c", "of=c,kind=x")],
        ["b", "c"],
        ["theirs", "third"],
    ),
    "one that is not there": ([MINE, THEIRS], ["gone"], []),
    "one without a selector yet": ([MINE, THEIRS, pool("b", None)], ["b"], []),
    "one of two is there": ([THEIRS, pool("b", "of=b,kind=x")], ["b", "gone"], ["theirs"]),
}


@pytest.mark.parametrize("case", REFERRED, ids=str)
def test_pods_of_objects_that_the_target_names(case: str) -> None:
    objects, pools, wanted = REFERRED[case]
    assert sorted(name for _, held in names(found(*objects, pools=pools)) for name in held) == wanted


FAULTS = {
    "a source nobody declared": (BODY.replace("source: pools", "source: pool"), 'found "pool", wanted one of pools'),
    "a path that is none": (BODY.replace("spec.pools[]", "spec..pools"), "is no path"),
    "a reader that does not exist": (BODY + "facts: {records: omen}\n", 'found "omen", wanted one of ome'),
    "a reader without its source": (BODY + "facts: {records: ome}\n", 'wanted the source "replicas" declared'),
}


@pytest.mark.parametrize("case", FAULTS, ids=str)
def test_faults(case: str) -> None:
    text, message = FAULTS[case]
    with pytest.raises(PlatformError) as error:
        read_platform(HEAD + text)
    assert message in str(error.value)
