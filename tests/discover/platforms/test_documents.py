"""Platform documents: each fault with its line, files of users beside and instead of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from observer.discover.following import pod_selector
from observer.discover.platforms import PlatformError, built_in, load_platforms, read_platform

HEAD = """apiVersion: observer.modeldeployment.io/v1alpha1
kind: Platform
name: own
target: {version: v1, kind: Thing, plural: things}
pods: {labels: {app: "{name}"}}
roles:
  - name: {fixed: server}
"""

FAULTS = {
    "an unknown key, with what was meant": (
        HEAD + "modle: spec.model\n",
        'text:8:8: modle: found the unknown key "modle", wanted',
    ),
    "a path that is none": (
        HEAD + "model: spec..model\n",
        "text:8:8: model: found 'spec..model' is no path at character 5, wanted a path",
    ),
    "a hole that nothing fills": (
        HEAD + 'metrics: {port: {fixed: "{port}"}}\n',
        "text:8:25: metrics.port.fixed: found {port} is filled by nothing",
    ),
    "two sources of one value": (HEAD + "model: {label: a, annotation: b}\n", "text:8:"),
    "no source": (HEAD + "model: {map: {a: b}}\n", "found no source, wanted one of field, item"),
    "no group in a pattern": (HEAD + "model: {image: true, pattern: abc}\n", "'abc' has no group"),
    "no expression at all": (HEAD + "model: {image: true, pattern: '('}\n", "'(' is no regular expression"),
    "onlyMapped without a map": (
        HEAD + "model: {label: a, onlyMapped: true}\n",
        "text:8:31: model.onlyMapped: found true without `map`",
    ),
    "a source nobody declared": (
        HEAD + "facts: {quota: {source: workload, reserved: X}}\n",
        'facts.quota.source: found "workload", wanted one of none declared',
    ),
    "an owner of a kind nobody reads": (
        HEAD.replace('"{name}"}', '"{name}"}, owner: [ReplicaSet, Thing]'),
        'pods.owner: found "ReplicaSet", wanted a kind of `sources`: none is declared',
    ),
    "a chain that does not end at the target": (
        HEAD.replace('"{name}"}', '"{name}"}, owner: [Other]'),
        'pods.owner: found "Other", wanted the target\'s kind Thing at the end',
    ),
    "no target": (
        HEAD.replace("version: v1, ", ""),
        "text:4:9: target.version: found nothing, wanted the object's names, or `groupBy`",
    ),
    "a target that is two things": (
        HEAD.replace("{version", "{groupBy: [a], version"),
        "found `groupBy` beside an object's names, wanted one of the two",
    ),
    "Pods by nothing": (
        HEAD.replace('{labels: {app: "{name}"}}', "{owner: [Thing]}"),
        "pods.labels: found nothing, wanted `labels` or a `selector`",
    ),
    "a role without a name": (
        HEAD.replace("name: {fixed: server}", "kind: spec.x"),
        "roles[0].name: found nothing, wanted a name",
    ),
    "another kind of document": (HEAD.replace("Platform", "Platfrom"), 'kind: found "Platfrom", wanted Platform'),
    "another version": (HEAD.replace("v1alpha1", "v9"), "wanted observer.modeldeployment.io/v1alpha1"),
    "nothing": ("", "found nothing, wanted a Platform document"),
    "no YAML": ("a: [", "text:"),
    "a word of no list": (
        HEAD + "replicas: {replacement: Nothing}\n",
        'replicas.replacement: found "Nothing", wanted one of Pods, Revision, Unobserved',
    ),
    "a source twice": (
        HEAD
        + "sources:\n- {name: a, version: v1, kind: A, plural: as}\n- {name: a, version: v1, kind: B, plural: bs}\n",
        'sources[1].name: found the source "a" a second time',
    ),
}


@pytest.mark.parametrize(("text", "said"), FAULTS.values(), ids=FAULTS)
def test_faults_have_their_file_and_line(text, said):
    with pytest.raises(PlatformError) as raised:
        read_platform(text)
    assert said in str(raised.value)


def test_every_fault_is_said_at_once():
    with pytest.raises(PlatformError) as raised:
        read_platform(HEAD + "modle: x\nmodel: a..b\n")
    assert len(raised.value.faults) == 2


def test_built_in_platforms_are_sound():
    assert "gpustack" in {each.name for each in built_in()}
    assert len({each.name for each in built_in()}) == len(built_in())


def test_the_guides_document_is_sound():
    guide = (Path(__file__).parents[3] / "docs" / "add-a-platform.md").read_text()
    blocks = [block.split("```")[0] for block in guide.split("```yaml\n")[1:]]
    assert [read_platform(block).name for block in blocks] == ["own"]


def test_a_file_adds_a_platform_and_replaces_one_of_ours(tmp_path: Path):
    (tmp_path / "own.yaml").write_text(HEAD)
    (tmp_path / "gpustack.yaml").write_text(HEAD.replace("name: own", "name: gpustack"))
    found = {each.name: each for each in load_platforms([tmp_path])}
    assert found["own"].target.full_name == "things.v1"
    assert found["gpustack"].file == str(tmp_path / "gpustack.yaml")
    assert [each.name for each in load_platforms([tmp_path], names=["own"])] == ["own"]


def test_two_files_of_one_name_and_unknown_names_are_faults(tmp_path: Path):
    (tmp_path / "a.yaml").write_text(HEAD)
    (tmp_path / "b.yaml").write_text(HEAD)
    with pytest.raises(PlatformError, match=r'"own" a second time'):
        load_platforms([tmp_path])
    with pytest.raises(PlatformError, match='the platform "nobody"'):
        load_platforms(names=["nobody"])
    with pytest.raises(PlatformError, match="no such file"):
        load_platforms([tmp_path / "absent.yaml"])


def test_the_server_is_asked_for_what_all_pods_share():
    gpustack = next(each for each in built_in() if each.name == "gpustack")
    assert pod_selector(gpustack) == "app.kubernetes.io/name=model-deployment"
    assert pod_selector(read_platform(HEAD)) == ""
    deckhouse = next(each for each in built_in() if each.name == "deckhouse")
    assert pod_selector(deckhouse) == "ai-inference.deckhouse.io/managed"
