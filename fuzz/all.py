"""Every campaign: `python -m fuzz.all --seconds 20 --jobs 2`. One line for each; ends with 1 when one found something."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from fuzz.harnesses import HARNESSES

GRACE = 60
"""Seconds beyond its own time that a campaign may take to begin and to end."""


def campaign(name: str, seconds: int) -> tuple[str, int, str]:
    """The name, how many inputs were tried without a finding (0: it failed, or tried none), and what to print."""
    command = [sys.executable, "-m", "fuzz.one", name, "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE, check=False)
    except subprocess.TimeoutExpired:
        return name, 0, f"did not end within {seconds + GRACE} s"
    text = done.stdout + done.stderr
    runs = re.search(r"Done (\d+) (?:runs|in)", text) or re.search(r"number_of_executed_units: (\d+)", text)
    covered = re.findall(r"cov: (\d+)", text)
    how = f"coverage {covered[-1]}" if covered else "no coverage"
    if done.returncode:
        return name, 0, f"finding (exit {done.returncode}):\n{text[-3000:]}"
    if runs is None or not int(runs[1]):
        return name, 0, f"tried no input:\n{text[-3000:]}"
    return name, int(runs[1]), f"{runs[1]} inputs in {seconds} s, {how}, no finding"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = pool.map(lambda name: campaign(name, asked.seconds), HARNESSES)
        tried = []
        for name, inputs, text in results:
            tried.append(inputs)
            print(f"{'ok  ' if inputs else 'FAIL'} {name}: {text}", flush=True)
    failed = tried.count(0)
    print(
        f"figure: {len(tried)} readers, {sum(tried)} inputs, {asked.seconds} s each, {failed} with a finding or no input"
    )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
