"""What a metric means: ranks, processes, renames, gauges. Reports 23 to 47."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from exporters.canary_families import canary_families
from exporters.document import metrics_document
from exporters.families import FAMILIES
from exporters.kv_families import kv_families
from observer.measure.extract import Extractor, Frame, combine
from observer.measure.lines import ProblemKind
from router_contract.catalog import TABLES
from router_contract.readings import MissingCode, Series
from router_contract.signals import SIGNALS
from router_contract.targets import Component, StoreDeclaration
from tests.fleets import at, body, deployment, member, report, store, take
from tests.measure.compare import RECORDINGS
from tests.measure.test_extract import c, g
from tests.reports.rows import row

VLLM, SGLANG = (TABLES[Component.ENGINE][name] for name in ("vllm", "sglang"))
GATEWAY = TABLES[Component.ROUTER]["sglang_gateway"]
DASHBOARDS = Path(__file__).parents[2] / "dashboards"


def frame(text: bytes, table: object = VLLM, **options: object) -> Frame:
    found = Extractor(table, **options).read(text)
    assert isinstance(found, Frame), found
    return found


def whole(found: Frame, signal: str, weights: object = None) -> float | None:
    return combine(found.series(signal), SIGNALS[signal], weights)


def numbers(found: Frame, signal: str) -> list[float]:
    return [each.value for each in found.series(signal)]


RUNNING = g("vllm:num_requests_running", '{engine="0"} 1', '{engine="1"} 9')
USAGE = g("vllm:kv_cache_usage_perc", '{engine="0"} 0.2', '{engine="1"} 0.8')


@row(23, 24)
def test_ranks_add_as_counts_and_not_as_ratios() -> None:
    found = frame(RUNNING + USAGE)
    assert (whole(found, "requests-running"), max(numbers(found, "requests-running"))) == (10.0, 9.0)
    assert whole(found, "kv-cache-usage") == pytest.approx(0.5)
    by_blocks = {(("rank", "0"),): 3.0, (("rank", "1"),): 1.0}
    assert whole(found, "kv-cache-usage", by_blocks) == pytest.approx(0.35)
    assert len(found.series("kv-cache-usage")) == 2, "and each rank stands for itself too"


@row(24)
def test_histograms_of_ranks_merge() -> None:
    of, kept = deployment("a"), store()
    kept.set_deployments((of,), at(0))
    lines = body().decode().replace('engine="0"', 'engine="1"').splitlines()
    more = "\n".join(line for line in lines if "time_to_first" in line and line[0] != "#") + "\n"
    take(kept, of, "a", body(more=more), 0.0)
    (merged,) = report(kept, 0.0).targets[0].merged
    assert (merged.signal, merged.value, merged.histogram.counts) == ("time-to-first-token", 6.0, (2.0, 4.0, 6.0))


@row(25)
def test_four_copies_of_a_tensor_parallel_counter_are_one() -> None:
    name = "sglang:prompt_tokens_total"
    copies = c(name, *(f'{{tp_rank="{rank}"}} 70' for rank in range(4)))
    assert whole(frame(copies, SGLANG), "prompt-tokens") == 70.0
    with_data = c(name, *(f'{{dp_rank="{dp}",tp_rank="{tp}"}} {10 + dp}' for dp in range(2) for tp in range(2)))
    assert whole(frame(with_data, SGLANG), "prompt-tokens") == 21.0
    (value,) = frame(copies, SGLANG).series("prompt-tokens")
    assert value.source == name, "the number and its name are of the same series"


@row(27)
def test_eight_processes_of_which_seven_say_zero() -> None:
    names = "abcdefgh"
    text = g("vllm:kv_cache_usage_perc", *(f'{{pid="{pid}"}} {0.65 if pid == "b" else 0}' for pid in names))
    assert numbers(frame(text), "kv-cache-usage") == [0.65]


OLD, NEW = g("vllm:gpu_cache_usage_perc", " 0.4"), g("vllm:kv_cache_usage_perc", " 0.4")


@row(28)
@pytest.mark.parametrize("version", [None, "0.10.2"])
@pytest.mark.parametrize("text", [OLD, NEW, OLD + NEW, NEW + OLD], ids=["old", "new", "both", "both, new first"])
def test_either_name_and_never_both(text: bytes, version: str | None) -> None:
    found = frame(text, version=version)
    assert numbers(found, "kv-cache-usage") == [0.4]
    assert found.series("kv-cache-usage")[0].source == (
        "vllm:kv_cache_usage_perc" if b"vllm:kv_" in text else "vllm:gpu_cache_usage_perc"
    )


@row(28)
def test_a_removed_name_of_a_later_version_is_not_taken() -> None:
    assert frame(OLD, version="0.32.0").missing("kv-cache-usage") is MissingCode.ABSENT


@row(29)
def test_every_name_of_a_dashboard_is_exported() -> None:
    source = type("Nothing", (), {})()
    known = {each.name for each in (*FAMILIES, *kv_families(source), *canary_families(source))}
    known |= set(
        re.findall(r'"(observer_[a-z_]+)"', (DASHBOARDS.parent / "exporters" / "self_metrics.py").read_text("utf-8"))
    )
    endings = ("", "_bucket", "_count", "_sum", "_total")
    texts: list[str] = []
    for file in sorted((DASHBOARDS / "grafana").glob("*.json")):
        texts += re.findall(r'"(?:expr|query)": "((?:[^"\\]|\\.)*)"', file.read_text("utf-8"))
    rules = (DASHBOARDS / "rules" / "observer.rules.yaml").read_text("utf-8")
    recorded = set(re.findall(r"record: (\S+)", rules))
    used = {name for text in texts for name in re.findall(r"\b((?:modeldeployment|observer)_[a-z_]+)\b(?!=|~)", text)}
    known |= recorded
    assert len(used) > 30
    assert {name for name in used if not any(name == one + end for one in known for end in endings)} == set()


@row(30)
def test_what_a_version_dropped_is_not_expected_of_it() -> None:
    found = frame(RUNNING, version="0.11.1")
    assert not [signal for signal in (*found.absent, *found.signals()) if "swap" in signal]
    assert frame(RUNNING + g("vllm:num_requests_swapped", " 1")).unknown_families == (), "and known where it is"


@row(31)
def test_a_router_renamed_as_a_whole_is_read() -> None:
    old, new = (
        g("sgl_router_running_requests", '{worker="http://10.0.0.1:8000"} 4'),
        g("smg_worker_requests_active", '{worker="http://10.0.0.1:8000"} 4'),
    )
    for text in (old, new, old + new):
        assert whole(frame(text, GATEWAY), "router-requests-running") == 4.0
    missing = frame(new, GATEWAY).absent
    assert "router-worker-health" in missing, "and what is not among them is named"


@row(32)
def test_forty_and_forty_percent_are_forty_percent() -> None:
    series = [Series(labels=(("rank", str(rank)),), value=0.4) for rank in range(2)]
    assert combine(series, SIGNALS["kv-cache-usage"], None) == pytest.approx(0.4)
    of, kept = deployment("a", "b"), store()
    kept.set_deployments((of,), at(0))
    for name in "ab":
        take(kept, of, name, body(more=g("vllm:kv_cache_usage_perc", '{engine="0"} 0.4').decode()), 0.0)
    gauges = msgspec.to_builtins(metrics_document(report(kept, 0.0)))
    told = json.dumps(gauges)
    assert "0.8" not in re.findall(r'"value": "?([0-9.]+)', told)


CACHE = g(
    "vllm:cache_config_info", '{engine="0",block_size="784",num_gpu_blocks="120",enable_prefix_caching="True"} 1'
) + g("vllm:kv_cache_usage_perc", '{engine="0"} 0')


@row(35, 37)
def test_the_block_size_stands_beside_the_ratio_and_the_usage() -> None:
    """Hits of 0 are right when no shared prefix fills a block; a usage of 0 with work may be right in large blocks."""
    text = (
        CACHE
        + c("vllm:prefix_cache_queries_total", '{engine="0"} 500')
        + c("vllm:prefix_cache_hits_total", '{engine="0"} 0')
    )
    of, kept = deployment("a"), store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(more=text.decode()), 0.0)
    values = {value.signal: value.value for value in report(kept, 0.0).targets[0].values}
    assert (values["kv-block-size"], values["kv-capacity-blocks"]) == (784.0, 120.0)
    assert (values["prefix-cache-hits"], values["kv-cache-usage"], values["requests-running"]) == (0.0, 0.0, 2.0)


@row(38)
def test_the_throughput_of_an_idle_engine_is_what_its_counters_say() -> None:
    of, kept = deployment("a", software="sglang"), store()
    kept.set_deployments((of,), at(0))
    text = g("sglang:gen_throughput", " 812") + c("sglang:generation_tokens_total", " 5000")
    for moment in (0.0, 5.0):
        take(kept, of, "a", text, moment)
    shown = report(kept, 5.0).targets[0]
    (tokens,) = shown.of("generation-tokens")
    assert tokens.window is not None
    assert tokens.window.per_second == 0.0
    assert not [value for value in shown.values if value.value == 812.0], "the gauge is nobody's value"


@row(40)
def test_half_a_body_gives_its_half() -> None:
    text = (RECORDINGS / "sglang-0.5.23/metrics-03-load.prom").read_bytes()
    lines = text.splitlines(keepends=True)
    full, half = frame(text, SGLANG), frame(b"".join(lines[: len(lines) // 2]), SGLANG)
    assert half.signals()
    assert set(half.signals()) < set(full.signals())
    for signal in set(full.signals()) - set(half.signals()):
        assert half.missing(signal) is not None
    kept = [signal for signal in half.signals() if half.missing(signal) is None]
    assert all(half.series(signal) for signal in kept)


@row(41)
def test_a_store_that_is_not_configured_is_absent_with_a_reason() -> None:
    found = frame(RUNNING, TABLES[Component.STORE]["lmcache"])
    assert found.missing("store-allocated-bytes") is MissingCode.ABSENT
    declared = StoreDeclaration(name="kv", software="lmcache", members=(member("kv", 9000),))
    of, kept = deployment("a", stores=(declared,)), store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "kv", RUNNING, 0.0)
    take(kept, of, "a", body(), 0.0)
    codes = {value.missing for each in report(kept, 0.0).targets if each.status.member == "kv" for value in each.values}
    assert codes <= {MissingCode.ABSENT, MissingCode.COUNTER_NOT_YET}
    assert len(report(kept, 0.0).targets[0].values) > 5, "the engine's values do not suffer"


@row(43)
@pytest.mark.parametrize(
    ("lines", "value", "kind"),
    [
        ((" 3", " 3"), 3.0, ProblemKind.DUPLICATES_FOLDED),
        ((" 3", " 4"), None, ProblemKind.UNEQUAL_DUPLICATES),
        (('{engine="0",engine="0"} 3',), None, ProblemKind.MALFORMED),
    ],
    ids=["equal", "unequal", "a label twice"],
)
def test_duplicates(lines: tuple[str, ...], value: float | None, kind: ProblemKind) -> None:
    found = frame(g("vllm:num_requests_running", *lines) + NEW)
    assert whole(found, "requests-running") == value
    assert kind in {problem.kind for problem in found.problems}
    assert numbers(found, "kv-cache-usage") == [0.4], "the other families are read"
    if value is None:
        assert found.missing("requests-running") is MissingCode.UNREADABLE


@row(47)
def test_a_selector_that_matches_nothing_is_said_and_is_no_zero() -> None:
    text = g("vllm:num_requests_running", '{model_name="a-suffix"} 1', '{model_name="b-suffix"} 2')
    found = frame(text, model="a")
    assert found.missing("requests-running") is MissingCode.ABSENT
    assert [problem.kind for problem in found.problems] == [ProblemKind.MODEL_NOT_FOUND]
    assert "a-suffix" in found.problems[0].detail, "and what is there is named"
