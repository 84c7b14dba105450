"""Every fuzzing harness over its seeds, over the inputs that once were findings, and over some neighbours of both."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.harnesses import HARNESSES
from fuzz.mutate import LONGEST, mutated

CASES = Path(__file__).parents[1] / "fuzz" / "cases"
KEPT = [(file.parent.name, file) for file in sorted(CASES.glob("*/*"))]
NEIGHBOURS = 150


@pytest.mark.parametrize("name", HARNESSES)
def test_seeds_and_their_neighbours(name: str) -> None:
    harness = HARNESSES[name]
    seeds = [seed[:LONGEST] for seed in harness.seeds()]
    assert seeds, "a campaign begins with something real"
    draw = random.Random(name)
    for seed in seeds:
        harness.run(seed)
    for _ in range(NEIGHBOURS):
        harness.run(mutated(draw.choice(seeds), draw))


@pytest.mark.parametrize(("name", "file"), KEPT, ids=[f"{name}/{file.name}" for name, file in KEPT])
def test_a_former_finding(name: str, file: Path) -> None:
    HARNESSES[name].run(file.read_bytes())


@pytest.mark.parametrize("name", HARNESSES)
def test_any_bytes(name: str) -> None:
    @given(st.binary(max_size=300))
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def tried(data: bytes) -> None:
        HARNESSES[name].run(data)

    tried()


def test_every_case_belongs_to_a_harness() -> None:
    assert {name for name, _ in KEPT} <= set(HARNESSES)
