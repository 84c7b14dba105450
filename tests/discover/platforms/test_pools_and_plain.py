"""KServe, llm-d pools, production-stack and plain Deployments over dumps in their published shapes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from observer.discover.platforms import built_in
from observer.discover.platforms.dump import explain, read_dump
from observer.discover.platforms.engine import Found, watched
from observer.discover.platforms.ranks import rank_ports
from observer.discover.platforms.taking import Scope, arguments
from observer.kube.records import Container, document
from router_contract.platform_facts import OperatorStatus
from router_contract.targets import EndpointType, Ready, RoleKind
from tests.discover.platforms.shapes import NOW

HERE = Path(__file__).parent


def platform(name):
    return next(each for each in built_in() if each.name == name)


def found(name: str) -> dict[str, Found]:
    told = explain(platform(name), read_dump(HERE / name), now=NOW, refusal=lambda _: None)
    assert told.unread == ()
    return {each.discovered.deployment.key.name: each for each in told.found}


def members(each: Found):
    return [
        (role.name, member.name, member.serves, member.metrics.url if member.metrics else None)
        for role in each.discovered.deployment.roles
        for member in role.members()
    ]


def said(each: Found) -> OperatorStatus:
    operator = each.discovered.facts.operator
    assert isinstance(operator, OperatorStatus)
    return operator


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("kserve", ["chat", "large"]),
        ("llm-d", ["empty", "ranks"]),
        ("production-stack", ["stack"]),
        ("deployments", ["chat", "embed"]),
    ],
)
def test_each_dump_holds_these_deployments(name, wanted):
    assert sorted(found(name)) == wanted


def test_kserve_prefill_and_decode_behind_a_scheduler():
    chat = found("kserve")["chat"]
    made = chat.discovered.deployment
    assert (made.model, made.generation, made.observed_generation) == ("qwen3", 2, 2)
    assert [(role.name, role.kind, role.desired) for role in made.roles] == [
        ("prefill", RoleKind.PREFILL, 1),
        ("decode", RoleKind.DECODE, 2),
    ]
    assert members(chat) == [
        ("prefill", "chat-kserve-prefill-a", True, "http://10.0.0.3:8000/metrics"),
        ("decode", "chat-kserve-a", True, "http://10.0.0.1:8001/metrics"),
        ("decode", "chat-kserve-b", True, "http://10.0.0.2:8001/metrics"),
    ], "behind a routing sidecar the engine's own port is where its series are"
    decode = made.roles[1]
    assert [replica.replacing for replica in decode.replicas] == [True, False]
    assert {member.api.port for member in decode.members() if member.api} == {8000}, "traffic comes by the sidecar"
    assert made.router is not None
    assert (made.router.software, made.router.desired, len(made.router.members)) == ("llm_d", 1, 1)
    assert chat.discovered.facts.endpoint == "http://gateway.example.com/llm/chat"
    assert {each.type: each.reason for each in said(chat).conditions}["MainWorkloadReady"] == (
        "MinimumReplicasUnavailable"
    )
    assert chat.left == ()


def test_kserve_reads_the_command_line_that_its_script_evaluates():
    decode = found("kserve")["chat"].discovered.deployment.roles[1]
    words = decode.arguments
    assert words[words.index("--tensor-parallel-size") + 1] == "2"
    assert words[words.index("--served-model-name") + 1] == "qwen3"


def test_kserve_over_nodes_is_one_replica_led_by_who_is_in_the_pool():
    large = found("kserve")["large"]
    (role,) = large.discovered.deployment.roles
    (replica,) = role.replicas
    assert large.discovered.deployment.model == "large", "its own name where the model has none"
    assert [(m.name, m.seat, m.serves, m.declared_total) for m in replica.members] == [
        ("large-kserve-mn-0", 0, True, 2),
        ("large-kserve-mn-0-1", 1, False, 2),
    ]
    address = replica.members[0].metrics
    assert address is not None
    assert address.scheme == "https"
    assert address.tls is not None
    assert address.tls.skip_verify, "it signs its own certificate"


def test_a_pool_with_several_target_ports_has_a_member_for_each_rank():
    ranks = found("llm-d")["ranks"]
    made = ranks.discovered.deployment
    assert made.model == "qwen3"
    assert [(role.name, role.kind, role.size, role.desired, len(role.replicas)) for role in made.roles] == [
        ("decode", RoleKind.DECODE, 2, None, 2),
        ("prefill", RoleKind.PREFILL, 2, None, 1),
    ]
    (first, second) = made.roles[0].replicas[0].members
    assert [(m.name, m.rank, m.metrics.port, m.api.port, m.ports) for m in (first, second) if m.metrics and m.api] == [
        ("dp-a-rank-0", 0, 8000, 8000, (8000,)),
        ("dp-a-rank-1", 1, 8001, 8001, (8001,)),
    ]
    assert (first.uid, second.uid) == ("uid-pod-dp-a", "uid-pod-dp-a-rank-1")
    assert first.ready is second.ready is Ready.TRUE
    assert len({target.key for target in made.targets()}) == 7, "six ranks and the picker"
    assert made.router is not None
    assert [member.name for member in made.router.members] == ["ranks-epp-a"]
    assert {each.type: each.reason for each in said(ranks).conditions} == {
        "Accepted": "Accepted",
        "ResolvedRefs": "InvalidExtensionRef",
    }


def test_a_pool_without_a_selector_has_no_pod_and_one_of_kserve_is_left_to_it():
    assert found("llm-d")["empty"].discovered.deployment.roles == ()
    assert "chat-inference-pool" not in found("llm-d")


def test_a_release_of_production_stack_has_a_role_for_each_model():
    stack = found("production-stack")["stack"]
    made = stack.discovered.deployment
    assert made.model is None, "several models: no single name may be asked of an engine"
    assert [(role.name, role.engine_version, len(role.replicas)) for role in made.roles] == [
        ("llama", "0.11.0", 1),
        ("opt", "0.11.0", 2),
    ]
    assert made.router is not None
    assert (made.router.software, [member.name for member in made.router.members]) == (
        "production_stack",
        ["stack-deployment-router-a"],
    )
    assert made.router.members[0].metrics is None, "its copies of the engines' series are not read"
    assert stack.discovered.target is None


def test_plain_deployments_say_by_our_labels_what_they_serve():
    chat, embed = found("deployments")["chat"], found("deployments")["embed"]
    made = chat.discovered.deployment
    assert (made.model, made.roles[0].desired, made.roles[0].engine) == ("qwen3", 2, "vllm")
    assert [left.pod for left in chat.left] == ["chat-stray"]
    assert chat.discovered.conditions_map is False
    other = embed.discovered.deployment
    assert (other.endpoint_type, other.model, other.roles[0].engine) == (EndpointType.EMBEDDINGS, "bge", "sglang")
    assert [target.address.port for target in other.targets()] == [30000]


@pytest.mark.parametrize(
    ("ports", "wanted"),
    [
        pytest.param([8000, 8001], (8000, 8001), id="two ranks"),
        pytest.param([8000], (), id="one port: the Pod is one member"),
        pytest.param([], (), id="none"),
        pytest.param([8000, 8000], (), id="one port twice is no two ranks"),
        pytest.param([8000, 0], (), id="no port"),
        pytest.param([8000, "x"], (), id="no number"),
        pytest.param([8000, "8001"], (8000, 8001), id="a number as text"),
    ],
)
def test_ports_of_ranks(ports, wanted):
    rule = platform("llm-d").document.replicas
    body = {"spec": {"targetPorts": [{"number": port} for port in ports]}}
    assert rank_ports(rule, Scope(body=body, holes={})) == wanted


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        pytest.param("exec vllm serve m --port 1", ("exec", "vllm", "serve", "m", "--port", "1"), id="plain"),
        pytest.param('eval "vllm --a 1 \\\n --b 2"', ("eval", "vllm", "--a", "1", "--b", "2"), id="evaluated"),
        pytest.param('eval "vllm "', ("eval", "vllm"), id="evaluated, short"),
        pytest.param("vllm \\\n --a 1", ("vllm", "--a", "1"), id="over lines"),
        pytest.param("vllm 'x", ("/bin/bash", "-c", "vllm 'x"), id="a quote that does not end"),
        pytest.param('eval "vllm \'x"', ("/bin/bash", "-c", 'eval "vllm \'x"'), id="one in what is evaluated"),
    ],
)
def test_words_of_a_shell_script(script, wanted):
    container = Container(name="main", command=("/bin/bash", "-c", script))
    assert arguments(container) == wanted


def test_a_target_may_be_left_out_by_a_value():
    base = {
        "apiVersion": "v1",
        "kind": "InferencePool",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
        "spec": {},
    }

    def asked(owner):
        meta = {**base["metadata"], "ownerReferences": [{"kind": owner, "name": "x", "uid": "y"}]}
        return watched(platform("llm-d"), document(msgspec.Raw(msgspec.json.encode({**base, "metadata": meta}))))

    assert asked("Other")
    assert not asked("LLMInferenceService")
