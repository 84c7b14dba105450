"""Every proof about a cluster that a command can run, on a real kube-apiserver; one line each with its figure."""

from __future__ import annotations

import sys

import prove_aggregated
from proofs import Proof, pytest, run

OBSERVING = "tests/cluster/test_observing.py"
OUTAGES = "tests/cluster/test_outages.py"
WRITING = "tests/cluster/test_writing_status.py"
READING = "tests/cluster/test_reading.py"
CI = {"CI": "true"}


def observing() -> list[Proof]:
    """What is written into the cluster, and what is not."""
    return [
        Proof(
            "the observation's definition is as its script writes it",
            [sys.executable, "scripts/observation_crd.py", "--check"],
        ),
        pytest(
            "every status that can be made is declared; nothing that only ticks is stored",
            "tests/exporters/test_observation.py",
        ),
        pytest("from verdicts to intents and Events", "tests/app/test_publishing.py", "tests/kube/test_events.py"),
        pytest(
            "columns, explain, conditions, no write without a change, a revocation at once, Events, no duel",
            OBSERVING,
            "-k",
            "stands_in_the_cluster",
            env=CI,
        ),
        pytest("a restart forgets nothing", OBSERVING, "-k", "restart", env=CI),
        pytest("an observation goes with its object", OBSERVING, "-k", "goes_with_its_object", env=CI),
        pytest("a deployment changes hands and keeps its past", "tests/cluster/test_ownership.py", env=CI),
        pytest("ready needs the cluster and not the engines", OBSERVING, "-k", "ready_needs", env=CI),
        pytest("writing status: every trap of server-side apply", WRITING, "tests/kube/test_writing.py", env=CI),
        pytest("informers on a real API server and on a hostile one", READING, "tests/kube/test_informer.py", env=CI),
        pytest("10,000 Pods within 70 MB", "tests/kube/test_memory.py"),
    ]


def outages() -> list[Proof]:
    """The control plane goes away."""
    return [
        pytest(
            "kube-apiserver killed for 20 s, etcd restarted, a delete missed",
            OUTAGES,
            env={**CI, "OBSERVER_OUTAGE_SECONDS": "20"},
        ),
    ]


PROOFS = [*observing(), *outages(), *prove_aggregated.proofs()]

if __name__ == "__main__":
    sys.exit(run(PROOFS))
