"""The page of statistical claims holds the rows that the simulation makes, and a short simulation keeps the main ones."""

from __future__ import annotations

import numpy as np

from benchmarks.canary_statistics import ALPHA, DOCS, absolute, claims, relative


def test_the_page_has_a_row_for_every_claim_and_each_was_held() -> None:
    rows = [line.split(" | ") for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    wanted = [(what, str(looks), str(runs), promise) for what, looks, runs, _, (promise, _) in claims(1.0)]
    assert [(row[0].removeprefix("| "), row[1], row[2], row[5]) for row in rows] == wanted
    assert {row[6].removesuffix(" |") for row in rows} == {"yes", "-"}


def test_a_short_simulation_agrees() -> None:
    rng = np.random.default_rng(7)
    alarms = [absolute(rng, lambda _: 0.05, 4, 100, 0.02, 0.05, 15) for _ in range(60)]
    assert sum(look is not None for look in alarms) <= 60 * (ALPHA + 3 * 0.03)
    found = [absolute(rng, lambda _: 0.1, 4, 100, 0.0, 0.05, 15) for _ in range(20)]
    assert None not in found
    assert None not in [relative(rng, 0.05, 0.0, 20) for _ in range(10)], "an error-free stable side"
    assert {relative(rng, 0.0, 0.0, 20) for _ in range(5)} == {None}
