"""`status.router` against what is there."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.platform_facts import ContractMetrics, ContractRole, RouterContract
from router_contract.readings import FailureKind
from tests.judge.build import ago, answer, condition, deployment, evidence, facts, inputs, member, replica, role, run

NAMES = (("queuedRequests", "q"), ("runningRequests", "r"))
GOOD = RouterContract(
    name="llm-d-router",
    metrics=ContractMetrics(port=8000, names=NAMES),
    roles=(
        ContractRole(
            name="serve",
            kind="Server",
            selector=(("app", "x"),),
            events_endpoint="tcp://md-serve.ns.svc:5557",
            selected=("a",),
        ),
    ),
)
SEEN = {"families": ("q", "r", "z"), "events_dialable": True}


def entry(**changes):
    return msgspec.structs.replace(GOOD, roles=(msgspec.structs.replace(GOOD.roles[0], **changes),))


def judged(contract=GOOD, seen=None, target=None):
    members = (evidence(**(SEEN | (seen or {}))),)
    return run(inputs(target or deployment(with_router=True), facts=facts(contract=contract), members=members))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(judged, "True/Holds", id="holds"),
        pytest.param(lambda: judged(seen={"families": ("q",)}), "False/MetricNameAbsent", id="name absent"),
        pytest.param(lambda: judged(seen={"families": None}), "Unknown/NotRead", id="names not read"),
        pytest.param(
            lambda: judged(msgspec.structs.replace(GOOD, metrics=ContractMetrics(port=9999, names=NAMES))),
            "False/PortUnreachable",
            id="no such port",
        ),
        pytest.param(
            lambda: judged(seen={"answered_at": ago(30), "failed_at": ago(1), "failure": FailureKind.REFUSED}),
            "False/PortUnreachable",
            id="answered once, refused now",
        ),
        pytest.param(
            lambda: judged(seen={"answered_at": None, "failed_at": ago(1), "failure": FailureKind.REFUSED}),
            "Unknown/NotRead",
            id="never answered: it may be starting",
        ),
        pytest.param(lambda: judged(entry(selected=())), "False/SelectorMismatch", id="selector misses a serving Pod"),
        pytest.param(lambda: judged(entry(selected=("a", "z"))), "False/SelectorMismatch", id="selector adds a Pod"),
        pytest.param(lambda: judged(entry(selected=None)), "Unknown/NotRead", id="selector not evaluated"),
        pytest.param(lambda: judged(entry(name="other")), "False/SelectorMismatch", id="role absent from the contract"),
        pytest.param(lambda: judged(seen={"events_dialable": False}), "False/EventsNotDialable", id="events"),
        pytest.param(lambda: judged(seen={"events_dialable": None}), "Unknown/NotRead", id="events not dialled"),
        pytest.param(
            lambda: judged(entry(events_endpoint=None), seen={"events_dialable": False}),
            "True/Holds",
            id="no events declared",
        ),
        pytest.param(lambda: judged(None), "Unknown/NotObservable", id="no contract published"),
        pytest.param(lambda: judged(msgspec.UNSET), "Unknown/NotObservable", id="contract not observed"),
        pytest.param(lambda: judged(target=deployment()), "True/NotConfigured", id="no router"),
    ],
)
def test_contract_holds(found, expected):
    assert answer(found(), "RouterContractHolds") == expected


def test_both_sides_are_shown():
    checks = {check.item: (check.declared, check.observed, check.holds) for check in judged().contract}
    assert checks == {
        "role serve selector": ("app=x", "1 Pods", True),
        "role serve metrics port": ("8000", "1 of 1 answer", True),
        "role serve queuedRequests": ("q", "seen on 1 of 1", True),
        "role serve runningRequests": ("r", "seen on 1 of 1", True),
        "role serve kvEvents": ("tcp://md-serve.ns.svc:5557", "1 of 1 dialled", True),
    }


def test_one_member_of_two_without_the_name():
    target = deployment(role(replica(member("a")), replica(member("b"), ordinal=1)), with_router=True)
    contract = entry(selected=("a", "b"))
    members = (evidence("a", **SEEN), evidence("b", families=(), events_dialable=True))
    found = run(inputs(target, facts=facts(contract=contract), members=members))
    assert "absent on 1 of 2" in condition(found, "RouterContractHolds").message


def the_selector(contract, target):
    checks = run(inputs(target, facts=facts(contract=contract), members=(evidence(**SEEN),))).contract
    return next((check.observed, check.holds) for check in checks if check.item == "role serve selector")


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        pytest.param({"selected": ("a",)}, {}, ("1 Pods", True), id="all that serve"),
        pytest.param({"selected": ()}, {}, ("0 Pods, not pod-a", False), id="it misses one"),
        pytest.param(
            {"selected": (), "withheld": ("a",)}, {}, ("0 Pods, the operator withholds pod-a", True), id="withheld"
        ),
        pytest.param({"selected": ("a", "z")}, {}, ("2 Pods, also z", False), id="it takes another"),
        pytest.param(
            {"selected": ()}, {"roles": (role(desired=0, replicas=()),)}, ("0 Pods", None), id="none to match"
        ),
        pytest.param({"selected": ("a",)}, {"complete": False}, ("1 Pods", None), id="not all were listed"),
    ],
)
def test_a_selector_holds_only_for_what_was_seen_and_is_offered(given, changes, expected):
    """A Pod that the operator does not offer yet lacks the selector's label by design: nothing is wrong with it."""
    target = msgspec.structs.replace(deployment(with_router=True), **changes)
    assert the_selector(entry(**given), target) == expected
