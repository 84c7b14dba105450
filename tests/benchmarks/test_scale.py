"""How a scale run is judged, and the load it reads, without any process."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.measuring import Report
from benchmarks.peers import Sink, kept_series
from benchmarks.scale import judged, part_of
from benchmarks.target_server import Answers, asker
from benchmarks.watching import Bins
from observer.measure.exposition import Reader, Reading
from tests.fakes.transports import Heard

PARTS = ("steps", "lag", "late", "collections")


def sample(seconds: float, reads: int, **changed: Any) -> dict[str, Any]:
    quantiles = {"count": 100.0, "max": 5.0, "p50": 1.0, "p99": 2.0, "p999": 3.0}
    told = {"seconds": seconds, "cpu": seconds * 0.4, "resident": 500e6, "load": 1.0, "reads": reads}
    return told | {"failures": 0, "overruns": 0, "interval": dict.fromkeys(PARTS, quantiles)} | changed


def run_of(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    samples = [sample(10.0 * number, int(10_000 * 10 * number / 15)) for number in range(1, 31)]
    return [*samples[: len(samples) - len(changes)], *(samples[-1] | change for change in changes)]


@pytest.mark.parametrize(
    ("samples", "missed"),
    [
        pytest.param(run_of(), set(), id="all is well"),
        pytest.param(run_of({"reads": 150_000}), {"rounds not on time"}, id="reads are missing"),
        pytest.param(run_of({"failures": 9_000}), {"rounds not on time"}, id="reads failed"),
        pytest.param(run_of({"cpu": 240.0}), {"core at 15 s"}, id="too much of a core"),
        pytest.param(run_of(*[{"resident": 560e6}] * 10), {"growth"}, id="memory grows"),
        pytest.param(run_of(*[{"resident": 900e6}] * 30), {"memory"}, id="too much memory for each"),
    ],
)
def test_a_run_is_judged(samples: list[dict[str, Any]], missed: set[str]) -> None:
    report = Report("scale")
    judged(report, 10_000, 15.0, {"before": 90e6}, samples)
    found = {row["name"].partition(", ")[2] for row in report.rows if row["good"] is False}
    assert found == missed


def test_what_nothing_spent_is_no_quantile_above_the_longest() -> None:
    bins = Bins()
    assert bins.told()["p99"] == 0.0
    for milliseconds in range(1, 101):
        bins.add(milliseconds / 1e3)
    told = bins.told()
    assert told["p50"] == pytest.approx(50, abs=0.2)
    assert told["p99"] == pytest.approx(99, abs=0.2)
    assert told["max"] == 100.0
    bins.add(1e6)
    assert bins.told()["max"] == 1e9


def test_the_bodies_of_the_load_grow_in_one_life() -> None:
    answers, reader = (
        Answers(80_000),
        Reader(["vllm:request_success_total", "vllm:request_success", "process_start_time_seconds"]),
    )
    values = []
    for _ in range(2):
        body = answers.of(b"GET /metrics HTTP/1.1\r\nUser-Agent: x/1\r\n\r\n").partition(b"\r\n\r\n")[2]
        reading = reader.read(body.partition(b"\r\n")[2].removesuffix(b"\r\n0\r\n\r\n"))
        assert isinstance(reading, Reading)
        families = reading.shape.families
        start = families["process_start_time_seconds"].start
        counted = next(family.start for name, family in families.items() if name.startswith("vllm:request"))
        values.append((float(reading.values[start]), float(reading.values[counted])))
        answers.render()
    assert values[0][0] == values[1][0]
    assert values[0][1] < values[1][1]
    assert answers.asked == {"x": 2}
    assert answers.compressible == {"x": 0}


@pytest.mark.parametrize(
    ("request_bytes", "name"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nuser-agent: Prometheus/2.42.0\r\n\r\n", "Prometheus", id="with a version"),
        pytest.param(b"GET / HTTP/1.1\r\nUser-Agent: vm_promscrape\r\nA: b\r\n\r\n", "vm_promscrape", id="without"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "unknown", id="none"),
    ],
)
def test_who_asks(request_bytes: bytes, name: str) -> None:
    assert asker(request_bytes) == name


@pytest.mark.parametrize("cut", [1, 7, 40, 1000])
def test_the_sink_answers_each_request_however_it_is_cut(cut: int) -> None:
    data = b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789" * 3 + b"GET / HTTP/1.1\r\n\r\n"
    heard = Heard()
    sink = Sink()
    sink.connection_made(heard)
    for place in range(0, len(data), cut):
        sink.data_received(data[place : place + cut])
    assert heard.written.count(b"204 No Content") == 4


def test_the_same_series_are_kept() -> None:
    assert "vllm:time_to_first_token_seconds" in kept_series()
    assert kept_series().endswith("(_bucket|_sum|_count)?")


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        pytest.param(
            "run (a.py:1);_Loop._read (observer/collect/scrape.py:9);get (aiohttp)", "reading bodies", id="read"
        ),
        pytest.param(
            "run (a.py:1);_Loop._read (observer/collect/scrape.py:9);Store.on_body (observer/store.py:3)",
            "extracting",
            id="extracting is not reading",
        ),
        pytest.param("run (uvloop/__init__.py:1)", "the event loop", id="the loop itself"),
    ],
)
def test_whose_work_a_stack_is(stack: str, part: str) -> None:
    assert part_of(stack).startswith(part)
