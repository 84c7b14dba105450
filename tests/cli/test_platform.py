"""`observer check --platform`: a document's faults by line, a dump explained, as tables and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from observer.cli import main

DUMP = Path(__file__).parents[1] / "discover" / "platforms" / "gpustack"
OWN = """apiVersion: observer.modeldeployment.io/v1alpha1
kind: Platform
name: own
target: {groupBy: [app.kubernetes.io/instance]}
pods: {labels: {app.kubernetes.io/component: "prefill|decode"}}
roles: [{eachLabel: app.kubernetes.io/component}]
engine: {software: {image: true, pattern: (vllm)}}
metrics: {port: {port: http}}
"""


def check(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(("check", *arguments))
    done = capsys.readouterr()
    return code, done.out, done.err


def test_a_dump_is_explained(capsys) -> None:
    code, out, _ = check(capsys, "--platform", "gpustack", "--dump", str(DUMP))
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "llm/chat: model qwen3, Chat, router llm-d-router (llm_d); store pool-a (mooncake)" in lines
    assert "prefill Prefill vllm 0.11.0 2 1 2 no" in lines
    assert "server Server sglang 1 1 1 yes" in lines
    assert (
        "decode 0 1 chat-decode-r0-m1 no True http://10.1.0.22:8000/metrics 10.1.0.22:8000 - it follows the replica's leader"
        in lines
    )
    assert (
        "prefill 0 0 chat-prefill-x7k2p yes True http://10.1.0.11:8000/metrics 10.1.0.11:8000 tcp://10.1.0.11:5557 -"
        in lines
    )
    assert "(router) - - chat-router-5c9f-abcde yes True http://10.1.0.31:9090/metrics 10.1.0.31:8081 - -" in lines
    assert "chat-canary it is controlled by nothing, wanted a ModelDeployment" in lines
    assert "chat-prefill-old it ended: phase Failed" in lines
    assert "ModelArtifact NotInstalled the dump has none" in lines
    assert {"retirement observed absent", "rollout not observed", "workloads 3 observed", "cache yes"} <= set(lines)


def test_as_json_every_value_is_there(capsys) -> None:
    code, out, _ = check(capsys, "--platform", "gpustack", "--dump", str(DUMP), "-o", "json")
    assert code == 0
    chat, embed = json.loads(out)["deployments"]
    assert (chat["deployment"], embed["deployment"]) == ("llm/chat", "llm/embed")
    assert len(chat["members"]) == 5
    assert {left["pod"] for left in chat["left"]} == {"chat-canary", "chat-prefill-old"}


def test_a_users_own_file_over_a_dump(capsys, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    code, out, _ = check(capsys, "--platform", str(tmp_path / "own.yaml"), "--dump", str(DUMP), "-o", "json")
    assert code == 0
    (chat, embed) = json.loads(out)["deployments"]
    assert [(role["role"], role["replicas"]) for role in chat["roles"]] == [("decode", 2), ("prefill", 3)]
    assert embed["roles"] == []
    assert check(capsys, "--platform", str(tmp_path / "own.yaml"))[1] == "well: the platform own, 0 sources\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--dump", "x"), 2, "--dump needs --platform"),
        ((), 2, "Missing argument 'FILE...'"),
        (("--platform", "nowhere.yaml"), 1, "1 faults in nowhere.yaml"),
        (("--platform", "gpustack", "--dump", "nowhere"), 1, "nowhere"),
    ],
)
def test_what_is_wrong_is_said(capsys, arguments, code, said) -> None:
    found, _, err = check(capsys, *arguments)
    assert found == code
    assert said in err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "a: [", "a.yaml:"),
        ("a.json", "{", "a.json:"),
        ("a.yaml", "- 1\n", "found list, wanted Kubernetes objects"),
        ("a.txt", "x", "found 0 YAML or JSON files"),
    ],
)
def test_dumps_that_cannot_be_read(capsys, tmp_path: Path, name, text, said) -> None:
    (tmp_path / name).write_text(text)
    code, _, err = check(capsys, "--platform", "gpustack", "--dump", str(tmp_path))
    assert code == 1
    assert said in err


def test_an_object_that_cannot_be_read_is_said_and_costs_no_other(capsys, tmp_path: Path) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "uid": 1}}, "text"]
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "items": pods}))
    code, out, err = check(capsys, "--platform", "gpustack", "--dump", str(tmp_path))
    assert (code, "found str, wanted Kubernetes objects" in err) == (1, True)
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "items": pods[:1]}))
    code, out, _ = check(capsys, "--platform", "gpustack", "--dump", str(tmp_path))
    assert code == 0
    assert "unreadable: Pod odd: Expected `str`, got `int`" in out
