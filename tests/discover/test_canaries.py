"""`CanaryAnalysis` documents in files: read whole, or every fault at its file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from observer.settings import check_files, load_files
from router_contract.canary import NativeMetric

FLEET = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Fleet
deployments:
- name: chat
  namespace: demo
  engine: vllm
  roles:
  - name: server
    addresses:
    - {address: "10.0.0.1:8000", revision: a}
    - {address: "10.0.0.2:8000", revision: b}
"""
CANARY = """\
---
apiVersion: observer.modeldeployment.io/v1alpha1
kind: CanaryAnalysis
metadata: {namespace: demo, name: chat-b}
spec:
  targetRef: {kind: ModelDeployment, name: chat}
  component: engine
  stable: {revision: a}
  canary: {revision: b}
  steps:
  - pause: {duration: 1m}
    analysis:
      interval: 30s
      failureLimit: 3
      metrics:
      - name: ttft
        operator: LT
        threshold: "0.5"
        native: {kind: quantile, signal: time-to-first-token, quantile: 0.95}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "a.yaml"
    file.write_text(text)
    return file


def test_an_analysis_is_read_beside_its_fleet(tmp_path: Path) -> None:
    made = load_files([write(tmp_path, FLEET + CANARY)])
    (analysis,) = made.canaries
    assert (analysis.namespace, analysis.name, analysis.target.name) == ("demo", "chat-b", "chat")
    gate = analysis.steps[0].analysis
    assert gate is not None
    assert isinstance(gate.metrics[0].measure, NativeMetric)
    assert gate.metrics[0].measure.quantile == 0.95
    members = [member for role in made.deployments[0].roles for member in role.members()]
    assert [member.revision for member in members] == ["a", "b"]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("failureLimit: 3", "failureLimit: 0", "a.yaml:25:21: spec.steps[0].analysis.failureLimit"),
        ('threshold: "0.5"', "threshold: 0.5", "a.yaml:29:20: spec.steps[0].analysis.metrics[0].threshold"),
        ("time-to-first-token", "ttft", "a.yaml:30:42: spec.steps[0].analysis.metrics[0].native.signal"),
        ("component: engine", "component: engine\n  colour: red", "spec.colour: found an unknown key"),
        ("revision: b}\n  steps", "revision: a}\n  steps", "spec.canary.revision"),
        ("name: chat}\n  comp", "name: talk}\n  comp", "found demo/talk, wanted a deployment of a `Fleet`"),
        ("interval: 30s", "interval: 30s\n      interval: 40s", "this key a second time"),
        ("interval: 30s", "", "spec.steps[0].analysis.interval"),
    ],
)
def test_each_fault_is_named_at_its_place(tmp_path: Path, before: str, after: str, wanted: str) -> None:
    text = FLEET + CANARY
    assert before in text
    found = "\n".join(str(fault) for fault in check_files([write(tmp_path, text.replace(before, after))]))
    assert wanted in found


def test_one_name_twice_is_a_fault(tmp_path: Path) -> None:
    found = check_files([write(tmp_path, FLEET + CANARY + CANARY)])
    assert len(found) == 1
    assert "demo/chat-b a second time" in str(found[0])


def test_aliases_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    lines = [
        "---",
        "apiVersion: observer.modeldeployment.io/v1alpha1",
        "kind: CanaryAnalysis",
        "a0: &a0 [x, x, x, x, x, x]",
    ]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 6)}]" for n in range(1, 9)]
    found = check_files([write(tmp_path, FLEET + "\n".join(lines) + "\n")])
    assert any("very many values" in fault.found for fault in found)


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/canary.md").read_text().split("```yaml\n")[1].split("```")[0]
    made = load_files([write(tmp_path, FLEET + "---\n" + text)])
    gate = made.canaries[0].steps[0].analysis
    assert gate is not None
    assert [metric.name for metric in gate.metrics] == ["errors", "ttft"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("defaultProvider: pron", 'canary.defaultProvider: found "pron", wanted the name of one of `canary.providers`'),
        ("allowServerAddress: true", 'canary.providers[1].name: found the provider "prom" a second time'),
    ],
)
def test_providers_are_named_once_and_the_default_is_one(tmp_path: Path, text: str, wanted: str) -> None:
    twice = "second" if "default" in text else "prom"
    told = f"""\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Settings
canary:
  {text}
  providers:
  - {{name: prom, serverAddress: "http://prometheus:9090"}}
  - {{name: {twice}, serverAddress: "http://other:9090"}}
"""
    (fault,) = check_files([write(tmp_path, told)])
    assert wanted in str(fault)
