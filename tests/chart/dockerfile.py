"""Runs a Dockerfile's commands without a container engine: an empty environment, a folder for each stage's working
directory and one in place of its prefix. What it does not know is refused, so that no line of the file goes unread.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction with its lines joined. ``word`` is in capitals."""

    word: str
    text: str


@dataclass
class Stage:
    """One stage: what it is from, its name, its instructions."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, word: str) -> str:
        """The text of the last instruction of a word; `AssertionError` without one."""
        found = [each.text for each in self.instructions if each.word == word]
        assert found, f"stage {self.name!r}: found no {word}"
        return found[-1]


def parse(text: str) -> list[Stage]:
    """The stages of a Dockerfile."""
    joined = re.sub(r"\\\n\s*", "", text)
    stages: list[Stage] = []
    for line in joined.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        word, _, rest = line.strip().partition(" ")
        if word.upper() == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base.strip(), name.strip()))
        else:
            stages[-1].instructions.append(Instruction(word.upper(), rest.strip()))
    return stages


class Build:
    """One build of a stage: ``run`` does its instructions; ``outputs`` is what its commands printed."""

    def __init__(self, context: Path, files: list[str], folder: Path, prefix: Path) -> None:
        self._context = context
        self._files = files
        self._folder = folder
        self._prefix = str(prefix)
        self._work = folder
        self._variables = {"PREFIX": self._prefix}
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
        self.ran: list[str] = []

    def run(self, stage: Stage) -> None:
        """Do every instruction; `AssertionError` with a command's output when it fails."""
        for each in stage.instructions:
            self._one(each)

    def _one(self, each: Instruction) -> None:
        if each.word == "ARG":
            name, _, value = each.text.partition("=")
            self._variables.setdefault(name, value)
        elif each.word == "WORKDIR":
            self._work = self._folder / each.text.lstrip("/")
            self._work.mkdir(parents=True, exist_ok=True)
        elif each.word == "COPY":
            self._copy(shlex.split(each.text))
        elif each.word == "RUN":
            done = subprocess.run(
                ["/bin/sh", "-ec", each.text], cwd=self._work, env=self.environment | self._variables,
                capture_output=True, text=True, timeout=500, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"RUN {each.text}\n{done.stdout}\n{done.stderr}"
            self.ran.append(each.text)
        else:
            raise AssertionError(f"found {each.word} in a build stage, which this runner does not know")

    def _copy(self, parts: list[str]) -> None:
        *sources, target = parts
        for source in sources:
            found = [name for name in self._files if name == source or name.startswith(f"{source.rstrip('/')}/")]
            assert found, f"COPY {source}: found no file of that name in the context, after .dockerignore"
            place = self._work / target
            for name in found:
                inside = name.removeprefix(f"{source.rstrip('/')}/") if name != source else None
                where = place / inside if inside else (place / Path(source).name if target.endswith("/") else place)
                where.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._context / name, where)


def context_files(root: Path, ignore: str) -> list[str]:
    """The files of a context that are not ignored, as git lists them. Only the forms that .dockerignore here has: ``*``,
    ``!path`` and ``**/name``.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    lines = [line for line in ignore.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*", "the context begins empty"
    allowed = [line[1:] for line in lines if line.startswith("!")]
    refused = [line for line in lines[1:] if not line.startswith("!")]
    assert all(line.startswith("**/") for line in refused), refused
    return [
        name
        for name in listed
        if (root / name).is_file()
        and any(name == each or name.startswith(f"{each}/") for each in allowed)
        and not any(Path(name).match(each.removeprefix("**/")) for each in refused)
    ]


def words(text: str) -> list[str]:
    """The exec form of ENTRYPOINT or CMD."""
    found = json.loads(text)
    assert isinstance(found, list)
    return [str(each) for each in found]
