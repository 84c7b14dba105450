"""The identity of what is being judged: a sample that was begun for another plan is dropped, whatever it says."""

from __future__ import annotations

import hashlib

import msgspec

from router_contract.canary import CanaryAnalysis


def plan_of(definition: CanaryAnalysis, step: int, token_digest: str = "") -> str:
    """A digest of a step's gate, its source and its revisions. ``token_digest`` changes when the source's token does."""
    gate = definition.steps[step] if step < len(definition.steps) else None
    parts = (gate, definition.source, definition.component, definition.stable, definition.canary, token_digest)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
