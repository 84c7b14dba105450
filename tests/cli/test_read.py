"""The verb ``read``: exactly the published form, from every kind of input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from observer.cli import main
from router_contract.signals import SIGNALS

BODY = """\
# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} NaN
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"} 1
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1.25
# TYPE vllm:brand_new_total counter
vllm:brand_new_total{engine="0"} 1
"""


def read(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(("read", *arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def body(tmp_path: Path) -> str:
    file = tmp_path / "metrics.prom"
    file.write_text(BODY)
    return str(file)


UNUSABLE = {
    "below zero": ('vllm:num_requests_running{engine="0",model_name="m"} -3\n', "requests-running", "NotFinite"),
    "a huge counter": ('vllm:prompt_tokens_total{engine="0"} 1e308\n', "prompt-tokens", "NotFinite"),
    "a histogram that says it is a gauge": (
        (
            "# TYPE vllm:time_to_first_token_seconds gauge\n"
            'vllm:time_to_first_token_seconds_bucket{le="+Inf"} 2\nvllm:time_to_first_token_seconds_count 2\n'
        ),
        "time-to-first-token",
        "Unreadable",
    ),
    "a label past the limit": (
        f'vllm:num_requests_running{{engine="0",model_name="{"m" * 60_000}"}} 3\n',
        "requests-running",
        "Unreadable",
    ),
    "not a number": ('vllm:num_requests_running{engine="0",model_name="m"} NaN\n', "requests-running", "NotFinite"),
    "infinite": ('vllm:num_requests_running{engine="0",model_name="m"} +Inf\n', "requests-running", "NotFinite"),
    "two values of one series": (
        'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="0"} 3\n',
        "requests-running",
        "Unreadable",
    ),
    "buckets that fall": (
        (
            "# TYPE vllm:time_to_first_token_seconds histogram\n"
            'vllm:time_to_first_token_seconds_bucket{le="1"} 3\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 2\n'
            "vllm:time_to_first_token_seconds_count 2\nvllm:time_to_first_token_seconds_sum 1\n"
        ),
        "time-to-first-token",
        "Unreadable",
    ),
}


@pytest.mark.parametrize(("text", "signal", "state"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_signal_that_is_there_and_cannot_be_used_is_said(
    tmp_path: Path, capsys, text: str, signal: str, state: str
) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text(text + 'vllm:num_requests_waiting{engine="0"} 1\n')
    code, out, _ = read(capsys, str(file), "--engine", "vllm", "--version", "0.32.0", "-o", "json")
    made = json.loads(out)
    assert code == 0
    assert {(entry["value"], entry["state"]) for entry in made["signals"][signal]} == {(None, state)}
    assert signal not in made["absent"]
    assert made["signals"]["requests-waiting"][0]["value"] == 1.0


def test_one_rank_without_a_number_stands_beside_the_others(body: str, capsys) -> None:
    _, out, _ = read(capsys, body, "--engine", "vllm", "--version", "0.32.0", "-o", "json")
    entries = json.loads(out)["signals"]["requests-running"]
    assert [(entry["labels"]["rank"], entry["value"], entry["state"]) for entry in entries] == [
        ("0", 3.0, "Fresh"),
        ("1", None, "NotFinite"),
    ]


def test_a_family_without_a_type_line_is_unknown_too(tmp_path: Path, capsys) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text("vllm:brand_new 3\nvllm:num_requests_waiting 1\nother_thing 2\n")
    _, out, _ = read(capsys, str(file), "--engine", "vllm", "-o", "json")
    assert json.loads(out)["unknown"] == ["vllm:brand_new"]


def test_the_published_form(body: str, capsys) -> None:
    code, out, _ = read(capsys, body, "--engine", "VLLM", "--version", "0.32.0", "-o", "json")
    made = json.loads(out)
    assert code == 0
    assert list(made) == ["vocabulary", "version", "signals", "absent", "unknown"]
    assert (made["vocabulary"], made["version"], made["unknown"]) == ("vllm", "0.32.0", ["vllm:brand_new_total"])
    assert made["signals"]["requests-running"][0] == {
        "value": 3.0,
        "unit": "requests",
        "labels": {"model": "m", "rank": "0"},
        "state": "Fresh",
    }
    assert made["signals"]["time-to-first-token"] == [
        {
            "value": {"count": 2.0, "sum": 1.25, "buckets": [[0.5, 1.0], ["+Inf", 2.0]]},
            "unit": "seconds",
            "labels": {"model": "m", "rank": "0"},
            "state": "Fresh",
        }
    ]
    assert "requests-waiting" in made["absent"]
    assert not set(made["absent"]) & set(made["signals"])
    assert set(made["absent"]) | set(made["signals"]) <= set(SIGNALS)


def test_a_number_that_is_none_is_never_shown_as_one(body: str, capsys) -> None:
    _, out, _ = read(capsys, body, "--engine", "vllm", "-o", "json")
    values = {entry["labels"]["rank"]: entry["value"] for entry in json.loads(out)["signals"]["requests-running"]}
    assert values.get("1") is None
    assert values["0"] == 3.0


def test_a_table_for_people(body: str, capsys) -> None:
    code, out, _ = read(capsys, body, "--engine", "vllm")
    assert code == 0
    assert "requests-running" in out
    assert "n=2 mean=0.625" in out
    assert "1 families unknown" in out
    assert "vllm:brand_new_total" in read(capsys, body, "--engine", "vllm", "-o", "wide")[1]


def test_standard_input(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY.encode())))
    code, out, _ = read(capsys, "-", "--engine", "vllm", "-o", "json")
    assert (code, json.loads(out)["vocabulary"]) == (0, "vllm")


FAULTS = {
    "no program": ((), 2, "want one of --engine NAME, --router NAME, --store NAME"),
    "two programs": (("--engine", "vllm", "--store", "lmcache"), 2, "want one of"),
    "unknown program": (("--engine", "vlm"), 2, "unknown engine 'vlm'; known: "),
    "engine as router": (("--router", "vllm"), 2, "unknown router 'vllm'"),
}


@pytest.mark.parametrize(("arguments", "code", "part"), FAULTS.values(), ids=FAULTS)
def test_faults_in_the_command(body: str, capsys, arguments: tuple[str, ...], code: int, part: str) -> None:
    got, out, err = read(capsys, body, *arguments)
    assert (got, out) == (code, "")
    assert part in err


@pytest.mark.parametrize("text", ["", "<html></html>", '{"a": 1}'])
def test_what_is_no_exposition(tmp_path: Path, capsys, text: str) -> None:
    file = tmp_path / "body"
    file.write_text(text)
    code, out, err = read(capsys, str(file), "--engine", "vllm", "-o", "json")
    assert (code, out) == (1, "")
    assert f"{file} is not an exposition that can be read: NotExposition" in err


def test_no_file(tmp_path: Path, capsys) -> None:
    code, _, err = read(capsys, str(tmp_path / "none"), "--engine", "vllm")
    assert code == 2
    assert "none cannot be read: No such file" in err


def test_torn_counts_are_said_with_a_line(tmp_path: Path, capsys) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text(UNUSABLE["buckets that fall"][0])
    _, _, err = read(capsys, str(file), "--engine", "vllm", "--version", "0.32.0")
    assert f"{file}:2: vllm:time_to_first_token_seconds: Torn: bucket counts fall" in err


FOREIGN = {
    "another program's": (BODY, "no family of this file belongs to sglang_gateway; it looks like vllm (--engine vllm)"),
    "nobody's": ("my_own_metric 1\n", "belongs to sglang_gateway, nor to any other program that is known"),
    "a file of its own": ("smg_worker_pool_size 1\n", ""),
}


@pytest.mark.parametrize(("text", "wanted"), FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_program_is_said_to_be_one(tmp_path: Path, capsys, text: str, wanted: str) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text(text)
    code, _, err = read(capsys, str(file), "--router", "sglang-gateway")
    assert code == 0
    assert wanted in err


def test_a_version_that_is_none_is_refused(body: str, capsys) -> None:
    code, out, err = read(capsys, body, "--engine", "vllm", "--version", "banana")
    assert (code, out) == (2, "")
    assert "--version is 'banana'; want one that begins with a number" in err
