"""Every proof about what people look at: page, dashboards, alerts, one instant, docs, OTLP, command line; a line each.

Those of OTLP, `doctor` and `top` stand in `prove_seen_cli.py`. Browser and Prometheus must be there: with CI=true a missing
one fails.
"""

from __future__ import annotations

import sys

import prove_seen_cli
from proofs import Proof, pytest, run

REQUIRED = {"CI": "true"}
PROOFS = [
    pytest(
        "browser: each page in four looks (screenshots in artifacts/), axe finds nothing serious, live, survives a restart",
        "tests/browser/test_page.py",
        timeout=900,
        env=REQUIRED,
    ),
    pytest("page weight, first paint and scrolling", "tests/browser/test_weight.py", env=REQUIRED),
    pytest("pages over a socket: JSON twins, policy, hostile names, canary, faults", "tests/exporters", "-k", "page"),
    pytest(
        "dashboards: regenerate without a difference, name only what exists, say what nothing means", "tests/dashboards"
    ),
    pytest("every panel returns data on a real Prometheus", "tests/prometheus/test_panels.py", env=REQUIRED),
    pytest("alert and recording rules by promtool", "tests/prometheus/test_rules.py", env=REQUIRED),
    pytest(
        "one frozen instant: value, state and window equal in document, status, CLI, page and metrics",
        "tests/whole/test_frozen_instant.py",
        "tests/whole/test_one_pass.py",
    ),
    pytest("the stated PromQL agrees within one scrape", "tests/prometheus/test_promql_agrees.py", env=REQUIRED),
    Proof("reference pages equal the tables", [sys.executable, "scripts/reference.py", "--check"]),
    Proof("the KV page equals its state table", [sys.executable, "scripts/kv_diagram.py", "--check"]),
    pytest("every reason has its meaning, every advice its reason", "tests/judge/test_meanings.py"),
    pytest("docs: every link leads somewhere, every command parses, every document loads", "tests/test_docs.py"),
    *prove_seen_cli.PROOFS,
]

if __name__ == "__main__":
    sys.exit(run(PROOFS))
