"""Completion scripts load in their shells, and complete what the command line has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from observer.cli.completion import INSTALL
from tests.cli.test_show import run
from tests.conftest import require


@pytest.mark.parametrize("shell", INSTALL)
def test_the_script_says_how_to_install_it(capsys, shell: str) -> None:
    code, out, err = run(capsys, "completion", shell)
    assert (code, err) == (0, "")
    assert f"# install: observer completion {shell} > ~/" in "\n".join(out.splitlines()[:2])
    assert "_OBSERVER_COMPLETE" in out
    assert shell != "zsh" or out.startswith("#compdef observer\n")


@pytest.mark.parametrize("shell", INSTALL)
def test_the_script_is_sound(capsys, shell: str) -> None:
    require(shell, "its completion is checked by itself")
    _, out, _ = run(capsys, "completion", shell)
    done = subprocess.run([shell, "-n"], input=out, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


CASES = {
    "verbs": ("observer do", 1, "doctor"),
    "options": ("observer top --so", 2, "--sort"),
    "choices": ("observer top --sort to", 3, "tokens"),
    "shells": ("observer completion z", 2, "zsh"),
}


@pytest.mark.parametrize(("line", "word", "wanted"), CASES.values(), ids=CASES)
def test_it_completes(line: str, word: int, wanted: str) -> None:
    told = {"COMP_WORDS": line, "COMP_CWORD": str(word), "_OBSERVER_COMPLETE": "bash_complete"}
    code = "import sys; from observer.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **told}, capture_output=True, text=True, check=False
    )
    assert wanted in [each.partition(",")[2] for each in done.stdout.splitlines()], done.stderr


def test_another_shell_is_refused(capsys) -> None:
    code, _, err = run(capsys, "completion", "tcsh")
    assert code == 2
    assert "'tcsh' is not one of 'bash', 'fish', 'zsh'" in err
