"""Every proof about speed and scale that a command can run: one line each with its figure; exits 1 if one fails.

    python scripts/prove_speed.py [--quick | --report] [--only NAME ...]

Runs the benchmarks (`python -m benchmarks.run`, half an hour with the ten minutes at 10,000 targets), then says of each
target whether it is met. A target that nothing has measured has failed, but for those that ``--quick`` leaves out. First of
all the tests run that show that nothing became less correct for speed. ``--report`` judges what was measured last. The
peers that are Debian packages are installed where that is allowed; without them their rows are not judged, and fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import proofs  # noqa: E402 - the path is set just above

from benchmarks.run import kept  # noqa: E402
from benchmarks.targets import Line, table  # noqa: E402

CORRECT = (
    proofs.pytest("the reader's equality, windows and the block index against their models", "tests/measure", "-q"),
    proofs.pytest("our /metrics and documents are the same bytes, whatever is kept of them", "tests/exporters", "-q"),
    proofs.pytest("a pass that judges what changed is a pass over everything", "tests/app", "tests/judge", "-q"),
)
PEERS = {"prometheus": "prometheus", "vmagent": "victoria-metrics"}
"""Programs that others are compared with, and their Debian packages."""


def install_peers() -> None:
    """Install the missing programs as root; anybody else is told what is missing."""
    lacking = [package for program, package in PEERS.items() if shutil.which(program) is None]
    if not lacking:
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        print(f"not installed, so not compared: {', '.join(lacking)} (apt-get install {' '.join(lacking)})")
        return
    policy = Path("/usr/sbin/policy-rc.d")
    if not policy.exists():
        # Packages may not start their services here: each benchmark starts its own program and ends it.
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
        policy.chmod(0o755)
    print(f"installing {', '.join(lacking)} …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([apt, "update", "-q"], env=environment, stdout=subprocess.DEVNULL, check=False)
    command = [apt, "install", "-qy", "--no-install-recommends", *lacking]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)


def benchmarks(arguments: list[str]) -> None:
    """Run them; their progress is shown."""
    subprocess.run(
        [sys.executable, "-m", "benchmarks.run", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=False
    )


def told(lines: list[Line], *, quick: bool) -> int:
    """A line for each target; how many failed."""
    failed = 0
    for each in lines:
        left_out = quick and "10,000 targets" in each.target.path and each.verdict == "not measured"
        bad = each.verdict != "met" and not left_out
        failed += bad
        word = "ok    " if each.verdict == "met" else "left  " if left_out else "FAILED"
        print(f"{word} {each.target.path} (want {each.target.wanted}): {each.measured or each.verdict}")
    print(f"{len(lines) - failed} of {len(lines)} targets hold")
    return failed


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = options.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="fewer rounds, no run of 10,000 targets")
    how.add_argument("--report", action="store_true", help="run no benchmark")
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help="benchmarks to run")
    chosen = options.parse_args()
    incorrect = proofs.run(list(CORRECT))
    if not chosen.report:
        install_peers()
        only = ["--only", *chosen.only] if chosen.only else []
        benchmarks([*(["--quick"] if chosen.quick else []), *only])
    rows = {name: line["rows"] for name, line in kept().items()}
    failed = told(table(rows), quick=chosen.quick)
    return 1 if incorrect or failed else 0


if __name__ == "__main__":
    sys.exit(main())
