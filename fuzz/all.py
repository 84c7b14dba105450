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


def campaign(name: str, seconds: int) -> tuple[str, bool, str]:
    """The name, whether nothing was found, and what to print."""
    command = [sys.executable, "-m", "fuzz.one", name, "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE, check=False)
    except subprocess.TimeoutExpired:
        return name, False, f"did not end within {seconds + GRACE} s"
    text = done.stdout + done.stderr
    runs = re.search(r"Done (\d+) (?:runs|in)", text) or re.search(r"number_of_executed_units: (\d+)", text)
    covered = re.findall(r"cov: (\d+)", text)
    how = f"coverage {covered[-1]}" if covered else "no coverage"
    if done.returncode:
        return name, False, f"finding (exit {done.returncode}):\n{text[-3000:]}"
    return name, True, f"{runs[1] if runs else '?'} inputs in {seconds} s, {how}, no finding"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = pool.map(lambda name: campaign(name, asked.seconds), HARNESSES)
        good = True
        for name, well, text in results:
            good &= well
            print(f"{'ok  ' if well else 'FAIL'} {name}: {text}", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
