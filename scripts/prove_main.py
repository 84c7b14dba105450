"""Every proof of the main job that a command can run: one line each with its figure, non-zero if one fails."""

from __future__ import annotations

import sys

from proofs import Proof, pytest, run

PROOFS = [
    Proof(
        "clean clone: make demo shows the fleet within 90 s, make test passes",
        [sys.executable, "scripts/clean_clone.py", "--test"],
        timeout=3000,
    ),
    Proof(
        "every recording read end to end equals its checked-in document",
        [sys.executable, "scripts/expected.py", "--check"],
    ),
    Proof(
        "an independent script recomputes every number of those documents",
        [sys.executable, "scripts/recompute.py", "--compare", "tests/expected"],
    ),
    pytest("real routers: failures and requests equal what clients saw", "tests/real/test_router_counters.py"),
    pytest("hostile targets: the right failure, the others fresh, memory flat", "tests/whole/test_hostile.py"),
    pytest("500 dead of 1,000 targets delay nobody", "tests/collect/test_thousand.py"),
    Proof(
        "reader against prometheus_client: at least 50 times on a repeat read",
        [sys.executable, "benchmarks/exposition.py"],
    ),
]

if __name__ == "__main__":
    sys.exit(run(PROOFS))
