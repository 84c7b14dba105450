"""CacheAttached: the whole decision table, and the steps by which less evidence may change its answer.

Its evidence is ordered, so a stronger account that is lost may let a weaker one speak: each such step is a case here.
"""

from __future__ import annotations

import pytest

from observer.judge.attachment import CacheEvidence, EngineAccount, StoreLevel, cache_attached
from tests.judge.build import NOW, ago


def account(replica="a", hits=None, **operations):
    return EngineAccount(replica=replica, operations=tuple(operations.items()) or None, hit_tokens=hits, age=3.0)


LATELY = ago(30)


def level(value=10.0, grew=LATELY):
    return StoreLevel(source="store", name="store-keys", value=value, grew_at=grew)


def say(**changes):
    found = cache_attached(CacheEvidence(**({"attached": True, "ready_replicas": 2} | changes)), NOW)
    decided = dict(found.evidence).get("decidedBy", "")
    return f"{found.status.value}/{found.reason}", decided


@pytest.mark.parametrize(
    ("given", "expected", "decided"),
    [
        pytest.param({"attached": False}, "True/NotApplicable", "", id="no cache"),
        pytest.param({"attached": None}, "Unknown/NotObservable", "", id="nobody said whether one is declared"),
        pytest.param(
            {"unmanaged": "r", "accounts": (account(ok=1.0),)},
            "Unknown/Unmanaged",
            "",
            id="a take-over outranks the pool",
        ),
        pytest.param({"ready_replicas": 0, "store_account": (level(),)}, "Unknown/NoReplicaReady", "", id="none ready"),
        pytest.param({"ready_replicas": None}, "Unknown/NotObservable", "", id="readiness not known"),
        pytest.param(
            {"accounts": (account(ok=1.0),)}, "True/CacheActive", "engine-account", id="an operation succeeded"
        ),
        pytest.param({"accounts": (account(hits=5.0),)}, "True/CacheActive", "engine-account", id="tokens were found"),
        pytest.param(
            {"accounts": (account(error=4.0),)},
            "False/CacheOperationsFailing",
            "engine-account",
            id="all operations failed",
        ),
        pytest.param(
            {"accounts": (account(error=4.0), account("b", ok=1.0))},
            "True/CacheActive",
            "engine-account",
            id="one that succeeds outranks those that fail",
        ),
        pytest.param(
            {"accounts": (account(ok=0.0),)}, "Unknown/NoObservationAvailable", "", id="an observed 0 is idle"
        ),
        pytest.param({"accounts": (account(),)}, "Unknown/NoObservationAvailable", "", id="absent is never 0"),
        pytest.param({}, "Unknown/NoObservationAvailable", "", id="nobody reads the engines"),
        pytest.param({"store_account": (level(),)}, "True/CacheActive", "store-account", id="the store's level grew"),
        pytest.param(
            {"store_account": (level(grew=ago(601)),)},
            "Unknown/NoObservationAvailable",
            "",
            id="a level that stands is shown",
        ),
        pytest.param(
            {"store_account": (level(grew=None),)},
            "Unknown/NoObservationAvailable",
            "",
            id="a first reading has not grown",
        ),
        pytest.param({"binding": (level(),)}, "True/CacheActive", "binding", id="the binding's figures"),
    ],
)
def test_decisions(given, expected, decided):
    assert say(**given) == (expected, decided)


@pytest.mark.parametrize(
    ("stronger", "weaker", "before", "after"),
    [
        pytest.param(
            {"accounts": (account(error=4.0),)}, {"store_account": (level(),)}, "False/CacheOperationsFailing",
            "True/CacheActive", id="a lost failing account lets the store speak: False to True, of the shared domain",
        ),
        pytest.param(
            {"accounts": (account(ok=1.0),)}, {"binding": (level(),)}, "True/CacheActive", "True/CacheActive",
            id="a lost good account lets the binding speak",
        ),
        pytest.param(
            {"accounts": (account(error=4.0), account("b", ok=1.0))}, {"accounts": (account(error=4.0),)},
            "True/CacheActive", "False/CacheOperationsFailing", id="a lost good account leaves the failing one",
        ),
    ],
)  # fmt: skip
def test_steps_of_ordered_evidence(stronger, weaker, before, after):
    assert say(**(weaker | stronger))[0] == before
    assert say(**weaker)[0] == after


def test_what_a_shared_domain_says_is_attributed_to_it():
    found = cache_attached(CacheEvidence(attached=True, ready_replicas=1, store_account=(level(),)), NOW)
    assert dict(found.evidence)["attribution"] == "SharedDomain"
