"""What a client's Accept header comes to, and selectors, pages and requests as text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.aggregated.accept import As, Wanted, negotiate
from exporters.aggregated.listing import TOKEN_SECONDS, page, read_query
from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.request import ask
from exporters.aggregated.selectors import field_selector, label_selector, matches

OBJECT = frozenset({As.PLAIN, As.TABLE, As.PARTIAL})
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
ACCEPTS = {
    "none": (None, Wanted(As.PLAIN)),
    "empty": ("", Wanted(As.PLAIN)),
    "kubectl": (KUBECTL, Wanted(As.TABLE)),
    "old table": ("application/json;as=Table;g=meta.k8s.io;v=v1beta1", Wanted(As.TABLE, "v1beta1")),
    "unknown as is passed over": ("application/json;as=Chart;g=meta.k8s.io;v=v1, application/json", Wanted(As.PLAIN)),
    "table of another group": ("application/json;as=Table;g=x;v=v1,application/json", Wanted(As.PLAIN)),
    "raw": ("application/json, */*", Wanted(As.PLAIN)),
    "protobuf before anything": ("application/vnd.kubernetes.protobuf, */*", Wanted(As.PLAIN)),
    "partial": ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Wanted(As.PARTIAL)),
    "quality": ("application/json;q=0.5, application/json;as=Table;g=meta.k8s.io;v=v1", Wanted(As.TABLE)),
    "quoted": ('application/json; as="Table"; g="meta.k8s.io"; v="v1"', Wanted(As.TABLE)),
    "application": ("application/*", Wanted(As.PLAIN)),
}


@pytest.mark.parametrize(("header", "wanted"), ACCEPTS.values(), ids=ACCEPTS)
def test_json_only_or_anything_gets_json(header: str | None, wanted: Wanted) -> None:
    assert negotiate(header, OBJECT) == wanted


@pytest.mark.parametrize(
    "header",
    [
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
        "application/json;q=0",
        "application/json;as=Chart;g=x;v=v1",
    ],
)
def test_only_what_we_do_not_speak_is_406(header: str) -> None:
    with pytest.raises(RefusalError, match="only the following media types are accepted: application/json") as refused:
        negotiate(header, OBJECT)
    assert refused.value.status()["reason"] == "NotAcceptable"


LABELS = {"team": "red", "tier": "gold", "size": "7", "empty": "", "example.com/a": "b"}
HOLD = [
    "", "team=red", "team==red", "team!=blue", "other!=x", "team in (red,blue)", "team notin (blue)", "other notin (x)",
    "team", "!other", "team=red,tier in (gold)", " team = red , tier ", "empty=", "empty in (,x)", "size>6", "size<8",
    "example.com/a=b", "team!=", "team!=,tier",
]  # fmt: skip
FAIL = ["team=blue", "team!=red", "other=x", "team in (blue)", "team notin (red)", "other", "!team", "size>7", "team>1"]
BAD = [
    "team=red,", ",team", "team=(red)", "team in red", "team in (red", "team in (red blue)", "=red", "!", "-x",
    "team=-", "team red", "size>x", "team=" + "a" * 64, "team in (red))", "a=b=c", "team!red",
]  # fmt: skip


@pytest.mark.parametrize("text", HOLD)
def test_a_selector_that_holds(text: str) -> None:
    assert matches(label_selector(text), LABELS)


@pytest.mark.parametrize("text", FAIL)
def test_a_selector_that_does_not_hold(text: str) -> None:
    assert not matches(label_selector(text), LABELS)


@pytest.mark.parametrize("text", BAD)
def test_a_selector_that_cannot_be_read_is_a_400(text: str) -> None:
    with pytest.raises(RefusalError, match="unable to parse requirement") as refused:
        label_selector(text)
    assert refused.value.code == 400


def test_field_selectors_know_name_and_namespace_only() -> None:
    fields = {"metadata.name": "chat", "metadata.namespace": "prod"}
    assert matches(field_selector("metadata.name=chat,metadata.namespace!=lab"), fields)
    assert not matches(field_selector("metadata.name==other"), fields)
    with pytest.raises(RefusalError, match=r"field label not supported: spec\.x"):
        field_selector("spec.x=1")
    with pytest.raises(RefusalError, match="invalid field selector"):
        field_selector("metadata.name")


def items(*names: str) -> list[tuple[str, str]]:
    return [("prod", name) for name in names]


def test_pages_follow_each_other_and_end() -> None:
    seen: list[str] = []
    token = ""
    for _ in range(3):
        query = read_query({"limit": "2", "continue": token}, 1000.0)
        part = page(items("c", "a", "e", "b", "d"), query, 1000.0)
        seen += [name for _, name in part.places]
        token = part.metadata.get("continue", "")
    assert (seen, token) == (["a", "b", "c", "d", "e"], "")


def test_a_page_says_how_many_follow_and_its_token_expires() -> None:
    part = page(items("a", "b", "c"), read_query({"limit": "1"}, 1000.0), 1000.0)
    assert part.metadata["remainingItemCount"] == 2
    query = {"continue": part.metadata["continue"]}
    assert read_query(query, 1000.0 + TOKEN_SECONDS).after == ("prod", "a")
    with pytest.raises(RefusalError) as expired:
        read_query(query, 1001.0 + TOKEN_SECONDS)
    assert expired.value.status()["reason"] == "Expired"
    for token in ("x", "AAAA", "####"):
        with pytest.raises(RefusalError, match="continue key is not valid"):
            read_query({"continue": token}, 1000.0)
    with pytest.raises(RefusalError, match="invalid limit"):
        read_query({"limit": "-1"}, 1000.0)


BASE = "/apis/metrics.modeldeployment.io/v1"
VERBS = {
    "list all": ("GET", f"{BASE}/modeldeploymentmetrics", {}, ("list", "", "")),
    "list": ("GET", f"{BASE}/namespaces/a/modeldeploymentmetrics", {}, ("list", "a", "")),
    "get": ("GET", f"{BASE}/namespaces/a/modeldeploymentmetrics/b", {}, ("get", "a", "b")),
    "watch": ("GET", f"{BASE}/modeldeploymentmetrics", {"watch": "1"}, ("watch", "", "")),
    "no watch": ("GET", f"{BASE}/modeldeploymentmetrics", {"watch": "0"}, ("list", "", "")),
    "delete all": ("DELETE", f"{BASE}/namespaces/a/modeldeploymentmetrics", {}, ("deletecollection", "a", "")),
    "plain": ("GET", "/openapi/v2", {}, ("get", "", "")),
}


@pytest.mark.parametrize(("method", "path", "query", "wanted"), VERBS.values(), ids=VERBS)
def test_what_a_request_asks_for(method: str, path: str, query: dict[str, str], wanted: tuple[str, ...]) -> None:
    found = ask(method, path, query).attributes
    assert (found.verb, found.namespace, found.name) == wanted


@pytest.mark.parametrize(
    "path", ["/apis/../x", "/a/%2e%2e/b", "/a\\b", "/a%5cb", "//a", "/a%00", f"{BASE}/namespaces/a/m/.x"]
)
def test_a_path_that_could_be_read_in_two_ways_is_a_400(path: str) -> None:
    with pytest.raises(RefusalError) as refused:
        ask("GET", path, {})
    assert refused.value.code == 400


@given(st.text(max_size=60))
def test_whatever_is_sent_is_read_or_refused(text: str) -> None:
    """Nothing that a client sends raises anything but a refusal."""
    for read in (
        lambda: negotiate(text, OBJECT),
        lambda: matches(label_selector(text), LABELS),
        lambda: matches(field_selector(text), {}),
        lambda: read_query({"limit": text, "continue": text}, 1000.0),
        lambda: ask("GET", f"{BASE}/{text}", {"watch": text}),
    ):
        with contextlib.suppress(RefusalError):
            read()


@given(st.lists(st.sampled_from(["a", "b", "in", "notin", "(", ")", ",", "=", "!=", "!", "<", "3", " "]), max_size=9))
def test_a_selector_that_is_read_selects_what_its_parts_say(parts: list[str]) -> None:
    with contextlib.suppress(RefusalError):
        found = label_selector("".join(parts))
        assert matches(found, {"a": "b"}) == all(each.holds({"a": "b"}) for each in found)
