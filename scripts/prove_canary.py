"""Every proof about canary analysis and its gate that a command can run; one line each with its figure."""

from __future__ import annotations

import sys

from proofs import Proof, pytest, run

JUDGE = "tests/judge/canary"
WHOLE = "tests/whole/test_canary.py"
UNATTENDED = "tests/whole/test_canary_unattended.py"
PROMETHEUS = "tests/prometheus/test_canary_agrees.py"
REAL = {"CI": "true"}
PROOFS = [
    pytest("every row of the reference's tables names its cases", f"{JUDGE}/test_rows.py"),
    pytest(
        "each case has the right verdict, decision and reason, through real HTTP where it is about HTTP",
        "tests/collect/test_promql.py",
        "tests/collect/test_canary_reports.py",
        f"{JUDGE}/test_reports.py",
        f"{JUDGE}/test_evaluate.py",
        f"{JUDGE}/test_native.py",
        f"{JUDGE}/test_steps.py",
    ),
    pytest("what cannot be judged is refused with its field", "tests/router_contract/test_canary_decode.py"),
    pytest(
        "unknown adds nothing, results read back, restarts and two replicas count once, for any sequence",
        f"{JUDGE}/test_properties.py",
    ),
    Proof(
        "false alarms, power and the error-free baseline; the table is the one in docs/",
        [sys.executable, "-m", "benchmarks.canary_statistics", "--check"],
        timeout=900.0,
    ),
    pytest("by Pod and family: restarts, new Pods, revisions, warm-up", "tests/app/test_canary_native.py", "tests/measure/test_canary_cells.py"),
    pytest("a real Prometheus and the observer agree on a healthy and a bad canary", PROMETHEUS, "-k", "steady", env=REAL),
    pytest(
        "where they differ (restart, new Pod, buckets) the native one is right by the ledger", PROMETHEUS, "-k", "inside", env=REAL
    ),
    pytest("unattended: errors of 5 % roll back, and every gate says so", WHOLE, "-k", "errors_of_the_canary"),
    pytest("unattended: first tokens 40 % slower roll back by exceedance, as fast ones do not", UNATTENDED, "-k", "tokens or as_fast"),
    pytest("unattended: cold but healthy holds until it is warm, then advances", WHOLE, "-k", "cold_canary"),
    pytest("unattended: one hung Pod of four is missing, then the analysis stalls", UNATTENDED, "-k", "hung_pod"),
    pytest("unattended: without traffic it stalls, the budget untouched", WHOLE, "-k", "without_traffic"),
    pytest("a restart in a step neither forgets nor counts twice; two observers count once", WHOLE, "-k", "restart or two_observers"),
    pytest("OME's pinned runs, policies and units", "tests/discover/test_ome_canary.py"),
    pytest("analyses of a cluster: state in the status, owners, Secrets by list", "tests/app/test_canary_cluster.py"),
    pytest("on a real kube-apiserver: schema, rules, columns; replicas that race never both count", "tests/cluster/test_canary_state.py", env=REAL),
    pytest("the gate, the hooks and the facade", "tests/exporters/test_canary.py", WHOLE, "-k", "gate or facade or answered or hook or families or phase"),
    pytest("five minutes without the observer move no client; with other limits they do", "tests/exporters/test_canary_clients.py"),
    pytest("a recording is judged again to the same end", WHOLE, "-k", "judged_again"),
]  # fmt: skip

if __name__ == "__main__":
    sys.exit(run(PROOFS))
