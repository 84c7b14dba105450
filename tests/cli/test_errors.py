"""What a person is told when asking goes wrong: each kind of trouble, over every asking verb where it can occur."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from observer.cli import main
from tests.cli.serving import served
from tests.cli.test_show import run, source
from tests.fakes.authority import Authority
from tests.fakes.hostile import closed_port, raw, serving

ASKING = {
    "get": ("get",),
    "top": ("top", "--once"),
    "status": ("status", "chat"),
    "explain": ("explain", "chat"),
    "contract": ("contract", "chat"),
    "metrics": ("metrics", "chat"),
    "targets": ("targets",),
    "doctor": ("doctor", "chat"),
    "kv": ("kv", "chat"),
    "kv lookup": ("kv", "lookup", "chat", "--hash", "1"),
    "canary": ("canary", "chat"),
    "limits": ("limits",),
}


@contextmanager
def answering(status: int, body: str, kind: str) -> Iterator[str]:
    """A server that answers everything alike."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body, content_type=kind)

    with served(None, web.get("/{path:.*}", handle)) as url:
        yield url


TROUBLES: dict[str, tuple[int, str, str, int, str]] = {
    "a web page": (200, "<html>", "text/html", 3, "is no observer: HTTP 200 with a web page. Check --server"),
    "some text": (200, "OK", "text/plain", 3, "is no observer: HTTP 200 without JSON. Check --server"),
    "another program's JSON": (200, '{"status": "success", "data": []}', "application/json", 1, "is no observer, or one of another version"),
    "a list": (200, "[1, 2]", "application/json", 1, "is no observer, or one of another version"),
    "a proxy's login": (401, "<html>", "text/html", 3, "wants credentials (HTTP 401): ask the observer's own address"),
    "our 401": (401, '{"message": "a token is wanted"}', "application/json", 1, "a token is wanted. Give its token: --token-file"),
    "our 403": (403, '{"message": "not you"}', "application/json", 1, "not you. Give its token: --token-file FILE"),
    "a proxy without us": (502, "bad gateway", "text/plain", 3, "cannot reach the observer (HTTP 502): is it running?"),
    "our 500": (500, '{"message": "it broke"}', "application/json", 1, "it broke. Look at the observer's log"),
    "an older observer": (404, '{"message": "nothing is at /x; there are /y"}', "application/json", 1, "it is of another version than this command"),
}  # fmt: skip


@pytest.mark.parametrize("verb", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize(("status", "body", "kind", "code", "part"), TROUBLES.values(), ids=TROUBLES)
def test_what_answers_is_not_what_is_wanted(
    capsys, verb: tuple[str, ...], status: int, body: str, kind: str, code: int, part: str
) -> None:
    with answering(status, body, kind) as url:
        got, out, err = run(capsys, *verb, "--server", url)
    assert (got, out) == (code, "")
    assert part in err
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", ASKING.values(), ids=ASKING)
def test_nobody_answers(capsys, verb: tuple[str, ...]) -> None:
    got, out, err = run(capsys, *verb, "--server", f"127.0.0.1:{closed_port()}")
    assert (got, out) == (3, "")
    assert "Start one with `observer demo`" in err


@contextmanager
def other(answer, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A raw server in a thread of its own; its port."""
    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), []
    stop = asyncio.Event()

    async def work() -> None:
        async with serving(answer, tls) as server:
            ports.append(server.port)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def test_an_observer_behind_a_certificate_that_is_not_trusted(capsys, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server(authority.issue("good", names=("127.0.0.1",)))
    with other(raw(b""), tls) as port:
        got, _, err = run(capsys, "get", "--server", f"https://127.0.0.1:{port}")
    assert got == 3
    assert "is not trusted here" in err
    assert "Set SSL_CERT_FILE" in err


def test_plain_http_to_a_tls_port(capsys, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server(authority.issue("good", names=("127.0.0.1",)))
    with other(raw(b""), tls) as port:
        got, _, err = run(capsys, "get", "--server", f"127.0.0.1:{port}")
    assert got == 3
    assert "If it speaks TLS, give --server https://" in err


def test_another_protocol(capsys) -> None:
    with other(raw(b"+OK ready\r\n")) as port:
        got, _, err = run(capsys, "get", "--server", f"127.0.0.1:{port}")
    assert got == 3
    assert "is no observer: it does not speak HTTP" in err


NAMES = {
    "misspelt": (("status", "chta"), "no deployment default/chta is observed. Did you mean chat?"),
    "another namespace": (("status", "lost"), "There is one in prod: use -n prod"),
    "misspelt in another": (("metrics", "losst"), "Did you mean lost in namespace prod (-n prod)?"),
    "nothing like it": (("explain", "zzz"), "`observer get -A` lists all"),
    "get misspelt": (("get", "chta"), "Did you mean chat?"),
    "wrong namespace": (("metrics", "chat", "-n", "nope"), "There is one in default: use -n default"),
}


@pytest.mark.parametrize(("verb", "part"), NAMES.values(), ids=NAMES)
def test_a_name_that_is_not_there(capsys, verb: tuple[str, ...], part: str) -> None:
    with served(source()) as url:
        got, out, err = run(capsys, *verb, "--server", url)
    assert (got, out) == (1, "")
    assert part in err


WORDS = {
    "a name with a way": (("status", "../x"), "NAME is '../x'; want a name as `observer get -A` lists it"),
    "an empty name": (("metrics", ""), "NAME is ''; want a name"),
    "an odd namespace": (("get", "-n", "a/b"), "--namespace is 'a/b'; want a name"),
    "another scheme": (("get", "--server", "ftp://h"), "--server is 'ftp://h'; want an address like http://"),
    "no such scenario": (("demo", "--scenario", "engine-han", "--once"), 'Did you mean "engine-hang"?'),
}


@pytest.mark.parametrize(("verb", "part"), WORDS.values(), ids=WORDS)
def test_words_that_cannot_be(capsys, verb: tuple[str, ...], part: str) -> None:
    got, out, err = run(capsys, *verb)
    assert (got, out) == (2, "")
    assert part in err


def test_a_token_that_is_not_accepted(capsys, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("wrong")
    with served(source(), token="right") as url:
        got, _, err = run(capsys, "get", "--server", url, "--token-file", str(token))
        token.write_bytes(b"\xff\xfe")
        damaged = run(capsys, "get", "--server", url, "--token-file", str(token))
    assert got == 1
    assert f"It does not accept the token in {token}" in err
    assert damaged[0] == 2
    assert "cannot be read: it is not text" in damaged[2]


FILES = {
    "serve": ("serve", "--config"),
    "check": ("check",),
    "replay": ("replay",),
    "read": ("read", "--engine", "vllm"),
    "doctor": ("doctor", "--config"),
    "kv decode": ("kv", "decode"),
    "canary simulate": ("canary", "simulate", "--analysis", "/nonexistent/a.yaml"),
}


@pytest.mark.parametrize("verb", FILES.values(), ids=FILES)
def test_a_file_that_is_not_there_is_named(capsys, verb: tuple[str, ...]) -> None:
    got, out, err = run(capsys, *verb, "/nonexistent/file.yaml")
    assert got in {1, 2}
    assert "/nonexistent" in out + err
    assert "Traceback" not in err


def test_colours_are_off_when_asked(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with served(source()) as url:
        assert main(["get", "-A", "--server", url]) == 0
    out = capsys.readouterr().out
    assert "\x1b[3" not in out
    assert "chat" in out
