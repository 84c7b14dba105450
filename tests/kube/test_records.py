"""What is kept of objects, and what a list or an event changes."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.kube.cache import Cache, ChangeKind
from observer.kube.records import Document, PodDecoder, Pool, document
from observer.kube.resources import CRDS, LEASES, PODS
from router_contract.targets import Ready

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "md-server-r0-m0",
        "namespace": "llm",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"b": "2", "a": "1"},
        "annotations": {"prometheus.io/port": "8000", "kubectl.kubernetes.io/last-applied-configuration": "x" * 2000},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u0"},
            {"apiVersion": "w/v1", "kind": "ModelDeployment", "name": "md", "uid": "u9", "controller": True},
        ],
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [
            {
                "name": "main",
                "image": "engine:1",
                "args": ["--port", "8000"],
                "ports": [{"containerPort": 8000, "name": "http"}],
                "readinessProbe": {"httpGet": {"path": "/health"}},
            }
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "127.0.0.2",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "main", "restartCount": 2, "state": {"running": {"startedAt": "2026-01-01T00:01:00Z"}}}
        ],
    },
}


def pod(**changes: Any) -> Any:
    value = orjson.loads(orjson.dumps(POD))
    for path, what in changes.items():
        place, *_, last = path.split("__")
        if what is None:
            del value[place][last]
        else:
            value[place][last] = what
    return PodDecoder()(msgspec.Raw(orjson.dumps(value)))


def test_a_pod_keeps_what_discovery_reads() -> None:
    found = pod()
    (container,) = found.containers
    assert (found.namespace, found.name, found.uid, found.resource_version) == ("llm", "md-server-r0-m0", "u1", "7")
    assert found.labels == (("a", "1"), ("b", "2"))
    assert found.annotations == (("prometheus.io/port", "8000"),)
    assert (found.owner.kind, found.owner.uid) == ("ModelDeployment", "u9")
    assert (found.ip, found.node, found.phase, found.ready) == ("127.0.0.2", "node-1", "Running", Ready.TRUE)
    assert (container.restarts, container.started_at, container.readiness_probe) == (2, "2026-01-01T00:01:00Z", True)
    assert [(port.container_port, port.name, port.protocol) for port in container.ports] == [(8000, "http", "TCP")]


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"status__podIP": None}, "ip", None),
        ({"status__conditions": []}, "ready", Ready.UNKNOWN),
        ({"status__conditions": None}, "ready", Ready.UNKNOWN),
        ({"status__conditions": [{"type": "Ready", "status": "False"}]}, "ready", Ready.FALSE),
        ({"status__conditions": [{"type": "Ready", "status": "Unknown"}]}, "ready", Ready.UNKNOWN),
        ({"metadata__ownerReferences": None}, "owner", None),
        ({"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"}, "terminating", True),
        ({"spec__nodeName": None}, "node", None),
        ({"metadata__labels": None}, "labels", ()),
    ],
)
def test_what_a_pod_does_not_say_is_not_made_up(changes: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(pod(**changes), field) == value


def test_restarts_that_nobody_reported_are_unknown_and_not_zero() -> None:
    (container,) = pod(status__containerStatuses=None).containers
    assert (container.restarts, container.started_at) == (None, None)


def test_equal_labels_and_containers_of_two_pods_are_one_object() -> None:
    decode = PodDecoder()
    raw = msgspec.Raw(orjson.dumps(POD))
    one, two = decode(raw), decode(raw)
    assert one.labels is two.labels
    assert one.containers[0] is two.containers[0]


def test_a_full_pool_forgets_and_stays_right() -> None:
    pool = Pool(limit=2)
    assert [pool.share((n % 3,)) for n in range(9)] == [(n % 3,) for n in range(9)]


def test_a_document_is_whole_but_for_managed_fields() -> None:
    found = document(msgspec.Raw(orjson.dumps(POD)))
    assert "managedFields" not in found.body["metadata"]
    assert found.body["spec"] == POD["spec"]
    assert found.generation is None


@pytest.mark.parametrize(
    "raw", [b"{}", b"[]", b'{"metadata": {"name": "x"}}', b"{", b'{"metadata": {"name": 1, "uid": 2}}']
)
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    for decode in (document, PodDecoder()):
        with pytest.raises(msgspec.DecodeError):
            decode(msgspec.Raw(raw))


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (PODS.collection(), "/api/v1/pods"),
        (PODS.collection("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path("a/b", "ns"), "/api/v1/namespaces/ns/pods/a%2Fb"),
        (LEASES.path("x", "ns", "status"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/x/status"),
        (CRDS.path("c"), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/c"),
        (LEASES.full_name, "leases.v1.coordination.k8s.io"),
        (PODS.full_name, "pods.v1"),
    ],
)
def test_paths(found: str, path: str) -> None:
    assert found == path


def test_a_namespaced_object_without_a_namespace_has_no_path() -> None:
    with pytest.raises(ValueError, match="wanted one"):
        PODS.path("x")


def thing(name: str, uid: str, version: str) -> Document:
    return Document(uid=uid, namespace="ns", name=name, resource_version=version, generation=1, body={})


def kinds(changes: list[Any]) -> list[tuple[str, str, bool]]:
    return [(change.kind.value, change.record.uid, change.synthesised) for change in changes]


def test_events_change_the_cache_once() -> None:
    cache: Cache[Document] = Cache()
    assert kinds(cache.put(thing("a", "1", "1"))) == [("Added", "1", False)]
    assert kinds(cache.put(thing("a", "1", "1"))) == []
    assert kinds(cache.put(thing("a", "1", "2"))) == [("Modified", "1", False)]
    assert kinds(cache.put(thing("a", "2", "3"))) == [("Deleted", "1", True), ("Added", "2", False)]
    assert kinds(cache.remove(thing("a", "1", "4"))) == [], "a late deletion of the earlier object"
    assert kinds(cache.remove(thing("a", "2", "5"))) == [("Deleted", "2", False)]
    assert len(cache) == 0


def test_a_list_deletes_what_it_lacks_unless_it_could_not_be_read_whole() -> None:
    cache: Cache[Document] = Cache()
    for name in "abc":
        cache.put(thing(name, name, "1"))
    assert kinds(cache.replace([thing("b", "b", "1")], unread=True)) == []
    assert kinds(cache.replace([thing("b", "b", "2"), thing("c", "new", "3")])) == [
        ("Modified", "b", False),
        ("Deleted", "c", True),
        ("Added", "new", False),
        ("Deleted", "a", True),
    ]
    assert sorted(each.uid for each in cache) == ["b", "new"]


NAMES = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("12"), st.sampled_from("12")), max_size=6)


@given(st.lists(NAMES, max_size=4))
def test_changes_replayed_give_the_cache(lists: list[list[tuple[str, str, str]]]) -> None:
    """Whoever follows the changes holds what the cache holds, whatever lists come."""
    cache: Cache[Document] = Cache()
    follower: dict[str, Document] = {}
    for each in lists:
        wanted = {name: thing(name, name + uid, version) for name, uid, version in each}
        for change in cache.replace(wanted.values()):
            if change.kind is ChangeKind.DELETED:
                del follower[change.record.name]
            else:
                assert (change.kind is ChangeKind.ADDED) == (change.record.name not in follower)
                follower[change.record.name] = change.record
        assert follower == wanted == {record.name: record for record in cache}
