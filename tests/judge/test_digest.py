"""The digest of what decides: equal digests mean equal memory, and a digest stays as it is until it says."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from observer.judge.conditions_ours import LAG_KEY, fresh_word, metrics_fresh
from observer.judge.convergence import read_selection
from observer.judge.digest import MARGIN, MemberDigest, deployment_digest, earlier, member_digest
from observer.judge.judgement import judge
from router_contract.judging import DeploymentInputs, MemberEvidence, MembershipProof, Stored, TargetFreshness
from router_contract.platform_facts import OperatorStatus
from router_contract.readings import FailureKind, Instant
from router_contract.verdicts import Condition, Status
from tests.judge.build import (
    NOW,
    POLICY,
    ago,
    deployment,
    evidence,
    facts,
    inputs,
    later,
    lost,
    member,
    rank,
    refused,
    role,
    router,
    row,
    view,
)
from tests.judge.test_properties import cases, seen_of

FIELDS = tuple(name for name in MemberEvidence.__struct_fields__ if name != "uid")
ENGINE = member("a")
STEPS = (0.0, 1.0, 2.0, 7.9, 8.0, 8.1, 30.0, 58.0, 60.0, 100.0)


def digests(given_: DeploymentInputs, stored: Stored, now: Instant) -> tuple[object, ...]:
    places = [member for role in given_.deployment.roles for member in role.members()]
    known = {each.uid: each for each in places}
    members = {each.uid: member_digest(known[each.uid], each, now, POLICY) for each in given_.members}
    serving = [each.uid for each in places if each.serves and not (each.terminating or each.ancillary)]
    standings = [members[uid].standing if uid in members else unseen(uid, now).standing for uid in serving]
    ages = [each.age for each in given_.freshness if each.age is not None]
    oldest = max(ages, default=None)
    fresh = fresh_word(oldest, len(given_.freshness) - len(ages), len(ages), POLICY)
    selection = read_selection(given_, now, POLICY)
    rest = deployment_digest(given_, selection, standings, fresh, stored, now, POLICY)
    return [each.decides for each in members.values()], rest


def unseen(uid: str, now: Instant) -> MemberDigest:
    return member_digest(ENGINE, MemberEvidence(uid=uid), now, POLICY)


def settled(given_: DeploymentInputs, stored: Stored) -> Stored:
    """The memory that one more pass over the same evidence does not change."""
    for _ in range(5):
        found = judge(given_, stored, NOW, POLICY).stored
        if found == stored:
            return stored
        stored = found
    pytest.fail("judging the same evidence again and again finds something new each time")


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), data=st.data(), step=st.sampled_from(STEPS))
def test_equal_digests_keep_the_same_memory(case, data, step) -> None:
    first, stored = case
    assume(first.members)
    stored = settled(first, stored)
    place = data.draw(st.integers(0, len(first.members) - 1))
    other = data.draw(seen_of(first.members[place].uid))
    fields = data.draw(st.sets(st.sampled_from(FIELDS), max_size=2))
    changed = replace(first.members[place], **{name: getattr(other, name) for name in fields})
    members = (*first.members[:place], changed, *first.members[place + 1 :])
    now = later(step)
    fresh = tuple(replace(each, age=None if each.age is None else each.age + step) for each in first.freshness)
    second = replace(first, members=members, freshness=fresh)
    if digests(first, stored, NOW) == digests(second, stored, now):
        assert judge(second, stored, now, POLICY).stored == stored


@settings(max_examples=300, deadline=None)
@given(seen=seen_of("a"), step=st.sampled_from(STEPS) | st.floats(0.0, 200.0))
def test_a_digest_stays_as_it_is_until_it_says(seen, step) -> None:
    first, now = member_digest(ENGINE, seen, NOW, POLICY), later(step)
    if now.mono < first.until:
        again = member_digest(ENGINE, seen, now, POLICY)
        assert (again.decides, again.standing) == (first.decides, first.standing)


SEEN = evidence()
CHANGES = {
    "no longer answers": evidence(answered_at=ago(11)),
    "refuses since": evidence(failed_at=ago(1), failure=FailureKind.REFUSED),
    "the model is not listed": evidence(listed_at=ago(1), listed_model=False),
    "never answered": evidence(answered_at=None, health_at=ago(1)),
    "has answered its health question": evidence(health_at=ago(5)),
    "has failed": evidence(failed_at=ago(5), failure=FailureKind.TIMEOUT),
    "refused after its last metrics, and its health is newer": evidence(
        failed_at=ago(1), failure=FailureKind.REFUSED, health_at=ago(0.5)
    ),
    "another life": evidence(incarnation="2"),
    "another rank": evidence(ranks=(rank(), rank("1"))),
    "a rank did not move": evidence(ranks=(rank(moved_at=None),)),
    "other families": evidence(families=("q",)),
    "its publisher answers": evidence(events_dialable=True),
    "seen first at another time": evidence(first_seen=ago(1)),
}


@pytest.mark.parametrize("other", CHANGES.values(), ids=CHANGES)
def test_each_fact_that_decides_is_in_it(other) -> None:
    assert member_digest(ENGINE, SEEN, NOW, POLICY).decides != member_digest(ENGINE, other, NOW, POLICY).decides


SAME = {
    "read again": evidence(answered_at=ago(0)),
    "moved again": evidence(ranks=(rank(moved_at=ago(0)),)),
    "more work": evidence(ranks=(rank(work=9.0),)),
    "the same listed again": evidence(listed_at=None, listed_model=True),
    "another sentence": evidence(failure_detail="x"),
}


@pytest.mark.parametrize("other", SAME.values(), ids=SAME)
def test_what_only_sentences_tell_is_not(other) -> None:
    assert member_digest(ENGINE, SEEN, NOW, POLICY).decides == member_digest(ENGINE, other, NOW, POLICY).decides


@pytest.mark.parametrize(
    ("seen", "until"),
    [
        pytest.param(evidence(answered_at=ago(4)), 6.0, id="answers"),
        pytest.param(evidence(answered_at=ago(40)), math.inf, id="answered long ago"),
        pytest.param(evidence(answered_at=None, health_at=ago(3)), 7.0, id="healthy"),
        pytest.param(evidence(listed_at=ago(9)), 1.0, id="listed"),
        pytest.param(refused(), 59.0, id="refused, and quiet later"),
        pytest.param(refused(failing_since=ago(70)), 1730.0, id="refused for as long as a load may take"),
        pytest.param(evidence(ranks=(rank(moved_at=ago(57), work_since=ago(58)),)), 3.0, id="stands still soon"),
        pytest.param(evidence(ranks=(rank(moved_at=ago(70), work_since=ago(59)),)), 1.0, id="its work came later"),
        pytest.param(evidence(ranks=(rank(moved_at=ago(57), work=0.0),)), 8.0, id="no work, no standstill"),
    ],
)
def test_the_nearest_threshold_ends_it(seen, until) -> None:
    assert member_digest(ENGINE, seen, NOW, POLICY).until == pytest.approx(NOW.mono + until - MARGIN)


def rest(given_: DeploymentInputs, stored: Stored | None = None, seconds: float = 0.0) -> tuple[object, ...]:
    return digests(given_, stored or Stored(), later(seconds))[1]


OPERATED = facts(operator=OperatorStatus(read_at=1.0, observed_generation=6))
PROOF = MembershipProof(at=ago(1), members=())
ROUTED = deployment(role(), with_router=router("r", "s"))
VIEWS = (view(row("a"), uid="r"), view(row("a"), uid="s"))
EXTRA = Condition(type="KVEventsLive", status=Status.TRUE, reason="Receiving")
ANOTHER = {
    "views became too old": (inputs(ROUTED, views=VIEWS), {"seconds": 14.0}),
    "a router refuses a member": (inputs(ROUTED, views=(VIEWS[0], view(row("a", in_selection=False), uid="s"))), {}),
    "a view failed beside a good one": (inputs(ROUTED, views=(*VIEWS, lost())), {}),
    "a proof came": (inputs(ROUTED, views=VIEWS, proof=PROOF), {}),
    "another condition": (inputs(ROUTED, views=VIEWS, extra=(EXTRA,)), {}),
    "its reason": (inputs(ROUTED, views=VIEWS, extra=(replace(EXTRA, reason="Idle"),)), {}),
    "a member stands still": (
        inputs(ROUTED, views=VIEWS, members=(evidence(ranks=(rank(moved_at=ago(70), work_since=ago(65)),)),)),
        {},
    ),
    "a target was never read": (inputs(ROUTED, views=VIEWS, freshness=(TargetFreshness(name="x", age=None),)), {}),
    "a target is stale": (inputs(ROUTED, views=VIEWS, freshness=(TargetFreshness(name="x", age=13.0),)), {}),
}


@pytest.mark.parametrize(("other", "more"), ANOTHER.values(), ids=ANOTHER)
def test_each_fact_of_the_deployment_is_in_it(other, more) -> None:
    told = [rest(inputs(ROUTED, views=VIEWS)), *(rest(each, **how) for each, how in ANOTHER.values())]
    assert told.count(rest(other, **more)) == 1


def test_a_proof_that_became_too_old_and_an_operator_that_lags_too_long_are_in_it() -> None:
    proven = inputs(ROUTED, proof=PROOF, members=())
    assert rest(proven, seconds=13.0) == rest(proven)
    assert rest(proven, seconds=15.0) != rest(proven)
    lagging = inputs(facts=OPERATED, members=())
    behind = Stored(disagreements=((LAG_KEY, NOW.wall - 100.0),))
    assert rest(lagging, behind) == rest(lagging, behind, seconds=19.0)
    assert rest(lagging, behind) != rest(lagging, behind, seconds=21.0)


def test_upon_a_threshold_nothing_holds() -> None:
    assert earlier(math.inf, 10.0, 10.0) < 10.0
    assert earlier(math.inf, 10.0, 10.0 + MARGIN / 2) < 10.0
    assert earlier(math.inf, 10.0, 10.0 + 2 * MARGIN) == math.inf


def test_a_quiet_deployment_is_settled_after_two_passes() -> None:
    first = judge(inputs(), Stored(), NOW, POLICY).stored
    assert judge(inputs(), first, later(1), POLICY).stored == first
    assert first != Stored()


@given(
    st.lists(
        st.builds(
            TargetFreshness, name=st.sampled_from("abc"), age=st.none() | st.sampled_from([0.0, 12.0, 12.1, 301.0])
        )
    )
)
def test_the_word_of_freshness_is_its_condition(freshness) -> None:
    ages = [each.age for each in freshness if each.age is not None]
    found = metrics_fresh(freshness, POLICY)
    word = fresh_word(max(ages, default=None), len(freshness) - len(ages), len(ages), POLICY)
    assert word == (found.status, found.reason)
