"""The doctor's table: every cause is told by facts of its own, and what no row explains is never well."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from observer.judge.diagnosis import EXPOSITION, TABLE, UNDETERMINED, examine
from router_contract.diagnosis import (
    Answer,
    Certainty,
    Certificate,
    Contents,
    Dial,
    Elsewhere,
    Facts,
    KvSeen,
    Reach,
    TlsSeen,
)
from router_contract.readings import FailureKind

GREETING = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"
OPEN = Dial(port=8000, reach=Reach.CONNECTED)
GOOD = Contents(names=50, own=40, matched=20, matched_any=20)
BASE = Facts(member="engine-0", software="vllm", host="10.0.0.7", port=8000, addresses=("10.0.0.7",), dial=OPEN)
WELL = replace(BASE, answer=Answer(size=900, contents=GOOD))
CLOSED = Answer(failure=FailureKind.TRUNCATED, detail="closed without an answer")


def dialled(reach: Reach, **more: object) -> Facts:
    return replace(BASE, dial=Dial(port=8000, reach=reach, detail="odd"), **more)


def answered(failure: FailureKind | None = None, **more: object) -> Facts:
    facts = {key: more.pop(key) for key in ("credentials", "elsewhere", "scheme") if key in more}
    return replace(BASE, answer=Answer(failure=failure, detail="what happened", **more), **facts)


def held(**more: object) -> Facts:
    return replace(BASE, answer=Answer(size=900, contents=Contents(**({"names": 50} | more))))


def secured(code: int | None = None, **more: object) -> Facts:
    certificate = Certificate(names=("engine.example",), issuer="their-authority")
    seen = TlsSeen(spoken=True, verify_code=code, certificate=certificate)
    return replace(BASE, scheme="https", answer=Answer(failure=FailureKind.TLS, detail="refused"), tls=seen, **more)


def plaintext(**tls: object) -> Facts:
    return replace(BASE, answer=CLOSED, tls=TlsSeen(**({"spoken": True} | tls)))


def elsewhere(reach: Reach = Reach.CONNECTED, own: int = 0) -> tuple[Elsewhere, ...]:
    return (Elsewhere(port=9000, path="/metrics", reach=reach, own=own),)


def published(reach: Reach, greeting: bytes = b"", **more: object) -> Facts:
    seen = KvSeen(rank=0, endpoint="tcp://10.0.0.7:5557", events=Dial(port=5557, reach=reach, greeting=greeting))
    return replace(WELL, kv=(seen,), **more)


MESH = Certificate(identities=("spiffe://cluster.local/ns/prod/sa/engine",))
WANTS = TlsSeen(spoken=True, demands_client=True)
CASES: dict[str, tuple[Facts, str]] = {
    "no container": (replace(BASE, started=False), "NotStarted"),
    "no token file": (replace(BASE, local_fault="the bearer token file x"), "CredentialFile"),
    "DNS drops": (replace(BASE, dns_hangs=True, dial=None), "NameHangs"),
    "no such name": (replace(BASE, dns_error="not known", dial=None), "NameUnknown"),
    "refused, metrics elsewhere": (dialled(Reach.REFUSED, elsewhere=elsewhere(own=40)), "WrongPort"),
    "dropped, metrics elsewhere": (dialled(Reach.TIMEOUT, elsewhere=elsewhere(own=40)), "WrongPort"),
    "dropped, another connects": (dialled(Reach.TIMEOUT, elsewhere=elsewhere()), "PortDropped"),
    "dropped, all of them": (dialled(Reach.TIMEOUT, elsewhere=elsewhere(Reach.TIMEOUT)), "HostDropped"),
    "forbidden": (dialled(Reach.FORBIDDEN), "Rejected"),
    "no route": (dialled(Reach.NO_ROUTE), "NoRoute"),
    "refused, loopback accepts": (dialled(Reach.REFUSED, loopback=OPEN), "LoopbackOnly"),
    "refused, --host=localhost": (dialled(Reach.REFUSED, arguments=("serve", "--host=localhost")), "LoopbackOnly"),
    "refused, --host 127.0.0.1": (dialled(Reach.REFUSED, arguments=("--host", "127.0.0.1")), "LoopbackOnly"),
    "refused, another connects": (dialled(Reach.REFUSED, elsewhere=elsewhere()), "PortClosed"),
    "refused, all of them": (dialled(Reach.REFUSED, elsewhere=elsewhere(Reach.REFUSED)), "NothingListens"),
    "greets as ZeroMQ": (replace(BASE, dial=replace(OPEN, greeting=GREETING)), "KvPortAsked"),
    "another error": (dialled(Reach.FAILED), "CannotConnect"),
    "mesh identity, plaintext closed": (plaintext(demands_client=True, certificate=MESH), "MeshStrictMtls"),
    "mesh identity over https": (
        replace(BASE, scheme="https", answer=CLOSED, tls=replace(WANTS, certificate=MESH)),
        "MeshStrictMtls",
    ),
    "plaintext closed, client wanted": (plaintext(demands_client=True), "MutualTlsOnly"),
    "plaintext closed, TLS spoken": (plaintext(answered=True), "SpeaksTls"),
    "400 to plaintext, TLS spoken": (
        replace(BASE, answer=Answer(failure=FailureKind.HTTP, status=400), tls=TlsSeen(spoken=True)),
        "SpeaksTls",
    ),
    "https to plain": (
        replace(
            BASE,
            scheme="https",
            answer=Answer(failure=FailureKind.TLS),
            tls=TlsSeen(spoken=False),
            plain=Answer(size=10, contents=GOOD),
        ),
        "SpeaksPlain",
    ),
    "no client certificate": (
        replace(BASE, scheme="https", answer=Answer(failure=FailureKind.TLS), tls=WANTS),
        "ClientCertificateWanted",
    ),
    "client certificate refused": (
        replace(BASE, scheme="https", client_certificate=True, answer=Answer(failure=FailureKind.TLS), tls=WANTS),
        "ClientCertificateRefused",
    ),
    "expired": (secured(10), "CertificateExpired"),
    "not yet valid": (secured(9), "CertificateExpired"),
    "self-signed": (secured(18), "SelfSigned"),
    "chain of an unknown root": (secured(19), "AuthorityUnknown"),
    "issuer not there": (secured(20), "AuthorityUnknown"),
    "another name": (secured(62), "CertificateName"),
    "another address": (secured(64), "CertificateName"),
    "TLS fails otherwise": (secured(None), "TlsFails"),
    "404, found elsewhere": (
        answered(FailureKind.HTTP, status=404, elsewhere=elsewhere(own=40)),
        "WrongPath",
    ),
    "HTML, found elsewhere": (
        answered(FailureKind.NOT_EXPOSITION, size=9, head="<html>", elsewhere=elsewhere(own=40)),
        "WrongPath",
    ),
    "401 without": (answered(FailureKind.HTTP, status=401), "CredentialsWanted"),
    "401 with": (answered(FailureKind.HTTP, status=401, credentials=True), "CredentialsRefused"),
    "403": (answered(FailureKind.HTTP, status=403), "Forbidden"),
    "404": (answered(FailureKind.HTTP, status=404), "PathUnknown"),
    "429": (answered(FailureKind.HTTP, status=429), "Throttled"),
    "503": (answered(FailureKind.HTTP, status=503), "ProxyCannotReach"),
    "500": (answered(FailureKind.HTTP, status=500), "ProgramFails"),
    "302": (answered(FailureKind.REDIRECT, status=302), "Redirects"),
    "418": (answered(FailureKind.HTTP, status=418), "OtherStatus"),
    "HTML by type": (answered(FailureKind.NOT_EXPOSITION, size=9, content_type="text/html"), "Html"),
    "HTML by its head": (answered(FailureKind.NOT_EXPOSITION, size=9, head="\n<!DOCTYPE html>"), "Html"),
    "JSON": (answered(FailureKind.NOT_EXPOSITION, size=9, head='{"a": 1}'), "Json"),
    "empty": (answered(FailureKind.NOT_EXPOSITION, size=0), "EmptyRegistry"),
    "comments only": (held(names=0), "EmptyRegistry"),
    "some text": (answered(FailureKind.NOT_EXPOSITION, size=9, head="OK"), "NotExposition"),
    "no answer in time": (answered(FailureKind.TIMEOUT), "Hangs"),
    "too large": (answered(FailureKind.TOO_LARGE), "TooLarge"),
    "cut off": (answered(FailureKind.TRUNCATED), "Truncated"),
    "broken gzip": (answered(FailureKind.BAD_ENCODING), "BadEncoding"),
    "no HTTP": (answered(FailureKind.MALFORMED), "NotHttp"),
    "another program's": (held(claims=(("sglang", 30),)), "WrongProgram"),
    "no such program": (held(known_software=False), "UnknownProgram"),
    "the run-time's own": (held(), "NoneOfItsOwn"),
    "another version's": (held(own=40, matched=10, matched_any=12, lost=("a:b",)), "OtherVersion"),
    "names of a later release": (held(own=40), "NewNames"),
    "KV dropped": (published(Reach.TIMEOUT), "KvPortDropped"),
    "KV on loopback by its command": (
        published(Reach.REFUSED, arguments=("--kv-events-config", '{"endpoint": "tcp://127.0.0.1:5557"}')),
        "KvLoopbackOnly",
    ),
    "KV refused": (published(Reach.REFUSED), "KvPortClosed"),
    "KV without a route": (published(Reach.NO_ROUTE), "KvUnreachable"),
    "KV is HTTP": (published(Reach.CONNECTED), "KvNotZmq"),
}


@pytest.mark.parametrize(("facts", "cause"), CASES.values(), ids=CASES)
def test_each_cause(facts: Facts, cause: str) -> None:
    made = examine(facts)
    assert [each.cause for each in made.findings] == [cause]
    assert not made.well
    (found,) = made.findings
    for text in (found.said, *found.change):
        # No placeholder is left, and nothing unknown is printed as if it were a value.
        assert not re.search(r"\{[a-z_]+\}", text), text
        assert "None" not in text, text
    assert found.change


def test_every_row_has_a_case() -> None:
    causes = [row.cause for _, rows in TABLE for row in rows]
    assert len(causes) == len(set(causes))
    assert set(causes) == {cause for _, cause in CASES.values()}
    print(f"figure: {len(causes)} causes, each told apart by facts of its own in {len(CASES)} cases")


def test_well_is_only_what_was_read_and_understood() -> None:
    assert examine(WELL).well
    assert examine(published(Reach.CONNECTED, GREETING)).well


def test_both_sockets_of_a_publisher_are_judged() -> None:
    seen = KvSeen(
        rank=2,
        endpoint="tcp://10.0.0.7:5559",
        events=Dial(port=5559, reach=Reach.CONNECTED, greeting=GREETING),
        replay_endpoint="tcp://10.0.0.7:5561",
        replay=Dial(port=5561, reach=Reach.TIMEOUT),
    )
    (found,) = examine(replace(WELL, kv=(seen,))).findings
    assert found.cause == "KvPortDropped"
    assert found.said.startswith("packets to the replay of rank 2 socket tcp://10.0.0.7:5561 are dropped")
    assert any("port: 5561" in line for line in found.change)


def test_a_policy_finding_names_port_and_namespace() -> None:
    facts = dialled(Reach.TIMEOUT, elsewhere=elsewhere(), namespace="prod")
    (found,) = examine(facts).findings
    assert found.certainty is Certainty.LIKELY
    assert found.change[0] == "kubectl -n prod get networkpolicy  # which of them select the Pod engine-0"
    assert "ports: [{protocol: TCP, port: 8000}]" in found.change[1]


def test_a_mesh_finding_has_the_annotation_for_the_port() -> None:
    (found,) = examine(plaintext(demands_client=True, certificate=MESH)).findings
    assert 'traffic.sidecar.istio.io/excludeInboundPorts: "8000"' in found.change[0]
    assert "portLevelMtls: {8000: {mode: PERMISSIVE}}" in found.change[1]


def test_ipv6_hosts_have_brackets() -> None:
    (found,) = examine(replace(dialled(Reach.NO_ROUTE), host="fd00::7")).findings
    assert found.said == "there is no route to [fd00::7]"


def test_what_no_row_explains_is_undetermined() -> None:
    (found,) = examine(BASE).findings
    assert (found.cause, found.certainty) == (UNDETERMINED, Certainty.LIKELY)


answers = st.builds(
    Answer,
    failure=st.none() | st.sampled_from(FailureKind),
    status=st.none() | st.integers(100, 599),
    size=st.integers(0, 9),
    head=st.text(max_size=4),
    contents=st.none()
    | st.builds(Contents, names=st.integers(0, 3), own=st.integers(0, 3), matched_any=st.integers(0, 3)),
)
facts = st.builds(
    Facts,
    host=st.just("h"),
    port=st.just(1),
    scheme=st.sampled_from(["http", "https"]),
    dial=st.none() | st.builds(Dial, port=st.just(1), reach=st.sampled_from(Reach), greeting=st.binary(max_size=12)),
    answer=st.none() | answers,
    tls=st.none()
    | st.builds(TlsSeen, spoken=st.booleans(), verify_code=st.none() | st.sampled_from([0, 10, 18, 20, 62])),
    plain=st.none() | answers,
    arguments=st.lists(st.text(string.ascii_letters + "-=", max_size=5), max_size=3).map(tuple),
)


@given(facts)
def test_nothing_is_well_that_was_not_understood(given_facts: Facts) -> None:
    made = examine(given_facts)
    answer = given_facts.answer
    if made.well:
        assert answer is not None
        assert answer.failure is None
        assert answer.contents is not None
        assert answer.contents.own > 0
        assert answer.contents.matched_any > 0
    assert len(made.findings) <= 1
    assert len(EXPOSITION) > 40
