"""What a platform's records call for, as findings: in the platform's own words, with its own advice."""

from __future__ import annotations

from collections.abc import Iterator

from router_contract.platform_facts import PlatformFacts
from router_contract.readings import Instant
from router_contract.status import Finding


def of_notices(facts: PlatformFacts, now: Instant) -> Iterator[Finding]:
    """One finding for each notice. Advice for one reason goes before advice for any reason of its type."""
    rows = {(row.condition, row.reason): row for row in reversed(facts.reasons)}
    for item in facts.records.notices:
        kind = item.type.partition(" ")[0]
        row = rows.get((kind, item.reason)) or rows.get((kind, ""))
        yield Finding(
            type=item.type,
            status=item.status,
            reason=item.reason,
            message=f"{item.message} (as the operator says)".strip(),
            advice="" if row is None else row.course,
            whose="" if row is None else row.whose,
            hint="" if row is None else row.hint,
            age_seconds=None if item.since is None else max(0.0, now.wall - item.since),
        )
