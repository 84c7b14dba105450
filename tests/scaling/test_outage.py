"""With the observer away for ten minutes nothing scales in, and the same clients do scale in when one line is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.scaling.clients import HPA_PERIOD, Answers, Away, HpaClient, KedaClient, Workload
from tests.scaling.recipes import load

BEFORE, OUTAGE, AFTER = 600.0, 600.0, 600.0
REPLICAS, SHARE = 6, 16
BUSY = [float(REPLICAS * SHARE)]
Client = Callable[[Answers, Workload], KedaClient | HpaClient]


def gone() -> list[float]:
    """Prometheus itself is away."""
    raise Away


def empty() -> list[float]:
    """Prometheus is there and the observer's series have ended: its answer is an empty list."""
    return []


def keda(**changes: Any) -> Client:
    """A client of the shipped ScaledObject, with some of its keys changed; ``None`` takes a key away."""
    recipe = copy.deepcopy(load("keda.yaml"))
    for path, value in changes.items():
        place = recipe["spec"]
        *way, last = path.split("__")
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return lambda ask, workload: KedaClient(recipe, ask, workload)


def hpa() -> Client:
    return lambda ask, workload: HpaClient(load("hpa.yaml"), ask, workload)


def lived(client: Client, away: Answers, busy: Answers = lambda: BUSY) -> Workload:
    """The workload after it was busy, not known, and busy again."""
    workload = Workload(REPLICAS)
    now = 0.0

    def ask() -> list[float]:
        return away() if BEFORE <= now < BEFORE + OUTAGE else busy()

    made = client(ask, workload)
    while now < BEFORE + OUTAGE + AFTER:
        made.step(now)
        now += HPA_PERIOD
    return workload


CLIENTS = {"keda": keda(), "hpa": hpa(), "keda without a fallback": keda(fallback=None)}
OUTAGES: dict[str, Answers] = {"the observer is away": empty, "Prometheus is away": gone}


@pytest.mark.parametrize("away", OUTAGES.values(), ids=OUTAGES)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_nothing_is_scaled_while_nobody_knows(client: Client, away: Answers) -> None:
    history = lived(client, away).history
    print(f"figure: {len(history)} changes of {REPLICAS} replicas in {OUTAGE:g} s in which nobody knows")
    assert history == []


TRIGGER = "triggers__0__metadata__"
WRONG: dict[str, tuple[Client, Answers, str]] = {
    "no answer counts as 0": (keda(**{f"{TRIGGER}ignoreNullValues": "true"}), empty, "hpa"),
    "nothing is said of it": (keda(**{f"{TRIGGER}ignoreNullValues": None}), empty, "hpa"),
    "the query makes it a 0": (keda(), lambda: [0.0], "hpa"),
    "a smaller number to fall back to": (keda(fallback__replicas=3), empty, "keda"),
    "no behavior, before KEDA 2.17": (keda(fallback__behavior=None), empty, "hpa"),
    "a part of a request as share": (keda(**{f"{TRIGGER}threshold": "0.5"}), empty, "hpa"),
    "no smallest number": (keda(minReplicaCount=None), empty, "keda"),
}
"""By trap: the recipe with it, what is answered, and whose rule scales in first."""


@pytest.mark.parametrize("name", WRONG)
def test_each_trap_of_the_page_scales_in(name: str) -> None:
    client, away, who = WRONG[name]
    share = 0.5 if "part of a request" in name else SHARE
    history = lived(client, away, lambda: [REPLICAS * share]).history
    assert history, "nothing was scaled: this case shows no trap"
    at, replicas, by = history[0]
    print(f"figure: with {name}: {by} scales {REPLICAS} to {replicas} after {at - BEFORE:g} s")
    assert BEFORE <= at < BEFORE + OUTAGE
    assert replicas < REPLICAS
    assert by == who


def test_the_own_loop_of_keda_does_not_wait_for_the_failure_threshold() -> None:
    history = lived(keda(fallback__replicas=3, fallback__failureThreshold=1000), empty).history
    assert history[0] == (BEFORE, 3, "keda")


@pytest.mark.parametrize("client", [keda(), hpa()], ids=["keda", "hpa"])
@pytest.mark.parametrize(("load_now", "final"), [(8 * SHARE, 8), (7.5 * SHARE, 8), (2 * SHARE, 2), (6.3 * SHARE, 6)])
def test_what_is_known_scales(client: Client, load_now: float, final: int) -> None:
    """Both clients do scale out and in when there is a number: the absence of it is what held them above."""
    workload = Workload(REPLICAS)
    made = client(lambda: [load_now], workload)
    for round_ in range(120):
        made.step(round_ * HPA_PERIOD)
    assert workload.replicas == final


def test_a_short_dip_is_no_reason_to_scale_in() -> None:
    dips = iter([BUSY] * 20 + [[0.0]] * 10 + [BUSY] * 90)
    workload = Workload(REPLICAS)
    made = HpaClient(load("hpa.yaml"), lambda: next(dips), workload)
    for round_ in range(120):
        made.step(round_ * HPA_PERIOD)
    assert workload.history == []
