"""The image's build, run line by line in an empty environment. No container engine is here: see the Dockerfile's head."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.chart.dockerfile import Build, context_files, parse, words

ROOT = Path(__file__).resolve().parents[2]
STAGES = parse((ROOT / "Dockerfile").read_text("utf-8"))
BUILD, FINAL = STAGES
SOURCES = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")


def test_the_image_ends_with_a_user_without_rights_and_only_the_prefix() -> None:
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", FINAL.last("USER"))
    assert [each.text for each in FINAL.instructions if each.word == "COPY"] == ["--from=build ${PREFIX} ${PREFIX}"]
    assert not [each for each in FINAL.instructions if each.word in {"RUN", "ADD"}]
    assert {stage.base for stage in STAGES} == {"python:3.11-slim"}  # by name only: no registry, no digest of one
    last = list(FINAL.instructions)
    places = [index for index, each in enumerate(last) if each.word == "USER"]
    assert places[-1] > max(index for index, each in enumerate(last) if each.word == "COPY")


def test_everything_that_is_installed_is_pinned_by_a_hash() -> None:
    installs = [each.text for each in BUILD.instructions if each.word == "RUN" and " pip install" in each.text]
    assert len(installs) == 2
    locked, own = installs
    assert "--require-hashes" in locked
    assert "--no-deps" in own
    assert "--no-build-isolation" in own  # otherwise pip would fetch an unpinned build system
    text = (ROOT / "requirements/image.lock").read_text("utf-8")
    pins = re.findall(r"^[a-z0-9._-]+==[^ \\]+.*$", text, re.MULTILINE | re.IGNORECASE)
    assert pins
    assert len(re.findall(r"^    --hash=sha256:", text, re.MULTILINE)) >= len(pins)
    assert "kubernetes-asyncio==" in text


def test_the_lock_of_the_image_agrees_with_the_one_that_is_tested() -> None:
    pins = [
        dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ \\;]+)", (ROOT / "requirements" / name).read_text("utf-8"), re.MULTILINE))
        for name in ("image.lock", "dev.lock")
    ]  # fmt: skip
    image, dev = pins
    assert {name: (version, dev[name]) for name, version in image.items() if name in dev and dev[name] != version} == {}


@pytest.mark.timeout(600)
def test_its_commands_build_an_observer_that_runs(tmp_path: Path) -> None:
    prefix, folder = tmp_path / "opt" / "observer", tmp_path / "stage"
    folder.mkdir()
    files = context_files(ROOT, (ROOT / ".dockerignore").read_text("utf-8"))
    assert not [name for name in files if name.startswith(("tests/", "docs/", ".git"))]
    build = Build(ROOT, files, folder, prefix)
    # Where packages come from is the machine's business, as it is in a build behind a mirror.
    build.environment |= {name: value for name, value in os.environ.items() if name.upper().startswith(SOURCES)}
    build.run(BUILD)
    assert len(build.ran) == len([each for each in BUILD.instructions if each.word == "RUN"])

    environment = {"HOME": str(tmp_path)}
    for name, value in re.findall(r"([A-Z]+)=(\S+)", FINAL.last("ENV")):
        environment[name] = value.replace("${PREFIX}", str(prefix))
    command = [*words(FINAL.last("ENTRYPOINT")), *words(FINAL.last("CMD"))]
    place = prefix / "bin" / command[0]
    done = subprocess.run(
        [place, *command[1:]], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout
    check = "import kubernetes_asyncio.config, observer.app, dashboards; print(observer.app.__file__)"
    told = subprocess.run(
        [prefix / "bin" / "python", "-c", check], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(str(prefix)), told.stdout
    assert not (prefix / "bin" / "pip").exists()
