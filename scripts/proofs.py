"""Runs a list of proofs, prints one line for each with its figure, and exits non-zero if one fails.

A proof is a name and a command. Its figure is the last line it prints that begins with ``figure:``, or the closing
line of pytest. A proof that selects no test has failed, and so has one of whose names (``-k one or other``) none is a
test any more: a renamed test would else leave its proof unseen.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Proof:
    """One line of an issue's "done when" and the command that shows it."""

    name: str
    command: list[str]
    timeout: float = 600.0
    env: dict[str, str] = field(default_factory=dict)


def pytest(name: str, *arguments: str, timeout: float = 600.0, env: dict[str, str] | None = None) -> Proof:
    """A proof that is a selection of tests; figures printed by the tests are shown."""
    return Proof(
        name, [sys.executable, "-m", "pytest", "-svv", "-p", "no:cacheprovider", *arguments], timeout, env or {}
    )


def figure(output: str) -> str:
    """The figure of a proof, from what it printed."""
    said = [line.split("figure:", 1)[1].strip() for line in output.splitlines() if "figure:" in line]
    closing = [line for line in output.splitlines() if re.search(r"\b\d+ (passed|failed|error)", line)]
    parts = [*said, *(line.strip("= ") for line in closing[-1:])]
    return "; ".join(parts) or (output.strip().splitlines() or ["no output"])[-1]


def unmatched(command: list[str], output: str) -> list[str]:
    """The alternatives of a ``-k`` selection that no test of the output matches."""
    if "-k" not in command:
        return []
    tests = [line.lower() for line in output.splitlines() if "::" in line]
    wanted = [name for name in re.split(r"\bor\b|\band\b|[()]", command[command.index("-k") + 1]) if name.strip()]
    names = [name.strip() for name in wanted if not name.strip().startswith("not ")]
    return [name for name in names if not any(name.lower() in test for test in tests)]


def run(proofs: list[Proof]) -> int:
    """Run all; 0 when every one holds."""
    failed = 0
    for number, proof in enumerate(proofs, 1):
        print(f"[{number}/{len(proofs)}] {proof.name} …", end="", flush=True)
        started = time.monotonic()
        try:
            done = subprocess.run(
                proof.command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=proof.timeout,
                env={**os.environ, **proof.env},
                check=False,
            )
            output, good = done.stdout + done.stderr, done.returncode == 0
        except subprocess.TimeoutExpired as expired:
            output, good = f"no end within {expired.timeout:.0f} s", False
        if "-m" in proof.command and "pytest" in proof.command and not re.search(r"\b[1-9]\d* passed", output):
            good = False
        lost = unmatched(proof.command, output)
        if lost:
            good, output = False, f"{output}\nno test is called {', '.join(lost)}"
        failed += not good
        print(f"\r{'ok    ' if good else 'FAILED'} {proof.name} ({time.monotonic() - started:.1f} s): {figure(output)}")
        if not good:
            print("\n".join(f"       {line}" for line in output.strip().splitlines()[-25:]))
    print(f"{len(proofs) - failed} of {len(proofs)} proofs hold")
    return 1 if failed else 0
