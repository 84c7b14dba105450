"""Checks the statistical claims of canary analysis by simulation, prints one table and writes it to the docs.

Run as `python -m benchmarks.canary_statistics` from the root of the repository; `--runs` scales every row and `--docs`
writes `docs/canary-statistics.md`. It exits with 1 where a claim does not hold. The same seed gives the same table.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from observer.judge.canary.evidence import (
    Bernoulli,
    Minute,
    Spread,
    Stratum,
    against_limit,
    against_stable,
    binomial_tail,
    enough,
)

ALPHA = 0.05
DOCS = Path(__file__).parent.parent / "docs" / "canary-statistics.md"
Rng = np.random.Generator


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One claim: what is simulated, how often it convicted, and what was promised."""

    what: str
    looks: int
    runs: int
    convicted: int
    median: float | None
    promise: str
    held: bool


def counts(rng: Rng, rate: float, total: int, likeness: float) -> Bernoulli:
    """Bad requests of one cell; with a ``likeness`` (intra-cell correlation) above 0 the cell has a rate of its own."""
    if likeness > 0 and 0 < rate < 1:
        spread = (1 - likeness) / likeness
        rate = float(rng.beta(rate * spread, (1 - rate) * spread))
    return Bernoulli(float(rng.binomial(total, rate)), float(total))


def absolute(
    rng: Rng, rates: Callable[[int], float], pods: int, total: int, likeness: float, limit: float, looks: int
) -> int | None:
    """The look (one a minute) at which a canary is convicted against ``limit``, or ``None``."""
    minutes: list[Spread] = []
    for look in range(looks):
        minutes.append(Spread.of(counts(rng, rates(look), total, likeness) for _ in range(pods)))
        if enough(against_limit(minutes, limit), ALPHA):
            return look + 1
    return None


def relative(
    rng: Rng, canary: float, stable: float, looks: int, likeness: float = 0.0, share: float = 0.1, total: int = 1000
) -> int | None:
    """The same against stable, with ten Pods of which the canary has ``share``."""
    minutes: list[Minute] = []
    ours = max(1, round(10 * share))
    for look in range(looks):
        one = [counts(rng, canary, total // 10, likeness) for _ in range(ours)]
        other = [counts(rng, stable, total // 10, likeness) for _ in range(10 - ours)]
        sides = (Spread.of(one), Spread.of(other))
        stratum = Stratum(Bernoulli(sides[0].bad, sides[0].total), Bernoulli(sides[1].bad, sides[1].total))
        minutes.append(Minute(stratum, *sides))
        if enough(against_stable(minutes, 1.25), ALPHA):
            return look + 1
    return None


def fixed(rng: Rng, limit: float, looks: int, total: int) -> int | None:
    """What repeated looks do to an ordinary exact test at the same level: the reason for all this."""
    bad = requests = 0.0
    for look in range(looks):
        cell = counts(rng, limit, total, 0.0)
        bad, requests = bad + cell.bad, requests + cell.total
        if binomial_tail(Bernoulli(bad, requests), limit) <= ALPHA:
            return look + 1
    return None


def point(rng: Rng, rate: float, limit: float, total: int, looks: int, failures: int) -> int | None:
    """A plain comparison at each look and a failure limit, as a query does it."""
    failed = 0
    for look in range(looks):
        failed += counts(rng, rate, total, 0.0).rate >= limit
        if failed >= failures:
            return look + 1
    return None


def at_most(share: float) -> tuple[str, Callable[[float, float], bool]]:
    return f"at most {share:.1%}", lambda found, error: found <= share + 2 * error


def at_least(share: float) -> tuple[str, Callable[[float, float], bool]]:
    return f"at least {share:.0%}", lambda found, error: found >= share - 2 * error


SHOWN: tuple[str, Callable[[float, float], bool]] = ("for comparison", lambda _found, _error: True)
Claim = tuple[str, int, int, Callable[[Rng], int | None], tuple[str, Callable[[float, float], bool]]]


def claims(scale: float) -> Iterator[Claim]:
    """Every claim: text, looks, runs, one run, what is promised of the share convicted."""

    def runs(count: int) -> int:
        return max(20, round(count * scale))

    def steady(rate: float) -> Callable[[int], float]:
        return lambda _look: rate

    for likeness in (0.0, 0.02):
        alike = "independent" if not likeness else f"correlated {likeness:g}"
        for pods, total in ((1, 100), (4, 100)):
            for limit in (0.01, 0.05):
                yield (
                    f"rate at the limit {limit:.0%}, {pods} {'Pod' if pods == 1 else 'Pods'} x {total} a minute, {alike}",
                    30,
                    runs(800 if likeness else 300),
                    lambda rng, a=limit, b=pods, c=total, d=likeness: absolute(rng, steady(a), b, c, d, a, 30),
                    at_most(ALPHA),
                )
    yield (
        "rate at the limit 5%, 1 Pod x 500 a minute, correlated 0.02",
        30,
        runs(800),
        lambda rng: absolute(rng, steady(0.05), 1, 500, 0.02, 0.05, 30),
        at_most(ALPHA),
    )
    yield (
        "twice the limit 1%, 1 Pod x 100 a minute",
        30,
        runs(250),
        lambda rng: absolute(rng, steady(0.02), 1, 100, 0.0, 0.01, 30),
        at_least(0.8),
    )
    yield (
        "twice the limit 1%, 4 Pods x 100 a minute",
        30,
        runs(250),
        lambda rng: absolute(rng, steady(0.02), 4, 100, 0.0, 0.01, 30),
        at_least(0.95),
    )
    yield (
        "twice the limit 1%, 4 Pods x 100 a minute, correlated 0.02",
        30,
        runs(250),
        lambda rng: absolute(rng, steady(0.02), 4, 100, 0.02, 0.01, 30),
        at_least(0.8),
    )
    yield (
        "five times the limit 1%, 1 Pod x 100 a minute",
        30,
        runs(250),
        lambda rng: absolute(rng, steady(0.05), 1, 100, 0.0, 0.01, 30),
        at_least(0.99),
    )
    yield (
        "1% for 20 minutes, then 15%; limit 5%, 4 Pods x 100 a minute",
        40,
        runs(250),
        lambda rng: absolute(rng, lambda look: 0.01 if look < 20 else 0.15, 4, 100, 0.0, 0.05, 40),
        at_least(0.99),
    )
    pairs = (
        ("equal rates 5%", 0.05, 0.05, 0.0, at_most(ALPHA)),
        ("exactly at the margin, 6.25% against 5%", 0.0625, 0.05, 0.0, at_most(ALPHA)),
        ("exactly at the margin, correlated 0.02", 0.0625, 0.05, 0.02, at_most(ALPHA)),
        ("twice stable's 5%", 0.10, 0.05, 0.0, at_least(0.95)),
        ("three times stable's 5%", 0.15, 0.05, 0.0, at_least(0.99)),
        ("error-free stable, 5% canary", 0.05, 0.0, 0.0, at_least(0.99)),
        ("error-free both", 0.0, 0.0, 0.0, at_most(0.0)),
    )
    for text, canary, stable, likeness, promise in pairs:
        yield (
            f"relative, margin 1.25, 10% of 1000 a minute: {text}",
            30,
            runs(250),
            lambda rng, a=canary, b=stable, c=likeness: relative(rng, a, b, 30, c),
            promise,
        )
    yield (
        "an exact test repeated at each look, rate at the limit 1%",
        30,
        runs(250),
        lambda rng: fixed(rng, 0.01, 30, 100),
        SHOWN,
    )
    yield (
        "plain comparison, healthy 0.9%, limit LT 1%, 100 a sample, 3 failures of 10",
        10,
        runs(250),
        lambda rng: point(rng, 0.009, 0.01, 100, 10, 3),
        SHOWN,
    )


def check(scale: float, say: Callable[[str], None]) -> list[Row]:
    """Simulate every claim. ``say`` gets each row as it is done."""
    rows = []
    for seed, (what, looks, runs, one, (promise, holds)) in enumerate(claims(scale)):
        rng = np.random.default_rng(seed)
        found = sorted(look for look in (one(rng) for _ in range(runs)) if look is not None)
        share = len(found) / runs
        error = math.sqrt(max(share * (1 - share), 0.25 / runs) / runs)
        median = float(found[len(found) // 2]) if found else None
        row = Row(
            what=what,
            looks=looks,
            runs=runs,
            convicted=len(found),
            median=median,
            promise=promise,
            held=holds(share, error),
        )
        rows.append(row)
        say(line(row))
    return rows


def line(row: Row) -> str:
    """A row of the table."""
    share = f"{row.convicted / row.runs:.1%}"
    median = "-" if row.median is None else f"{row.median:g}"
    answer = "-" if row.promise == SHOWN[0] else "yes" if row.held else "NO"
    return f"| {row.what} | {row.looks} | {row.runs} | {share} | {median} | {row.promise} | {answer} |"


HEAD = "| simulated | looks | runs | convicted | median look | promised | held |\n|---|---|---|---|---|---|---|"
TEXT = """# What the statistics of canary analysis promise, and what they keep

A canary is looked at once a minute. It is *convicted* when the evidence against it reaches 1/alpha (here alpha is 5 %); a
conviction makes a sample fail, and only `failureLimit` failed samples roll back, so the rollback rate is below what this
table shows. "Correlated" means that requests of one Pod and minute share a rate of their own (intra-cell correlation).
The division by the estimated design effect is a heuristic: this simulation, not a proof, is what speaks for it.

A promise of "at most" holds within two standard errors of the simulation, as does one of "at least". The two rows for
comparison show what happens without sequential evidence.

This page is written by `python -m benchmarks.canary_statistics --docs`.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=float, default=1.0, help="scale of the number of runs (1: the documented one)")
    parser.add_argument("--docs", action="store_true", help="write docs/canary-statistics.md")
    parser.add_argument("--check", action="store_true", help="fail when docs/canary-statistics.md is another table")
    options = parser.parse_args()
    began, worked = time.perf_counter(), time.process_time()
    print(HEAD, flush=True)
    rows = check(options.runs, lambda text: print(text, flush=True))
    spent = f"{time.perf_counter() - began:.0f} s, of which {time.process_time() - worked:.0f} s of this process"
    print(f"{len(rows)} rows in {spent}", file=sys.stderr)
    page = TEXT + HEAD + "\n" + "\n".join(line(row) for row in rows) + "\n"
    if options.docs:
        DOCS.write_text(page, encoding="utf-8")
    same = not options.check or DOCS.read_text(encoding="utf-8") == page
    if not same:
        print(f"{DOCS} holds another table: write it with --docs", file=sys.stderr)
    return 0 if same and all(row.held for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
