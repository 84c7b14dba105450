"""The verbs that ask a running observer: what they print, to which stream, and what they exit with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace
from ruamel.yaml import YAML

from observer.cli import client, main
from observer.cli.exits import CommandFailed
from router_contract.readings import MissingCode
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetState
from tests.cli.serving import served
from tests.exporters.reports import Pods, counter, gauge, gone, hist, report
from tests.exporters.sources import Reports


def named(made: DeploymentReport, namespace: str, name: str) -> DeploymentReport:
    key = DeploymentKey(namespace, name)
    targets = [replace(t, status=replace(t.status, key=replace(t.status.key, deployment=key))) for t in made.targets]
    return replace(made, deployment=replace(made.deployment, key=key), targets=tuple(targets))


def source() -> Reports:
    role = RoleMeasurement(name="server", values=(hist("time-to-first-token", 9.0, 0.25),))
    chat = report(
        Pods(desired=2)
        .pod("chat-0", gauge("requests-running", 12.0), gone("requests-waiting", MissingCode.UNREADABLE))
        .pod("chat-1", state=TargetState.FAILING),
        Pods("router", "Router", "sglang_gateway").pod(
            "router-0", counter("router-requests", 60.0), counter("router-retries-exhausted", 3.0)
        ),
        roles=(role,),
        model="tiny",
    )
    parked = report(Pods(desired=0))
    lost = report(Pods().pod("lost-0", state=TargetState.FAILING))
    return Reports(named(chat, "default", "chat"), named(parked, "default", "parked"), named(lost, "prod", "lost"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with served(source()) as url:
        monkeypatch.setenv("OBSERVER_SERVER", url)
        yield url


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_get_lists_roles_and_the_router(server: str, capsys) -> None:
    code, out, err = run(capsys, "get")
    assert (code, err) == (0, "")
    rows = cells(out)
    assert rows[0][:7] == ["NAMESPACE", "DEPLOYMENT", "PHASE", "ROLES", "ROLE", "SOFTWARE", "READY"]
    # nothing was judged here: phase, roles, eligible and serving are not known
    judged, measured = ["-", "-"], ["12", "-", "-", "-", "-", "1.0s", "Partial"]
    assert rows[1] == ["default", "chat", *judged, "server", "vllm", "?/2", "-", "-", *measured]
    assert rows[2] == ["router", "sglang_gateway", "?/1", "-", "1", "5.0%"]
    assert rows[3][:11] == ["default", "parked", *judged, "server", "vllm", "0/0", "-", "-", "0", "0"]
    assert "lost" not in out


def test_get_everywhere_and_wide(server: str, capsys) -> None:
    code, out, _ = run(capsys, "get", "-A", "-o", "wide")
    assert code == 0
    assert "no Pod of prod/lost could be read; lost-0: the last read failed: Http: status 500" in out
    assert "chat-0: local-prefix: the Pod answered without this metric" in out


def test_get_one_by_name(server: str, capsys) -> None:
    code, out, _ = run(capsys, "get", "lost", "-n", "prod", "-o", "json")
    assert (code, [item["name"] for item in json.loads(out)["items"]]) == (0, ["lost"])


def test_get_an_unknown_name_says_what_there_is(server: str, capsys) -> None:
    code, out, err = run(capsys, "get", "lost")
    assert (code, out) == (1, "")
    assert "no deployment lost in namespace default; observed: default/chat, default/parked, prod/lost" in err


def test_get_in_an_empty_namespace_points_to_the_others(server: str, capsys) -> None:
    code, _, err = run(capsys, "get", "-n", "dev")
    assert code == 0
    assert err == "No deployment in namespace dev; there are some in default, prod: use -n or -A.\n"


def test_metrics_shows_each_kind_of_entry(server: str, capsys) -> None:
    code, out, _ = run(capsys, "metrics", "chat")
    assert code == 0
    assert out.startswith("default/chat  Partial  2 of 3 Pods read  at 2027-01-15T08:00:00.000Z\n")
    assert ["running", "engine/server", "12", "requests", "1", "1.0s", "Fresh", "wire:requests-running"] in cells(out)
    assert next(row[:-1] for row in cells(out) if row[:1] == ["failed-requests"]) == [
        "failed-requests",
        "router-0",
        "0.05/s",
        "3",
        "60s",
        "1.0s",
        "Fresh",
    ]
    assert any(row[:4] == ["ScrapeFailed", "everything", "chat-1", "scrape"] for row in cells(out))
    assert "ttft" in out
    assert "all of server" in out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_machine_formats_hold_the_document_as_served(server: str, capsys, form: str) -> None:
    code, out, _ = run(capsys, "metrics", "chat", "-o", form)
    made = json.loads(out) if form == "json" else YAML(typ="safe").load(out)
    assert (code, made["kind"], made["partial"]) == (0, "ModelDeploymentMetrics", True)
    assert list(made)[:4] == ["apiVersion", "kind", "metadata", "timestamp"]


FAILURES = {
    "unavailable": (("metrics", "lost", "-n", "prod"), 1, "no Pod of prod/lost could be read; lost-0"),
    "not found": (("metrics", "nope"), 1, "no deployment default/nope is observed"),
    "no name": (("metrics",), 2, "Missing argument 'NAME'"),
    "no such verb": (("gett",), 2, "Did you mean 'get'?"),
    "bad format": (("get", "-o", "xml"), 2, "'xml' is not one of"),
    "bad address": (("get", "--server", "http://"), 2, "want an address like http://127.0.0.1:9480"),
    "no token file": (("get", "--token-file", "/nonexistent"), 2, "the token file /nonexistent cannot be read"),
}


@pytest.mark.parametrize(("arguments", "code", "part"), FAILURES.values(), ids=FAILURES)
def test_failures_have_a_sentence_and_a_code(server: str, capsys, arguments, code: int, part: str) -> None:
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (code, "")
    assert part in err


def test_nobody_answers(capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = run(capsys, "get", "--server", address)
    assert (code, out) == (3, "")
    assert f"no observer answers at http://{address}" in err
    assert "observer demo" in err


def test_something_else_answers(capsys) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    with served(None, web.get("/api/v1/deployments", page)) as url:
        code, _, err = run(capsys, "get", "--server", url)
    assert code == 3
    assert f"what answers at {url} is no observer: HTTP 200 with a web page. Check --server" in err


def test_a_slow_answer_is_announced_and_then_given_up(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SLOW_SECONDS", 0.01)

    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with served(None, web.get("/api/v1/deployments", never)) as url:
        code, _, err = run(capsys, "get", "--server", url, "--timeout", "0.2")
    assert code == 3
    assert err.splitlines() == [
        f"waiting for {url} …",
        f"Error: {url} did not answer within 0.2 s. Try --timeout, or look at its logs",
    ]


def test_the_token_is_sent(capsys, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with served(source(), token="secret") as url:
        refused = run(capsys, "get", "--server", url)
        allowed = run(capsys, "get", "--server", url, "--token-file", str(token))
    assert (refused[0], allowed[0]) == (1, 0)
    assert "Authorization: Bearer" in refused[2]


def test_targets_with_filters_and_all_pages(server: str, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("observer.cli.show.PAGE", "1")
    code, out, _ = run(capsys, "targets", "-A", "-o", "json")
    assert (code, [item["pod"] for item in json.loads(out)["items"]]) == (0, ["chat-0", "chat-1", "router-0", "lost-0"])
    code, out, _ = run(capsys, "targets", "--state", "Failing", "--component", "engine")
    rows = cells(out)
    assert [row[2] for row in rows[1:]] == ["chat-1"]
    assert rows[1][-3:] == ["Http:", "status", "500"]
    assert run(capsys, "targets", "--deployment", "none")[1] == (
        "No target in namespace default (-A asks in all) is as asked: none.\n"
    )
    assert run(capsys, "targets", "-n", "dev")[1] == (
        "No target in namespace dev; there are deployments in default, prod: use -n or -A.\n"
    )


def test_watch_prints_what_changed_and_ends_with_ctrl_c() -> None:
    reports = source()
    with served(reports) as url:
        command = [sys.executable, "-c", "import sys; from observer.cli import main; sys.exit(main())"]
        child = subprocess.Popen(
            [*command, "get", "parked", "--watch", "--interval", "0.2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OBSERVER_SERVER": url, "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert child.stdout is not None
            first = [child.stdout.readline() for _ in range(2)]
            key = DeploymentKey("default", "parked")
            reports.reports[key] = named(report(Pods(desired=4)), "default", "parked")
            second = [child.stdout.readline() for _ in range(2)]
            child.send_signal(signal.SIGINT)
            code = child.wait(10)
        finally:
            child.kill()
            child.communicate()
    assert "0/0" in first[1]
    assert "0/4" in second[1]
    assert code == 130


def test_no_colour_outside_a_terminal_and_none_when_unwanted(server: str) -> None:
    command = [sys.executable, "-c", "import sys; from observer.cli import main; sys.exit(main())", "get"]
    for more in ({}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, **more})
        assert b"\x1b[3" not in done.stdout, more
    forced = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "200"}
    )
    assert b"\x1b[33mPartial" in forced.stdout


def test_a_path_that_the_observer_does_not_know_is_a_matter_of_versions(server: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        client.Client(server=server).get("/nope", waiting=lambda _: None)
    assert f"the observer at {server} does not know /nope: it is of another version" in failed.value.message
