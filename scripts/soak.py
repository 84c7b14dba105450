"""The soak: `python scripts/soak.py --seconds 180`; with `--sabotage NAME` (or `all`) the ledger must report it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvloop

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from observer.collect.allocator import raise_file_limit, tune_allocator  # noqa: E402 - after the path
from tests.soak.disk import namespace, with_own_mounts  # noqa: E402 - after the path
from tests.soak.run import Soak, figure, quiet  # noqa: E402 - after the path
from tests.soak.sabotage import RULES, SABOTAGES  # noqa: E402 - after the path

SABOTAGE_SECONDS, SABOTAGE_TARGETS, SABOTAGE_STREAMS = 24.0, 40, 10
AT_ONCE = 2


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=[*SABOTAGES, "all"])
    parser.add_argument("--outside", help=argparse.SUPPRESS)  # the mount namespace this run has left
    asked = parser.parse_args()
    if asked.sabotage == "all":
        with ThreadPoolExecutor(AT_ONCE) as at_once:
            return max(at_once.map(_in_a_process, SABOTAGES))
    if asked.outside is None and (command := with_own_mounts(__file__, [*sys.argv[1:], f"--outside={namespace()}"])):
        os.execv(command[0], command)  # noqa: S606 - this program again, no shell
    mounts = asked.outside is not None and asked.outside != namespace()
    if not mounts:
        print("no mount namespace of its own: the full disk is a state file that refuses to save", flush=True)
    quiet()
    tune_allocator()
    raise_file_limit()
    if asked.sabotage:
        asked.seconds, asked.targets, asked.streams = SABOTAGE_SECONDS, SABOTAGE_TARGETS, SABOTAGE_STREAMS
    of = {"targets": asked.targets, "streams": asked.streams, "seed": asked.seed}
    soak = Soak(**of, sabotage=asked.sabotage or "", mounts=mounts)
    ledger = uvloop.run(soak.run(asked.seconds))
    told = figure(ledger, asked.seconds, asked.targets, asked.streams)
    if not asked.sabotage:
        print(f"figure: {told}")
        return 1 if ledger.violations else 0
    reported = [rule for rule in RULES[asked.sabotage] if ledger.violations[rule]]
    print(f"figure: sabotage {asked.sabotage}: {'reported as ' + reported[0] if reported else 'NOT REPORTED: ' + told}")
    return 0 if reported else 1


def _in_a_process(name: str) -> int:
    return subprocess.run([sys.executable, __file__, "--sabotage", name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
