"""Where engines say their publishers are, from their recorded answers; what media and hashes mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from router_contract.kv_media import Tier, equal_hashes, is_store_medium, signed_hashes, tier_of
from router_contract.kv_sources import from_sglang, from_vllm, tcp
from router_contract.targets import KvEventSource

RECORDINGS = Path(__file__).parents[1] / "recordings"


def test_vllm_names_one_publisher_a_rank():
    found = from_vllm((RECORDINGS / "vllm-0.32.0/kv_event_sources-dp2.json").read_bytes(), "10.0.0.7")
    assert found.problems == ()
    assert found.sources == (
        KvEventSource(endpoint="tcp://10.0.0.7:15557", replay_endpoint="tcp://10.0.0.7:15657", rank=0),
        KvEventSource(endpoint="tcp://10.0.0.7:15558", replay_endpoint="tcp://10.0.0.7:15658", rank=1),
    )


def test_vllm_topic_is_kept():
    found = from_vllm((RECORDINGS / "vllm-0.32.0/kv_event_sources.json").read_bytes(), "fd00::7")
    assert found.sources[0].topic == "kv@127.0.0.1:18100@tiny"
    assert found.sources[0].endpoint == "tcp://[fd00::7]:15557"


@pytest.mark.parametrize(
    ("endpoint", "dialable"),
    [
        ("tcp://*:5557", True),
        ("tcp://10.0.0.7:5557", True),
        ("tcp://127.0.0.1:5557", False),
        ("tcp://*:0", False),
        ("inproc://cache", False),
        ("ipc:///x", False),
        (None, False),
    ],
)
def test_a_publisher_that_connects_outwards_or_has_no_port_is_said_not_to_be_dialable(endpoint, dialable):
    body = {"0": {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": endpoint, "topic": ""}}
    found = from_vllm(json.dumps(body).encode(), "10.0.0.7")
    assert bool(found.sources) is dialable
    assert bool(found.problems) is not dialable


def test_a_disabled_publisher_is_none():
    body = {"0": {"enable_kv_cache_events": False, "publisher": "zmq", "endpoint": "tcp://*:5557"}}
    assert from_vllm(json.dumps(body).encode(), "h").sources == ()


def test_sglang_counts_ports_by_rank():
    body = {
        "kv_events": {
            "publisher": "zmq",
            "endpoint_host": "*",
            "endpoint_port_base": 5557,
            "topic": "t",
            "block_size": 16,
            "dp_size": 2,
            "replay_endpoint_port_base": 5657,
        }
    }
    found = from_sglang(json.dumps(body).encode(), "h")
    assert [(source.rank, source.endpoint, source.replay_endpoint) for source in found.sources] == [
        (0, "tcp://h:5557", "tcp://h:5657"),
        (1, "tcp://h:5558", "tcp://h:5658"),
    ]


def test_a_real_sglang_answer_is_read():
    found = from_sglang((RECORDINGS / "sglang-0.5.23/server_info.json").read_bytes(), "h")
    assert found.problems == ()
    assert all(source.endpoint.startswith("tcp://h:") for source in found.sources)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"0": 1}', b'{"kv_events": {"publisher": "zmq"}}'])
def test_an_answer_that_is_something_else_is_a_problem_or_nothing(body):
    assert from_vllm(body, "h").sources == ()
    assert from_sglang(body, "h").sources == ()


def test_addresses_of_both_families():
    assert tcp("10.0.0.1", 1) == "tcp://10.0.0.1:1"
    assert tcp("fd00::1", 1) == "tcp://[fd00::1]:1"


@pytest.mark.parametrize(
    ("engine", "medium", "disk", "store"),
    [
        ("vllm", "GPU", False, False),
        ("vllm", "CPU", False, False),
        ("vllm", "STORAGE", False, True),
        ("sglang", "CPU_PINNED", False, False),
        ("sglang", "EXTERNAL", False, True),
        ("sglang", "DISK", False, False),
        ("sglang", "DISK", True, True),
        ("other", "STORAGE", False, False),
    ],
)
def test_which_media_are_the_attached_store(engine, medium, disk, store):
    assert is_store_medium(engine, medium, pool_is_disk=disk) is store


@pytest.mark.parametrize(
    ("engine", "version", "seed", "equal"),
    [
        ("vllm", "0.32.0", None, True),
        ("vllm", "0.31.1", None, False),
        ("vllm", "0.31.1", "0", True),
        ("vllm", "0.31.1", "random", False),
        ("vllm", None, None, None),
        ("sglang", "0.5.23", None, None),
        ("other", "1.0", None, None),
    ],
)
def test_whether_members_hash_alike(engine, version, seed, equal):
    assert equal_hashes(engine, version, {"PYTHONHASHSEED": seed} if seed else {}) is equal


def test_tiers_and_signs():
    assert tier_of("vllm", "CPU") is Tier.HOST
    assert tier_of("vllm", "NVME") is None
    assert signed_hashes("sglang")
    assert not signed_hashes("vllm")
