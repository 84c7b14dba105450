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
from typing import NamedTuple

from packaging.markers import Marker

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


class Pin(NamedTuple):
    """One entry of a lock. ``marker`` says for which platforms it is ("" for all): a name may be locked more than once."""

    name: str
    version: str
    marker: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Name, in the one spelling that is compared, and version."""
        return normal(self.name), self.version


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: Path) -> list[Pin]:
    """Each entry of a lock."""
    entry = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\]+))?")
    found = (entry.match(line) for line in lock.read_text("utf-8").splitlines())
    return [Pin(each[1], each[2], (each[3] or "").strip()) for each in found if each is not None]


def compared(pins: list[Pin], components: list[tuple[str, str]]) -> tuple[list[str], list[Pin]]:
    """What a document has of a lock, in sentences, and what it lacks without a reason.

    An entry may be left out only for a marker that does not hold where the document was made. One that is in the
    document though its marker does not hold here is named too: the document is of the lock, not of one machine.
    """
    have = {(normal(name), version) for name, version in components}
    there = [pin for pin in pins if pin.key in have]
    elsewhere = [pin for pin in pins if pin.marker and not Marker(pin.marker).evaluate()]
    left_out = [pin for pin in elsewhere if pin.key not in have]
    said = [f"{len(there)} of {len(pins)} locked entries ({len({normal(pin.name) for pin in pins})} names)"]
    said.append(f"left out: {_named(left_out)}")
    said.append(f"in it for other platforms: {_named([pin for pin in elsewhere if pin.key in have])}")
    return said, [pin for pin in pins if pin.key not in have and pin not in left_out]


def _named(pins: list[Pin]) -> str:
    return ", ".join(f"{pin.name} {pin.version} (for {pin.marker})" for pin in pins) or "none"


def sbom(file: Path) -> int:
    """Write the CycloneDX document of the lock of what runs the observer. 0 when it is valid and has every entry."""
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
    pins = locked(lock)
    said, lacking = compared(pins, [(each["name"], each.get("version", "")) for each in document["components"]])
    print(f"figure: {file.name}: " + "; ".join(said))
    for pin in lacking:
        print(f"{file.name} lacks {pin.name} {pin.version}" + (f", locked for {pin.marker}" if pin.marker else ""))
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
