"""Evidence against a canary that may be looked at as often as one likes: e-values from counts of bad requests.

An e-value is a bet against "the canary is within its limit". While that holds its expectation is at most 1 at every
look, so reaching 1/alpha at any look has a probability of at most alpha (Ville). No look costs anything, and none has to
be planned. Requests of one Pod and minute are alike; `design_effect` says how much, and counts are divided by it. That
division is a heuristic, not a proof.

A build that turns bad late must not be excused by its good beginning. So the bet is spread over beginnings: half of it on
the whole step, the rest on every minute from which on the canary may be bad. Such a mixture of e-values is one too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import msgspec

ABSOLUTE_RATIOS: Final = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""How many times the limit the alternatives bet on are."""
RELATIVE_RATIOS: Final = (1.25, 1.5, 2.0, 3.0, 5.0)
"""The same for the ratio of canary to stable, as multiples of the margin."""
MOST_LOG: Final = 700.0
"""Evidence is shown up to here (natural logarithm): it stays a finite number."""
_NEGLIGIBLE: Final = 1e-18
PRIOR_CELLS: Final = 8.0
PRIOR_LIKENESS: Final = 0.02
"""Before cells tell how alike their requests are, this correlation within a cell is assumed, with the weight of so many
cells."""


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


class Spread(msgspec.Struct, frozen=True):
    """Sums over cells from which the variance between them follows: cells, requests, bad ones, and bad² / requests."""

    cells: float = 0.0
    total: float = 0.0
    bad: float = 0.0
    square: float = 0.0

    @classmethod
    def of(cls, cells: Iterable[Bernoulli]) -> Spread:
        """The sums over cells; empty cells say nothing."""
        found = [cell for cell in cells if cell.total > 0]
        return cls(
            float(len(found)),
            math.fsum(cell.total for cell in found),
            math.fsum(cell.bad for cell in found),
            math.fsum(cell.bad * cell.bad / cell.total for cell in found),
        )

    def __add__(self, other: Spread) -> Spread:
        return Spread(
            self.cells + other.cells, self.total + other.total, self.bad + other.bad, self.square + other.square
        )


class Minute(msgspec.Struct, frozen=True):
    """One minute of canary and stable: their counts, and the spread over the cells in it."""

    stratum: Stratum
    canary: Spread
    stable: Spread


def design_effect(*sides: Spread) -> float:
    """How many times the variance between cells is what independent requests would give; at least 1.

    Each side (a revision, a stretch of time) has cells of its own and a rate of its own. With few cells the answer is
    drawn towards a cautious prior, because one or two cells say nothing about how alike their requests are.
    """
    cells = math.fsum(side.cells for side in sides)
    size = math.fsum(side.total for side in sides) / cells if cells else 1.0
    square, free = PRIOR_CELLS * (1 + PRIOR_LIKENESS * max(0.0, size - 1)), PRIOR_CELLS
    for side in sides:
        if side.cells < 2 or not 0 < side.bad < side.total:
            continue
        rate = side.bad / side.total
        square += max(0.0, side.square - rate * side.bad) / (rate * (1 - rate))
        free += side.cells - 1
    return max(1.0, square / free)


def against_limit(minutes: Sequence[Spread], limit: float) -> float:
    """Logarithm of the e-value against "the rate is at most ``limit`` in every minute". ``minutes`` are in order."""
    logs: list[float] = []
    rest = Spread()
    for minute, before in zip(reversed(minutes), reversed(_before(minutes)), strict=True):
        rest += minute
        effect = design_effect(before, rest)
        logs.append(bet_against_limit(Bernoulli(rest.bad, rest.total), limit, effect))
    return _over_beginnings(logs[::-1])


def against_stable(minutes: Sequence[Minute], margin: float) -> float:
    """Logarithm of the e-value against "the canary's rate is at most ``margin`` times stable's in every minute".

    In each minute, of all bad requests those of the canary are a share that follows from how many requests each side
    had (its exposure, as observed). A stable side without a single bad request is as good a baseline as any.
    """
    logs: list[float] = []
    canary, stable = Spread(), Spread()
    sums = [0.0] * len(RELATIVE_RATIOS)
    earlier = zip(
        reversed(_before([minute.canary for minute in minutes])),
        reversed(_before([minute.stable for minute in minutes])),
        strict=True,
    )
    for minute, before in zip(reversed(minutes), earlier, strict=True):
        canary, stable = canary + minute.canary, stable + minute.stable
        sums = [one + _bet(minute.stratum, margin, ratio) for one, ratio in zip(sums, RELATIVE_RATIOS, strict=True)]
        effect = design_effect(canary, stable, *before)
        logs.append(_log_mean([each / effect for each in sums]))
    return _over_beginnings(logs[::-1])


def bet_against_limit(counts: Bernoulli, limit: float, effect: float = 1.0) -> float:
    """Logarithm of one bet, over all counts at once and without a beginning of its own."""
    if limit <= 0:
        return MOST_LOG if counts.bad > 0 else 0.0
    if limit >= 1 or counts.total <= 0:
        return 0.0
    good = counts.total - counts.bad
    return _log_mean(
        [
            (counts.bad * math.log(other / limit) + good * math.log((1 - other) / (1 - limit))) / effect
            for other in (_alternative(limit, ratio) for ratio in ABSOLUTE_RATIOS)
        ]
    )


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
    return min(1.0, math.fsum(_tail_terms(total, bad, rate)))


def _tail_terms(total: int, bad: int, rate: float) -> Iterator[float]:
    """The probabilities of ``bad`` hits and of more, until what is left cannot change the sum: of a million requests a
    few thousand terms say all.
    """
    whole = 0.0
    for hits in range(bad, total + 1):
        term = math.exp(_log_binomial(total, hits, rate))
        yield term
        whole += term
        # Past the most likely number every term is smaller than the one before it.
        if hits > (total + 1) * rate and term * (total - hits) <= _NEGLIGIBLE * whole:
            return


def _log_binomial(total: int, hits: int, rate: float) -> float:
    ways = math.lgamma(total + 1) - math.lgamma(hits + 1) - math.lgamma(total - hits + 1)
    return ways + hits * math.log(rate) + (total - hits) * math.log1p(-rate)


def _alternative(limit: float, ratio: float) -> float:
    """A rate ``ratio`` times the limit, or, where no rate is that high, one of ``ratio`` times its odds."""
    plain = limit * ratio
    return plain if plain < 1 else plain / (1 - limit + plain)


def _share(exposure: float, ratio: float) -> float:
    return ratio * exposure / (ratio * exposure + 1 - exposure)


def _bet(each: Stratum, margin: float, ratio: float) -> float:
    if each.canary.total <= 0 or each.stable.total <= 0:
        return 0.0
    exposure = each.canary.total / (each.canary.total + each.stable.total)
    null, other = _share(exposure, margin), _share(exposure, margin * ratio)
    return each.canary.bad * math.log(other / null) + each.stable.bad * math.log((1 - other) / (1 - null))


def _before(minutes: Sequence[Spread]) -> list[Spread]:
    """For each minute the sums of all before it: how alike requests are is known from these as well."""
    return list(accumulate(minutes[:-1], initial=Spread())) if minutes else []


def _over_beginnings(logs: Sequence[float]) -> float:
    """Bets from every minute on to the newest, first minute first: half on the first, the rest shared 1/(2j(j+1))."""
    if not logs:
        return 0.0
    shares = [math.log(0.5), *(-math.log(2.0 * place * (place + 1)) for place in range(1, len(logs)))]
    # What is not placed on a minute that has come yet is money kept.
    return _log_sum([*(log + share for log, share in zip(logs, shares, strict=True)), -math.log(2.0 * len(logs))])


def _log_mean(logs: Sequence[float]) -> float:
    return min(MOST_LOG, _log_sum(logs) - math.log(len(logs)))


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs)
    return min(MOST_LOG, most + math.log(math.fsum(math.exp(log - most) for log in logs)))
