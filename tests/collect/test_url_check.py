"""Published URLs: what one look says of them, and which are never dialled."""

from __future__ import annotations

import asyncio
import threading

import pytest
from aiohttp import web

from observer.clock import SystemClock
from observer.collect.url_check import UrlCheck, plain
from observer.discover.admission import refusal

FORBIDDEN = {
    "no URL": ("nonsense", "BadUrl"),
    "another scheme": ("file:///etc/passwd", "BadUrl"),
    "no host": ("http:///x", "BadUrl"),
    "a port that is none": ("http://10.0.0.1:99999/", "BadUrl"),
    "somebody's password": ("http://me:secret@10.0.0.1/", "BadUrl"),
    "loopback": ("http://127.0.0.1:1/", "Refused"),
    "a name of loopback": ("http://localhost:1/", "Refused"),
    "metadata": ("http://169.254.169.254/latest", "Refused"),
}


@pytest.mark.parametrize(("url", "reason"), FORBIDDEN.values(), ids=FORBIDDEN)
async def test_what_is_never_dialled(fetcher, url, reason):
    checks = UrlCheck(fetcher, SystemClock(), refusal)
    answer = await checks.check(url, "/v1/models", 2.0)
    await checks.close()
    assert answer.reason == reason
    assert "secret" not in answer.said


PLAIN = {
    "as it is": ("http://h:8/a/b", "http://h:8/a/b"),
    "no user, no query": ("https://me:secret@h/a?key=secret#x", "https://h/a"),
    "IPv6": ("http://[::1]:8/", "http://[::1]:8/"),
    "no URL": ("nonsense", ""),
    "no port": ("http://h:x/", ""),
}


@pytest.mark.parametrize(("url", "shown"), PLAIN.values(), ids=PLAIN)
def test_what_is_shown_of_a_url_has_no_secret(url, shown):
    assert plain(url) == shown


ANSWERS = {"fine": (200, "Answered"), "not found": (404, "AnsweredWithError"), "broken": (503, "AnsweredWithError")}


@pytest.mark.parametrize(("status", "reason"), ANSWERS.values(), ids=ANSWERS)
async def test_what_an_answer_says(fetcher, aiohttp_server, status, reason):
    asked = []

    async def models(request: web.Request) -> web.Response:
        asked.append((request.host, request.path))
        return web.json_response({"data": []}, status=status)

    app = web.Application()
    app.router.add_get("/ml/qwen/v1/models", models)
    server = await aiohttp_server(app)
    checks = UrlCheck(fetcher, SystemClock(), lambda _: None)
    answer = await checks.check(f"http://localhost:{server.port}/ml/qwen/", "/v1/models", 2.0)
    await checks.close()
    assert answer.reason == reason
    assert asked == [(f"localhost:{server.port}", "/ml/qwen/v1/models")], "the name is told, the address is dialled"


async def test_nobody_there(fetcher, unused_tcp_port):
    checks = UrlCheck(fetcher, SystemClock(), lambda _: None)
    answer = await checks.check(f"http://127.0.0.1:{unused_tcp_port}", "/v1/models", 2.0)
    await checks.close()
    assert answer.reason == "Refused"
    assert "nothing listens" in answer.said


async def test_a_name_that_hangs_takes_no_longer_than_a_look_may(fetcher, monkeypatch):
    free = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        free.wait(20)
        return []

    checks = UrlCheck(fetcher, SystemClock(), lambda _: None)
    monkeypatch.setattr(checks._resolver, "_getaddrinfo", hang)
    try:
        async with asyncio.timeout(5):
            answer = await checks.check("http://hangs.example/", "/v1/models", 0.05)
    finally:
        free.set()
        await checks.close()
    assert (answer.reason, "50ms" in answer.said) == ("Dns", True)
