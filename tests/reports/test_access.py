"""Cost, transport and access. Reports 61 to 72. Costs are bounds that a slow machine keeps, printed with their figure."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from exporters.families import FAMILIES
from exporters.prometheus import Format, Renderer
from exporters.self_metrics import SelfMetrics
from exporters.snapshot import snapshot
from observer.clock import SystemClock
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from observer.discover.static import static_uid
from observer.measure.exposition import Limits
from observer.measure.extract import Extractor, Frame
from observer.settings import load_files
from router_contract.catalog import TABLES
from router_contract.readings import FailureKind
from router_contract.targets import Address, Component, Tls
from tests.collect.conftest import LIMITS
from tests.fakes import hostile
from tests.fakes.authority import Authority
from tests.fakes.hostile import reply, serving
from tests.fleets import at, body, deployment, report, store, take
from tests.measure.compare import RECORDINGS
from tests.reports.rows import row

VLLM, SGLANG = (TABLES[Component.ENGINE][name] for name in ("vllm", "sglang"))
JUNK = b"# TYPE http_requests_total counter\n" + b"".join(
    b'http_requests_total{path="/scan/%d",code="404"} 1\n' % place for place in range(18_000)
)
FLEET = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\n"
SERIES_OF_ONE_DEPLOYMENT = 400
"""What a small deployment of two engines may cost whoever scrapes us."""


def frame(text: bytes, table: object = VLLM, **options: object) -> Frame:
    found = Extractor(table, **options).read(text)
    assert isinstance(found, Frame), found
    return found


@row(61, 63)
@pytest.mark.parametrize("where", ["before", "after", "around"])
def test_junk_costs_no_wanted_value(where: str) -> None:
    wanted = (RECORDINGS / "vllm-0.32.0/metrics-03-load.prom").read_bytes()
    text = {"before": JUNK + wanted, "after": wanted + JUNK, "around": JUNK + wanted + JUNK.replace(b"http_", b"web_")}
    found, clean = frame(text[where]), frame(wanted)
    assert found.signals() == clean.signals()
    assert found.samples_kept == clean.samples_kept, "what is not wanted is not kept"
    assert found.samples_dropped >= clean.samples_dropped + 18_000


@row(63)
def test_a_wanted_family_that_explodes_costs_only_itself() -> None:
    many = b"# TYPE vllm:num_requests_running gauge\n" + b"".join(
        b'vllm:num_requests_running{engine="%d"} 1\n' % place for place in range(3_000)
    )
    found = frame(
        many + body().split(b"# TYPE vllm:prompt", 1)[1].join([b"# TYPE vllm:prompt", b""]),
        limits=Limits(family_series=2_000),
    )
    assert found.series("requests-running") == ()
    assert [problem.kind for problem in found.problems if problem.family == "vllm:num_requests_running"] == ["TooLarge"]
    assert found.series("prompt-tokens")[0].value == 100.0


@row(62)
def test_reading_for_long_does_not_grow() -> None:
    of, kept = deployment("a"), store()
    kept.set_deployments((of,), at(0))

    def rounds(first: int, last: int) -> int:
        for place in range(first, last):
            take(kept, of, "a", body(tokens=place, counts=(place, place, place)), 5.0 * place)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        warm = rounds(0, 150)
        grown = rounds(150, 900) - warm
    finally:
        tracemalloc.stop()
    assert grown < 64_000, f"{grown} bytes more after 750 further reads"


@row(64)
def test_our_own_series_for_one_deployment_are_few_and_counted() -> None:
    of, kept = deployment("a", "b"), store()
    kept.set_deployments((of,), at(0))
    text = (RECORDINGS / "vllm-0.32.0/metrics-03-load.prom").read_bytes()
    for name in "ab":
        take(kept, of, name, text, 0.0)
        take(kept, of, name, text, 5.0)
    shown = report(kept, 5.0)
    tally = SelfMetrics("0", "3").registry
    made = Renderer(FAMILIES, tally).render(snapshot([shown], [each.status for each in shown.targets]), Format.TEXT)
    lines = [line for line in made.body.decode().splitlines() if line.startswith("modeldeployment_")]
    theirs = sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))
    assert 0 < len(lines) <= SERIES_OF_ONE_DEPLOYMENT, f"{len(lines)} series of ours for 2 x {theirs} of theirs"
    assert b"observer_exposed_series" in made.body


@row(66)
def test_fifty_thousand_series_are_read_and_rendered_within_a_bound() -> None:
    clock = SystemClock()
    text = b"".join(JUNK.replace(b"http_", b"h%d_" % number) for number in range(3)) + body()
    began = clock.now().mono
    found = frame(text)
    seconds = clock.now().mono - began
    assert found.series("requests-running")[0].value == 2.0
    assert seconds < 2.0, f"{seconds:.3f} s for {text.count(10)} lines"


@row(67)
async def test_an_https_engine_with_an_authority_of_its_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server(authority.issue("engine", names=("127.0.0.1",)))
    outcomes = {}
    async with Fetcher(SystemClock(), LIMITS) as fetcher, serving(reply(b"a 1\n"), tls=context) as server:
        for name, tls in {"ca": Tls(ca_file=authority.ca_file), "none": None, "skip": Tls(skip_verify=True)}.items():
            address = Address(scheme="https", host="127.0.0.1", port=server.port, tls=tls)
            outcomes[name] = await fetcher.fetch(address, 3.0)
    assert isinstance(outcomes["ca"], Fetched)
    assert isinstance(outcomes["skip"], Fetched)
    assert outcomes["none"].kind is FailureKind.TLS
    assert "tls.caFile" in outcomes["none"].detail


@row(68)
async def test_a_sidecar_refuses_and_the_metrics_port_may_be_another(tmp_path: Path) -> None:
    refuse = reply(b"upstream connect error", status="503 Service Unavailable")
    async with Fetcher(SystemClock(), LIMITS) as fetcher, serving(refuse) as sidecar:
        outcome = await fetcher.fetch(Address(host="127.0.0.1", port=sidecar.port), 3.0)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.status) == (FailureKind.HTTP, 503)
    file = tmp_path / "fleet.yaml"
    role = "{name: server, engine: vllm, addresses: ['10.0.0.1:8000'], metricsPort: 9100}"
    file.write_text(f"{FLEET}deployments:\n- name: chat\n  roles:\n  - {role}\n")
    (chat,) = load_files([file]).deployments
    (member,) = chat.roles[0].members()
    assert (member.metrics.port, member.api.port) == (9100, 8000)


@row(69)
async def test_ipv6_has_brackets_where_a_port_follows(tmp_path: Path) -> None:
    address = Address(host="fd00::7", port=8000)
    assert (address.authority, address.url) == ("[fd00::7]:8000", "http://[fd00::7]:8000/metrics")
    file = tmp_path / "fleet.yaml"
    file.write_text(
        f"{FLEET}deployments:\n- name: chat\n  roles:\n  - {{name: s, engine: vllm, addresses: ['[fd00::7]:8000']}}\n"
    )
    (target,) = load_files([file]).deployments[0].targets()
    assert (target.address.host, target.address.url) == ("fd00::7", "http://[fd00::7]:8000/metrics")


@row(70)
async def test_refused_and_no_answer_are_told_apart() -> None:
    async with Fetcher(SystemClock(), LIMITS) as fetcher:
        refused = await fetcher.fetch(Address(host="127.0.0.1", port=hostile.closed_port()), 0.3)
        with hostile.full_backlog() as port:
            silent = await fetcher.fetch(Address(host="127.0.0.1", port=port), 0.3)
    assert (refused.kind, silent.kind) == (FailureKind.REFUSED, FailureKind.TIMEOUT)
    assert "connect" in silent.detail, "and how far it came"


@row(71)
def test_times_failures_and_ages_are_exported() -> None:
    of, kept = deployment("a"), store()
    kept.set_deployments((of,), at(0))
    tally = SelfMetrics("0", "3")
    tally.scraped("engine", "Ok", 0.01, 100, 0.001)
    tally.scraped("engine", "Timeout", 2.0, 0, None)
    take(kept, of, "a", body(), 1.0)
    shown = report(kept, 9.0)
    shot = snapshot([shown], [each.status for each in shown.targets])
    text = Renderer(FAMILIES, tally.registry).render(shot, Format.TEXT).body.decode()
    for name in (
        "observer_scrape_duration_seconds_bucket",
        'observer_scrapes_total{result="Timeout",source="engine"} 1',
        "modeldeployment_endpoint_last_success_timestamp_seconds{",
    ):
        assert name in text, name
    assert shown.targets[0].status.age_seconds == 8.0


@row(72)
def test_two_observers_name_the_same_things_alike() -> None:
    texts = []
    for _ in range(2):
        of, kept = deployment("a"), store()
        kept.set_deployments((of,), at(0))
        take(kept, of, "a", body(), 0.0)
        shown = report(kept, 0.0)
        shot = snapshot([shown], [each.status for each in shown.targets])
        made = Renderer(FAMILIES, SelfMetrics("0", "3").registry).render(shot, Format.TEXT).body.decode()
        texts.append([line for line in made.splitlines() if line.startswith("modeldeployment_")])
    assert texts[0] == texts[1]
    labelled = [line for line in texts[0] if "{" in line]
    assert all('namespace="default"' in line and 'deployment="chat"' in line for line in labelled), labelled[:3]
    assert static_uid("ns", "d", "r", 0, 0, "h:1") == static_uid("ns", "d", "r", 0, 0, "h:1")
    assert static_uid("ns", "d", "r", 0, 0, "h:1") != static_uid("ns", "d", "r", None, 0, "h:1")
