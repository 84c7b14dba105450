"""The plugin through a small kubectl of the test's own: which way it asks, and what it says when none leads anywhere."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from observer.cli.exits import CommandFailed
from observer.cli.kubectl import Kubectl, Service, forwarded
from observer.cli.plugin import main
from tests.cli.serving import served
from tests.exporters.judged import judged
from tests.exporters.sources import Reports

KUBECTL = '''#!{python}
"""Answers as the table beside it says: the first row whose words are all in the command line."""
import json, os, sys, time
folder = os.path.dirname(os.path.abspath(__file__))
line = " ".join(sys.argv[1:])
with open(folder + "/asked", "a") as log:
    log.write(line + "\\n")
for words, code, out, complaint in json.load(open(folder + "/answers.json")):
    if all(word in line for word in words):
        sys.stdout.write(out)
        sys.stdout.flush()
        sys.stderr.write(complaint)
        if "port-forward" in line and code == 0:
            time.sleep(30)
        sys.exit(code)
sys.stderr.write("no row for " + line)
sys.exit(9)
'''
PLACE = Service("obs", "observer", "http")
AGGREGATED = "--raw /apis/metrics.modeldeployment.io/v1/namespaces/prod/modeldeployments/chat"
NO_API = [[AGGREGATED], 1, "", "Error from server (NotFound): the server could not find the requested resource\n"]
SERVICE = {"metadata": {"namespace": "obs", "name": "observer"}, "spec": {"ports": [{"name": "http", "port": 9480}]}}
FOUND = [["get services -A"], 0, json.dumps({"items": [SERVICE]}), ""]
PROXY = "/api/v1/namespaces/obs/services/http:observer:http/proxy/api/v1"
EXPLAINED: dict[str, Any] = {
    "kind": "Explanation", "metadata": {"namespace": "prod", "name": "chat"}, "timestamp": "t", "phase": "Ready",
    "sentences": ["It serves."], "others": [], "unknown": [],
}  # fmt: skip


class Fake:
    """The fake kubectl's folder: its answers and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "kubectl"
        program.write_text(KUBECTL.replace("{python}", sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.answers()

    def answers(self, *rows: list[Any]) -> None:
        (self._folder / "answers.json").write_text(json.dumps(rows))

    @property
    def asked(self) -> list[str]:
        return (self._folder / "asked").read_text().splitlines()


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("OBSERVER_SERVER", raising=False)
    return Fake(tmp_path)


def test_the_aggregated_api_is_asked_first_with_kubectls_own_options(
    kubectl: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.answers([[AGGREGATED + "/explain"], 0, json.dumps(EXPLAINED), ""])
    assert main(["explain", "chat", "-n", "prod", "--history", "--context", "staging", "--kubeconfig", "/k"]) == 0
    assert "It serves." in capsys.readouterr().out
    (asked,) = kubectl.asked
    assert asked.startswith("--kubeconfig=/k --context=staging get --raw /apis/")
    assert "/explain?history=true" in asked


def test_the_namespace_is_the_contexts_unless_one_is_named(kubectl: Fake) -> None:
    kubectl.answers(
        [["config view"], 0, "prod", ""], [[AGGREGATED + "/explain"], 0, json.dumps(EXPLAINED), ""]
    )  # fmt: skip
    assert main(["explain", "chat"]) == 0
    assert len(kubectl.asked) == 2


def test_a_look_up_of_blocks_is_the_kv_part_with_hashes(kubectl: Fake) -> None:
    answer = json.dumps({"asked": 1, "holdings": [], "unknown": []})
    kubectl.answers([[AGGREGATED + "/kv?hashes=1%2C2"], 0, answer, ""])
    assert main(["kv", "lookup", "chat", "--hash", "1", "--hash", "2", "-n", "prod"]) == 0


def test_without_the_api_the_service_is_asked_through_the_proxy(
    kubectl: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{PROXY}/namespaces/prod/modeldeployments/chat/explain"
    kubectl.answers([[path], 0, json.dumps(EXPLAINED), ""], NO_API, FOUND)
    assert main(["explain", "chat", "-n", "prod"]) == 0
    assert "It serves." in capsys.readouterr().out
    assert len(kubectl.asked) == 3


def test_what_the_api_does_not_have_is_asked_of_the_service_that_was_named(kubectl: Fake) -> None:
    proxy = "/api/v1/namespaces/a/services/http:b:80/proxy/api/v1/namespaces/prod/canaries/c"
    kubectl.answers([[proxy], 1, "", 'Error from server (NotFound): no canary "c"\n'])
    assert main(["canary", "c", "-n", "prod", "--observer", "a/b:80"]) == 1
    assert main(["metrics", "chat", "-n", "prod", "--observer", "a:b"]) == 2


def test_a_port_is_forwarded_where_the_proxy_leads_nowhere(kubectl: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    with served(Reports(judged()), token="secret") as url:
        port = url.rpartition(":")[2]
        kubectl.answers(
            NO_API, FOUND, [["port-forward -n obs service/observer :http"], 0, f"Forwarding from 127.0.0.1:{port} -> 9480\n", ""],
        )  # fmt: skip
        token = kubectl._folder / "token"
        token.write_text("secret")
        assert main(["explain", "chat", "-n", "prod", "--token-file", str(token)]) == 0
    assert "One." in capsys.readouterr().out


def _program(folder: Path, text: str) -> Kubectl:
    """A kubectl that does what a script says."""
    program = folder / "scripted"
    program.write_text(f"#!{sys.executable}\nimport sys, time\n{text}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    made = Kubectl()
    made.program = str(program)
    return made


def test_a_forwarding_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    hanging = _program(tmp_path, "time.sleep(60)\n")
    with pytest.raises(CommandFailed, match="said nothing within"), forwarded(hanging, PLACE, 0.3):
        pass


def test_a_forwarding_that_talks_all_the_time_never_waits_to_be_heard(tmp_path: Path) -> None:
    """kubectl writes a line for each connection: more than a pipe holds must not stop it."""
    mark = tmp_path / "done"
    talking = _program(
        tmp_path,
        "print('Forwarding from 127.0.0.1:5 -> 9480', flush=True)\n"
        "for _ in range(20_000): print('Handling connection for 5')\n"
        f"sys.stdout.flush(); open({str(mark)!r}, 'w').close(); time.sleep(60)\n",
    )
    with forwarded(talking, PLACE) as url:
        assert url == "http://127.0.0.1:5"
        for _ in range(200):
            if mark.exists():
                break
            threading.Event().wait(0.05)
        assert mark.exists()


@pytest.mark.parametrize("body", ["[]", "null", "3", '"x"'])
def test_json_that_is_no_object_is_no_observer(kubectl: Fake, capsys: pytest.CaptureFixture[str], body: str) -> None:
    kubectl.answers([[AGGREGATED], 0, body, ""])
    assert main(["status", "chat", "-n", "prod"]) == 3
    assert "is no observer" in " ".join(capsys.readouterr().err.split())


LOGIN = "error: You must be logged in to the server (the server has asked for the client to provide credentials)\n"
TROUBLES: dict[str, tuple[list[list[Any]], int, str]] = {
    "not observed": ([[[AGGREGATED], 1, "", 'Error from server (NotFound): modeldeployments.metrics.modeldeployment.io "chat" not found\n']], 1, "`kubectl get mdm -A` lists all"),
    "forbidden": ([[[AGGREGATED], 1, "", "Error from server (Forbidden): you may not\n"]], 1, "you may not. Ask for the right to get modeldeployments/explain in the API group"),
    "no API server": ([[[AGGREGATED], 1, "", "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"]], 3, "Check --context and the kubeconfig"),
    "no observer": ([NO_API, [["get services"], 0, '{"items": []}', ""]], 3, "found none, wanted one. Name it with --observer"),
    "two observers": ([NO_API, [["get services"], 0, json.dumps({"items": [SERVICE, SERVICE]}), ""]], 3, "found obs/observer, obs/observer, wanted one"),
    "services are forbidden": ([NO_API, [["get services"], 1, "", "Error from server (Forbidden): no\n"]], 1, "Name it with --observer NAMESPACE/SERVICE"),
    "a token is asked for": ([NO_API, FOUND, [[PROXY], 1, "", LOGIN]], 1, "Give --token-file: then its port is forwarded"),
    "no forwarding": ([NO_API, FOUND, [[PROXY], 1, "", "Error from server (ServiceUnavailable): no endpoints\n"], [["port-forward"], 1, "", "error: no pod\n"]], 3, "forwarding a port of obs/observer: error: no pod"),
    "no JSON": ([NO_API, FOUND, [[PROXY], 0, "<html>", ""]], 3, "found no JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "code", "words"), TROUBLES.values(), ids=TROUBLES)
def test_every_dead_end_says_what_to_do(
    kubectl: Fake, capsys: pytest.CaptureFixture[str], rows: list[list[Any]], code: int, words: str
) -> None:
    kubectl.answers(*rows)
    assert main(["explain", "chat", "-n", "prod"]) == code
    assert words in " ".join(capsys.readouterr().err.split())


def test_one_that_is_not_judged_yet_says_what_is_waited_for(kubectl: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl.answers([[AGGREGATED], 0, json.dumps({"kind": "ObservedModelDeployment", "awaiting": "a first read"}), ""])
    assert main(["status", "chat", "-n", "prod"]) == 1
    assert "prod/chat is not judged yet: a first read" in capsys.readouterr().err


def test_without_kubectl_the_server_can_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("OBSERVER_SERVER", raising=False)
    assert main(["explain", "chat", "-n", "prod"]) == 2
    assert "name the observer with --server" in capsys.readouterr().err
    with served(Reports(judged())) as url:
        assert main(["explain", "chat", "-n", "prod", "--server", url]) == 0
