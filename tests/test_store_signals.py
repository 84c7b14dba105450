"""A report of some signals is the whole report without the others; what was made of a read holds while moments are the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from observer import fleet
from observer.store import Store
from router_contract.catalog import lookup
from router_contract.readings import FailureKind, Moment, ScrapeFailed, State
from router_contract.targets import Component
from router_contract.verdicts import DeploymentReport
from tests.fleets import KEY, at, body, deployment, due, key, store, take, target, ttft

SIGNALS = tuple(fleet.sources(lookup(Component.ENGINE, "vllm"), None))
NAMES = ("a", "b", "c")
SECOND = ttft((0.0, 4.0, 5.0)).replace('engine="0"', 'engine="1"').split("\n", 1)[1]
BODIES = (
    body(1, 100, (1.0, 2.0, 3.0)),
    body(2, 150, (2.0, 4.0, 6.0), more=SECOND),
    body(2, 50, (0.0, 1.0, 1.0)),
    body(3, 60, None),
    body("NaN", 170, (4.0, 4.0, 6.0), bounds=("0.2", "1.0", "+Inf")),
    body(1, 180, (4.0, 3.0, 6.0)),
    b"nothing that anybody could read",
)
CHANGES = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-1, len(BODIES) - 1)), min_size=1, max_size=12)


def filled(changes: list[tuple[str, int]]) -> tuple[Store, float]:
    """A store after these reads, one each five seconds; -1 is a read that failed."""
    of, kept = deployment(*NAMES), store()
    kept.set_deployments((of,), at(0))
    seconds = 0.0
    for name, which in changes:
        seconds += 5.0
        if which >= 0:
            take(kept, of, name, BODIES[which], seconds)
        else:
            told = target(of, name)
            kept.on_failure(told, ScrapeFailed(target=told.key, at=at(seconds), kind=FailureKind.REFUSED, detail="no"))
    return kept, seconds


def only(report: DeploymentReport, signals: frozenset[str]) -> DeploymentReport:
    """The whole report without other signals."""
    return replace(
        report,
        targets=tuple(
            replace(
                each,
                values=tuple(value for value in each.values if value.signal in signals),
                merged=tuple(value for value in each.merged if value.signal in signals),
            )
            for each in report.targets
        ),
        roles=tuple(
            replace(
                each,
                values=tuple(value for value in each.values if value.signal in signals),
                mismatched=tuple(signal for signal in each.mismatched if signal in signals),
            )
            for each in report.roles
        ),
    )


@settings(max_examples=40, deadline=None)
@given(CHANGES, st.sets(st.sampled_from(SIGNALS)), st.sampled_from((0.0, 3.0, 20.0, 290.0, 400.0)), st.booleans())
def test_a_report_of_some_signals_is_the_whole_one_without_the_others(
    changes: list[tuple[str, int]], some: set[str], later: float, whole_first: bool
) -> None:
    kept, seconds = filled(changes)
    now, signals = at(seconds + later), frozenset(some | {"time-to-first-token"})
    first = kept.report(KEY, now, due) if whole_first else None
    part = kept.report(KEY, now, due, signals)
    whole = first or kept.report(KEY, now, due)
    assert part is not None
    assert whole is not None
    assert part == only(whole, signals)
    for each in whole.targets:
        told, mine = kept.target_report(each.status.key, now, signals), kept.target_report(each.status.key, now)
        assert told is not None
        assert mine is not None
        assert (told.status, told.merged) == (mine.status, tuple(v for v in mine.merged if v.signal in signals))
        assert told.values == tuple(value for value in mine.values if value.signal in signals)


def test_a_moment_is_the_same_until_something_else_than_ages_is_shown() -> None:
    kept, _ = filled([("a", 0)])
    of = deployment(*NAMES)

    def moment(seconds: float) -> Moment:
        found = kept.moment(key("a", 8000), at(seconds))
        assert found is not None
        return found

    first = moment(5.0)
    assert (first.state, first.age_seconds, first.windows) == (State.FRESH, 0.0, True)
    assert first.same(moment(10.0))
    assert not first.same(None)
    assert not first.same(moment(100.0))
    failed = ScrapeFailed(target=key("a", 8000), at=at(11.0), kind=FailureKind.REFUSED, detail="no")
    kept.on_failure(target(of, "a"), failed)
    assert first.same(moment(12.0))
    kept.set_deployments((of,), at(12.0))
    assert first.same(moment(12.0))
    take(kept, of, "a", BODIES[0], 13.0)
    assert not first.same(moment(14.0))
    assert kept.moment(key("d", 8000), at(14.0)) is None
    never, after = kept.moment(key("b", 8001), at(14.0)), kept.moment(key("b", 8001), at(15.0))
    assert never is not None
    assert never.same(after)
    assert never.state is State.MISSING
