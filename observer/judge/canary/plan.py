"""The identity of what is being judged: a sample that was begun for another plan is dropped, whatever it says."""

from __future__ import annotations

import hashlib

import msgspec

from router_contract.canary import CanaryAnalysis


def plan_of(definition: CanaryAnalysis, step: int) -> str:
    """A digest of a step's gate, its source, its deployment and its revisions.

    A token is no part of it: one that is rotated must neither reset what was counted nor drop a sample.
    """
    gate = definition.steps[step] if step < len(definition.steps) else None
    of = (definition.namespace, definition.target, definition.component)
    parts = (gate, definition.source, of, definition.stable, definition.canary)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
