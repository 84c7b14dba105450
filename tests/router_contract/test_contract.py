"""The published router contract: what is understood, and that every fault is named with what was found and wanted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_contract.contract import MAX_ROLES, MAX_TEXT, RouterContract, decode_router

_STATUS = {
    "name": "llm-d-router",
    "endpoint": "http://chat-router.models.svc:8081",
    "poolEndpoint": "mooncake.models.svc:50051",
    "roles": [
        {
            "name": "prefill",
            "kind": "Prefill",
            "selector": {"app.kubernetes.io/instance": "chat", "app.kubernetes.io/component": "prefill"},
            "endpoint": "http://chat-prefill.models.svc:8000",
            "kvEvents": {
                "endpoint": "tcp://chat-prefill.models.svc:5557",
                "replayEndpoint": "tcp://chat-prefill.models.svc:5558",
                "topic": "kv@",
            },
        },
        {
            "name": "decode",
            "kind": "Decode",
            "selector": {"app.kubernetes.io/component": "decode"},
            "endpoint": "https://chat-decode.models.svc:8000",
        },
    ],
    "metrics": {
        "port": 8000,
        "queuedRequests": "e:queued",
        "runningRequests": "e:running",
        "kvCacheUtilization": "e:kv",
    },
}


def _changed(path: str, value: object) -> dict:
    status = copy.deepcopy(_STATUS)
    *parents, last = path.split(".")
    place: Any = status
    for parent in parents:
        place = place[int(parent) if parent.isdigit() else parent]
    key = int(last) if last.isdigit() else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return status


def test_a_full_contract() -> None:
    decoded = decode_router(_STATUS)
    assert decoded.faults == ()
    assert decoded.unknown == ()
    contract = decoded.contract
    assert isinstance(contract, RouterContract)
    assert (contract.name, contract.endpoint) == ("llm-d-router", "http://chat-router.models.svc:8081")
    assert contract.pool_endpoint == "mooncake.models.svc:50051"
    prefill, decode = contract.roles
    assert prefill.selector == (("app.kubernetes.io/instance", "chat"), ("app.kubernetes.io/component", "prefill"))
    assert prefill.kv_events is not None
    assert prefill.kv_events.topic == "kv@"
    assert (decode.kind, decode.kv_events) == ("Decode", None)
    assert contract.metrics is not None
    assert contract.metrics.port == 8000


def test_nothing_published_is_neither_a_contract_nor_a_fault() -> None:
    decoded = decode_router(None)
    assert (decoded.contract, decoded.faults) == (None, ())


@pytest.mark.parametrize(
    ("path", "value", "read", "wanted"),
    [
        pytest.param("metrics", None, lambda c: c.metrics, None, id="no metrics: not that router"),
        pytest.param("poolEndpoint", "", lambda c: c.pool_endpoint, "", id="no pool"),
        pytest.param("poolEndpoint", ..., lambda c: c.pool_endpoint, "", id="pool left out"),
        pytest.param("roles.0.kind", ..., lambda c: c.roles[0].kind, "Server", id="kind left out is Server"),
        pytest.param("roles.0.kind", "prefill", lambda c: c.roles[0].kind, "Prefill", id="kind in any case"),
        pytest.param("roles.0.kind", "Draft", lambda c: c.roles[0].kind, "Draft", id="unknown kind as written"),
        pytest.param("roles.0.kvEvents.topic", ..., lambda c: c.roles[0].kv_events.topic, "", id="no topic"),
        pytest.param("endpoint", "http://[fd00::1]:80", lambda c: c.endpoint, "http://[fd00::1]:80", id="IPv6"),
        pytest.param("endpoint", "https://router", lambda c: c.endpoint, "https://router", id="no port"),
    ],
)
def test_what_may_be_left_out_or_vary(path, value, read, wanted) -> None:
    decoded = decode_router(_changed(path, value))
    assert decoded.faults == ()
    assert read(decoded.contract) == wanted


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("name", ..., "name: found nothing, want a router's name"),
        ("name", "", "name: found '', want a router's name"),
        (
            "endpoint",
            "ftp://x:1",
            f"endpoint: found 'ftp://x:1', want http(s)://host[:port] of at most {MAX_TEXT} characters",
        ),
        ("endpoint", "http://x:70000", "endpoint: found 'http://x:70000', want http(s)"),
        ("endpoint", "http://user@x:1", "endpoint: found 'http://user@x:1', want http(s)"),
        ("endpoint", "http://" + "a" * MAX_TEXT, "endpoint: found 'http://aaa"),
        ("poolEndpoint", 3, "poolEndpoint: found 3, want text"),
        ("roles", ..., "roles: found nothing, want a list of at least one role"),
        ("roles", [], "roles: found list of 0, want a list of at least one role"),
        ("roles", {"a": 1}, "roles: found dict of 1, want a list of at least one role"),
        ("roles.1", "decode", "roles[1]: found 'decode', want an object"),
        ("roles.1.name", "prefill", "roles: found 'prefill', want a name that no other role has"),
        ("roles.1.name", "Decode!", "roles[1].name: found 'Decode!', want a role name"),
        ("roles.1.selector", {}, "roles[1].selector: found dict of 0, want an object of label values"),
        ("roles.1.selector", {"a": 1}, "roles[1].selector['a']: found 1, want text"),
        ("roles.1.endpoint", ..., "roles[1].endpoint: found nothing, want http(s)"),
        ("roles.0.kvEvents", [], "roles[0].kvEvents: found list of 0, want an object"),
        ("roles.0.kvEvents.endpoint", "tcp://x", "roles[0].kvEvents.endpoint: found 'tcp://x', want tcp://host:port"),
        ("roles.0.kvEvents.replayEndpoint", "http://x:1", "roles[0].kvEvents.replayEndpoint: found 'http://x:1'"),
        ("metrics.port", True, "metrics.port: found True, want a port, 1 to 65535"),
        ("metrics.port", 0, "metrics.port: found 0, want a port, 1 to 65535"),
        ("metrics.queuedRequests", "a b", "metrics.queuedRequests: found 'a b', want a metric name"),
    ],
)
def test_a_fault_is_named(path: str, value: object, fault: str) -> None:
    decoded = decode_router(_changed(path, value))
    assert decoded.contract is None
    assert any(str(found).startswith(fault) for found in decoded.faults), [str(found) for found in decoded.faults]


def test_every_fault_is_named_at_once() -> None:
    status = _changed("endpoint", None)
    status["metrics"]["port"] = "8000"
    status["roles"][1]["endpoint"] = 7
    assert [fault.path for fault in decode_router(status).faults] == ["roles[1].endpoint", "endpoint", "metrics.port"]


def test_unknown_keys_are_listed_and_left_out() -> None:
    status = _changed("roles.0.kvEvents.codec", "x")
    status["later"] = {}
    decoded = decode_router(status)
    assert decoded.contract is not None
    assert sorted(decoded.unknown) == ["later", "roles[0].kvEvents.codec"]


def test_the_number_of_roles_is_limited_and_the_limit_seen() -> None:
    role = _STATUS["roles"][1]
    status = _changed("roles", [{**role, "name": f"role-{index}"} for index in range(MAX_ROLES + 1)])
    decoded = decode_router(status)
    assert [str(fault) for fault in decoded.faults] == [
        f"roles: found list of {MAX_ROLES + 1}, want at most {MAX_ROLES} roles"
    ]


def test_a_long_value_is_shown_short() -> None:
    (fault,) = decode_router(_changed("name", "x" * 10_000)).faults
    assert len(str(fault)) < 200


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_STATUS, "kind", "selector", "port"]), inner)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_gives_a_contract_or_faults_and_never_both(value: object) -> None:
    decoded = decode_router(value)
    assert (decoded.contract is None) == (bool(decoded.faults) or value is None)
