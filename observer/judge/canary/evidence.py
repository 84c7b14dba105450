"""Evidence against a canary that may be looked at as often as one likes: e-values from counts of bad requests.

An e-value is a bet against "the canary is within its limit". While that holds its expectation is at most 1 at every
look, so reaching 1/alpha at any look has a probability of at most alpha (Ville). No look costs anything, and none has to
be planned. Requests of one Pod and minute are alike; `design_effect` says how much, and counts are divided by it. That
division is a heuristic, not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

ABSOLUTE_RATIOS: Final = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""How many times the limit the alternatives bet on are."""
RELATIVE_RATIOS: Final = (1.25, 1.5, 2.0, 3.0, 5.0)
"""The same for the ratio of canary to stable, as multiples of the margin."""
MOST_LOG: Final = 700.0
"""Evidence is shown up to here (natural logarithm): it stays a finite number."""
PRIOR_CELLS: Final = 4.0
PRIOR_EFFECT: Final = 2.0
"""Before cells tell how alike their requests are, this design effect is assumed, with the weight of so many cells."""


class Bernoulli(msgspec.Struct, frozen=True):
    """``bad`` requests of ``total``."""

    bad: float
    total: float

    @property
    def rate(self) -> float:
        """The share of bad ones; the caller has made sure that there are any requests."""
        return self.bad / self.total


class Stratum(msgspec.Struct, frozen=True):
    """What canary and stable counted over the same stretch of time."""

    canary: Bernoulli
    stable: Bernoulli


def design_effect(*sides: Iterable[Bernoulli]) -> float:
    """How many times the variance between cells is what independent requests would give; at least 1.

    Each side (a revision) has cells of its own and a rate of its own. With few cells the answer is drawn towards a
    cautious prior, because one or two cells say nothing about how alike their requests are.
    """
    square, free = PRIOR_EFFECT * PRIOR_CELLS, PRIOR_CELLS
    for side in sides:
        cells = [cell for cell in side if cell.total > 0]
        total = math.fsum(cell.total for cell in cells)
        bad = math.fsum(cell.bad for cell in cells)
        if len(cells) < 2 or not 0 < bad < total:
            continue
        rate = bad / total
        square += math.fsum((cell.bad - cell.total * rate) ** 2 / (cell.total * rate * (1 - rate)) for cell in cells)
        free += len(cells) - 1
    return max(1.0, square / free)


def against_limit(counts: Bernoulli, limit: float, effect: float = 1.0) -> float:
    """Logarithm of the e-value against "the rate is at most ``limit``"; counts are divided by ``effect`` first."""
    if limit <= 0:
        return MOST_LOG if counts.bad > 0 else 0.0
    if limit >= 1 or counts.total <= 0:
        return 0.0
    good = counts.total - counts.bad
    bets = [
        (counts.bad * math.log(other / limit) + good * math.log((1 - other) / (1 - limit))) / effect
        for other in (_alternative(limit, ratio) for ratio in ABSOLUTE_RATIOS)
    ]
    return _log_mean(bets)


def against_stable(strata: Sequence[Stratum], margin: float, effect: float = 1.0) -> float:
    """Logarithm of the e-value against "the canary's rate is at most ``margin`` times the stable one's".

    In each stratum, of all bad requests those of the canary are a share that follows from how many requests each side
    had (its exposure, as observed). A stable side without a single bad request is as good a baseline as any.
    """
    shared = [each for each in strata if each.canary.total > 0 and each.stable.total > 0]
    bets = []
    for ratio in RELATIVE_RATIOS:
        log = 0.0
        for each in shared:
            exposure = each.canary.total / (each.canary.total + each.stable.total)
            null, other = _share(exposure, margin), _share(exposure, margin * ratio)
            log += each.canary.bad * math.log(other / null) + each.stable.bad * math.log((1 - other) / (1 - null))
        bets.append(log / effect)
    return _log_mean(bets)


def enough(log_evidence: float, alpha: float) -> bool:
    """Whether evidence of this logarithm convicts at level ``alpha``."""
    return log_evidence >= -math.log(alpha)


def binomial_tail(counts: Bernoulli, rate: float) -> float:
    """The probability of at least so many bad ones when each is bad with probability ``rate`` (whole counts)."""
    total, bad = round(counts.total), round(counts.bad)
    if bad <= 0 or rate >= 1:
        return 1.0
    if rate <= 0:
        return 0.0
    if bad > total:
        return 0.0
    terms = (_log_binomial(total, hits, rate) for hits in range(bad, total + 1))
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def _log_binomial(total: int, hits: int, rate: float) -> float:
    ways = math.lgamma(total + 1) - math.lgamma(hits + 1) - math.lgamma(total - hits + 1)
    return ways + hits * math.log(rate) + (total - hits) * math.log1p(-rate)


def _alternative(limit: float, ratio: float) -> float:
    """A rate ``ratio`` times the limit, or, where no rate is that high, one of ``ratio`` times its odds."""
    plain = limit * ratio
    return plain if plain < 1 else plain / (1 - limit + plain)


def _share(exposure: float, ratio: float) -> float:
    return ratio * exposure / (ratio * exposure + 1 - exposure)


def _log_mean(logs: Sequence[float]) -> float:
    most = max(logs)
    return min(MOST_LOG, most + math.log(math.fsum(math.exp(log - most) for log in logs) / len(logs)))
