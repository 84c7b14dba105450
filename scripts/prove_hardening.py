"""Every proof about hostile input, faults, limits, secrets and upgrades that a command can run; one line each."""

from __future__ import annotations

import sys

from proofs import Proof, pytest, run

PYTHON = sys.executable
PROOFS = [
    pytest(
        "every reported row has its case",
        "tests/reports",
        "tests/judge/canary/test_reports.py",
        "tests/collect/test_canary_reports.py",
    ),
    pytest("kept findings, seeds and neighbours of every reader of foreign bytes", "tests/test_fuzz.py"),
    Proof(
        "20 s of fuzzing for each reader of foreign bytes",
        [PYTHON, "-m", "fuzz.all", "--seconds", "20", "--jobs", "2"],
        timeout=900.0,
    ),
    pytest(
        "256 descriptors, 500 targets under faults",
        "tests/whole/test_descriptors.py",
        "tests/collect/test_connections.py",
    ),
    pytest("floods, slow clients, large bodies, viewers, certificates", "tests/exporters/test_limits.py"),
    pytest("planted secrets are nowhere; a bundle replays", "tests/whole/test_bundle.py"),
    pytest("our own OpenAPI, by schemathesis", "tests/whole/test_openapi.py"),
    Proof("bandit: every finding is explained on its line", [PYTHON, "scripts/security.py", "bandit"]),
    Proof(
        "ruff's security rules",
        [
            PYTHON,
            "-m",
            "ruff",
            "check",
            "--select",
            "S",
            "observer",
            "exporters",
            "router_contract",
            "dashboards",
            "scripts",
        ],
    ),
    Proof("known advisories of the locks", [PYTHON, "scripts/security.py", "audit"]),
    Proof(
        "the SBOM has every entry of the lock, or its marker says why not",
        [PYTHON, "scripts/security.py", "sbom", "artifacts/observer.cdx.json"],
    ),
    pytest("settings, state and recordings of other versions", "tests/test_upgrades.py"),
    Proof(
        "the soak: 60 s of faults, no violation",
        [PYTHON, "scripts/soak.py", "--seconds", "60"],
        timeout=300.0,
    ),
    Proof(
        "each sabotage is reported by the soak's ledger",
        [PYTHON, "scripts/soak.py", "--sabotage", "all"],
        timeout=600.0,
    ),
]

if __name__ == "__main__":
    sys.exit(run(PROOFS))
