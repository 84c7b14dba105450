"""What Ready means on a role, with every listener and TLS case of the users' text."""

from __future__ import annotations

import pytest

from observer.judge.readiness import readiness, serves_tls
from router_contract.targets import Role
from tests.judge.build import GPUSTACK, OTHER, STATIC, member, replica, role

CERT = ("--ssl-certfile", "c")


@pytest.mark.parametrize(
    ("changes", "meaning", "word"),
    [
        pytest.param({}, "EngineAnswered", "/health", id="plain"),
        pytest.param({"command": ("serve",)}, "ProcessStarted", "command", id="command replaced"),
        pytest.param({"arguments": ("--host", "h")}, "ProcessStarted", "--host", id="host moved"),
        pytest.param({"arguments": ("--port=9",)}, "ProcessStarted", "--port", id="port moved"),
        pytest.param({"arguments": ("--por", "9")}, "ProcessStarted", "--por", id="port moved by abbreviation"),
        pytest.param({"arguments": ("--", "--port", "9")}, "EngineAnswered", "/health", id="past a bare --"),
        pytest.param({"port_protocol": "UDP"}, "ProcessStarted", "UDP", id="UDP"),
        pytest.param({"port_protocol": "SCTP"}, "ProcessStarted", "SCTP", id="SCTP"),
        pytest.param({"port_protocol": "tcp"}, "EngineAnswered", "/health", id="TCP in lower case"),
        pytest.param({"arguments": CERT}, "EngineAnswered", "/health", id="TLS is gated over HTTPS"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs", "0")}, "EngineAnswered", "/health", id="CERT_NONE"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs", "1")}, "EngineAnswered", "/health", id="CERT_OPTIONAL"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs=1")}, "EngineAnswered", "/health", id="inline"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs", "2")}, "ProcessStarted", "2", id="CERT_REQUIRED"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs", "7")}, "ProcessStarted", "7", id="outside the enum"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs", "-1")}, "ProcessStarted", "-1", id="negative"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs", "yes")}, "ProcessStarted", "'yes'", id="not a number"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs")}, "ProcessStarted", "no value", id="no value"),
        pytest.param({"arguments": (*CERT, "--ssl-cert-reqs=")}, "ProcessStarted", "''", id="empty value"),
        pytest.param(
            {"arguments": (*CERT, "--ssl-cert-reqs", "2", "--ssl-cert-reqs", "0")},
            "EngineAnswered",
            "/health",
            id="last wins",
        ),
        pytest.param(
            {"arguments": ("--ssl-keyfile", "k", "--ssl-cert-reqs", "2")}, "ProcessStarted", "2", id="alongside a key"
        ),
        pytest.param(
            {"arguments": ("--ssl-cert-reqs", "2")},
            "EngineAnswered",
            "/health",
            id="without a certificate: no TLS at all",
        ),
    ],
)
def test_managed_roles(changes, meaning, word):
    found = readiness(Role(name="r", engine="vLLM", **changes), GPUSTACK)
    assert found.meaning.value == meaning
    assert word in found.why


def test_elsewhere_the_pods_own_gates_decide():
    gated, bare = role(replica(member("a"))), role(replica(member("a", readiness_gated=False)))
    assert readiness(gated, OTHER).meaning.value == "EngineAnswered"
    assert readiness(bare, OTHER).meaning.value == "ProcessStarted"
    assert "pod-a" in readiness(bare, OTHER).why
    assert readiness(Role(name="r"), OTHER).meaning.value == "ProcessStarted"


def test_static_targets_are_read_by_us():
    assert readiness(Role(name="r"), STATIC).meaning.value == "EngineAnswered"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--ssl-certfile", "c"), True),
        (("--ssl-keyfile=k",), True),
        (("--ssl-ca-certs", "c"), False),
        (("--ssl-cert-reqs", "2"), False),
        ((), False),
    ],
)
def test_only_a_certificate_or_a_key_turns_the_scheme(arguments, expected):
    assert serves_tls(Role(name="r", engine="vllm", arguments=arguments)) is expected
