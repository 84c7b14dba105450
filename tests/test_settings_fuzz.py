"""Whatever a file holds, checking it answers with faults or nothing: it never fails and never takes long."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from observer.settings import check_files
from observer.yamldoc.faults import Fault

GOOD = """apiVersion: observer.modeldeployment.io/v1alpha1
kind: Fleet
defaults: {metricsPort: 8000, tls: {skipVerify: true}}
deployments:
- name: chat
  engine: &e {name: vllm, version: 0.11.0}
  roles:
  - {name: p, kind: Prefill, addresses: ["10.0.0.1:8000", "[fd00::7]:1"]}
  - name: d
    size: 2
    engine: *e
    replicas: [{members: [{address: h, kvEvents: "tcp://*:5557"}, {address: g, serves: false}]}]
  router: {name: sglang-gateway, members: [{address: "r:1", metricsPort: 29000}]}
---
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Settings
scrape: {period: 5s, timeout: 2s}
security: {allowCIDRs: [127.0.0.0/8]}
"""
SCRAPS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "\n",
    "  ",
    "*e",
    "&e ",
    "<<: ",
    "!!int ",
    "null",
    "~",
    "|",
    ">",
    "'",
    '"',
    "\t",
    "#",
    "---\n",
    "? ",
    ",",
    "é",
    "0x",
    "1e999",
    "-1",
    "5s",
    "@",
    "%",
]
edits = st.lists(
    st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.sampled_from(SCRAPS) | st.text(max_size=3)),
    min_size=1,
    max_size=4,
)


def check(data: bytes) -> list[Fault]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.yaml"
        path.write_bytes(data)
        return check_files([path])


def test_the_unedited_document_is_good() -> None:
    assert check(GOOD.encode()) == []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits)
def test_an_edited_document_gives_faults_with_places_or_none(changes: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for start, length, scrap in changes:
        text = text[:start] + scrap + text[start + length :]
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 2
    for fault in check(text.encode("utf-8", "surrogatepass")):
        assert str(fault)
        assert 0 <= fault.line <= lines


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_faults(data: bytes) -> None:
    assert check(data)
