"""The security checks of the source and of what it depends on: `python scripts/security.py bandit|audit|sbom FILE`.

`bandit` fails for every finding that is not explained: ruff's S rules carry bandit's numbers, so one
``noqa: S105 - reason`` on the line answers both, as does a folder's line in `pyproject.toml`; what only bandit finds
has ``nosec B105 - reason``. `audit` asks an advisory source about the locked packages, strictly; where no
source answers it says so and names how many packages were not audited. `sbom` writes a CycloneDX document of a lock.
"""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("router_contract", "observer", "exporters", "dashboards")
LOCKS = ("run", "dev")
EXPLAINED = re.compile(r"#\s*noqa:\s*([A-Z0-9, ]+?)\s*(?:-|#)\s*\S")
NO_ANSWER = (
    "ConnectionError",
    "Connection refused",
    "Max retries",
    "ServiceError",
    "timed out",
    "Failed to establish",
    "could not be audited",
)


def bandit() -> int:
    """0 when every finding is explained on its line."""
    command = [sys.executable, "-m", "bandit", "-q", "-r", *SOURCES, "-f", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    for error in found["errors"]:
        print(f"{error['filename']}: bandit cannot read it: {error['reason']}")
    bare = [each for each in found["results"] if not _explained(each)]
    for each in bare:
        print(
            f"{each['filename']}:{each['line_number']}: {each['test_id']} {each['issue_text']}; fix it, or explain it: # noqa: S{each['test_id'][1:]} - why"
        )
    print(f"figure: bandit: {len(found['results'])} findings, {len(bare)} without an explanation on their line")
    return 1 if bare or found["errors"] else 0


def _folders(code: str) -> list[str]:
    """The folders and files for which `pyproject.toml` says that a rule does not hold there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    ignored = project["tool"]["ruff"]["lint"]["per-file-ignores"]
    return [pattern for pattern, codes in ignored.items() if code in codes]


def _explained(finding: dict[str, object]) -> bool:
    lines = (ROOT / str(finding["filename"])).read_text("utf-8").splitlines()
    wanted = f"S{str(finding['test_id'])[1:]}"
    if any(fnmatch.fnmatch(str(finding["filename"]), pattern) for pattern in _folders(wanted)):
        return True
    first = int(str(finding["line_number"]))
    span = [*(int(number) for number in finding["line_range"])] if isinstance(finding["line_range"], list) else [first]
    return any(
        wanted in re.split(r"[, ]+", told[1])
        for number in {first, *span}
        for told in EXPLAINED.finditer(lines[number - 1])
    )


def audit() -> int:
    """0 when no locked package has a known advisory, or when nobody could be asked."""
    worst = 0
    for name in LOCKS:
        lock = ROOT / "requirements" / f"{name}.lock"
        count = len(locked(lock))
        command = [sys.executable, "-m", "pip_audit", "--strict", "--require-hashes", "--disable-pip", "-r", str(lock)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
            said, code = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            said, code = "timed out", 1
        if code and any(word in said for word in NO_ANSWER):
            print(f"figure: {name}.lock: not audited, {count} packages: no advisory source answers")
            continue
        print(f"figure: {name}.lock: {count} packages audited, " + ("no known advisory" if not code else "ADVISORIES"))
        if code:
            print(said.strip()[-3000:])
            worst = 1
    return worst


def locked(lock: Path) -> list[tuple[str, str, list[str]]]:
    """Name, version and sha256 hashes of each package of a lock."""
    found: list[tuple[str, str, list[str]]] = []
    for line in lock.read_text("utf-8").splitlines():
        package = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", line)
        if package is not None:
            found.append((package[1], package[2], []))
        found_hash = re.search(r"--hash=sha256:([0-9a-f]{64})", line)
        if found_hash is not None and found:
            found[-1][2].append(found_hash[1])
    return found


def sbom(file: Path) -> int:
    """Write the CycloneDX document of what is installed to run the observer. 0 when it is valid and whole."""
    lock = ROOT / "requirements" / "run.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "requirements",
        str(lock),
        "--pyproject",
        str(ROOT / "pyproject.toml"),
    ]
    command += ["--output-format", "JSON", "--output-reproducible", "-o", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:])
        return 1
    document = json.loads(file.read_text("utf-8"))
    components = {component["name"].lower().replace("_", "-") for component in document["components"]}
    lacking = {name.lower().replace("_", "-") for name, _, _ in locked(lock)} - components
    print(f"figure: {file.name}: {len(components)} components of {len(locked(lock))} locked packages")
    if lacking:
        print(f"it lacks {sorted(lacking)}")
    return 1 if lacking else 0


def main(arguments: list[str]) -> int:
    """The command line."""
    match arguments:
        case ["bandit"]:
            return bandit()
        case ["audit"]:
            return audit()
        case ["sbom", file]:
            return sbom(Path(file))
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
