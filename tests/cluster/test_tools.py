"""A program that is not built: skipped by its name here, a failure where CI=true. And the pins of the modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.cluster import control_plane
from tests.cluster.control_plane import cluster_tools


@pytest.mark.parametrize(("ci", "outcome"), [("", Skipped), ("true", Failed)])
def test_a_missing_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"kube-apiserver is not built: run scripts/cluster_tools\.py"):
        control_plane.program("kube-apiserver")


def test_every_program_is_pinned_as_a_tool_of_its_module() -> None:
    for module in cluster_tools.KNOWN:
        pins = (module.source / "go.mod").read_text()
        for package in module.programs.values():
            assert re.search(rf"^(tool |\t){re.escape(package)}$", pins, re.MULTILINE), f"{package} in {module.name}"


def test_the_version_that_clients_are_told_is_the_one_that_is_pinned() -> None:
    pins = (cluster_tools.MODULES / "kube" / "go.mod").read_text()
    assert re.search(rf"\bk8s\.io/kubernetes {re.escape(cluster_tools.KUBERNETES)}\b", pins)
    staging = set(re.findall(r"=> k8s\.io/\S+ (v\S+)", pins))
    assert staging == {cluster_tools.KUBERNETES.replace("v1.", "v0.", 1)}


def test_another_go_than_the_one_that_builds_it_right_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.27.3\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (kube,) = [module for module in cluster_tools.KNOWN if module.name == "kube"]
    with pytest.raises(RuntimeError, match=r"kube: found go1\.27\.3, wanted go1\.26"):
        cluster_tools.ensure(kube, 1)
