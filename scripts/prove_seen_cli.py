"""Proofs about OTLP, `observer doctor`, `observer top` and what the command line says; `prove_seen.py` runs them."""

from __future__ import annotations

import sys

from proofs import Proof, pytest, run

PROOFS = [
    pytest(
        "OTLP over gRPC and HTTP: what arrives, decoded, equals /metrics at the same instant; unknown is no point",
        "tests/exporters/test_otlp.py",
        "tests/whole/test_otlp.py",
    ),
    pytest(
        "doctor: each cause of silence made by a real socket and found, and told apart by facts of its own",
        "tests/collect/test_doctor.py",
        "tests/judge/test_diagnosis.py",
        "tests/cli/test_doctor.py",
    ),
    Proof("doctor: the page equals the table", [sys.executable, "scripts/doctor_page.py", "--check"]),
    pytest("top: order, unknown, keys on a pseudo-terminal", "tests/cli/test_top.py"),
    pytest(
        "errors say what to do, over every asking verb; completion",
        "tests/cli/test_errors.py",
        "tests/cli/test_completion.py",
    ),
]
"""In the form of `proofs.run`."""

if __name__ == "__main__":
    sys.exit(run(PROOFS))
