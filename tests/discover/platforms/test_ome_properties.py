"""Whatever stands in OME's records gives an answer and never an error, and what is no number is never counted."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from router_contract.platform_facts import PlatformFacts
from tests.discover.platforms.ome_shapes import find, isvc, pod, replica

KEYS = (
    "canary", "autoscaler", "lifecycle", "rolloutPhase", "currentStep", "failed", "reason", "conditions", "type", "status",
    "cluster", "observationKnown", "observationFailingSince", "admittedReplicas", "readyReplicas", "allocation", "managedBy",
    "currentReplicas", "canaryRevisionHash", "metricResults", "name", "operation", "waiting", "lastFailure", "rolloutHold",
    "gate", "since", "retryBlocks", "state", "members", "phases", "value", "indexes", "entries", "index", "phase",
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats(allow_nan=False) | st.text(max_size=4)
    | st.sampled_from(["ome", "Ready", "0-3,5", "2026-11-01T00:10:00Z", "True"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip
STATUS = st.fixed_dictionaries(
    {}, optional={"components": VALUES | st.fixed_dictionaries({"engine": VALUES}), "modelStatus": VALUES, "rollout": VALUES,
                  "placement": VALUES | st.fixed_dictionaries({"candidates": VALUES})}
)  # fmt: skip
OF_REPLICA = st.fixed_dictionaries(
    {},
    optional={
        "instanceStatusEncoding": VALUES | st.just("ColumnarV2"),
        "instanceStatusColumns": VALUES,
        "instanceStatuses": VALUES,
        "rolloutHold": VALUES,
        "retryBlocks": VALUES,
        "conditions": VALUES,
        "labelSelector": VALUES,
        "observedGeneration": VALUES,
    },
)


@settings(deadline=None, max_examples=150)
@given(STATUS, OF_REPLICA, VALUES)
def test_any_record_gives_an_answer(status: Any, of_replica: Any, refs: Any) -> None:
    for spec in ({}, {"replicaRefs": {"engine": refs}}):
        found = find(isvc(spec=spec, status=status), replica(status=of_replica), pod("a"))
        facts = found.discovered.facts
        assert msgspec.json.decode(msgspec.json.encode(facts), type=PlatformFacts).records == facts.records
        placed = facts.records.placement
        for home in placed.homes if placed is not None else ():
            assert home.admitted is None or home.admitted >= 0
            assert home.ready is None or home.ready >= 0
