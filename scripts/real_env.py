"""Make the environments of the real programs that tests marked `real` run: one each, outside the clone, made once.

    python scripts/real_env.py sglang-router==0.3.2 vllm-router==0.1.17

Prints one line for each step and the environment's folder last. A finished environment is reused.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

KNOWN = ("sglang-router==0.3.2", "vllm-router==0.1.17")


def cache_root() -> Path:
    """Where environments live: ``$XDG_CACHE_HOME/observer/real``, below ``~/.cache`` without that variable."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "observer" / "real"


def environment(requirement: str) -> Path:
    """The folder of a requirement's environment, made or not."""
    return cache_root() / requirement.replace("==", "-")


def ready(requirement: str) -> bool:
    """Whether the environment is complete."""
    return (environment(requirement) / ".complete").is_file()


def ensure(requirement: str) -> Path:
    """The environment of ``name==version``, made if need be. Raises `subprocess.CalledProcessError` when pip fails."""
    folder = environment(requirement)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready(requirement):
            print(f"{requirement}: present", flush=True)
            return folder
        begun = time.monotonic()
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{requirement}: making an environment", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        print(f"{requirement}: installing", flush=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, requirement], check=True)
        (folder / ".complete").write_text(requirement + "\n")
        print(f"{requirement}: installed in {time.monotonic() - begun:.0f} s", flush=True)
    return folder


def main() -> None:
    """Make every environment named on the command line, all known ones without any."""
    for requirement in sys.argv[1:] or KNOWN:
        print(ensure(requirement))


if __name__ == "__main__":
    main()
