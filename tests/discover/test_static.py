"""`Fleet` documents to deployments: identity, connections, targets, and contradictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from observer.discover.static import static_uid
from observer.settings import check_files, load_files
from router_contract.targets import Component, Deployment, Tls

FLEET = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(FLEET + text)
    return path


def load(folder: Path, text: str) -> tuple[Deployment, ...]:
    return load_files([write(folder, text)]).deployments


def one_role(folder: Path, role: str, around: str = "") -> Deployment:
    text = f"{around}deployments:\n- name: chat\n  engine: vllm\n  roles:\n  - {role}\n"
    return load(folder, text)[0]


def urls(deployment: Deployment) -> list[str]:
    return [target.address.url for target in deployment.targets()]


WHOLE = """
defaults:
  metricsPort: 8000
  headers: {X-Team: a}
deployments:
- name: chat
  namespace: prod
  model: llama
  endpointType: chat
  engine: {name: vllm-openai, version: 0.10}
  roles:
  - name: prefill
    kind: prefill
    desired: 3
    replicas:
    - ordinal: 4
      retiring: true
      members:
      - {address: 10.0.0.1, kvEvents: [{endpoint: "tcp://*:5557", replayEndpoint: "tcp://*:5558"}, {endpoint: "tcp://10.0.0.1:5559", rank: 1}]}
      - {address: 10.0.0.2, serves: false}
  - name: decode
    kind: Decode
    engine: {name: sglang}
    addresses: ["d0:30000", "[fd00::7]:30000"]
  - {name: parked, desired: 0}
  router:
    name: sglang-gateway
    version: 0.3.2
    members: [{address: "r:30000", metricsPort: 29000}]
  stores:
  - {name: kv, kind: mooncake, tenant: t1, addresses: ["m:9003"]}
"""


def test_a_whole_document(tmp_path: Path) -> None:
    (chat,) = load(tmp_path, WHOLE)
    assert (str(chat.key), chat.model, chat.endpoint_type, chat.platform) == ("prod/chat", "llama", "Chat", "static")
    prefill, decode, parked = chat.roles
    assert (prefill.kind, prefill.desired, prefill.size, prefill.engine, prefill.engine_version) == (
        "Prefill",
        3,
        2,
        "vllm",
        "0.10",
    )
    (replica,) = prefill.replicas
    assert (replica.ordinal, replica.retiring, replica.replacing) == (4, True, False)
    leader, follower = replica.members
    assert (leader.name, leader.seat, follower.seat, follower.serves) == ("chat-prefill-4-0", 0, 1, False)
    assert [(source.endpoint, source.replay_endpoint, source.rank) for source in leader.kv_events] == [
        ("tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558", 0),
        ("tcp://10.0.0.1:5559", None, 1),
    ]
    assert (decode.engine, decode.engine_version, decode.desired) == ("sglang", None, 2)
    assert (parked.desired, parked.replicas) == (0, ())
    assert chat.router is not None
    assert (chat.router.software, chat.router.version, chat.router.desired) == ("sglang_gateway", "0.3.2", 1)
    assert (chat.stores[0].software, chat.stores[0].tenant) == ("mooncake", "t1")
    assert urls(chat) == [
        "http://10.0.0.1:8000/metrics",
        "http://d0:30000/metrics",
        "http://[fd00::7]:30000/metrics",
        "http://r:29000/metrics",
        "http://m:9003/metrics",
    ]
    assert [target.component for target in chat.targets()] == [Component.ENGINE] * 3 + [
        Component.ROUTER,
        Component.STORE,
    ]
    assert {target.address.headers for target in chat.targets()} == {(("X-Team", "a"),)}
    router = chat.router.members[0]
    assert router.api is not None
    assert router.api.url == "http://r:30000"


def test_identity_is_the_hash_of_its_parts_and_nothing_else(tmp_path: Path) -> None:
    first = one_role(tmp_path, "{name: r, addresses: ['a:1', 'b:1']}")
    again = one_role(tmp_path, "{name: r, headers: {X: y}, addresses: ['a:1', 'b:1']}")
    moved = one_role(tmp_path, "{name: r, addresses: ['a:2', 'b:1']}")
    uids = [[member.uid for member in each.roles[0].members()] for each in (first, again, moved)]
    assert uids[0] == uids[1]
    assert uids[0][0] != uids[2][0]
    assert uids[0][1] == uids[2][1]
    assert uids[0][0] == static_uid("default", "chat", "r", 0, None, "a:1")
    assert len(uids[0][0]) == len("static:") + 16


def test_an_absent_part_of_an_identity_is_not_zero() -> None:
    assert static_uid("n", "d", "r", None, None, "a") != static_uid("n", "d", "r", 0, None, "a")
    assert static_uid("ab", "c") != static_uid("a", "bc")


CONNECTIONS: dict[str, tuple[str, str, str]] = {
    "port in the address": ("{name: r, addresses: ['h:1']}", "", "http://h:1/metrics"),
    "default port": ("{name: r, addresses: [h]}", "defaults: {metricsPort: 5}\n", "http://h:5/metrics"),
    "the address's port is nearer than a default": (
        "{name: r, addresses: ['h:1']}",
        "defaults: {metricsPort: 5}\n",
        "http://h:1/metrics",
    ),
    "a role's port is nearer than its short addresses'": (
        "{name: r, metricsPort: 6, addresses: ['h:1']}",
        "",
        "http://h:6/metrics",
    ),
    "a member's port is nearest": (
        "{name: r, metricsPort: 6, replicas: [{members: [{address: 'h:1', metricsPort: 7}]}]}",
        "",
        "http://h:7/metrics",
    ),
    "URL": ("{name: r, addresses: ['https://h:1/x/metrics']}", "", "https://h:1/x/metrics"),
    "URL without path": ("{name: r, metricsPath: /m, addresses: ['http://h:1/']}", "", "http://h:1/m"),
    "path": ("{name: r, metricsPath: /m, addresses: ['h:1']}", "", "http://h:1/m"),
    "tls means https": ("{name: r, tls: {serverName: x}, addresses: ['h:1']}", "", "https://h:1/metrics"),
    "http stays http": (
        "{name: r, scheme: http, addresses: ['h:1']}",
        "defaults: {tls: {serverName: x}}\n",
        "http://h:1/metrics",
    ),
    "bare IPv6": ("{name: r, metricsPort: 8, addresses: ['fd00::7']}", "", "http://[fd00::7]:8/metrics"),
}


@pytest.mark.parametrize(("role", "around", "url"), CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_the_nearest_connection_key_counts(tmp_path: Path, role: str, around: str, url: str) -> None:
    assert urls(one_role(tmp_path, role, around)) == [url]


def test_files_are_relative_to_the_document(tmp_path: Path) -> None:
    role = "{name: r, bearerTokenFile: token, tls: {caFile: ca.pem, certFile: /abs/c.pem}, addresses: ['h:1']}"
    target = next(one_role(tmp_path, role).targets())
    assert target.address.bearer_token_file == str(tmp_path / "token")
    assert target.address.tls == Tls(ca_file=str(tmp_path / "ca.pem"), cert_file="/abs/c.pem")


def role_of(role: str) -> str:
    return f"deployments:\n- name: chat\n  engine: vllm\n  roles:\n  - {role}\n"


FAULTS: dict[str, tuple[str, str]] = {
    "no engine": (
        "deployments:\n- {name: a, roles: [{name: r, addresses: ['h:1']}]}\n",
        "roles[0].engine: found nothing, wanted an engine here",
    ),
    "unknown engine": (
        "deployments:\n- {name: a, engine: vlm, roles: [{name: r, addresses: ['h:1']}]}\n",
        'deployments[0].engine: found "vlm"',
    ),
    "unknown router": (
        role_of("{name: r, addresses: ['h:1']}") + "  router: {name: nginx, addresses: ['r:1']}\n",
        'router.name: found "nginx"',
    ),
    "unknown store": (
        role_of("{name: r, addresses: ['h:1']}") + "  stores: [{name: s, kind: redis, addresses: ['r:1']}]\n",
        'stores[0].kind: found "redis"',
    ),
    "no version of an engine": (
        "deployments:\n- {name: a, engine: {name: vllm, version: latest}, roles: [{name: r, addresses: ['h:1']}]}\n",
        'engine.version: found "latest", wanted a version that begins with a number',
    ),
    "no version of a router": (
        role_of("{name: r, addresses: ['h:1']}")
        + "  router: {name: sglang-gateway, version: main, addresses: ['r:1']}\n",
        'router.version: found "main"',
    ),
    "no version of a store": (
        role_of("{name: r, addresses: ['h:1']}")
        + "  stores: [{name: s, kind: lmcache, version: x1, addresses: ['r:1']}]\n",
        'stores[0].version: found "x1"',
    ),
    "no roles": ("deployments:\n- {name: a, roles: []}\n", "deployments[0].roles: found an empty list"),
    "role without replicas": (role_of("{name: r}"), "or `desired: 0` for a parked role"),
    "both forms": (
        role_of("{name: r, addresses: ['h:1'], replicas: [{members: ['g:1']}]}"),
        "roles[0].addresses: found `addresses` beside `replicas`",
    ),
    "short form with a size": (role_of("{name: r, size: 2, addresses: ['h:1']}"), "single addresses with size 2"),
    "more members than the size": (
        role_of("{name: r, size: 1, replicas: [{members: ['h:1', 'g:1']}]}"),
        "found 2 members, wanted at most the role's size, 1",
    ),
    "replica without members": (role_of("{name: r, replicas: [{members: []}]}"), "members: found an empty list"),
    "role twice": (role_of("{name: r, desired: 0}\n  - {name: r, desired: 0}"), 'roles[1].name: found the role "r"'),
    "kind": (role_of("{name: r, kind: Prefil, desired: 0}"), 'Did you mean "Prefill"?'),
    "deployment twice": (
        "deployments:\n- &a {name: a, engine: vllm, roles: [{name: r, desired: 0}]}\n- *a\n",
        "default/a a second time, wanted each deployment once",
    ),
    "ordinal twice": (
        role_of("{name: r, replicas: [{ordinal: 1, members: ['h:1']}, {members: ['g:1']}]}"),
        "found ordinal 1 a second time",
    ),
    "seat twice": (
        role_of("{name: r, replicas: [{members: [{address: 'h:1', seat: 1}, 'g:1']}]}"),
        "found seat 1 a second time",
    ),
    "member name twice": (
        role_of("{name: r, addresses: [{address: 'h:1', name: m}, {address: 'g:1', name: m}]}"),
        'addresses[1].name: found the member "m" a second time',
    ),
    "address twice": (role_of("{name: r, addresses: ['h:1', 'h:1']}"), "the address h:1/metrics a second time"),
    "no port": (role_of("{name: r, addresses: [h]}"), 'found "h" without a port, wanted host:port, or `metricsPort`'),
    "bad address": (role_of("{name: r, addresses: ['h:99999']}"), 'roles[0].addresses[0]: found "h:99999"'),
    "IPv6 with a port and no brackets": (
        role_of("{name: r, addresses: ['fd00::1:2:3:4:5:6:8000:1']}"),
        "An IPv6 address with a port needs brackets.",
    ),
    "foreign scheme": (role_of("{name: r, addresses: ['ftp://h:1']}"), 'found "ftp://h:1"'),
    "credentials in the address": (role_of("{name: r, addresses: ['http://u:secret@h:1']}"), "`bearerTokenFile`"),
    "tls with http": (role_of("{name: r, scheme: http, tls: {}, addresses: ['h:1']}"), "scheme: found `http` beside"),
    "key without certificate": (
        role_of("{name: r, tls: {keyFile: fleet.yaml}, addresses: ['h:1']}"),
        "tls.keyFile: found a key without a certificate",
    ),
    "skipVerify and a name": (
        role_of("{name: r, tls: {skipVerify: true, serverName: x}, addresses: ['h:1']}"),
        "tls.skipVerify: found `skipVerify` beside",
    ),
    "missing CA file": (
        role_of("{name: r, tls: {caFile: no.pem}, addresses: ['h:1']}"),
        'caFile: found no file "no.pem"',
    ),
    "missing token file": (role_of("{name: r, bearerTokenFile: no, addresses: ['h:1']}"), 'found no file "no"'),
    "header we set": (role_of("{name: r, headers: {Host: x}, addresses: ['h:1']}"), 'the header name "Host"'),
    "header with a line break": (
        role_of('{name: r, headers: {X-Key: "secret\\r\\nY: z"}, addresses: ["h:1"]}'),
        "headers.X-Key: found a value with control",
    ),
    "header in two cases": (role_of("{name: r, headers: {X: a, x: b}, addresses: ['h:1']}"), "in another case"),
    "endpoint": (role_of("{name: r, addresses: [{address: 'h:1', kvEvents: 'h:2'}]}"), "wanted `tcp://host:port`"),
    "endpoint that cannot be dialled": (
        role_of("{name: r, addresses: [{address: 'h:1', kvEvents: {endpoint: 'tcp://0.0.0.0:2'}}]}"),
        "Write `*` for the member's host.",
    ),
    "rank twice": (
        role_of("{name: r, addresses: [{address: 'h:1', kvEvents: ['tcp://*:1', 'tcp://*:2']}]}"),
        "found rank 0 a second time",
    ),
    "router lists twice": (
        role_of("{name: r, desired: 0}") + "  router: {name: llm-d, addresses: ['r:1'], members: ['s:1']}\n",
        "found `addresses` beside `members`",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), FAULTS.values(), ids=FAULTS.keys())
def test_a_contradiction_is_one_fault_with_its_place(tmp_path: Path, text: str, wanted: str) -> None:
    found = check_files([write(tmp_path, text)])
    assert len(found) == 1, [str(each) for each in found]
    assert wanted in str(found[0])
    assert found[0].line > 2
    assert "secret" not in str(found[0])


MAY_COME_RIGHT = (
    "unknown engine",
    "unknown router",
    "missing CA file",
    "missing token file",
    "no version of an engine",
    "no version of a router",
    "no version of a store",
)


@pytest.mark.parametrize("key", MAY_COME_RIGHT)
def test_what_may_come_right_later_does_not_stop_us(tmp_path: Path, key: str) -> None:
    configuration = load_files([write(tmp_path, FAULTS[key][0])])
    assert len(configuration.notices) == 1
    assert len(configuration.deployments) == 1
    software: Any = configuration.deployments[0]
    assert key != "unknown engine" or software.roles[0].engine == "vlm"


def test_more_targets_than_the_limit_is_a_fault(tmp_path: Path) -> None:
    text = role_of("{name: r, addresses: ['h:1', 'h:2', 'h:3']}")
    settings = "---\napiVersion: observer.modeldeployment.io/v1alpha1\nkind: Settings\nlimits: {targets: 2}\n"
    assert check_files([write(tmp_path, text)]) == []
    (fault,) = check_files([write(tmp_path, text + settings)])
    assert "target number 3, wanted at most `limits.targets`, 2" in str(fault)
