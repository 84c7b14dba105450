"""Every proof about platforms that a command can run; one line each with its figure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from proofs import ROOT, Proof, pytest, run

PLATFORMS = "tests/discover/platforms"
CLUSTER = "tests/cluster"
CI = {"CI": "true"}


def platform_cases() -> list[Proof]:
    """One proof for each platform's own table of cases over its dump; a platform without any has failed."""
    sys.path.insert(0, str(ROOT))
    from observer.discover.platforms import built_in  # noqa: PLC0415 - the path is set just above

    own = {"kserve", "llm-d", "production-stack", "deployments"}
    files = {path: path.read_text("utf-8") for path in sorted((ROOT / PLATFORMS).glob("test_*.py"))}
    made = []
    for platform in built_in():
        name = platform.name
        stem = name.replace("-", "_")
        mine = [path for path in files if path.stem == f"test_{stem}" or path.stem.startswith(f"test_{stem}_")]
        mine += [path for path in files if name in own and path.stem == "test_pools_and_plain"]
        dump = ROOT / PLATFORMS / name
        told = f"{platform.document.title or name}: cases over its dump ({len(list(dump.glob('*.yaml')))} files)"
        made.append(
            pytest(told, *(str(path.relative_to(ROOT)) for path in mine or [Path(PLATFORMS) / f"test_{stem}.py"]))
        )
    return made


def dumps() -> int:
    """Run `observer check --dump` over every platform's dump and say what it finds; 1 when one finds nothing."""
    sys.path.insert(0, str(ROOT))
    from observer.discover.platforms import built_in  # noqa: PLC0415 - the path is set just above

    wrong = 0
    for platform in built_in():
        dump = str(ROOT / PLATFORMS / platform.name)
        command = [sys.executable, "-m", "observer", "check", "--platform", platform.name, "--dump", dump, "-o", "json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout)["deployments"] if done.returncode == 0 else []
        members = sum(len(each["members"]) for each in found)
        print(f"figure: {platform.name} {len(found)} deployments with {members} members", done.stderr.strip())
        wrong += not members
    return min(wrong, 1)


def cluster_cases() -> list[Proof]:
    """One proof for each test of platforms on a real kube-apiserver."""
    found = sorted((ROOT / CLUSTER).glob("test_platform_*.py"))
    return [
        pytest(
            f"on a real kube-apiserver: {path.stem.removeprefix('test_platform_')}", str(path.relative_to(ROOT)), env=CI
        )
        for path in found
    ]


PROOFS = [
    pytest(
        "the language of platform documents: every fault said, values, paths",
        f"{PLATFORMS}/test_documents.py",
        f"{PLATFORMS}/test_paths.py",
    ),
    pytest("properties: any object and Pod gives an answer, never an error", f"{PLATFORMS}/test_properties.py"),
    pytest("a new platform is one YAML file", f"{PLATFORMS}/test_one_file.py"),
    *platform_cases(),
    Proof(
        "`observer check --dump` finds the deployments of each platform's dump", [sys.executable, __file__, "--dumps"]
    ),
    *cluster_cases(),
    pytest(
        "every condition, reason, state and step of the status document has an explain answer",
        "tests/judge/test_every_word.py",
    ),
    Proof("docs/platforms.md is what the documents say", [sys.executable, "scripts/platforms_page.py", "--check"]),
    pytest("each platform says what cannot be seen on it, and its own words", "tests/test_platforms_page.py"),
]

if __name__ == "__main__":
    sys.exit(dumps() if "--dumps" in sys.argv else run(PROOFS))
