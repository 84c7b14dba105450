"""What a router's failures are at least and at most where it counts refusals (4xx) among them."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from exporters.document import metrics_document
from router_contract.documents import ModelDeploymentMetrics, WindowEntry
from router_contract.readings import SignalValue
from tests.exporters.reports import Pods, counter, gauge, report

GATEWAY = (gauge("router-requests-running", 1.0), gauge("router-backends", 3.0), counter("router-requests", 20.0))
VLLM = (
    gauge("router-requests-running", 1.0),
    gauge("router-reported-workers", 3.0),
    counter("router-successful-requests", 10.0),
)


def responses(status: str, moved: float) -> SignalValue:
    return counter("router-http-responses", moved, status_code=status)


def errors(kind: str, moved: float) -> SignalValue:
    return counter("router-errors", moved, error_type=kind)


def outcomes(outcome: str, moved: float) -> SignalValue:
    return counter("router-worker-outcomes", moved, worker="w", outcome=outcome)


def given_up(moved: float, **labels: str) -> SignalValue:
    return counter("router-retries-exhausted", moved, **labels)


# software, whether prefill and decode are apart, values, failed at most, failed at least (None: all of them)
CASES = {
    "gateway: no 408 and no 429 was answered": (
        "sglang_gateway",
        False,
        (*GATEWAY, given_up(4.0), responses("200", 16.0), responses("500", 4.0)),
        (4.0, None),
    ),
    "gateway: a 429 after the last attempt": (
        "sglang_gateway",
        False,
        (*GATEWAY, given_up(4.0), responses("429", 1.0), responses("408", 1.0), responses("500", 2.0)),
        (4.0, 2.0),
    ),
    "gateway: more 429 than were given up (its own)": (
        "sglang_gateway",
        False,
        (*GATEWAY, given_up(4.0), responses("429", 9.0)),
        (4.0, 0.0),
    ),
    "gateway: responses cannot be read, nothing is certain": (
        "sglang_gateway",
        False,
        (*GATEWAY, given_up(4.0), counter("router-http-responses", None, status_code="429")),
        (4.0, 0.0),
    ),
    "gateway: a 5xx that is not retried": (
        "sglang_gateway",
        False,
        (*GATEWAY, given_up(4.0), errors("backend_error", 3.0), errors("validation_error", 5.0), responses("501", 3.0)),
        (7.0, None),
    ),
    "gateway: refusals alone are no failures": (
        "sglang_gateway",
        False,
        (
            *GATEWAY,
            given_up(0.0),
            *(errors(kind, 5.0) for kind in ("validation_error", "no_workers", "internal_error")),
        ),
        (0.0, None),
    ),
    "gateway pair: a failure counts once": (
        "sglang_gateway",
        True,
        (*GATEWAY, given_up(4.0, worker_type="prefill"), given_up(4.0, worker_type="decode"), responses("500", 4.0)),
        (4.0, None),
    ),
    "vllm router: every attempt failed at a circuit or found nobody": (
        "vllm_router",
        False,
        (
            *VLLM,
            given_up(3.0),
            counter("router-retries", 3.0),
            outcomes("failure", 4.0),
            outcomes("success", 10.0),
            errors("no_available_workers", 2.0),
            errors("non_retryable_error", 7.0),
        ),
        (3.0, None),
    ),
    "vllm router: attempts that failed at no circuit were 408 or 429": (
        "vllm_router",
        False,
        (*VLLM, given_up(3.0), counter("router-retries", 3.0), outcomes("failure", 4.0), outcomes("success", 12.0)),
        (3.0, 1.0),
    ),
    "vllm router: no circuit tells anything": (
        "vllm_router",
        False,
        (*VLLM, given_up(3.0), counter("router-retries", 3.0)),
        (3.0, 0.0),
    ),
    "vllm router pair: only those without a pair are certain": (
        "vllm_router",
        True,
        (
            counter("router-pd-requests", 20.0),
            counter("router-pd-errors", 2.0, error_type="server_selection"),
            counter("router-pd-prefill-errors", 1.0, worker="p"),
            counter("router-pd-decode-errors", 3.0, worker="d"),
        ),
        (6.0, 2.0),
    ),
    "vllm router pair: no worker failed or refused": (
        "vllm_router",
        True,
        (counter("router-pd-requests", 20.0), counter("router-pd-errors", 2.0, error_type="server_selection")),
        (2.0, None),
    ),
}


def entry(made: ModelDeploymentMetrics, name: str) -> WindowEntry:
    assert not isinstance(made.traffic, type(UNSET))
    return next(each for each in made.traffic if each.name == name)


@pytest.mark.parametrize(("software", "pair", "values", "wanted"), CASES.values(), ids=CASES)
def test_failures_are_exact_or_say_what_is_certain(software, pair, values, wanted) -> None:
    engines = [Pods("p", "Prefill"), Pods("d", "Decode")] if pair else [Pods()]
    made = metrics_document(report(*engines, Pods("router", "Router", software).pod("router-0", *values)))
    assert isinstance(made, ModelDeploymentMetrics)
    failed, requests = entry(made, "failed-requests"), entry(made, "requests")
    most, least = wanted
    assert failed.samples == most
    if least is None:
        assert failed.at_least is UNSET
    else:
        assert failed.at_least == pytest.approx(least / failed.window_seconds)
    if most <= requests.samples:
        ratio = entry(made, "error-ratio")
        assert ratio.value == pytest.approx(most / requests.samples)
        assert ratio.at_least == (UNSET if least is None else pytest.approx(least / requests.samples))
