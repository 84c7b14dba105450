"""From a clean clone: `make demo` shows its table in time, and with ``--test`` `make test` passes.

Clones the committed tree into a temporary folder with nothing of this checkout's environment, so that what is not
committed or not installed by the project itself is missed here first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO_SECONDS = 90.0


def environment() -> dict[str, str]:
    """This process's environment without any virtual environment; settings of package clients and proxies stay."""
    found = dict(os.environ)
    active = found.pop("VIRTUAL_ENV", None)
    for name in ("PYTHONPATH", "PYTHONHOME"):
        found.pop(name, None)
    own = {str(Path(sys.executable).parent), *({str(Path(active) / "bin")} if active else ())}
    found["PATH"] = os.pathsep.join(part for part in found["PATH"].split(os.pathsep) if part not in own)
    return found


def make(folder: Path, *arguments: str, timeout: float) -> tuple[float, str]:
    """Seconds and output of one make target; ends the script when it fails."""
    started = time.monotonic()
    done = subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    seconds = time.monotonic() - started
    output = done.stdout + done.stderr
    if done.returncode:
        sys.exit(f"{output[-4000:]}\nmake {' '.join(arguments)} failed after {seconds:.0f} s")
    return seconds, output


def main() -> None:
    """Run what the command line asks for."""
    with tempfile.TemporaryDirectory(prefix="observer-clone-") as folder:
        clone = Path(folder, "observer")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        seconds, output = make(clone, "demo", "ARGS=--once", timeout=600)
        rows = [line for line in output.splitlines() if line.startswith("demo ")]
        if len(rows) < 4:
            sys.exit(f"{output}\nmake demo showed {len(rows)} deployments, want at least 4")
        if seconds > DEMO_SECONDS:
            sys.exit(f"make demo took {seconds:.0f} s to its table, at most {DEMO_SECONDS:.0f} are wanted")
        print(f"figure: make demo from a clean clone showed {len(rows)} deployments after {seconds:.0f} s")
        if "--test" in sys.argv[1:]:
            seconds, output = make(clone, "test", timeout=2400)
            closing = [line for line in output.splitlines() if " passed" in line]
            print(f"figure: make test passed in {seconds:.0f} s: {closing[-1].strip('= ') if closing else 'no count'}")


main()
