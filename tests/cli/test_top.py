"""The verb `top`: lines and their order, what is not known, the keys, and a real terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from exporters.live import PLAIN_WIDTH
from exporters.top import TopApi, deployment_line
from exporters.top_tables import SORTS, arranged, picture
from observer.cli.top import View, body, pressed, screen
from router_contract.readings import MissingCode, State
from router_contract.verdicts import RoleMeasurement, TargetState
from tests.cli.serving import served
from tests.cli.test_show import cells, named, run
from tests.exporters.reports import Pods, counter, gauge, gone, hist, report
from tests.exporters.sources import Reports


def busy() -> Reports:
    role = RoleMeasurement(name="server", values=(hist("time-to-first-token", 9.0, 0.25),))
    chat = report(
        Pods(desired=3)
        .pod(
            "chat-0",
            gauge("requests-running", 12.0),
            gauge("requests-waiting", 0.0),
            gauge("kv-cache-usage", 0.5),
            counter("generation-tokens", 600.0),
            counter("prefix-cache-queries", 100.0),
            counter("prefix-cache-hits", 25.0),
        )
        .pod("chat-1", gauge("requests-running", 3.0, state=State.STALE, age=40.0), gone("requests-waiting"))
        .pod("chat-2", state=TargetState.FAILING),
        Pods("router", "Router", "sglang_gateway").pod("router-0", counter("router-requests", 60.0)),
        roles=(role,),
    )
    parked = report(Pods(desired=0))
    lost = report(Pods().pod("lost-0", gone("requests-running", MissingCode.UNREADABLE), state=TargetState.FAILING))
    return Reports(named(chat, "default", "chat"), named(parked, "default", "parked"), named(lost, "prod", "lost"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    with served(busy(), *TopApi(busy()).routes()) as url:
        monkeypatch.setenv("OBSERVER_SERVER", url)
        yield url


def items() -> list[dict]:
    import msgspec

    return [msgspec.to_builtins(deployment_line(each)) for each in busy().reports.values()]


def line(text: str, name: str) -> list[str]:
    return next(row for row in cells(text) if name in row)


def test_what_is_not_known_is_a_dash_and_zero_is_zero(server: str, capsys) -> None:
    code, out, err = run(capsys, "top", "-A")
    assert (code, err) == (0, "")
    assert cells(out)[0][:6] == ["NAMESPACE", "DEPLOYMENT", "ROLE", "POD", "STATE", "READY"]
    assert line(out, "chat-0") == ["server", "chat-0", "Up", "12", "0", "50%", "-", "10", "-", "25%", "1.0s"]
    # a stale part is marked; what this Pod did not tell is not known
    assert line(out, "chat-1") == ["server", "chat-1", "Up", "3~", "-", "-", "-", "-", "-", "-", "40s"]
    assert line(out, "chat-2")[2:] == ["Failing", *["-"] * 8]
    # the deployment's sums are the document's, of the Pods that could be read, and it says so
    assert line(out, "chat")[2:] == ["-", "Partial", "?/3", "15~", "0", "50%", "1", "-", "-", "-", "40s"]
    assert line(out, "lost-0")[3:] == ["-"] * 8


def test_one_namespace_and_machine_formats(server: str, capsys) -> None:
    code, out, _ = run(capsys, "top", "-n", "prod", "-o", "json")
    made = json.loads(out)
    assert (code, [each["name"] for each in made["items"]], made["leftOut"]) == (0, ["lost"], 0)
    assert made["items"][0]["replicas"][0]["figures"]["running"] is None


def order(sort: str, *, reverse: bool = False, text: str = "") -> list[str]:
    made = arranged(items(), sort, reverse=reverse, text=text)
    return [each["pod"] for item in made if item["name"] == "chat" for each in item["replicas"]]


def test_unknown_comes_last_in_both_directions() -> None:
    assert order("running")[:2] == ["chat-0", "chat-1"]
    assert order("running", reverse=True)[:2] == ["chat-1", "chat-0"]
    assert order("name") == ["router-0", "chat-0", "chat-1", "chat-2"]
    assert order("name", reverse=True) == ["chat-2", "chat-1", "chat-0", "router-0"]


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_keeps_every_line(sort: str) -> None:
    assert sorted(order(sort)) == ["chat-0", "chat-1", "chat-2", "router-0"]


def test_a_filter_keeps_what_has_the_text() -> None:
    assert order("name", text="failing") == ["chat-2"]
    assert order("name", text="SGLANG") == ["router-0"]
    assert [each["name"] for each in arranged(items(), "name", reverse=False, text="prod")] == ["lost"]


KEYS = {
    "s": ("s", View(sort="running")),
    "s around": ("s" * len(SORTS), View()),
    "r": ("r", View(reverse=True)),
    "e": ("e", View(replicas=False)),
    "q": ("q", View(done=True)),
    "a filter": ("/ab\n", View(text="ab")),
    "a filter, corrected": ("/abc\x7f\n", View(text="ab")),
    "a filter given up": ("/ab\x1b", View()),
    "q in a filter is a letter": ("/q", View(text="q", typing=True)),
    "an arrow": ("\x1b[A", View()),
    "nothing": ("", View()),
    "no meaning": ("xyz", View()),
}


@pytest.mark.parametrize(("keys", "wanted"), KEYS.values(), ids=KEYS)
def test_keys(keys: str, wanted: View) -> None:
    view = View()
    if keys.startswith("\x1b"):
        view = pressed(view, keys)
    else:
        for key in keys:
            view = pressed(view, key)
    assert view == wanted


def rendered(thing, width: int = 120) -> str:
    target = Console(width=width, height=12, record=True, file=io.StringIO(), force_terminal=True)
    target.print(thing)
    return target.export_text()


def test_trouble_stands_above_the_last_numbers() -> None:
    target = Console(width=100, height=12, force_terminal=True)
    answer = {"items": items(), "leftOut": 0}
    text = rendered(screen(answer, View(), target, "no observer answers"))
    assert "these are the last numbers there were: no observer answers" in text
    assert "s sort" in text
    assert len(text.splitlines()) <= 12


def test_nothing_to_show_is_said() -> None:
    assert "No deployment is observed." in rendered(body({"items": [], "leftOut": 0}, View(), 80))
    assert "Nothing has 'zzz' in it." in rendered(body({"items": items(), "leftOut": 0}, View(text="zzz"), 80))
    assert "3 more replicas are left out" in rendered(body({"items": items(), "leftOut": 3}, View(), 80))


def test_every_line_fits_a_narrow_terminal() -> None:
    for width in (60, 80, 120):
        assert all(len(row) <= width for row in rendered(picture(items(), width), PLAIN_WIDTH).splitlines())


def test_keys_on_a_real_terminal(server: str) -> None:
    """A pseudo-terminal: the table is drawn, a key re-sorts it, `q` ends it with the terminal as it was."""
    main, other = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    command = [sys.executable, "-m", "observer", "top", "-A", "--server", server]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environ, start_new_session=True)
    try:
        seen = until(main, b"sorted by name")
        os.write(main, b"s")
        seen += until(main, b"sorted by running")
        os.write(main, b"q")
        assert process.wait(20) == 0
        assert b"chat-0" in seen
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(main)
        os.close(other)


def until(file: int, wanted: bytes) -> bytes:
    seen, end = b"", time.monotonic() + 30
    while wanted not in seen and time.monotonic() < end:
        if select.select([file], [], [], 0.2)[0]:
            seen += os.read(file, 65536)
    assert wanted in seen, seen[-500:]
    return seen


def test_of_a_deployment_without_any_role_nothing_is_known() -> None:
    """Nobody said that there are none: 0/0 would be what a parked deployment is."""
    found = deployment_line(report())
    assert (found.ready, found.desired) == (None, None)
    parked = deployment_line(report(Pods(desired=0)))
    assert parked.desired == 0
