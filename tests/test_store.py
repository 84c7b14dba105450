"""The store: late answers, replaced members, moved ones, versions told later, programs that no table knows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from observer.app.told import policy_of
from observer.collect.options import ScrapeSettings
from observer.fleet import members
from observer.settings import Settings, WindowSettings
from router_contract.readings import FailureKind, MissingCode, ScrapeFailed, State
from router_contract.targets import Component, Deployment, DeploymentKey, StoreDeclaration
from router_contract.verdicts import TargetState
from tests.fleets import (
    KEY,
    HandClock,
    Scores,
    at,
    body,
    deployment,
    due,
    member,
    one,
    report,
    role_total,
    routed,
    store,
    take,
    target,
)

RUNNING, TOKENS = "requests-running", "prompt-tokens"


def failed(of: Deployment, name: str, seconds: float) -> ScrapeFailed:
    return ScrapeFailed(target=target(of, name).key, at=at(seconds), kind=FailureKind.TIMEOUT, detail="slow")


def test_a_late_answer_of_a_target_that_left_is_dropped() -> None:
    both, alone, tally = deployment("a", "b"), deployment("a"), Scores()
    kept = store(tally=tally)
    kept.set_deployments((both,), at(0))
    kept.set_deployments((alone,), at(1))
    take(kept, both, "b", body(), 2.0)
    kept.on_failure(target(both, "b"), failed(both, "b", 2.0))
    assert kept.record(target(both, "b").key) is None
    assert [each.status.member for each in report(kept, 2.0).targets] == ["a"]
    assert [status.member for status in kept.statuses(at(2.0), due)] == ["a"]
    assert tally.results == []


def test_a_replaced_member_inherits_nothing_but_the_role_keeps_its_total() -> None:
    old = deployment(members=(member("a", uid="first"),))
    new = deployment(members=(member("a", uid="second"),))
    kept = store()
    kept.set_deployments((old,), at(0))
    take(kept, old, "a", body(tokens=10, counts=(1.0, 1.0, 1.0)), 0.0)
    take(kept, old, "a", body(tokens=20, counts=(4.0, 4.0, 4.0)), 5.0)
    kept.set_deployments((new,), at(6))
    shown = report(kept, 7.0)
    assert one(shown, "a", TOKENS).missing is MissingCode.NEVER_READ
    assert shown.targets[0].status.reads == 0
    take(kept, new, "a", body(tokens=500, counts=(9.0, 9.0, 9.0)), 10.0)
    value = one(report(kept, 10.0), "a", TOKENS)
    assert (value.window, value.window_missing, value.running_total) == (None, MissingCode.AWAITING_SECOND_SAMPLE, 0.0)
    assert role_total(report(kept, 10.0)).count == 3.0


def test_a_member_that_moves_keeps_what_was_read_and_answers_of_its_old_place_are_dropped() -> None:
    here = deployment(members=(member("a", host="10.0.0.1"),))
    there = deployment(members=(member("a", host="10.0.0.2"),))
    kept = store()
    kept.set_deployments((here,), at(0))
    take(kept, here, "a", body(running=1), 0.0)
    kept.set_deployments((there,), at(1))
    take(kept, here, "a", body(running=7), 2.0)
    kept.on_failure(target(here, "a"), failed(here, "a", 2.0))
    value = one(report(kept, 2.0), "a", RUNNING)
    assert (value.value, value.age_seconds) == (1.0, 2.0)
    status = report(kept, 2.0).targets[0].status
    assert (status.state, status.url) == (TargetState.UP, "http://10.0.0.2:8000/metrics")
    take(kept, there, "a", body(running=3), 3.0)
    assert one(report(kept, 3.0), "a", RUNNING).value == 3.0


@pytest.mark.parametrize(
    "changed", [{"software": "sglang"}, {"model": "other"}, {"role": "decode"}], ids=["software", "model", "role"]
)
def test_another_program_at_the_same_place_begins_anew(changed: dict[str, str]) -> None:
    before, after = deployment("a"), deployment("a", **changed)
    kept = store()
    kept.set_deployments((before,), at(0))
    take(kept, before, "a", body(tokens=10), 0.0)
    take(kept, before, "a", body(tokens=20), 5.0)
    kept.set_deployments((after,), at(6))
    shown = report(kept, 6.0)
    assert shown.targets[0].status.reads == 0
    assert {value.missing for value in shown.targets[0].values} == {MissingCode.NEVER_READ}


def test_an_unknown_engine_is_a_visible_state_until_no_deployment_names_it() -> None:
    odd = deployment("a", software="mystery")
    kept = store()
    kept.set_deployments((odd,), at(0))
    assert list(kept.unknown) == ["mystery"]
    take(kept, odd, "a", body(), 1.0)
    status = report(kept, 1.0).targets[0].status
    assert (status.state, status.samples_kept, [problem.kind for problem in status.problems]) == (
        TargetState.UP,
        0,
        ["UnknownSoftware"],
    )
    kept.set_deployments((deployment("a"),), at(2))
    assert kept.unknown == {}


OLD = "vllm:gpu_cache_usage_perc"
NEW = "vllm:kv_cache_usage_perc"


def usage(name: str, value: float) -> bytes:
    return body(more=f'# TYPE {name} gauge\n{name}{{engine="0"}} {value}\n')


def test_a_version_that_is_told_later_decides_which_names_are_read() -> None:
    of = deployment("a", version="0.8.0")
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", usage(OLD, 0.25), 0.0)
    first = one(report(kept, 0.0), "a", "kv-cache-usage")
    assert (first.value, first.source) == (0.25, OLD)
    kept.tell_version(KEY, "uid-a", "0.32.0")
    kept.tell_version(KEY, "nobody", "9.9.9")
    for moment in (5.0, 10.0):
        take(kept, of, "a", usage(OLD, 0.5), moment)
        shown = report(kept, moment)
        later = one(shown, "a", "kv-cache-usage")
        # The name is gone in this version; a body that still has it under another meaning is not read by it.
        assert (later.value, later.source, shown.targets[0].status.version) == (None, NEW, "0.32.0")
    take(kept, of, "a", usage(NEW, 0.75), 15.0)
    assert one(report(kept, 15.0), "a", "kv-cache-usage").value == 0.75
    tokens = one(report(kept, 15.0), "a", TOKENS)
    assert tokens.window is not None
    assert (tokens.window.seconds, tokens.running_total) == (15.0, 0.0)


def test_what_a_member_told_is_forgotten_with_it() -> None:
    of = deployment("a", version="0.8.0")
    kept = store()
    kept.set_deployments((of,), at(0))
    kept.tell_version(KEY, "uid-a", "0.32.0")
    kept.set_deployments((), at(1))
    kept.set_deployments((of,), at(2))
    take(kept, of, "a", usage(OLD, 0.25), 3.0)
    assert one(report(kept, 3.0), "a", "kv-cache-usage").value == 0.25


def test_texts_that_programs_tell_do_not_make_the_store_grow() -> None:
    of = deployment("a")
    kept = store()
    kept.set_deployments((of,), at(0))
    for number in range(300):
        kept.tell_version(KEY, "uid-a", f"0.32.0.dev{number}")
        take(kept, of, "a", body(), float(number))
    assert len(kept._extractors) <= 256


LIFE = {"restarts": 0, "started_at": at(-1000).wall}
NEXT = {"restarts": 1, "started_at": at(7).wall}


def tokens_after(moves: list[tuple[str, object]]) -> tuple[float | None, bool, int]:
    """Window, lossiness and resets after bodies (`read`) and what the platform tells (`life`) in some order."""
    kept = store()
    moment = 0.0
    of = deployment(members=(member("a", **LIFE),))
    kept.set_deployments((of,), at(0))
    for what, value in moves:
        if what == "read":
            take(kept, of, "a", body(tokens=value, counts=None), moment)
            moment += 5
        else:
            of = deployment(members=(member("a", **value),))
            kept.set_deployments((of,), at(moment))
    value = one(report(kept, moment), "a", TOKENS)
    window = value.window
    status = report(kept, moment).targets[0].status
    return (None, False, status.resets) if window is None else (window.increase, window.lossy, status.resets)


LIVES = [
    ("no restart", [("read", 100), ("read", 110), ("read", 130)], (30.0, False, 0)),
    ("seen in the counters only", [("read", 100), ("read", 110), ("read", 5), ("read", 9)], (19.0, True, 1)),
    ("told before the first read", [("read", 100), ("read", 110), ("life", NEXT), ("read", 120)], (130.0, True, 1)),
    ("told late", [("read", 100), ("read", 110), ("read", 5), ("life", NEXT), ("read", 9)], (19.0, True, 1)),
]


@pytest.mark.parametrize(("moves", "wanted"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_a_restart_counts_once_whoever_tells_of_it(moves: list[tuple[str, object]], wanted: tuple[object, ...]) -> None:
    assert tokens_after(moves) == wanted


def test_a_start_within_the_window_makes_the_first_read_a_window() -> None:
    kept = store()
    of = deployment(members=(member("a", restarts=0, started_at=at(-20).wall),))
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(tokens=40), 0.0)
    window = one(report(kept, 0.0), "a", TOKENS).window
    assert window is not None
    assert (window.increase, window.seconds, window.lossy) == (40.0, 20.0, False)
    take(kept, of, "a", body(tokens=41), 5.0)
    window = one(report(kept, 5.0), "a", TOKENS).window
    assert window is not None
    assert (window.increase, window.seconds) == (41.0, 25.0)


def test_a_start_that_the_program_exports_beside_the_platforms_is_no_restart() -> None:
    kept = store()
    of = deployment(members=(member("a", restarts=0, started_at=at(-20).wall),))
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(tokens=40, start=at(-17).wall), 0.0)
    take(kept, of, "a", body(tokens=41), 5.0)
    take(kept, of, "a", body(tokens=42, start=at(-17).wall), 10.0)
    value = one(report(kept, 10.0), "a", TOKENS)
    assert value.window is not None
    assert (value.window.increase, value.window.lossy) == (42.0, False)
    assert report(kept, 10.0).targets[0].status.resets == 0


@pytest.mark.parametrize(("span", "period"), [(60.0, 5.0), (120.0, 5.0), (30.0, 0.2)], ids=["usual", "long", "quick"])
def test_a_window_is_as_long_as_was_asked_for_however_often_is_read(span: float, period: float) -> None:
    settings = Settings(scrape=ScrapeSettings(period=period, timeout=0.1), windows=WindowSettings(span=span))
    kept = store(policy=policy_of(settings))
    of = deployment("a")
    kept.set_deployments((of,), at(0))
    reads = round(2 * span / period)
    for number in range(reads + 1):
        take(kept, of, "a", body(tokens=number), number * period)
    window = one(report(kept, reads * period), "a", TOKENS).window
    assert window is not None
    assert window.seconds == pytest.approx(span)
    assert window.increase == round(span / period)


def test_a_body_that_tells_nothing_is_a_failure_and_an_unreadable_family_is_a_problem() -> None:
    of, tally = deployment("a"), Scores()
    kept = store(tally=tally)
    kept.set_deployments((of,), at(0))
    for data, kind in ((b"", FailureKind.NOT_EXPOSITION), (b"<html>no</html>", FailureKind.NOT_EXPOSITION)):
        take(kept, of, "a", data, 1.0)
        status = report(kept, 1.0).targets[0].status
        assert (status.state, status.last_error_kind) == (TargetState.FAILING, kind)
    take(kept, of, "a", body(more="vllm:num_requests_waiting what\n"), 2.0)
    status = report(kept, 2.0).targets[0].status
    assert (status.state, [problem.family for problem in status.problems]) == (
        TargetState.UP,
        ["vllm:num_requests_waiting"],
    )
    assert tally.results == ["NotExposition", "NotExposition", "Ok"]
    assert len(tally.reasons) == 1


def test_reports_are_made_for_the_moment_they_are_asked_for() -> None:
    clock = HandClock()
    of = deployment("a")
    kept = store(clock)
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(running=1), 0.0)
    early = report(kept, 1.0)
    take(kept, of, "a", body(running=9), 5.0)
    assert one(early, "a", RUNNING).value == 1.0
    states = [one(report(kept, moment), "a", RUNNING).state for moment in (5.0, 20.0, 400.0)]
    assert states == [State.FRESH, State.STALE, State.MISSING]


def test_deployments_are_sorted_and_unknown_ones_have_no_report() -> None:
    first = replace(deployment("a"), key=DeploymentKey("a", "z"))
    second = replace(deployment("b"), key=DeploymentKey("a", "b"))
    kept = store()
    kept.set_deployments((first, second), at(0))
    assert kept.keys() == (second.key, first.key)
    assert kept.deployments() == (second, first)
    assert kept.report(KEY, at(0), due) is None
    assert len(kept.records()) == 2


def test_members_of_every_kind() -> None:
    of = replace(
        routed("a", routers=("r",)), stores=(StoreDeclaration(name="s", software="mooncake", members=(member("m"),)),)
    )
    assert [(component, each.name) for component, each in members(of)] == [
        (Component.ENGINE, "a"),
        (Component.ROUTER, "r"),
        (Component.STORE, "m"),
    ]


def test_what_was_shown_of_many_targets_is_not_kept_of_all_of_them() -> None:
    names = [f"m{number}" for number in range(300)]
    of = deployment(*names)
    kept = store()
    kept.set_deployments((of,), at(0))
    for name in names:
        take(kept, of, name, body(running=1), 0.0)
    first, again = report(kept, 1.0), report(kept, 1.0)
    assert sum(bool(record.as_read) for record in kept.records()) == 256
    assert first.targets == again.targets


def test_a_report_that_was_prepared_is_the_same() -> None:
    of = deployment("a", "b")
    kept, other = store(), store()
    for each in (kept, other):
        each.set_deployments((of,), at(0))
        take(each, of, "a", body(running=1), 0.0)
    assert sum(1 for _ in kept.prepare(KEY, at(1.0))) == 2
    assert kept.report(KEY, at(1.0), due) == other.report(KEY, at(1.0), due)
    steps = kept.prepare(KEY, at(1.0))
    next(steps)
    kept.set_deployments((), at(2))
    assert list(steps) == [None]
    assert list(kept.prepare(KEY, at(2.0))) == []
