"""From when a Pod's requests count: after the step began, and after the Pod is warm by time and by requests."""

from __future__ import annotations

from collections.abc import Sequence

from router_contract.canary import WarmUp


def warm_from(
    rule: WarmUp, entered: float, ready_at: float | None, reads: Sequence[tuple[float, float]]
) -> float | None:
    """The wall time from which a Pod counts, or ``None`` while it is not warm.

    ``ready_at`` is when it became Ready (``None``: not yet, or nobody says); ``reads`` are (time, requests ended since it
    started), in order of time. A Pod that was warm before the step counts from the step's beginning.
    """
    if ready_at is None:
        return None
    reached = ready_at
    if rule.requests:
        at = next((time for time, requests in reads if requests >= rule.requests), None)
        if at is None:
            return None
        reached = max(reached, at)
    newest = reads[-1][0] if reads else None
    start = max(entered, reached, ready_at + rule.seconds)
    return None if newest is None or newest < start else start
