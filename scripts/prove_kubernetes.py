"""Every proof about a cluster that a command can run, on a real kube-apiserver; one line each with its figure."""

from __future__ import annotations

import sys

import prove_aggregated
from proofs import ROOT, Proof, pytest, run

sys.path.insert(0, str(ROOT))

from tests.cluster.test_pitfalls import PITFALLS

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


def replicas() -> list[Proof]:
    """Two replicas of a shard."""
    return [
        pytest("shards: the hash, balance, least movement", "tests/kube/test_shards.py"),
        pytest(
            "who owns, who may write, who is there, by Leases",
            "tests/kube/test_sharing.py",
            "tests/kube/test_electing.py",
            "tests/cluster/test_elections.py",
            env=CI,
        ),
        pytest(
            "a hand-over loses no window, and only a replica's is taken",
            "tests/app/test_handover.py",
            "tests/app/test_replicas.py",
        ),
        pytest(
            "reads at a standby: passed on, direct, or refused", "tests/app/test_relay.py", "tests/app/test_peers.py"
        ),
        pytest(
            "two replicas behind the aggregator: one drained, one killed, one that stands still",
            "tests/cluster/test_replicas.py",
            env=CI,
        ),
    ]


def installing() -> list[Proof]:
    """The chart and its rights."""
    return [
        pytest(
            "the chart renders, and its values are the settings",
            "tests/chart/test_rendering.py",
            "tests/chart/test_files.py",
            env=CI,
        ),
        pytest(
            "the server takes every object; releases install, upgrade and go; rights",
            "tests/chart/test_cluster.py",
            env=CI,
        ),
        pytest("a namespaced install works with no ClusterRole", "tests/chart/test_running.py", env=CI),
        pytest("the image's commands build an observer that runs", "tests/chart/test_dockerfile.py", env=CI),
    ]


def scaling() -> list[Proof]:
    """Who scales by our metrics."""
    return [
        pytest("the observer down for ten minutes: nothing scales in", "tests/scaling/test_outage.py"),
        pytest("the recipes' queries on a real Prometheus", "tests/scaling/test_queries.py", env=CI),
    ]


def pitfalls() -> list[Proof]:
    """Each pitfall that the aggregated API has no part in; the others are with it."""
    told = {name.replace("`", "") for name in prove_aggregated.PITFALLS}
    rest = {name: tests for name, tests in PITFALLS.items() if name.replace("`", "") not in told}
    return [
        pytest("every pitfall has its tests", "tests/cluster/test_pitfalls.py"),
        *(pytest(f"pitfall: {name}", *(f"tests/{test}" for test in tests), env=CI) for name, tests in rest.items()),
    ]


PROOFS = [
    *observing(),
    *outages(),
    *prove_aggregated.proofs(),
    *pitfalls(),
    *replicas(),
    *installing(),
    *scaling(),
]

if __name__ == "__main__":
    sys.exit(run(PROOFS))
