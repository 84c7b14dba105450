"""Every proof about views, groups, eligibility and conditions that a command can run; one line each with its figure."""

from __future__ import annotations

import sys

from proofs import Proof, pytest, run

JUDGE = "tests/judge"
PROOFS = [
    Proof(
        "every rule of the users' status document and every edge of the peer has a case",
        [sys.executable, "scripts/status_rules.py", *sys.argv[1:]],
    ),
    pytest("router views from the recorded answers of every router", "tests/router_contract/test_router_views.py"),
    pytest("binding, aggregation and convergence", f"{JUDGE}/test_convergence.py"),
    pytest(
        "criteria, groups, retention, restarts, elastic collectives",
        f"{JUDGE}/test_eligibility.py",
        f"{JUDGE}/test_groups.py",
    ),
    pytest(
        "all conditions with every reason, two voices, advice",
        f"{JUDGE}/test_conditions.py",
        f"{JUDGE}/test_contract_holds.py",
        f"{JUDGE}/test_cache_condition.py",
    ),
    pytest(
        "readiness meaning, parallelism, stall, starts, phase, drain, explanations",
        *(
            f"{JUDGE}/test_{name}.py"
            for name in ("readiness", "parallelism", "standing", "starts", "inflight", "phase", "drain", "explain")
        ),
    ),
    pytest(
        "from reads, views and streams to the evidence judges are handed; passes that rest",
        "tests/test_evidence.py",
        "tests/app/test_judging.py",
    ),
    pytest(
        "unknown adds nothing, no judge raises, same inputs same verdict, restarts change nothing",
        f"{JUDGE}/test_properties.py",
    ),
    pytest(
        "a loading engine leaves eligible null; one that stopped is revoked in one pass",
        f"{JUDGE}/test_groups.py",
        "-k",
        "loading_engine or answered_and_stopped",
    ),
    pytest(
        "stopping and starting changes no qualification time and no verdict",
        f"{JUDGE}/test_groups.py",
        f"{JUDGE}/test_conditions.py",
        "-k",
        "restart",
    ),
    pytest(
        "every scenario through a simulated fleet and a whole observer", "tests/whole/test_eligibility_scenarios.py"
    ),
    pytest(
        "the real routers: followed within two reads, in order",
        "tests/real/test_router_follow.py",
        "tests/real/test_eligibility.py",
        env={"CI": "true"},
    ),
]

if __name__ == "__main__":
    sys.exit(run(PROOFS))
