"""A bundle of a running observer: it opens in a replay, holds what helps, and none of the secrets that were planted."""

from __future__ import annotations

import asyncio
import logging
import zipfile
from pathlib import Path

import aiohttp
import msgspec
import orjson
import pytest

from observer.app.replay import replay
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import CanaryProvider, CanarySettings
from observer.collect.recording import Recorder
from observer.collect.redaction import Redaction, without_secrets
from observer.settings import load_files
from tests.fakes.hostile import reply, serving
from tests.whole.world import SETTINGS, asking

HEADER, TOKEN, PROVIDER, VARIABLE = "hdr-5f1c9e77aa", "tok-88aa41c0de", "prv-0d3adb33f1", "var-cafe12babe"
URL_SECRET, ECHOED = "url-hunter2xyz", "echo-91be77aa00"
PLANTED = (HEADER, TOKEN, PROVIDER, VARIABLE, URL_SECRET)
FLEET = """apiVersion: observer.modeldeployment.io/v1alpha1
kind: Fleet
deployments:
- name: chat
  roles:
  - name: server
    engine: {{name: vllm}}
    replicas:
    - members: [{{address: "127.0.0.1:{good}", headers: {{X-Team: {header}}}, bearerTokenFile: {file}}}]
    - members: [{{address: "127.0.0.1:{bad}", headers: {{X-Team: {header}}}, bearerTokenFile: {file}}}]
"""


def planted(data: bytes) -> list[str]:
    return [secret for secret in PLANTED if secret.encode() in data]


async def test_planted_secrets_are_in_no_answer_page_log_recording_or_bundle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    caplog.set_level(logging.DEBUG)
    echo = (
        f"# HELP a Bearer {TOKEN} and http://u:{URL_SECRET}@h/ and {HEADER}\nvllm:num_requests_running one\n".encode()
    )
    good = reply(b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n")
    bad = reply(echo, headers=f"X-Echo: {TOKEN}\r\n")
    settings = msgspec.structs.replace(
        SETTINGS,
        canary=CanarySettings(
            providers=(
                CanaryProvider(
                    name="p", server_address="http://127.0.0.1:9", headers=(("Authorization", f"Bearer {PROVIDER}"),)
                ),
            )
        ),
    )
    async with serving(good) as one, serving(bad) as other:
        file = tmp_path / "fleet.yaml"
        text = FLEET.format(good=one.port, bad=other.port, header=HEADER, file=token)
        file.write_text(text)
        (chat,) = load_files([file]).deployments
        variables = (("HF_TOKEN", VARIABLE), ("PLAIN", "visible"))
        role = msgspec.structs.replace(chat.roles[0], environment=variables)
        deployments = (msgspec.structs.replace(chat, roles=(role,)),)
        raw = tmp_path / "run.obsrec"
        with Recorder(
            raw, writer="test", started=SystemClock().now(), settings=msgspec.to_builtins(settings)
        ) as recorder:
            async with asking(Watcher(settings, SystemClock(), listen="127.0.0.1:0", recorder=recorder)) as asked:
                await asked.watcher.watch(deployments)
                await asked.ready()
                assert any(TOKEN in head.decode() for head in one.heads), "it is sent to whom it is for"
                answers = await everything(asked.watcher.url)
                logging.getLogger("observer.test").warning("asking http://u:%s@h/ with Bearer %s", URL_SECRET, TOKEN)
                async with aiohttp.ClientSession(asked.watcher.url) as session:
                    async with session.get("/api/v1/bundle?seconds=1.2") as answer:
                        assert answer.status == 200, await answer.text()
                        bundle = tmp_path / "observer.obsrec"
                        bundle.write_bytes(await answer.read())
                    async with session.get("/api/v1/bundle?seconds=99") as answer:
                        assert answer.status == 400
    for path, body in answers.items():
        # What a stranger's body echoes is shown on the page of its target on purpose; ours is what we were told.
        assert [secret for secret in planted(body) if secret not in echo.decode()] == [], path
    ours = [record.getMessage() for record in caplog.records if record.name != "observer.test"]
    assert planted("\n".join(ours).encode()) == []
    with zipfile.ZipFile(raw) as kept:
        for name in ("manifest.json", "events.jsonl"):
            assert planted(kept.read(name)) == [], name
    with zipfile.ZipFile(bundle) as kept:
        names = kept.namelist()
        assert {"states.json", "limits.json", "versions.json", "log.txt", "manifest.json", "events.jsonl"} <= set(names)
        for name in names:
            assert planted(kept.read(name)) == [], name
        assert b"asking http://hidden@h/ with Bearer hidden" in kept.read("log.txt")
        assert b"visible" in b"".join(kept.read(name) for name in names)
        assert orjson.loads(kept.read("versions.json"))["packages"]
        assert any(b"num_requests_running one" in kept.read(name) for name in names), "the body that was not understood"
    outcome = await replay(bundle, 0.0, asyncio.Event())
    (report,) = outcome.reports
    states = sorted(target.status.state.value for target in report.targets)
    assert states == ["Up", "Up"] or states == ["Failing", "Up"]
    assert report.judged


async def everything(url: str) -> dict[str, bytes]:
    """Every answer of ours that is not a stream or a bundle."""
    place = "/api/v1/namespaces/default/modeldeployments/chat"
    paths = [
        "/",
        "/targets",
        "/routers",
        "/kv",
        "/canary",
        "/mapping",
        "/metrics",
        "/readyz",
        "/deployments/default/chat",
    ]
    paths += ["/api/v1/deployments", "/api/v1/targets", "/api/v1/limits", "/api/v1/top", "/api/v1/canaries"]
    paths += [f"{place}/{part}" for part in ("status", "explain?history=true", "contract", "metrics", "kv", "doctor")]
    found: dict[str, bytes] = {}
    async with aiohttp.ClientSession(url) as session:
        for path in paths:
            async with session.get(path) as answer:
                found[path] = await answer.read()
                assert answer.status in {200, 404}, (path, answer.status)
    return found


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("http://u:pw@h:1/x", "http://hidden@h:1/x"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer hidden"),
        ("basic dXNlcjpwYXNz", "basic hidden"),
        ('{"api_key": "abcdef"}', '{"api_key": "hidden"}'),
        ("HF_TOKEN=abcdef rest", "HF_TOKEN=hidden rest"),
        ('password: "x y"', 'password: "hidden"'),
        ("-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nafter", "hidden\nafter"),
        ("vllm:prompt_tokens_total 5", "vllm:prompt_tokens_total 5"),
        ('{"tokens": 5, "promptTokens": null}', '{"tokens": 5, "promptTokens": null}'),
        ('sglang:token_usage{a="b"} 0.5', 'sglang:token_usage{a="b"} 0.5'),
        ("known-value-1 and known-value-12", "hidden and hidden2"),
    ],
)
def test_redaction(text: str, hidden: str) -> None:
    assert Redaction(["known-value-1", "x"]).text(text) == hidden


def test_settings_in_a_recording_show_no_header() -> None:
    found = without_secrets(
        {"canary": {"providers": [{"name": "p", "headers": [["A", "s3cretvalue"]]}]}, "headers": {"B": "t"}}
    )
    assert found == {"canary": {"providers": [{"name": "p", "headers": [("A", "hidden")]}]}, "headers": {"B": "hidden"}}
