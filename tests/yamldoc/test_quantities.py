from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.yamldoc.faults import Fault, did_you_mean, shown
from observer.yamldoc.quantities import (
    parse_duration,
    parse_host_port,
    parse_listen,
    parse_network,
    parse_size,
    show_duration,
    show_size,
)

DURATIONS = {"5s": 5.0, "250ms": 0.25, "2m": 120.0, "1h": 3600.0, "1m30s": 90.0, "1.5s": 1.5, "0s": 0.0}


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5S", "1e3s", "5s ", "5sx", "٥s", "inf", "9" * 400 + "h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(0, 10_000_000))
def test_a_shown_duration_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds)


@given(st.integers(0, 1 << 50))
def test_a_shown_size_reads_back(size: int) -> None:
    assert parse_size(show_size(size)) == size


@pytest.mark.parametrize("text", ["", "1MB", "1.5MiB", "-1", "MiB", "1 MiB", "9" * 40])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


HOSTS = {
    "pod": ("pod", None),
    "pod.ns.svc:8000": ("pod.ns.svc", 8000),
    "10.0.0.1:1": ("10.0.0.1", 1),
    "fd00::7": ("fd00::7", None),
    "[fd00::7]": ("fd00::7", None),
    "[fd00::7]:65535": ("fd00::7", 65535),
    "[fe80::1%eth0]:80": ("fe80::1%eth0", 80),
}


@pytest.mark.parametrize(("text", "wanted"), HOSTS.items())
def test_hosts_and_ports(text: str, wanted: tuple[str, int | None]) -> None:
    assert parse_host_port(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":80",
        "h:",
        "h:0",
        "h:65536",
        "h:x",
        "h:+1",
        "h:٣",
        "[::1",
        "[::1]80",
        "[h]:1",
        "1.2.3:4",
        "1.2.3.400",
        "a b",
        "-a",
        "fd00::7::1",
        "h/x",
    ],
)
def test_what_is_no_host_and_port(text: str) -> None:
    with pytest.raises(ValueError):
        parse_host_port(text)


@pytest.mark.parametrize(
    ("text", "good"), [("127.0.0.1:0", True), ("[::1]:9480", True), ("h", False), ("h:70000", False), (":80", False)]
)
def test_listeners(text: str, good: bool) -> None:
    if good:
        assert parse_listen(text) == text
    else:
        with pytest.raises(ValueError):
            parse_listen(text)


def test_networks_are_canonical() -> None:
    assert parse_network("10.1.2.3") == "10.1.2.3/32"
    with pytest.raises(ValueError):
        parse_network("10.1.2.3/8")


def test_a_fault_reads_as_one_sentence() -> None:
    fault = Fault(file="f.yaml", line=3, column=7, path="a.b", found='"x"', wanted="text", hint="Write text.")
    assert str(fault) == 'f.yaml:3:7: a.b: found "x", wanted text. Write text.'


def test_found_values_are_cut_and_escaped() -> None:
    assert shown("a\nb\x1b") == '"a\\nb\\x1b"'
    assert len(shown("x" * 500)) == 62


@pytest.mark.parametrize(("word", "wanted"), [("perod", '"period"'), ("metrics_port", '"metricsPort"'), ("zzz", "")])
def test_did_you_mean(word: str, wanted: str) -> None:
    assert wanted in did_you_mean(word, ["period", "metricsPort", "timeout"])
    assert bool(did_you_mean(word, ["period", "metricsPort", "timeout"])) is bool(wanted)
