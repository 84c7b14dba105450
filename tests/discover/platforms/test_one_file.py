"""A new platform is one YAML file: Pods by labels alone, plain Deployments, a pool with a picker, gangs with a leader."""

from __future__ import annotations

import msgspec

from observer.discover.platforms import read_platform
from observer.discover.platforms.dump import Dump, explain
from router_contract.targets import Ready
from tests.discover.platforms.shapes import NOW, owner, thing

HEAD = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Platform\n"


def pod(name, labels, namespace="ns", **changes):
    spec = {
        "containers": changes.pop(
            "containers",
            [
                {
                    "name": "c",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "args": ["--served-model-name", "m"],
                    "ports": [{"name": "http", "containerPort": 8000}],
                }
            ],
        )
    }
    meta = {"labels": labels, **changes.pop("meta", {})}
    status = {
        "phase": "Running",
        "podIP": changes.pop("ip", "10.0.0.1"),
        "conditions": changes.pop("conditions", [{"type": "Ready", "status": "True"}]),
    }
    return thing("v1", "Pod", name, namespace, meta=meta, spec=spec, status=status)


def found(text, *objects):
    held: dict[tuple[str, str], list[object]] = {}
    for each in objects:
        held.setdefault((each["apiVersion"], each["kind"]), []).append(each)
    return explain(read_platform(HEAD + text), Dump(objects=held), now=NOW, refusal=lambda _: None).found


PLAIN = """
name: pods
target: {groupBy: [app.kubernetes.io/part-of]}
model: {argument: --served-model-name}
engine:
  software: {image: true, pattern: "(vllm|sglang)"}
  version: {image: true, pattern: ":v?([0-9]+[.][0-9]+[.][0-9]+)"}
pods: {labels: {llm: engine}}
roles: [{eachLabel: llm-d.ai/role, kind: {label: llm-d.ai/role, map: {prefill: Prefill, decode: Decode, both: Server}}}]
api: {port: {port: http}}
metrics: {port: {port: http}}
"""


def test_pods_by_labels_alone_are_a_deployment_without_an_object():
    labels = {"app.kubernetes.io/part-of": "chat", "llm": "engine"}
    got = found(
        PLAIN,
        pod("a", {**labels, "llm-d.ai/role": "prefill"}),
        pod("b", {**labels, "llm-d.ai/role": "decode"}),
        pod("c", {**labels, "llm-d.ai/role": "decode"}),
        pod("d", labels),
        pod("e", {"app.kubernetes.io/part-of": "other", "llm": "else", "llm-d.ai/role": "both"}),
    )
    assert [str(each.discovered.deployment.key) for each in got] == ["ns/chat", "ns/other"]
    chat = got[0].discovered
    assert (chat.target, chat.deployment.model, chat.facts.operator) == (None, "m", None)
    assert chat.deployment.uid.startswith("pods:")
    assert [(role.name, role.kind, len(role.replicas), role.desired) for role in chat.deployment.roles] == [
        ("decode", "Decode", 2, None),
        ("prefill", "Prefill", 1, None),
    ]
    role = chat.deployment.roles[0]
    assert (role.engine, role.engine_version, role.arguments) == ("vllm", "0.11.0", ("--served-model-name", "m"))
    assert [(left.pod, left.why) for left in got[0].left] == [("d", "its labels are those of no role")]
    assert chat.facts.retirement is msgspec.UNSET
    assert chat.facts.declared
    assert got[1].discovered.deployment.roles == ()


DEPLOYMENTS = """
name: deployments
target: {group: apps, version: v1, kind: Deployment, plural: deployments, statusPolicy: Never, when: {label: llm}}
sources: [{name: replicasets, group: apps, version: v1, kind: ReplicaSet, plural: replicasets}]
model: {label: llm}
engine: {software: {fixed: vllm}}
pods: {selector: spec.selector, owner: [ReplicaSet, Deployment]}
roles: [{name: {fixed: server}, desired: {value: spec.replicas, absent: 1}}]
replicas: {replacement: Revision, revision: {label: pod-template-hash}}
metrics: {port: [{annotation: prometheus.io/port}, {fixed: "8000"}]}
"""


def test_plain_deployments_with_a_rollout_under_way():
    selector = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}],
    }
    plain = thing(
        "apps/v1", "Deployment", "x", "ns", meta={"labels": {"llm": "m"}}, spec={"replicas": 3, "selector": selector}
    )
    other = thing("apps/v1", "Deployment", "y", "ns", spec={"selector": {"matchLabels": {"app": "x"}}})
    sets = [
        thing(
            "apps/v1",
            "ReplicaSet",
            f"x-{name}",
            "ns",
            meta={"ownerReferences": [owner("Deployment", "x", "uid-deployment-x")]},
        )
        for name in ("old", "new")
    ]

    def one(name, revision, created, **labels):
        meta = {
            "ownerReferences": [owner("ReplicaSet", f"x-{revision}", f"uid-replicaset-x-{revision}")],
            "creationTimestamp": created,
        }
        return pod(name, {"app": "x", "pod-template-hash": revision, **labels}, meta=meta)

    got = found(
        DEPLOYMENTS,
        plain,
        other,
        *sets,
        one("a", "old", "2026-01-01T00:00:00Z"),
        one("b", "new", "2026-01-02T00:00:00Z"),
        one("t", "new", "2026-01-02T00:00:00Z", tier="test"),
    )
    (each,) = got
    role = each.discovered.deployment.roles[0]
    assert role.desired == 3
    assert [(replica.ordinal, replica.members[0].name, replica.replacing) for replica in role.replicas] == [
        (None, "a", True),
        (None, "b", False),
    ]
    assert each.discovered.conditions_map is False


POOL = """
name: pool
target: {group: inference.networking.k8s.io, version: v1, kind: InferencePool, plural: inferencepools}
engine: {software: {fixed: vllm}}
pods: {selector: spec.selector}
roles: [{name: {fixed: server}}]
api: {port: "spec.targetPorts[0].number"}
metrics: {port: "spec.targetPorts[0].number"}
sources: [{name: services, version: v1, kind: Service, plural: services, keep: [spec.selector]}]
router:
  when: spec.endpointPickerRef
  name: spec.endpointPickerRef.name
  software: {fixed: llm_d}
  pods: {selectorOf: {source: services, name: spec.endpointPickerRef.name}}
  metrics: {port: [{port: metrics}, {fixed: "9090"}]}
"""


def test_a_pool_and_its_picker():
    pool = thing(
        "inference.networking.k8s.io/v1",
        "InferencePool",
        "p",
        "ns",
        spec={
            "selector": {"matchLabels": {"app": "x"}},
            "targetPorts": [{"number": 8200}],
            "endpointPickerRef": {"name": "p-epp"},
        },
    )
    none = thing("inference.networking.k8s.io/v1", "InferencePool", "q", "ns", spec={})
    service = thing("v1", "Service", "p-epp", "ns", spec={"selector": {"app": "p-epp"}})
    got = found(POOL, pool, none, service, pod("a", {"app": "x"}), pod("epp", {"app": "p-epp"}))
    made = got[0].discovered.deployment
    assert [target.address.port for target in made.targets()] == [8200, 9090]
    assert got[1].discovered.deployment.roles[0].replicas == (), "no selector selects nothing, never everything"


GANG = """
name: gang
target: {group: x.example.com, version: v1, kind: Gang, plural: gangs}
engine: {software: {fixed: vllm}}
pods: {labels: {gang: "{name}"}}
ready: [ContainersReady, x.example.com/serving]
roles:
  - name: {fixed: server}
    desired: {value: spec.replicas, times: [{field: spec.copies}]}
    size: {value: spec.workers, plus: 1, absent: 0}
replicas:
  group: {label: leader}
  seat: {label: seat}
  leader: {labels: {part: leader}}
  retiring: {annotation: leaving}
metrics: {port: {fixed: "8000"}, scheme: {fixed: https}, skipVerify: true}
"""


def test_gangs_are_grouped_by_a_label_and_led_by_a_label():
    target = thing("x.example.com/v1", "Gang", "g", "ns", spec={"replicas": 2, "copies": 3, "workers": 1})

    def one(name, leader, seat, part, serving):
        conditions = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]
        if serving:
            conditions.append({"type": "x.example.com/serving", "status": serving})
        return pod(name, {"gang": "g", "leader": leader, "seat": seat, "part": part}, conditions=conditions)

    retiring = one("d", "g3", "0", "leader", "True")
    retiring["metadata"]["annotations"] = {"leaving": "scale-down"}
    got = found(
        GANG,
        target,
        retiring,
        one("b", "g1", "1", "worker", "True"),
        one("a", "g1", "0", "leader", "False"),
        one("c", "g2", "0", "leader", ""),
    )
    role = got[0].discovered.deployment.roles[0]
    assert (role.desired, role.size) == (6, 2)
    members = [[(each.name, each.serves, each.ready) for each in replica.members] for replica in role.replicas]
    assert members == [
        [("a", True, Ready.FALSE), ("b", False, Ready.TRUE)],
        [("c", True, Ready.UNKNOWN)],
        [("d", True, Ready.TRUE)],
    ]
    assert [(replica.retiring, replica.retiring_reason) for replica in role.replicas] == [
        (False, ""),
        (False, ""),
        (True, "scale-down"),
    ]
    address = role.replicas[0].members[0].metrics
    assert address is not None
    assert address.tls is not None
    assert (address.scheme, address.tls.skip_verify) == ("https", True)
