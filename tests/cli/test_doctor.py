"""The verb `doctor`: from here and through an observer, what it prints and what it exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.serving import served
from tests.cli.test_show import run
from tests.fakes.hostile import closed_port

RECORDINGS = Path(__file__).parents[1] / "recordings"
VLLM = (RECORDINGS / "vllm-0.32.0" / "metrics-02-warm.prom").read_text()


async def metrics(_: web.Request) -> web.Response:
    return web.Response(text=VLLM)


async def login(_: web.Request) -> web.Response:
    return web.Response(text="<html>log in</html>", content_type="text/html")


ROUTES = (web.get("/metrics", metrics), web.get("/login", login))


def test_a_target_that_is_well(capsys) -> None:
    with served(None, *ROUTES) as url:
        code, out, err = run(capsys, "doctor", "--target", f"{url}/metrics", "--engine", "vllm")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "1 target examined from this machine: 1 well, 0 not"
    assert f"well vllm {url}/metrics" in out


def test_the_program_is_guessed(capsys) -> None:
    with served(None, *ROUTES) as url:
        code, out, _ = run(capsys, "doctor", "--target", url)
    assert code == 0
    assert f"well vllm {url}/metrics" in out


def test_a_target_that_is_not(capsys) -> None:
    with served(None, *ROUTES) as url:
        code, out, _ = run(capsys, "doctor", "--target", f"{url}/login", "--engine", "vllm")
        port = url.rpartition(":")[2]
    assert code == 1
    assert f"WrongPath: the metrics of vllm are at port {port}/metrics, not at {port}/login" in out
    assert f"→ set `metricsPort: {port}` and `metricsPath: /metrics`" in out


def test_kv_sockets_are_examined_too(capsys) -> None:
    with served(None, *ROUTES) as url:
        endpoint = f"tcp://127.0.0.1:{closed_port()}"
        code, out, _ = run(capsys, "doctor", "--target", url, "--kv-events", endpoint, "-o", "json")
    (found,) = json.loads(out)["targets"][0]["findings"]
    assert (code, found["cause"], found["certainty"]) == (1, "KvPortClosed", "Likely")
    assert endpoint in found["said"]


def test_every_target_of_a_file(capsys, tmp_path: Path) -> None:
    dead = closed_port()
    with served(None, *ROUTES) as url:
        address = url.removeprefix("http://")
        file = tmp_path / "fleet.yaml"
        file.write_text(
            "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\ndeployments:\n"
            f"- name: chat\n  engine: vllm\n  roles:\n  - name: server\n    addresses: ['{address}', '127.0.0.1:{dead}']\n"
        )
        code, out, _ = run(capsys, "doctor", "--config", str(file), "--step", "1")
    assert code == 1
    assert out.splitlines()[0] == "2 targets examined from this machine: 1 well, 1 not"
    assert "NothingListens (likely)" in out


def test_wide_adds_what_was_tried(capsys) -> None:
    _, out, _ = run(capsys, "doctor", "--target", f"127.0.0.1:{closed_port()}", "-o", "wide", "--step", "1")
    assert "saw connecting to port" in out


BAD = {
    "nothing asked": (("doctor",), "want one of NAME, --target URL, --config FILE"),
    "two at once": (("doctor", "chat", "--target", "h:1"), "want one of NAME, --target URL, --config FILE"),
    "an option without its target": (("doctor", "chat", "--engine", "vllm"), "--engine goes with --target URL"),
    "no URL": (("doctor", "--target", "http://"), "want an address like http://10.0.0.7:8000/metrics"),
    "no port": (("doctor", "--target", "h:99999"), "want an address like http://10.0.0.7:8000/metrics"),
    "two programs": (("doctor", "--target", "h:1", "--engine", "vllm", "--router", "llm-d"), "want at most one of"),
    "no such engine": (("doctor", "--target", "h:1", "--engine", "nope"), "unknown engine 'nope'"),
    "a key alone": (("doctor", "--target", "https://h:1", "--key-file", "k"), "--key-file goes with --cert-file"),
    "trust without TLS": (("doctor", "--target", "h:1", "--ca-file", "c"), "--ca-file and --cert-file are for https"),
    "a KV endpoint that is none": (("doctor", "--target", "h:1", "--kv-events", "h:5557"), "want tcp://HOST:PORT"),
    "again and again": (("doctor", "--target", "h:1", "--watch"), "doctor examines once"),
}


@pytest.mark.parametrize(("arguments", "part"), BAD.values(), ids=BAD)
def test_bad_command_lines(capsys, arguments: tuple[str, ...], part: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert part in err
