"""Three-valued logic of verdicts, and values known only to lie in an interval compared with a threshold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from router_contract.canary import Operator
from router_contract.canary_results import Verdict

_ORDER: Final = (Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.PASSED)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict. Of none it is Inconclusive: nothing checked is not a pass."""
    return min(verdicts, key=_ORDER.index, default=Verdict.INCONCLUSIVE)


def compare(low: float, high: float | None, operator: Operator, limit: float) -> Verdict:
    """Whether a value in [``low``, ``high``] satisfies a threshold for sure, fails it for sure, or neither.

    ``high`` ``None`` has no upper bound.
    """
    top = float("inf") if high is None else high
    if operator.holds(low, limit) and operator.holds(top, limit):
        return Verdict.PASSED
    if not operator.holds(low, limit) and not operator.holds(top, limit):
        return Verdict.FAILED
    return Verdict.INCONCLUSIVE
