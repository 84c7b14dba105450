"""Binding rows to members, putting views together, and whether routers select what is eligible."""

from __future__ import annotations

import msgspec
import pytest

from observer.judge.convergence import bind_row, read_selection
from router_contract.judging import Stored
from router_contract.router_views import Circuit, RouterView, ViewSource, WorkerRow, worker_address
from router_contract.targets import Member, Ready
from tests.judge.build import (
    NOW,
    OTHER,
    POLICY,
    STATIC,
    ago,
    answer,
    condition,
    deployment,
    evidence,
    facts,
    inputs,
    kept,
    later,
    lost,
    member,
    record,
    replica,
    role,
    router,
    row,
    run,
    view,
)

ROUTED = deployment(with_router=True)
TWO_ROUTERS = deployment(with_router=router("r", "s"))
TWO = deployment(role(replica(member("a")), replica(member("b"), ordinal=1)), with_router=True)


def bound(worker, target=ROUTED, **given):
    return bind_row(worker, view(worker), inputs(target, **given))


class TestBinding:
    def test_host_and_port_name_the_member(self):
        found = bound(row())
        assert (found.uid, found.port, found.role) == ("a", 8000, "serve")

    def test_identity_comes_from_the_member_and_never_from_hints(self):
        assert bound(row(role="decode")).role == "serve"

    def test_same_name_replacement_binds_to_the_new_uid(self):
        target = deployment(role(replica(member("b", name="pod-a", host="10.0.0.1"))), with_router=True)
        assert bound(row("a"), target).uid == "b"

    def test_a_view_read_before_the_member_existed_does_not_name_it(self):
        target = deployment(role(replica(member("b", host="10.0.0.1"))), with_router=True)
        young = (evidence("b", first_seen=ago(1)),)
        assert bind_row(row("a"), view(row("a"), read_at=ago(5)), inputs(target, members=young)) is None
        assert bind_row(row("a"), view(row("a"), read_at=ago(0)), inputs(target, members=young)).uid == "b"

    @pytest.mark.parametrize(
        ("worker", "changes"),
        [
            pytest.param(row(host="10.9.9.9"), {}, id="unknown IP"),
            pytest.param(row(), {"started": False}, id="not running"),
            pytest.param(row(), {"terminating": True}, id="terminating"),
            pytest.param(row(), {"seat": None}, id="no member index on a platform that numbers members"),
            pytest.param(row(), {"seat": -1}, id="signed member index"),
            pytest.param(row(port=9999), {}, id="undeclared port"),
            pytest.param(row(port=None), {}, id="no port"),
            pytest.param(row(), {"host": None}, id="member without address"),
            pytest.param(row(), {"ports": (9000,)}, id="declared ports decide where the Pod declares any"),
        ],
    )
    def test_unbound(self, worker, changes):
        assert bound(worker, deployment(role(replica(member("a", **changes))), with_router=True)) is None

    def test_a_declared_port_beside_the_metrics_port_binds(self):
        target = deployment(role(replica(member("a", ports=(8000, 8200)))), with_router=True)
        assert bound(row(port=8200), target).port == 8200

    def test_no_seat_is_fine_where_members_are_not_numbered(self):
        target = deployment(role(replica(member("a", seat=None))), with_router=True)
        assert bound(row(), target, facts=OTHER).uid == "a"

    def test_two_members_at_one_address_are_nobody(self):
        target = deployment(
            role(replica(member("a")), replica(member("b", host="10.0.0.1"), ordinal=1)), with_router=True
        )
        assert bound(row(), target) is None

    def test_two_servers_in_one_address_are_told_apart_by_port(self):
        from router_contract.targets import Address

        other = Address(host="10.0.0.1", port=8001)
        target = deployment(
            role(replica(member("a")), replica(member("b", host="10.0.0.1", api=other, metrics=other), ordinal=1)),
            with_router=True,
        )
        assert bound(row(port=8001), target).uid == "b"

    def test_llm_d_series_name_pods(self):
        worker = WorkerRow(endpoint="pod-a", rank=0, in_selection=True)
        assert bind_row(worker, view(worker, source=ViewSource.SERIES), inputs(ROUTED)).uid == "a"
        stranger = WorkerRow(endpoint="pod-z", in_selection=True)
        assert bind_row(stranger, view(stranger, source=ViewSource.SERIES), inputs(ROUTED)) is None


def serving(views, target=ROUTED, **given):
    found = run(inputs(target, views=tuple(views), **given)).convergence.serving
    return found.state.value, found.value


@pytest.mark.parametrize(
    ("target", "views", "expected"),
    [
        pytest.param(deployment(), [], ("NotConfigured", None), id="not configured"),
        pytest.param(ROUTED, [], ("Unknown", None), id="none collected"),
        pytest.param(ROUTED, [lost()], ("Unknown", None), id="one error"),
        pytest.param(ROUTED, [view(row(), read_at=ago(16))], ("Unknown", None), id="stale"),
        pytest.param(ROUTED, [view(row(), read_at=ago(15))], ("Confirmed", 1), id="valid to its last second"),
        pytest.param(
            ROUTED, [view(row(), read_at=ago(9)), lost()], ("Confirmed", 1), id="one lost read expires nothing"
        ),
        pytest.param(ROUTED, [view()], ("Confirmed", 0), id="confirmed zero"),
        pytest.param(ROUTED, [view(row(in_selection=False))], ("Confirmed", 0), id="only refused"),
        pytest.param(ROUTED, [view(row(in_selection=None))], ("Unknown", None), id="selection not told"),
        pytest.param(ROUTED, [view(row(host="10.9.9.9"))], ("Unknown", None), id="selected and unbound"),
        pytest.param(
            ROUTED, [view(row(host="10.9.9.9", in_selection=False))], ("Confirmed", 0), id="refused and unbound"
        ),
        pytest.param(
            ROUTED,
            [view(row(host="10.9.9.9", in_selection=False, recent_dispatch=True))],
            ("Unknown", None),
            id="removed target with a recent dispatch",
        ),
        pytest.param(
            ROUTED,
            [view(row(host="10.9.9.9", in_selection=False, recent_dispatch=False))],
            ("Confirmed", 0),
            id="removed target without one",
        ),
        pytest.param(
            ROUTED, [view(*(row(rank=number) for number in range(4)))], ("Confirmed", 1), id="four virtual rows are one"
        ),
        pytest.param(
            ROUTED,
            [view(row(rank=0), row(rank=1, in_selection=False))],
            ("NotConverged", None),
            id="conflict inside one view",
        ),
        pytest.param(
            TWO_ROUTERS,
            [view(row(), uid="r"), view(row(in_selection=False), uid="s")],
            ("NotConverged", None),
            id="conflict across views",
        ),
        pytest.param(TWO_ROUTERS, [view(row(), uid="r"), view(uid="s")], ("Confirmed", 1), id="absence is no conflict"),
        pytest.param(
            TWO_ROUTERS, [view(row(), uid="r"), view(row(), uid="s")], ("Confirmed", 1), id="union without doubles"
        ),
        pytest.param(TWO_ROUTERS, [view(row(), uid="r")], ("Unknown", None), id="a required view is missing"),
        pytest.param(
            TWO_ROUTERS,
            [view(row(), uid="r"), view(row(), uid="s", read_at=ago(20))],
            ("Unknown", None),
            id="one stale",
        ),
        pytest.param(
            ROUTED, [view(row()), view(row(), boot_id="other")], ("NotConverged", None), id="one router with two boots"
        ),
        pytest.param(
            TWO_ROUTERS,
            [view(row(), uid="r", boot_id="1"), view(row(), uid="s", boot_id="2")],
            ("Confirmed", 1),
            id="distinct routers have distinct boots",
        ),
        pytest.param(
            TWO_ROUTERS,
            [view(row(), uid="r", boot_id=None), view(row(in_selection=False), uid="s", boot_id=None)],
            ("NotConverged", None),
            id="views without identity must agree",
        ),
        pytest.param(
            ROUTED, [view(row(), uid="stranger")], ("Unknown", None), id="a foreign Pod's view does not count"
        ),
    ],
)
def test_aggregation(target, views, expected):
    assert serving(views, target) == expected


def test_a_router_pod_without_address_is_a_missing_view():
    """The peer skips a router Pod without an IP; ours counts it: what it will select is not known."""
    bare = Member(uid="s", name="router-s")
    target = deployment(with_router=router(members=(*router().members, bare), desired=2))
    assert serving([view(row())], target) == ("Unknown", None)


def test_a_router_replica_that_should_exist_is_a_missing_view():
    assert serving([view(row())], deployment(with_router=router(desired=2))) == ("Unknown", None)


def test_a_terminating_router_is_still_read_and_required():
    going = msgspec.structs.replace(router("s").members[0], terminating=True)
    target = deployment(with_router=router(members=(*router().members, going)))
    assert serving([view(row())], target) == ("Unknown", None)
    assert serving([view(row()), view(row(), uid="s")], target) == ("Confirmed", 1)


def test_a_terminating_router_without_address_is_gone():
    going = Member(uid="s", name="router-s", terminating=True)
    target = deployment(with_router=router(members=(*router().members, going)))
    assert serving([view(row())], target) == ("Confirmed", 1)


def test_a_failed_list_of_router_pods_is_unknown():
    assert serving([view(row())], msgspec.structs.replace(ROUTED, complete=False)) == ("Unknown", None)


def test_each_role_has_its_own_count_and_a_role_without_any_an_explicit_zero():
    target = deployment(
        role(name="p", kind="Prefill"), role(replica(member("b")), name="d", kind="Decode"), with_router=True
    )
    judged = run(inputs(target, views=(view(row("a")),)))
    values = {item.name: item.endpoints.serving.value for item in judged.roles}
    assert values == {"p": 1, "d": 0}
    assert judged.convergence.serving.value == 1


@pytest.mark.parametrize("views", [[], [lost()], [view(row(), row(rank=1, in_selection=False))]])
def test_only_confirmed_carries_a_value_for_every_role(views):
    judged = run(inputs(ROUTED, views=tuple(views)))
    assert [item.endpoints.serving.value for item in judged.roles] == [None]


class TestRouterConverged:
    def converged(self, *views, target=TWO, stored=None, **given):
        judged = run(inputs(target, views=tuple(views), **given), stored)
        return judged, answer(judged, "RouterConverged")

    def test_converged(self):
        judged, said = self.converged(view(row("a"), row("b")))
        assert said == "True/Converged"
        assert judged.convergence.wanted == judged.convergence.selected == ("a", "b")

    def test_missing(self):
        judged, said = self.converged(view(row("a"), row("b", in_selection=False)))
        assert said == "False/MissingEndpoint"
        assert judged.convergence.missing == ("b",)
        assert "pod-b" in condition(judged, "RouterConverged").message

    def test_extra(self):
        target = deployment(
            role(replica(member("a")), replica(member("b", ready=Ready.FALSE), ordinal=1)), with_router=True
        )
        stored = kept(record("a"), record("b", ordinal=1))
        judged, said = self.converged(view(row("a"), row("b")), target=target, stored=stored)
        assert said == "False/ExtraEndpoint"
        assert judged.convergence.extra == ("b",)

    def test_a_selected_member_of_an_undecided_group_is_no_extra_and_no_convergence(self):
        target = deployment(
            role(replica(member("a")), replica(member("b", ready=Ready.FALSE), ordinal=1)), with_router=True
        )
        assert self.converged(view(row("a"), row("b")), target=target)[1] == "Unknown/EligibilityUnknown"

    def test_disagreement(self):
        views = (view(row("a"), row("b"), uid="r"), view(row("a", in_selection=False), row("b"), uid="s"))
        target = msgspec.structs.replace(TWO, router=router("r", "s"))
        assert self.converged(*views, target=target)[1] == "False/ViewsDisagree"

    def test_unavailable(self):
        assert self.converged(lost())[1] == "Unknown/ViewUnavailable"

    def test_not_configured(self):
        assert self.converged(target=deployment())[1] == "True/NotConfigured"

    def passes(self, *steps):
        """The convergence of each pass: seconds after `NOW`, then the view or its loss."""
        stored, found = Stored(), []
        for seconds, given in steps:
            fresh = isinstance(given, RouterView)
            seen = msgspec.structs.replace(given, read_at=later(seconds)) if fresh else given
            members = tuple(evidence(uid, answered_at=later(seconds)) for uid in "ab")
            judged = run(inputs(TWO, views=(seen,), members=members), stored, later(seconds))
            stored = judged.stored
            found.append((answer(judged, "RouterConverged").partition("/")[2], judged.convergence.took_seconds))
        return found

    def test_since_and_the_time_it_took(self):
        short, whole = view(row("a"), row("b", in_selection=False)), view(row("a"), row("b"))
        found = self.passes((0, view(row("a"))), (2, short), (5, short), (9, whole), (10, whole))
        assert found == [
            ("EligibilityUnknown", None),
            ("MissingEndpoint", None),
            ("MissingEndpoint", None),
            ("Converged", 7.0),
            ("Converged", None),
        ]

    def test_a_view_that_comes_back_over_the_same_eligible_set_took_no_time(self):
        whole = view(row("a"), row("b"))
        found = self.passes((0, whole), (1, whole), (3600, lost()), (3700, whole), (3701, whole))
        assert found[3:] == [("Converged", None), ("Converged", None)]

    def test_the_time_of_a_change_that_was_followed_while_nobody_looked_is_not_known(self):
        short, whole = view(row("a"), row("b", in_selection=False)), view(row("a"), row("b"))
        found = self.passes((0, view(row("a"))), (2, short), (30, lost()), (90, whole), (95, short), (97, whole))
        assert found[2:] == [
            ("ViewUnavailable", None),
            ("Converged", None),
            ("MissingEndpoint", None),
            ("Converged", None),
        ]

    def test_what_is_missing_is_not_known_while_views_are_lost(self):
        judged, _ = self.converged(lost(), stored=kept(record("a"), record("b", ordinal=1)))
        found = dict(condition(judged, "RouterConverged").evidence)
        assert (found["seen"], found["missing"], found["extra"]) == ("not known",) * 3

    @pytest.mark.parametrize(
        ("rows", "told"),
        [
            ((row("b", in_selection=False, circuit=Circuit.OPEN),), "pod-b (circuit open at router-r)"),
            ((row("b", in_selection=False, healthy=False),), "pod-b (unhealthy at router-r)"),
            ((row("b", in_selection=False, registered=False),), "pod-b (not registered at router-r)"),
            ((), "pod-b (not listed at router-r)"),
        ],
    )
    def test_why_a_router_refuses_is_told(self, rows, told):
        judged, said = self.converged(view(row("a"), *rows), stored=kept(record("a"), record("b", ordinal=1)))
        assert said == "False/MissingEndpoint"
        assert condition(judged, "RouterConverged").message == f"eligible and not selected: {told}"

    def test_who_disagrees_is_told(self):
        views = (
            view(row("a"), row("b"), uid="r"),
            view(row("a", healthy=False, in_selection=False), row("b"), uid="s"),
        )
        target = msgspec.structs.replace(TWO, router=router("r", "s"))
        judged, _ = self.converged(*views, target=target)
        assert condition(judged, "RouterConverged").message == (
            "pod-a:8000 is selected and refused (selected by router-r; unhealthy at router-s)"
        )

    def test_the_first_pass_measures_nothing(self):
        judged, _ = self.converged(view(row("a"), row("b")))
        assert judged.convergence.took_seconds is None

    def test_counts_are_evidence(self):
        judged, _ = self.converged(view(row("a")), stored=kept(record("a"), record("b", ordinal=1)))
        assert dict(condition(judged, "RouterConverged").evidence) == {
            "wanted": "2",
            "seen": "1",
            "missing": "1",
            "extra": "0",
        }


def test_an_open_circuit_is_followed_in_order():
    """Healthy, circuit open, closed again: each step one state."""
    seen = []
    stored = None
    for step, worker in enumerate((row("b"), row("b", circuit=Circuit.OPEN, in_selection=False), row("b"))):
        judged = run(inputs(TWO, views=(view(row("a"), worker, read_at=later(step)),)), stored, later(step))
        stored = judged.stored
        seen.append(answer(judged, "RouterConverged"))
    assert seen == ["True/Converged", "False/MissingEndpoint", "True/Converged"]


def test_a_worker_replaced_at_the_same_address_is_another_group():
    first = run(inputs(ROUTED, views=(view(row()),)))
    target = deployment(role(replica(member("b", host="10.0.0.1"))), with_router=True)
    seen = (evidence("b", first_seen=later(1)),)
    old_view = run(inputs(target, members=seen, views=(view(row(), read_at=ago(2)),)), first.stored, later(2))
    assert old_view.convergence.serving.state.value == "Unknown"
    assert old_view.groups()[0].state.value == "AwaitingObservation"
    new_view = run(inputs(target, members=seen, views=(view(row(), read_at=later(2)),)), old_view.stored, later(3))
    assert new_view.groups()[0].state.value == "Eligible"
    assert new_view.groups()[0].qualified_at == later(3).wall


def test_static_targets_are_bound_by_host_and_port():
    found = read_selection(inputs(ROUTED, facts=STATIC, views=(view(row()),)), NOW, POLICY)
    assert {item.uid for item in found.selected} == {"a"}


def test_a_router_without_declared_count_is_judged_by_the_pods_that_exist():
    target = deployment(with_router=router(desired=None))
    assert serving([view(row())], target) == ("Confirmed", 1)


def test_gpustack_facts_require_seats():
    assert facts().seats is True


class TestWhoServesNothing:
    """A follower of a leader answers no request: a router that selects it loses what it sends there."""

    FOLLOWED = deployment(
        role(replica(member("a", declared_total=2), member("b", seat=1, serves=False, declared_total=2))),
        with_router=True,
    )

    def test_a_selected_follower_is_extra_though_its_group_is_eligible(self):
        judged = run(inputs(self.FOLLOWED, views=(view(row("a"), row("b")),)), kept(record("a/b")))
        assert [group.state.value for group in judged.groups()] == ["Eligible"]
        assert (judged.convergence.wanted, judged.convergence.extra) == (("a",), ("b",))
        assert answer(judged, "RouterConverged") == "False/ExtraEndpoint"
        assert "pod-b (by router-r)" in condition(judged, "RouterConverged").message

    def test_it_is_so_while_eligibility_is_not_decided(self):
        judged = run(inputs(self.FOLLOWED, members=(), views=(view(row("a"), row("b")),)))
        assert judged.convergence.extra == ("b",)

    def test_a_leader_alone_is_converged(self):
        judged = run(inputs(self.FOLLOWED, views=(view(row("a")),)), kept(record("a/b")))
        assert (judged.convergence.extra, answer(judged, "RouterConverged")) == ((), "True/Converged")

    def test_workers_of_an_elastic_collective_are_not_told_by_its_group(self):
        target = msgspec.structs.replace(
            self.FOLLOWED, roles=(msgspec.structs.replace(self.FOLLOWED.roles[0], elastic=True),)
        )
        assert run(inputs(target, views=(view(row("a"), row("b")),))).convergence.extra == ()


class TestOneAddressWrittenInSeveralWays:
    @pytest.mark.parametrize(
        ("host", "url"),
        [
            ("10.0.0.1", "http://10.0.0.1"),
            ("Engine-A.svc", "http://engine-a.SVC:80"),
            ("engine-a.svc", "HTTP://engine-a.svc./v1"),
            ("fd00::7", "http://[FD00:0:0::7]:80"),
            ("FD00:0::7", "http://[fd00::7]@1"),
        ],
    )
    def test_it_is_the_same_member(self, host, url):
        shown, at, port, rank = worker_address(url)
        target = deployment(role(replica(member("a", host=host, ports=(80,)))), with_router=True)
        made = WorkerRow(url=shown, host=at, port=port, rank=rank, healthy=True, in_selection=True)
        found = bound(made, target)
        assert found is not None
        assert (found.uid, found.port) == ("a", 80)

    def test_a_url_without_a_scheme_or_of_another_names_no_port(self):
        assert [WorkerRow(url=url).dialled for url in ("h", "grpc://h", "https://h")] == [None, None, 443]


def test_a_row_that_tells_nothing_is_not_said_to_be_selected():
    given = inputs(ROUTED, views=(view(row("a"), row("z", in_selection=None)),))
    assert "router router-r may select http://10.0.0.26:8000" in read_selection(given, NOW, POLICY).fault


def test_who_is_not_listed_is_named_whatever_else_the_views_say():
    """`explain` names the member: not only that one is missing, nor what another group's members do."""
    given = inputs(TWO, views=(view(row("a")),))
    assert [group.message for group in run(given).groups()][1] == "no router lists pod-b"
    both = (view(row("a")), view(row("a", in_selection=False), uid="s"))
    two = msgspec.structs.replace(TWO, router=router("r", "s"))
    judged = run(inputs(two, views=both))
    assert answer(judged, "RouterConverged") == "False/ViewsDisagree"
    assert [group.message for group in judged.groups()][1] == "no router lists pod-b"


@pytest.mark.parametrize(
    ("changes", "seen", "why"),
    [
        ({"host": "10.9.9.9"}, {}, "which is no current member"),
        ({"terminating": True}, {}, "and pod-b there is on its way out"),
        ({"started": False}, {}, "and pod-b there does not run"),
        ({"seat": None}, {}, "and pod-b there claims no seat"),
        ({}, {"first_seen": ago(0)}, "and pod-b there was first seen after the view was read"),
        ({"host": "10.0.0.1", "ports": (8000, 9000)}, {}, "which may be pod-a or pod-b"),
    ],
)
def test_why_a_selected_row_is_no_member_is_told(changes, seen, why):
    """A member that exists is not called none: a router that lags behind a deletion is the commonest cause."""
    target = deployment(role(replica(member("a")), replica(member("b", **changes), ordinal=1)), with_router=True)
    rows = (row("a"),) if "ports" in changes else (row("b"),)
    found = read_selection(
        inputs(target, members=(evidence("a"), evidence("b", **seen)), views=(view(*rows),)), NOW, POLICY
    )
    assert found.state.value == "Unknown"
    assert found.fault == f"router router-r selects {rows[0].url}, {why}"
