"""`observer status`, `explain`, `contract` and the judged columns of `get`: what a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from exporters import status_tables
from observer.cli import main
from tests.cli.serving import served
from tests.exporters.judged import EVERYTHING, HELD, REVOKED, judged, role
from tests.exporters.reports import WALL, Pods, report
from tests.exporters.sources import Reports


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with served(Reports(EVERYTHING)) as url:
        monkeypatch.setenv("OBSERVER_SERVER", url)
        yield


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments, "-n", "prod"])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def line(out: str, *start: str) -> list[str]:
    return next(row for row in cells(out) if row[: len(start)] == [*start])


def test_status_shows_every_part(server: None, capsys) -> None:
    code, out, err = run(capsys, "status", "chat")
    assert (code, err) == (0, "")
    assert out.startswith("prod/chat  Degraded  at 2027-01-15T08:00:00.000Z\n1 of 2 replicas are ready\n")
    assert "endpoint http://chat.prod.svc:8000" in out
    assert "owner of the count scaler-a  last decision to 2" in out
    assert line(out, "server")[:9] == ["server", "Server", "2", "1", "-", "1", "0", "a100", "ProcessStarted"]
    assert "tensorParallel=2 dataParallelLocal=0 no expertParallel Internal" in out
    assert line(out, "EndpointEligibility", "False") == [
        *("EndpointEligibility", "False", "Revoked", "30s", "Computed", "1", "of", "2"),
    ]
    assert line(out, "server/1", "NotReady") == ["server/1", "NotReady", "MembersReady", "failed", "p1", "True"]
    assert line(out, "server", "Unverified") == ["server", "Unverified", "GroupForward", "-", "p2x", "Unknown"]
    assert "Timeout 3.0s ago: 2 s" in out
    assert line(out, "retirement")[:4] == ["retirement", "of", "server/0:", "Draining"]
    assert line(out, "server/0", "Busy") == ["server/0", "Busy", "3", "3", "run"]
    assert line(out, "EndpointEligibility", "True")[-2:] == ["for", "10s"]
    assert line(out, "Workload") == ["Workload", "Forbidden", "10m", "no", "list"]


@pytest.mark.parametrize(
    ("group", "cells"),
    [
        (REVOKED, ["NotReady", "MembersReady", "failed", "p1"]),
        (HELD, ["Unverified", "GroupForward", "60s", "p2x"]),
    ],
    ids=["revoked", "held"],
)
def test_only_a_group_that_qualifies_or_is_held_shows_since_when(monkeypatch, capsys, group, cells) -> None:
    made = judged(role_status=(role(replace(group, qualified_at=WALL - 60)),))
    with served(Reports(made)) as url:
        monkeypatch.setenv("OBSERVER_SERVER", url)
        _, out, _ = run(capsys, "status", "chat")
    assert any(row[1:5] == cells for row in (each.split() for each in out.splitlines()))


def test_what_cannot_be_observed_is_counted_and_wide_names_it(server: None, capsys) -> None:
    _, out, _ = run(capsys, "status", "chat")
    assert "QuotaReserved" not in out
    assert "1 condition cannot be observed from here" in out
    _, wide, _ = run(capsys, "status", "chat", "-o", "wide")
    assert line(wide, "QuotaReserved")[:3] == ["QuotaReserved", "Unknown", "NotObservable"]


@pytest.mark.parametrize(
    ("summary", "roles", "shown"),
    [
        ("1R1S", [role()], "1R1S (ready: routers 1, servers 1 of 2)"),
        ("2R3S", [role(ready=1), role(ready=2)], "2R3S (ready: routers 2, servers 3 of 4)"),
        ("?R0P?D", [role(kind="Prefill", ready=0), role(kind="Decode", ready=None, desired=None)], "?R0P?D (ready: routers ?, prefillers 0 of 2, decoders ? of ?)"),
        ("1E", [role(kind="Encode", desired=1), role(kind="Other")], "1E (ready: encoders 1 of 1)"),
    ],
    ids=["router", "two roles of a kind", "unknown", "no router"],
)  # fmt: skip
def test_the_summary_of_roles_says_that_it_counts_what_is_ready(monkeypatch, capsys, summary, roles, shown) -> None:
    with served(Reports(judged(role_summary=summary, role_status=tuple(roles)))) as url:
        monkeypatch.setenv("OBSERVER_SERVER", url)
        _, out, _ = run(capsys, "status", "chat")
    assert f"roles {shown}  " in out


def test_what_cannot_be_observed_stays_unknown() -> None:
    blind = {"type": "X", "status": "Unknown", "reason": "NotObservable", "advice": "StaysUnknown", "hint": "why"}
    drawn = status_tables._finding(blind)
    assert "stays unknown: why" in drawn


def test_explain_is_three_sentences_then_the_rest(server: None, capsys) -> None:
    code, out, _ = run(capsys, "explain", "chat")
    assert code == 0
    assert out.splitlines()[2:5] == ["One.", "Two.", "Three."]
    assert line(out, "RouterReady") == ["RouterReady", "NoReadyReplicas", "-", "ready", "0"]
    assert line(out, "EngineProgressing")[:6] == ["EngineProgressing", "NotObserved", "-", "clears", "by", "itself"]
    assert "not observable from here: WeightsReady" in out
    assert "AGO" not in out


def test_explain_with_history(server: None, capsys) -> None:
    _, out, _ = run(capsys, "explain", "chat", "--history")
    rows = [row for row in cells(out) if row[1:2] == ["EndpointEligibility"]]
    assert rows == [
        ["30s", "EndpointEligibility", "True", "False", "Revoked"],
        ["90s", "EndpointEligibility", "Unknown", "True", "Qualified"],
    ]


def test_contract_prints_both_sides(server: None, capsys) -> None:
    code, out, _ = run(capsys, "contract", "chat")
    assert code == 0
    assert line(out, "port") == ["port", "8000", "8000", "True"]
    assert line(out, "events") == ["events", "tcp://x:5557", "not", "dialled", "Unknown", "NotRead"]


@pytest.mark.parametrize("verb", ["status", "explain", "contract"])
def test_json_is_the_document(server: None, capsys, verb: str) -> None:
    code, out, _ = run(capsys, verb, "chat", "-o", "json")
    assert (code, json.loads(out)["metadata"]["name"]) == (0, "chat")


@pytest.mark.parametrize("verb", ["status", "explain", "contract"])
def test_what_was_not_judged_fails_with_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys, verb: str) -> None:
    with served(Reports(report(Pods().pod("p")))) as url:
        monkeypatch.setenv("OBSERVER_SERVER", url)
        assert run(capsys, verb, "chat") == (1, "", "Error: prod/chat is not judged yet\n")
        assert run(capsys, verb, "other")[0] == 1


def test_get_shows_phase_reason_and_what_may_serve(server: None, capsys) -> None:
    _, out, _ = run(capsys, "get")
    heading, first, *_ = cells(out)
    assert heading[:10] == [
        *("NAMESPACE", "DEPLOYMENT", "PHASE", "ROLES", "ROLE", "SOFTWARE", "READY", "ELIGIBLE", "SERVING", "RUNNING")
    ]
    assert first[:10] == ["prod", "chat", "Degraded:", "Down", "1R1S", "server", "vllm", "1/2", "-", "1"]
