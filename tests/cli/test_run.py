"""The verbs that run the observer: what they hand to the application, and how its failures end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML

from exporters.listening import ListenError
from observer.app.replay import Outcome
from observer.app.serve_cluster import ClusterError
from observer.cli import main
from observer.collect.recording import RecordingError
from observer.settings import load_files
from tests.exporters.reports import Pods, gauge, report

FLEET = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Fleet
deployments:
- name: chat
  engine: {name: vllm}
  roles:
  - name: server
    replicas:
    - members:
      - address: 127.0.0.1
        metricsPort: 8000
"""


class App:
    """Stands in for the application: remembers its calls and can fail as it would."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.error: BaseException | None = None

    def _called(self, *call: object) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def _replayed(self, file: Path, **more: object) -> Outcome:
        self._called("replay", file, more)
        return Outcome((report(Pods().pod("p", gauge("requests-running", 3.0))),), "a note")

    def module(self) -> SimpleNamespace:
        return SimpleNamespace(
            run_demo=lambda **more: self._called("demo", more),
            run_serve=lambda files, **more: self._called("serve", files, more),
            run_serve_cluster=lambda files, **more: self._called("cluster", files, more),
            ClusterError=ClusterError,
            run_replay=self._replayed,
        )


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    made = App()
    monkeypatch.setitem(sys.modules, "observer.app", made.module())
    return made


CALLS = {
    "demo": (
        ("demo",),
        ("demo", {"scenario": None, "once": False, "duration": None, "listen": None}),
    ),
    "demo once": (
        ("demo", "--once", "--scenario", "engine-stall", "--duration", "3", "--listen", "127.0.0.1:0"),
        ("demo", {"scenario": "engine-stall", "once": True, "duration": 3.0, "listen": "127.0.0.1:0"}),
    ),
    "serve": (
        ("serve", "--config", "a.yaml", "-c", "b.yaml"),
        ("serve", (Path("a.yaml"), Path("b.yaml")), {"listen": None, "record": None, "state": None}),
    ),
    "record": (
        ("record", "x.obsrec", "-c", "a.yaml"),
        ("serve", (Path("a.yaml"),), {"listen": None, "record": Path("x.obsrec"), "state": None}),
    ),
    "record with state": (
        ("record", "x.obsrec", "-c", "a.yaml", "--state", "s"),
        ("serve", (Path("a.yaml"),), {"listen": None, "record": Path("x.obsrec"), "state": Path("s")}),
    ),
    "replay": (("replay", "x.obsrec", "--speed", "10"), ("replay", Path("x.obsrec"), {"speed": 10.0})),
}


@pytest.mark.parametrize(("arguments", "call"), CALLS.values(), ids=CALLS)
def test_what_the_application_is_asked(app: App, arguments: tuple[str, ...], call: tuple[object, ...]) -> None:
    assert main(arguments) == 0
    assert app.calls == [call]


FAILURES = {
    "port taken": (ListenError("cannot listen on 127.0.0.1:1"), 1, "cannot listen on 127.0.0.1:1"),
    "bad recording": (RecordingError("x.obsrec: no manifest.json"), 1, "x.obsrec: no manifest.json"),
    "interrupted": (KeyboardInterrupt(), 130, ""),
}


@pytest.mark.parametrize(("error", "code", "part"), FAILURES.values(), ids=FAILURES)
def test_how_a_run_fails(app: App, capsys, error: BaseException, code: int, part: str) -> None:
    app.error = error
    assert main(("demo",)) == code
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "want at least one"),
        (["--config", "f.yaml", "--kubeconfig", "k"], "belong to --kubernetes"),
        (["--config", "f.yaml", "--context", "c"], "belong to --kubernetes"),
        (["--kubernetes", "--state", "s.db"], "observations keep it in the cluster"),
    ],
    ids=["nothing to watch", "kubeconfig alone", "context alone", "two places of state"],
)
def test_serve_needs_something_to_watch_and_options_that_go_together(
    app: App, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["serve", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert app.calls == []


def test_serve_kubernetes_needs_no_file(app: App) -> None:
    assert main(["serve", "--kubernetes", "--kubeconfig", "k", "--context", "c"]) == 0
    assert app.calls == [("cluster", (), {"kubeconfig": "k", "context": "c", "listen": None, "record": None})]


def test_a_cluster_that_cannot_be_watched_is_a_sentence(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    app.error = ClusterError("kubeconfig k: found no such file, wanted a kubeconfig")
    assert main(["serve", "--kubernetes", "--kubeconfig", "k"]) == 1
    assert "found no such file" in capsys.readouterr().err


def test_check_says_well(tmp_path: Path, capsys) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    assert main(("check", str(file))) == 0
    assert capsys.readouterr().out == "well: 1 deployment, 1 target\n"


def test_check_says_every_fault_with_its_line(tmp_path: Path, capsys) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        FLEET.replace("metricsPort: 8000", "metricsPort: 80000").replace("kind: Fleet", "kind: Fleet\nmore: 1")
    )
    assert main(("check", str(file))) == 1
    captured = capsys.readouterr()
    places = [line.split(": ")[0].rpartition("fleet.yaml")[2] for line in captured.out.splitlines()]
    assert (places[0], places[-1]) == (":3:7", ":12:22")
    assert captured.err == f"Error: {len(places)} faults\n"
    assert main(("check", str(file), "-o", "json")) == 1
    lines = [fault["line"] for fault in json.loads(capsys.readouterr().out)["faults"]]
    assert (lines[0], lines[-1]) == (3, 12)


def test_check_shows_notices_and_exits_well(tmp_path: Path, capsys) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.replace("  roles:", "  bearerTokenFile: later\n  roles:"))
    assert main(("check", str(file))) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("notice: ")
    assert 'no file "later"' in out[0]
    assert out[1] == "well: 1 deployment, 1 target"


def test_check_fails_for_a_program_that_no_table_knows(tmp_path: Path, capsys) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.replace("vllm", "vlm"))
    assert main(("check", str(file))) == 1
    captured = capsys.readouterr()
    assert ':5:18: deployments[0].engine.name: found "vlm"' in captured.out
    assert 'Did you mean "vllm"?' in captured.out
    assert captured.err == "Error: 1 fault\n"
    assert load_files([file]).deployments[0].roles[0].engine == "vlm"


FAULTY = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Fleet
more: 1
deployments:
- name: Bad Name
  endpointType: nothing
  engine: vlm
  roles:
  - name: server
    kind: Nothing
    desired: -1
    metricsPort: 80000
    replicas:
    - members:
      - address: 127.0.0.1
  - name: server
    addresses: ["http://h:1/x y", "127.0.0.1:7", "127.0.0.1:7"]
  - name: empty
- name: chat
  engine: vllm
  bearerTokenFile: later
  rolls: []
- name: chat
  engine: vllm
  router: {name: lm-d, addresses: ["127.0.0.1:8"]}
  roles:
  - name: server
    addresses: ["127.0.0.1:9"]
    replicas: [{members: ["127.0.0.1:10"]}]
- name: chat
  engine: vllm
  roles: [{name: server, addresses: ["127.0.0.1:11"]}]
---
kind: Fleet
apiVersion: [
---
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Flee
"""


def test_check_says_faults_of_every_kind_at_once(tmp_path: Path, capsys) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FAULTY)
    assert main(("check", str(file))) == 1
    lines = capsys.readouterr().out.replace(str(file), "F").splitlines()
    wanted = {
        3: "more: found the unknown key",
        5: "deployments[0].name: found",
        6: "deployments[0].endpointType: found",
        7: 'deployments[0].engine: found "vlm"',
        10: "roles[0].kind: found",
        11: "roles[0].desired: found",
        12: "roles[0].metricsPort: found",
        16: 'the role "server" a second time',
        17: "addresses",
        18: "roles[2].replicas: found none",
        19: "deployments[1].roles: found nothing",
        22: 'the unknown key "rolls"',
        25: 'found "lm-d"',
        28: "`addresses` beside `replicas`",
        30: "default/chat a second time",
        35: "found ",
        38: 'kind: found "Flee"',
    }
    for line, text in wanted.items():
        assert any(each.startswith(f"F:{line}:") and text in each for each in lines), (line, text, lines)
    assert any(each.startswith("notice: F:21:") and "later" in each for each in lines)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_replay_gives_every_document(app: App, capsys, form: str) -> None:
    assert main(("replay", "x.obsrec", "-o", form)) == 0
    out = capsys.readouterr().out
    made = json.loads(out) if form == "json" else YAML(typ="safe").load(out)
    assert made["recording"] == "a note"
    (told,) = made["deployments"]
    assert (told["namespace"], told["name"]) == ("prod", "chat")
    assert told["metrics"]["kind"] == "ModelDeploymentMetrics"
    assert "message" in told["status"], "nothing was judged"
    assert "message" in told["explain"]


def test_replay_of_one_deployment(app: App, capsys) -> None:
    assert main(("replay", "x.obsrec", "--deployment", "prod/chat")) == 0
    out = capsys.readouterr().out
    assert out.startswith("a note\n")
    assert "no status: " in out
    assert "wire:requests-running" in out
    assert main(("replay", "x.obsrec", "--deployment", "prod/nope")) == 1
    assert "no deployment prod/nope; it has prod/chat" in capsys.readouterr().err


def test_replay_shows_the_table_of_deployments(app: App, capsys) -> None:
    assert main(("replay", "x.obsrec", "-o", "wide")) == 0
    out = capsys.readouterr().out
    assert "a note" in out
    assert "OBSERVED" in out


def test_the_help_of_verbs_is_whole_at_80_columns(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in (("--help",), ("kv", "--help")):
        assert main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        listed = lines[lines.index("Commands:") + 1 : lines.index("", lines.index("Commands:"))]
        assert len(listed) > 2
        assert not any(line.endswith("...") or len(line) > 80 for line in listed)
        assert all(line.rstrip().endswith(".") for line in listed)


def test_every_verb_has_help_with_the_exit_codes(capsys) -> None:
    verbs = ("demo", "serve", "check", "get", "metrics", "targets", "record", "replay", "read")
    for verb in verbs:
        assert main((verb, "--help")) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "Exit codes: 0 well; 1 the answer is a failure" in text, verb
    assert main(("--help",)) == 0
    text = capsys.readouterr().out
    assert all(f"  {verb} " in text for verb in verbs)
    assert main(("--version",)) == 0
