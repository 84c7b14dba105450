"""GPUStack as data: tables of cases over the pure engine, each changing one healthy deployment."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.platform_facts import BindingFact, PoolFact, RouterObjectsFact, ScalerFact, SourceFault
from router_contract.targets import DeploymentKey, EndpointType, Ready
from tests.discover.platforms.shapes import (
    LABEL,
    MD_UID,
    NOW,
    deployment,
    find,
    gpustack,
    md,
    owner,
    pod,
    replica_set,
    router_pod,
    thing,
    workload,
    world_of,
)

UNSET = msgspec.UNSET
SCALER = "modeldeployment.gpustack.ai/scaler-binding"
ROUTER = {"router": {"name": "sglang-gateway"}}
LLM_D = {"router": {"name": "llm-d-router", "replicas": 2}}


def roles(*items, **spec):
    return {"roles": list(items), **spec}


def test_a_healthy_deployment_is_filled_in_every_field():
    found = find(
        md(
            spec={**ROUTER, "kvCache": {"poolRef": {"name": "grant"}, "connector": "Mooncake"}},
            status={
                "observedGeneration": 3,
                "phase": "Ready",
                "roleSummary": "1R2S",
                "kvCache": {"pool": "pool-a", "domain": {"name": "tenant"}},
            },
            labels={"team": "x"},
            annotations={"note": "y", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        ),
        pod("chat-a"),
        pod("chat-b", ordinal=1, ready="False"),
        router_pod(),
        replica_set(),
        deployment(),
    )
    made = found.discovered.deployment
    assert made.key == DeploymentKey("llm", "chat")
    assert (made.uid, made.platform, made.generation, made.observed_generation) == (MD_UID, "gpustack", 3, 3)
    assert (made.model, made.endpoint_type, made.complete, made.deleting) == ("qwen3", EndpointType.CHAT, True, False)
    assert made.created_at == 1793491200.0
    assert dict(made.facts) == {"phase": "Ready", "roleSummary": "1R2S"}
    role = made.roles[0]
    assert (role.name, role.kind, role.desired, role.size, role.engine, role.engine_version) == (
        "server", "Server", 2, 1, "vllm", "0.11.0",
    )  # fmt: skip
    assert [replica.ordinal for replica in role.replicas] == [0, 1]
    one, two = (replica.members[0] for replica in role.replicas)
    assert (one.uid, one.seat, one.ready, two.ready) == ("uid-chat-a", 0, Ready.TRUE, Ready.FALSE)
    assert (one.readiness_gated, one.serves, one.started, one.restarts, one.declared_total) == (True, True, True, 1, 1)
    assert one.started_at == 1793491500.0
    assert (one.node, one.ports, one.skipped_reason) == ("node-a", (8000, 5557), "")
    assert one.metrics is not None
    assert one.metrics.url == f"http://{one.host}:8000/metrics"
    assert made.router is not None
    assert (made.router.name, made.router.software, made.router.desired) == ("sglang-gateway", "sglang_gateway", 1)
    front = made.router.members[0]
    assert front.api is not None
    assert front.metrics is not None
    assert (front.api.port, front.metrics.port) == (8081, 9090)
    assert [(store.name, store.software, store.tenant, store.connector) for store in made.stores] == [
        ("pool-a", "mooncake", "tenant", "Mooncake")
    ]
    assert found.discovered.labels == (("team", "x"),)
    assert found.discovered.annotations == (("note", "y"),)
    assert found.discovered.target is not None
    assert found.discovered.target.api_version == "worker.gpustack.ai/v1alpha1"
    facts = found.discovered.facts
    assert (facts.platform, facts.managed, facts.declared, facts.seats, facts.ready_by_reading) == (
        "gpustack", True, False, True, False,
    )  # fmt: skip
    assert facts.operator is not None
    assert facts.operator is not UNSET
    assert facts.operator.phase == "Ready"
    assert facts.router_objects == RouterObjectsFact(ready=1)
    assert found.left == ()
    assert [target.address.port for target in made.targets()] == [8000, 8000, 9090]


LEFT = {
    "another instance": (pod("x", instance="other"), None),
    "another owner of the same name": (
        pod("x", owners=[owner("ModelDeployment", "chat", "uid-other", "worker.gpustack.ai/v1alpha1")]),
        "it is controlled by another ModelDeployment chat (UID uid-other)",
    ),
    "a Pod of nobody with our labels": (pod("x", owners=[]), "it is controlled by nothing, wanted a ModelDeployment"),
    "a role that the spec does not declare": (pod("x", role="gone"), "its labels are those of no role"),
    "no ordinal: not adopted": (pod("x", ordinal=None), "nothing numbers it: it is on no place yet"),
    "an ordinal that is no number": (pod("x", labels={LABEL + "pod-ordinal": "-1"}), "its ordinal is '-1'"),
    "a Pod that ended": (pod("x", phase="Failed"), "it ended: phase Failed"),
    "evicted and done": (pod("x", phase="Succeeded"), "it ended: phase Succeeded"),
    "opted out": (
        pod("x", annotations={"observer.modeldeployment.io/ignore": "true"}),
        "its annotation observer.modeldeployment.io/ignore says so",
    ),
    "another namespace": (pod("x", namespace="else"), None),
}


@pytest.mark.parametrize(("stranger", "why"), LEFT.values(), ids=LEFT)
def test_pods_that_are_not_taken_are_named_with_the_reason(stranger, why):
    found = find(md(), pod("a"), stranger)
    assert [member.name for member in found.discovered.deployment.roles[0].members()] == ["a"]
    assert [(left.pod, left.why) for left in found.left] == ([("x", why)] if why else [])


CHAINS = {
    "whole": ((replica_set(), deployment()), ""),
    "no ReplicaSet": ((deployment(),), "its ReplicaSet chat-router-rs does not exist"),
    "another ReplicaSet of the name": (
        (replica_set(uid="uid-new"), deployment()),
        "its ReplicaSet chat-router-rs does not exist any more",
    ),
    "no Deployment": ((replica_set(),), "its Deployment chat-router does not exist"),
    "a replaced Deployment": (
        (replica_set(), deployment(uid="new")),
        "its Deployment chat-router does not exist any more",
    ),
    "somebody else's": (
        (replica_set(), deployment(md_uid="other")),
        "its Deployment chat-router is controlled by another ModelDeployment chat (UID other)",
    ),
}


@pytest.mark.parametrize(("objects", "why"), CHAINS.values(), ids=CHAINS)
def test_each_step_of_a_router_pods_owners_is_compared_by_uid(objects, why):
    found = find(md(spec=ROUTER), router_pod("front"), *objects)
    router = found.discovered.deployment.router
    assert router is not None
    assert [member.name for member in router.members] == ([] if why else ["front"])
    assert [left.why for left in found.left] == ([why] if why else [])


def test_who_may_not_read_replicasets_believes_the_labels_and_says_what_was_not_read():
    platform = gpustack()
    world = world_of(platform, router_pod("front"))
    fault = SourceFault(kind="ReplicaSet", why="Forbidden", since=NOW, detail="no right")
    world.faults["replicasets", ""] = fault
    found = find(md(spec=ROUTER), world=world)
    assert found.discovered.deployment.router is not None
    assert [member.name for member in found.discovered.deployment.router.members] == ["front"]
    assert found.discovered.facts.sources == (fault,)


def test_a_router_is_there_only_when_it_is_declared():
    found = find(md(), router_pod(), replica_set(), deployment())
    assert found.discovered.deployment.router is None
    assert found.discovered.facts.router_objects is UNSET


@pytest.mark.parametrize(
    ("name", "software"),
    [("llm-d-router", "llm_d"), ("vllm-router", "vllm_router"), ("sglang-gateway", "sglang_gateway"), ("new", "new")],
)
def test_router_software(name, software):
    found = find(md(spec={"router": {"name": name}}), router_pod(router=name), replica_set(), deployment())
    router = found.discovered.deployment.router
    assert router is not None
    assert (router.name, router.software) == (name, software)
    ports = [(member.api.port, member.metrics.port) for member in router.members]
    assert ports == [(8081, 9090)]


SHAPES = {
    "one Pod, an older form without a seat": ([pod("a", seat=None)], [(0, [("a", None, True, 1)])]),
    "two Pods of one replica, the leader serves": (
        [pod("a", total="2"), pod("b", seat=1, total="2")],
        [(0, [("a", 0, True, 2), ("b", 1, False, 2)])],
    ),
    "a seat that is no number": ([pod("a", labels={LABEL + "member-index": "x"})], [(0, [("a", -1, False, 1)])]),
    "a total that is no number": ([pod("a", total="many")], [(0, [("a", 0, True, -1)])]),
    "ordinals with a gap, in order of numbers": (
        [pod("a", ordinal=10), pod("b", ordinal=9)],
        [(9, [("b", 0, True, 1)]), (10, [("a", 0, True, 1)])],
    ),
    "none": ([], []),
}


@pytest.mark.parametrize(("pods", "wanted"), SHAPES.values(), ids=SHAPES)
def test_replicas(pods, wanted):
    role = find(md(), *pods).discovered.deployment.roles[0]
    got = [
        (replica.ordinal, [(each.name, each.seat, each.serves, each.declared_total) for each in replica.members])
        for replica in role.replicas
    ]
    assert got == wanted


REPLACING = {
    "one Pod": ([pod("a")], [False]),
    "two on one seat": ([pod("a"), pod("b")], [True]),
    "one of the two is going": ([pod("a", deleting=True), pod("b")], [False]),
}


@pytest.mark.parametrize(("pods", "wanted"), REPLACING.values(), ids=REPLACING)
def test_replacement_shows_in_the_pods(pods, wanted):
    role = find(md(), *pods).discovered.deployment.roles[0]
    assert [replica.replacing for replica in role.replicas] == wanted


def test_an_incomplete_list_proves_no_absence():
    platform = gpustack()
    world = world_of(platform, pod("a"))
    world.faults["pods", ""] = SourceFault(kind="Pod", why="Failing", since=NOW)
    found = find(md(), world=world).discovered
    assert not found.deployment.complete
    assert found.deployment.roles[0].replicas[0].replacing is None
    assert [fault.kind for fault in found.facts.sources] == ["Pod"]


EXTERNAL = [
    ("Server", ["--data-parallel-size", "2", "--data-parallel-rank", "0"], [True, True]),
    ("Prefill", ["--data-parallel-size", "2", "--data-parallel-rank", "0"], [True, False]),
    ("Server", ["--data-parallel-size", "2"], [True, False]),
    ("Server", [], [True, False]),
]


@pytest.mark.parametrize(("kind", "arguments", "serves"), EXTERNAL)
def test_who_serves_a_replica_of_two(kind, arguments, serves):
    spec = roles({"name": "server", "kind": kind, "replicas": 1, "size": 2, "extraArgs": arguments})
    role = find(md(spec=spec), pod("a", total="2"), pod("b", seat=1, total="2")).discovered.deployment.roles[0]
    assert [member.serves for member in role.members()] == serves
    assert role.load_balance_external is (serves == [True, True])


PORTS = {
    "annotated": (pod("a", annotations={"prometheus.io/port": "8123"}), 8123, ""),
    "a take-over: the declared serving port": (pod("a", annotations={"prometheus.io/port": None}), 8500, ""),
    "no number": (
        pod("a", annotations={"prometheus.io/port": "web"}),
        None,
        "its port is 'web', wanted a number from 1 to 65535",
    ),
    "out of range": (
        pod("a", annotations={"prometheus.io/port": "0"}),
        None,
        "its port is '0', wanted a number from 1 to 65535",
    ),
    "a scheme we do not speak": (
        pod("a", annotations={"prometheus.io/scheme": "ftp"}),
        None,
        "its scheme is 'ftp', wanted http or https",
    ),
    "no address yet": (pod("a", ip=""), None, ""),
}


@pytest.mark.parametrize(("one", "port", "why"), PORTS.values(), ids=PORTS)
def test_ports(one, port, why):
    spec = roles({"name": "server", "replicas": 1, "ports": [{"port": 8500, "protocol": "TCP"}]})
    member = next(find(md(spec=spec), one).discovered.deployment.roles[0].members())
    assert (member.metrics.port if member.metrics else None) == port
    assert member.skipped_reason == why


def test_addresses_of_pods_pass_the_admission():
    found = find(md(), pod("a", ip="127.0.0.1"), refusal=lambda host: f"{host} is refused").discovered.deployment
    member = next(found.roles[0].members())
    assert (member.metrics, member.api, member.kv_events) == (None, None, ())
    assert member.skipped_reason == "127.0.0.1 is refused"
    assert member.host == "127.0.0.1"


TAKE_OVER = {
    "declared, nothing runs": (["serve"], [], ("serve",)),
    "declared and deployed": (["serve"], [pod("a", annotations={"prometheus.io/port": None})], ("serve",)),
    "declared, the old render still runs": (["serve"], [pod("a")], ()),
    "edited away, the old command still runs": (
        None,
        [pod("a", annotations={"prometheus.io/port": None}, container={"command": ["own"], "args": ["--x"]})],
        ("own", "--x"),
    ),
    "managed": (None, [pod("a")], ()),
}


@pytest.mark.parametrize(("command", "pods", "wanted"), TAKE_OVER.values(), ids=TAKE_OVER)
def test_the_deployed_command_decides_on_a_take_over(command, pods, wanted):
    role = {"name": "server", "replicas": 1, **({"command": command} if command else {})}
    assert find(md(spec=roles(role)), *pods).discovered.deployment.roles[0].command == wanted


def contract(role: str = "prefill", events: bool = True):
    entry = {
        "name": role,
        "kind": "Prefill",
        "selector": {"app.kubernetes.io/component": role, LABEL + "member-index": "0"},
        "endpoint": f"http://chat-{role}.llm.svc:8000",
    }
    if events:
        entry["kvEvents"] = {
            "endpoint": f"tcp://chat-{role}.llm.svc:5557",
            "replayEndpoint": f"tcp://chat-{role}.llm.svc:5558",
            "topic": "kv@",
        }
    return {"name": "llm-d-router", "endpoint": "http://chat-router.llm.svc:8081", "roles": [entry]}


def test_kv_events_are_dialled_at_the_pods_at_the_published_port():
    spec = roles({"name": "prefill", "kind": "Prefill", "replicas": 1, "size": 2}, **LLM_D)
    found = find(
        md(spec=spec, status={"router": contract()}),
        pod("a", role="prefill", total="2", ip="10.0.0.7"),
        pod("b", role="prefill", seat=1, total="2", ip="fd00::8"),
    ).discovered
    leader, follower = found.deployment.roles[0].members()
    (source,) = leader.kv_events
    assert (source.endpoint, source.replay_endpoint, source.topic) == (
        "tcp://10.0.0.7:5557",
        "tcp://10.0.0.7:5558",
        "kv@",
    )
    assert follower.kv_events == ()
    assert [(each.role, each.publishes) for each in found.facts.publishers] == [("prefill", True)]
    published = found.facts.contract.roles[0]
    assert published.selected == ("uid-a",)
    assert (published.events_endpoint, published.events_replay) == (
        "tcp://chat-prefill.llm.svc:5557",
        "tcp://chat-prefill.llm.svc:5558",
    )


PUBLISHERS = {
    "no router": ({}, None, UNSET),
    "a router, nothing published yet": (LLM_D, {"phase": "Starting"}, UNSET),
    "published without events": (LLM_D, {"router": contract("server", events=False)}, [("server", False)]),
}


@pytest.mark.parametrize(("spec", "status", "wanted"), PUBLISHERS.values(), ids=PUBLISHERS)
def test_publishers_are_known_only_once_the_contract_is_published(spec, status, wanted):
    facts = find(md(spec=spec, status=status)).discovered.facts
    got = facts.publishers if facts.publishers is UNSET else [(each.role, each.publishes) for each in facts.publishers]
    assert got == wanted


BINDINGS = {
    "no cache": ({}, [], False, None),
    "missing": ({"kvCache": {"poolRef": {"name": "g"}}}, [], True, None),
    "ready": (
        {"kvCache": {"poolRef": {"name": "g"}}},
        [
            thing(
                "worker.gpustack.ai/v1alpha1",
                "KVCachePoolBinding",
                "g",
                spec={"domain": {"name": "t"}},
                status={"phase": "Ready"},
            )
        ],
        True,
        BindingFact(name="g", ready=True),
    ),
    "provisioning, no domain": (
        {"kvCache": {"poolRef": {"name": "g"}}},
        [thing("worker.gpustack.ai/v1alpha1", "KVCachePoolBinding", "g", status={"phase": "Provisioning"})],
        True,
        BindingFact(name="g", ready=False, domain_read=False),
    ),
    "deleting": (
        {"kvCache": {"poolRef": {"name": "g"}}},
        [
            thing(
                "worker.gpustack.ai/v1alpha1",
                "KVCachePoolBinding",
                "g",
                meta={"deletionTimestamp": "2026-11-02T00:00:00Z"},
                spec={"domain": {"name": "t"}},
                status={"phase": "Deleting"},
            )
        ],
        True,
        BindingFact(name="g", ready=False, deleting=True),
    ),
}


@pytest.mark.parametrize(("spec", "objects", "cache", "wanted"), BINDINGS.values(), ids=BINDINGS)
def test_the_cache_binding_is_observed_absent_or_present(spec, objects, cache, wanted):
    facts = find(md(spec=spec), *objects).discovered.facts
    assert (facts.cache, facts.binding) == (cache, wanted)


def condition(kind: str, status: str = "True", reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason}


FLAVORS = {
    "admission": {"podSetAssignments": [{"name": "main", "flavors": {"cpu": "default", "gpustack.ai/credits": "h100"}}]}
}
WORKLOADS = {
    "reserved with a flavor": (workload("w", "a", **FLAVORS), (True, False, False, ("h100",))),
    "pending": (workload("w", "a", conditions=[condition("QuotaReserved", "False")]), (False, False, False, ())),
    "preempted": (workload("w", "a", conditions=[condition("Preempted")]), (False, True, False, ())),
    "evicted by preemption": (
        workload("w", "a", conditions=[condition("Evicted", reason="Preempted")]),
        (False, True, False, ()),
    ),
    "evicted for another reason": (
        workload("w", "a", conditions=[condition("Evicted", reason="PodsReadyTimeout")]),
        (False, False, False, ()),
    ),
    "deactivated": (workload("w", "a", spec={"active": False}, conditions=[]), (False, False, True, ())),
}


@pytest.mark.parametrize(("one", "wanted"), WORKLOADS.values(), ids=WORKLOADS)
def test_workloads_are_found_by_the_pods_that_own_them(one, wanted):
    facts = find(md(), pod("a", ordinal=4), one, workload("other", "stranger")).discovered.facts
    (found,) = facts.workloads
    assert (found.role, found.ordinal) == ("server", 4)
    assert (found.reserved, found.preempted, found.deactivated, found.flavors) == wanted


def artifact(**body):
    return thing("worker.gpustack.ai/v1alpha1", "ModelArtifact", "w", **body)


WEIGHTS = {
    "none referred to": ({}, None, [], None),
    "missing": ("w", None, [], (False, False, "Mount", None)),
    "not resolved": ("w", None, [artifact()], (True, False, "Mount", None)),
    "how it is delivered is not said": (
        "w",
        None,
        [artifact(status={"resolved": {"revision": "a"}}), pod("a")],
        (True, True, "Mount", None),
    ),
    "mounted": ("w", "PVC", [artifact(status={"resolved": {}}), pod("a", ready="False")], (True, True, "Mount", True)),
    "nothing runs": (
        "w",
        "PVC",
        [artifact(status={"resolved": {}}), pod("a", phase="Pending")],
        (True, True, "Mount", None),
    ),
    "downloading": (
        "w",
        "Engine",
        [artifact(status={"resolved": {}}), pod("a", ready="False")],
        (True, True, "Download", False),
    ),
    "downloaded": ("w", "Engine", [artifact(status={"resolved": {}}), pod("a")], (True, True, "Download", True)),
}


@pytest.mark.parametrize(("name", "delivery", "objects", "wanted"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights(name, delivery, objects, wanted):
    model = {"name": "qwen3", **({"artifactRef": {"name": name}} if name else {})}
    status = {"model": {"delivery": delivery}} if delivery else None
    fact = find(md(spec={"model": model}, status=status), *objects).discovered.facts.weights
    got = fact if fact is None else (fact.found, fact.resolved, fact.delivery, fact.pods_have_them)
    assert got == wanted


@pytest.mark.parametrize("source", ["workloads", "bindings", "artifacts", "deployments", "pools", "scalers"])
def test_what_nobody_could_look_at_is_unset_and_never_absent(source):
    platform = gpustack()
    world = world_of(platform, pod("a"))
    kind = platform.source(source).kind
    world.faults[source, ""] = SourceFault(kind=kind, why="NotInstalled", since=NOW)
    spec = {**ROUTER, "kvCache": {"poolRef": {"name": "g"}}, "model": {"name": "m", "artifactRef": {"name": "w"}}}
    target = md(spec=spec, status={"kvCache": {"pool": "p"}}, annotations={SCALER: "by-load"})
    facts = find(target, world=world).discovered.facts
    values = {
        "workloads": facts.workloads,
        "bindings": facts.binding,
        "artifacts": facts.weights,
        "pools": facts.pool,
        "scalers": facts.scaler.found,
        "deployments": facts.router_objects,
    }
    assert values[source] is UNSET
    assert all(value is not UNSET for name, value in values.items() if name != source)
    assert [fault.kind for fault in facts.sources] == [kind]


RETIREMENT = {
    "none": ({"phase": "Ready"}, None),
    "no status at all": (None, None),
    "ordinal 0": (
        {
            "retirement": {
                "roleName": "server",
                "replicaOrdinal": 0,
                "state": "Draining",
                "startedAt": "2026-11-01T00:00:00Z",
            }
        },
        ("server", 0, "Draining", 1793491200.0, ()),
    ),
    "without an ordinal it is not the first replica": (
        {"retirement": {"roleName": "server", "state": "Draining"}},
        UNSET,
    ),
    "whole": (
        {"retirement": {"roleName": "server", "replicaOrdinal": 1, "state": "Aborted", "targetMemberUIDs": ["u"]}},
        ("server", 1, "Aborted", None, ("u",)),
    ),
    "without a state it is not read": ({"retirement": {"roleName": "server", "replicaOrdinal": 1}}, UNSET),
    "no record at all": ({"retirement": "x"}, UNSET),
}


@pytest.mark.parametrize(("status", "wanted"), RETIREMENT.values(), ids=RETIREMENT)
def test_retirement(status, wanted):
    found = find(md(status=status)).discovered.facts.retirement
    if found is not None and found is not UNSET:
        found = (found.role_name, found.replica_ordinal, found.state, found.started_at, found.target_member_uids)
    assert found == wanted


SCALERS = {
    "a plain name": ("hpa", ["hpa"], "hpa", True),
    "JSON": ('{"name": "hpa", "uid": "u"}', ["hpa"], "hpa", True),
    "gone": ("hpa", ["other"], "hpa", False),
    "JSON without a name": ('{"uid": "u"}', [], "", UNSET),
    "broken JSON": ('{"name": ', [], "", UNSET),
    "a name that is no text": ('{"name": 3}', [], "", UNSET),
    "a UID is no name": ("6f1d2c3b-0a1b-4c5d-8e9f-001122334455", [], "", UNSET),
    "words": ("scaled to 3", [], "", UNSET),
}


@pytest.mark.parametrize(("said", "there", "name", "found"), SCALERS.values(), ids=SCALERS)
def test_the_scaler_that_an_annotation_names(said, there, name, found):
    objects = [thing("worker.gpustack.ai/v1alpha1", "ModelDeploymentScaler", each) for each in there]
    fact = find(md(annotations={SCALER: said}), *objects).discovered.facts.scaler
    assert fact == ScalerFact(binding=said, name=name, found=found)


def test_without_scaler_annotations_nobody_owns_the_count():
    assert find(md()).discovered.facts.scaler is None


def cache_pool(namespace="llm", **status):
    made = thing("worker.gpustack.ai/v1alpha1", "KVCachePool", "p", status=status)
    return {**made, "metadata": {**made["metadata"], "namespace": namespace, "uid": f"uid-pool-{namespace}"}}


POOLS = {
    "none attached": (None, [], None),
    "gone": ("p", [], PoolFact(name="p", found=False)),
    "tells its endpoint": ("p", [cache_pool(clientEndpoint="a:1")], PoolFact(name="p", found=True, endpoint="a:1")),
    "tells none": ("p", [cache_pool()], PoolFact(name="p", found=True)),
    "in another namespace": (
        "p", [cache_pool("else", clientEndpoint="b:1")], PoolFact(name="p", found=True, endpoint="b:1"),
    ),
    "in no namespace before another's": (
        "p", [cache_pool("else"), cache_pool("", clientEndpoint="c:1")],
        PoolFact(name="p", found=True, endpoint="c:1"),
    ),
    "which of two is not known": ("p", [cache_pool("else"), cache_pool("more")], UNSET),
}  # fmt: skip


@pytest.mark.parametrize(("name", "objects", "wanted"), POOLS.values(), ids=POOLS)
def test_the_pool_that_a_deployment_is_attached_to(name, objects, wanted):
    status = {"kvCache": {"pool": name}} if name else None
    assert find(md(status=status), *objects).discovered.facts.pool == wanted


def test_an_elastic_role_is_one_collective_with_its_head_beside_it():
    spec = roles({"name": "ep", "replicas": 1, "elasticEp": {"width": 4}})
    found = find(
        md(spec=spec),
        pod("m", role="ep", seat=0),
        pod("w1", role="ep", seat=1, ordinal=None),
        pod("head", role="chat-elastic-head", ordinal=None, seat=None),
    ).discovered
    role = found.deployment.roles[0]
    assert role.elastic
    (replica,) = role.replicas
    assert replica.ordinal == 0
    assert [(each.name, each.serves, each.ancillary) for each in replica.members] == [
        ("head", False, True), ("m", True, False), ("w1", False, False),
    ]  # fmt: skip
    assert found.facts.elastic is UNSET


@pytest.mark.parametrize(
    ("written", "kind"), [("prefill", "Prefill"), (None, "Server"), ("", "Server"), ("Odd", "Odd")]
)
def test_kinds_in_any_letter_case(written, kind):
    role = {"name": "server", "replicas": 0, **({} if written is None else {"kind": written})}
    made = find(md(spec=roles(role))).discovered.deployment.roles[0]
    assert (made.kind, made.desired, made.replicas) == (kind, 0, ())


def test_a_target_being_deleted_says_so():
    assert find(md(deletionTimestamp="2026-11-02T00:00:00Z")).discovered.deployment.deleting


def test_pods_that_ended_are_noted():
    assert find(md(), pod("a")).discovered.facts.eviction_note == ""
    ended = [pod(f"x{number}", phase="Failed") for number in range(5)]
    assert find(md(), pod("a"), *ended).discovered.facts.eviction_note == "ended: x0, x1, x2 and 2 more"


def test_members_that_are_not_ready_yet_and_members_nobody_reported_on_differ():
    members = find(
        md(), pod("a", ready=None), pod("b", ordinal=1, phase="Pending", ready="False")
    ).discovered.deployment
    got = [(each.name, each.ready, each.started) for each in members.roles[0].members()]
    assert got == [("a", Ready.UNKNOWN, True), ("b", Ready.FALSE, False)]
