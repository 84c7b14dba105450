"""Declared parallelism and load balancing by the engines' own argument rules."""

from __future__ import annotations

import pytest

from observer.judge.argv import parse_integer
from observer.judge.parallelism import disaggregated, engine_family, read_parallelism
from router_contract.targets import Role


def read(*arguments, engine="vLLM", environment=(), command=(), managed=True):
    role = Role(name="r", engine=engine, arguments=arguments, environment=environment, command=command)
    return read_parallelism(role, managed=managed)


VLLM = [
    pytest.param([], {}, id="nothing is defaulted"),
    pytest.param(["--tensor-parallel-size", "4"], {"tensorParallel": 4}, id="separate value"),
    pytest.param(["--tensor-parallel-size=4"], {"tensorParallel": 4}, id="inline value"),
    pytest.param(["-tp", "4"], {"tensorParallel": 4}, id="short spelling"),
    pytest.param(["-tp=4"], {"tensorParallel": 4}, id="short spelling inline"),
    pytest.param(["-t", "4"], {"tensorParallel": 4}, id="short abbreviation"),
    pytest.param(["--tensor_parallel_size", "4"], {"tensorParallel": 4}, id="underscores"),
    pytest.param(["--tensor-par", "4"], {"tensorParallel": 4}, id="unique prefix"),
    pytest.param(["--tensor-par=4"], {"tensorParallel": 4}, id="unique prefix inline"),
    pytest.param(["--data-parallel-s", "4"], {}, id="ambiguous prefix passes through"),
    pytest.param(["-tp", "2", "-tp", "4"], {"tensorParallel": 4}, id="last wins"),
    pytest.param(["-tp", "2", "--", "-tp", "4"], {"tensorParallel": 2}, id="a bare -- ends"),
    pytest.param(["-tp", "1"], {"tensorParallel": 1}, id="an explicit 1 is kept"),
    pytest.param(["-dpl", "0"], {"dataParallelLocal": 0}, id="an explicit local 0 is kept"),
    pytest.param(["-pp", "2", "-dp", "3"], {"pipelineParallel": 2, "dataParallel": 3}, id="several"),
    pytest.param(["-pcp", "2", "-dcp", "3"], {"prefillContextParallel": 2, "decodeContextParallel": 3}, id="context"),
    pytest.param(["-pc", "2"], {"prefillContextParallel": 2}, id="context abbreviation"),
    pytest.param(["-tp", " 4 "], {"tensorParallel": 4}, id="surrounding spaces"),
    pytest.param(["-tp", "+4"], {"tensorParallel": 4}, id="one sign"),
    pytest.param(["-tp", "1_0"], {"tensorParallel": 10}, id="inner underscore"),
    pytest.param(["--unknown", "-tp", "2"], {"tensorParallel": 2}, id="unknown flags pass through"),
    pytest.param(["positional", "--seed", "3", "-tp", "2"], {"tensorParallel": 2}, id="positional words pass through"),
    pytest.param(["-tp2"], {}, id="a glued multi-letter spelling is no option"),
]


@pytest.mark.parametrize(("arguments", "declared"), VLLM)
def test_vllm_degrees(arguments, declared):
    found = read(*arguments)
    assert dict(found.declared) == declared
    assert found.source.complete
    assert found.source.kind.value == "ExtraArgs"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(["-tp"], "-tp has no value", id="no value"),
        pytest.param(["-tp", "--headless"], "-tp has no value", id="a flag is no value"),
        pytest.param(["-tp", "--"], "-tp has no value", id="a bare -- is no value"),
        pytest.param(["-tp", "two"], "'two'", id="not an integer"),
        pytest.param(["-tp", ""], "''", id="empty"),
        pytest.param(["-tp", "2.0"], "'2.0'", id="a decimal"),
        pytest.param(["-tp", "0"], "at least 1", id="below minimum"),
        pytest.param(["-tp", "-1"], "'-1'", id="a negative number is consumed as the value"),
        pytest.param(["-dpl", "-1"], "at least 0", id="local below its minimum"),
        pytest.param(["-tp", "2147483648"], "32-bit", id="beyond int32"),
        pytest.param(["-t=2"], "Python version", id="abbreviation with ="),
        pytest.param(["-t2"], "Python version", id="glued abbreviation"),
        pytest.param(["-tp", "__2"], "'__2'", id="leading underscores"),
        pytest.param(["-tp", "x", "-tp", "2"], "'x'", id="an unreadable one before a good one"),
    ],
)
def test_a_stream_that_cannot_be_read_gives_nothing(arguments, named):
    found = read(*arguments)
    assert found.source.complete is False
    assert (found.source.kind.value, found.load_balance.value) == ("Unknown", "Unknown")
    assert named in found.source.unreadable_reason
    assert (found.declared, found.modes) == ((), ())


@pytest.mark.parametrize(
    ("arguments", "variable", "declared", "complete"),
    [
        pytest.param([], "4", {"dataParallel": 4}, True, id="read"),
        pytest.param(["-dp", "1"], "4", {"dataParallel": 4}, True, id="read beside an explicit 1"),
        pytest.param(["-dp", "2"], "4", {"dataParallel": 2}, True, id="not read beside more"),
        pytest.param(["-dpl", "0"], "4", {"dataParallelLocal": 0}, True, id="not read beside local 0"),
        pytest.param(["-dpl", "1"], "4", {"dataParallelLocal": 1, "dataParallel": 4}, True, id="read beside local 1"),
        pytest.param([], "four", {}, False, id="bad value"),
        pytest.param(["-dp", "2"], "four", {"dataParallel": 2}, True, id="bad value not read"),
    ],
)
def test_environment(arguments, variable, declared, complete):
    found = read(*arguments, environment=(("VLLM_DP_SIZE", variable),))
    assert (dict(found.declared), found.source.complete) == (declared, complete)
    if not complete:
        assert "VLLM_DP_SIZE" in found.source.unreadable_reason
        assert "'four'" in found.source.unreadable_reason


def test_environment_is_not_read_for_sglang():
    assert read(engine="SGLang", environment=(("VLLM_DP_SIZE", "4"),)).declared == ()


@pytest.mark.parametrize(
    ("arguments", "modes"),
    [
        pytest.param([], {}, id="absence is not false"),
        pytest.param(["--enable-expert-parallel"], {"expertParallel": True}, id="set"),
        pytest.param(["-ep"], {"expertParallel": True}, id="short"),
        pytest.param(["-e"], {"expertParallel": True}, id="abbreviation"),
        pytest.param(["--no-enable-expert-parallel"], {"expertParallel": False}, id="negated is an explicit false"),
        pytest.param(["-ep", "--no-enable-expert-parallel"], {"expertParallel": False}, id="last wins"),
        pytest.param(["--enable-expert-parallel=true"], {}, id="a mode with a value is ignored"),
    ],
)
def test_modes(arguments, modes):
    assert dict(read(*arguments).modes) == modes


@pytest.mark.parametrize(
    ("arguments", "declared", "modes"),
    [
        pytest.param(["--tp-size", "2", "--pp-size=3"], {"tensorParallel": 2, "pipelineParallel": 3}, {}, id="degrees"),
        pytest.param(["--tensor-parallel-size", "2"], {"tensorParallel": 2}, {}, id="second spelling"),
        pytest.param(["--dp", "2"], {"dataParallel": 2}, {}, id="unique prefix"),
        pytest.param(["--ep", "8"], {"expertParallel": 8}, {}, id="exact beats prefix"),
        pytest.param(
            ["--attn-cp-size", "2", "--moe-dp-size", "3", "--dwdp-size", "4", "--dcp-size", "5"],
            {"attentionContextParallel": 2, "moeDpSize": 3, "dwdpSize": 4, "decodeContextParallel": 5},
            {},
            id="the others",
        ),
        pytest.param(["--enable-dp-attention"], {}, {"dpAttention": True}, id="mode"),
        pytest.param(["--enable-prefill-cp"], {}, {"prefillContextParallel": True}, id="other mode"),
        pytest.param(["--no-enable-dp-attention"], {}, {}, id="this engine registers no negation"),
        pytest.param(["--tp_size", "2"], {}, {}, id="this engine takes no underscores"),
        pytest.param(["--t", "2"], {}, {}, id="ambiguous prefix"),
    ],
)
def test_sglang(arguments, declared, modes):
    found = read(*arguments, engine="sglang")
    assert (dict(found.declared), dict(found.modes)) == (declared, modes)
    assert found.load_balance.value == "Internal"


BALANCE = [
    pytest.param([], "Internal", id="no vote"),
    pytest.param(["-dpe"], "External", id="external"),
    pytest.param(["--data-parallel-external-lb"], "External", id="external long"),
    pytest.param(["--data-parallel-rank", "0"], "External", id="a rank"),
    pytest.param(["-dpn", "0"], "External", id="a rank, short"),
    pytest.param(["-dph"], "Hybrid", id="hybrid"),
    pytest.param(["-dpm"], "MultiPort", id="multi-port"),
    pytest.param(["-dpe", "-dph"], "Unknown", id="disagree"),
    pytest.param(["-dpe", "-dpr", "0"], "Unknown", id="a start rank beside external votes hybrid"),
    pytest.param(["-dph", "-dpl", "1", "-dp", "4"], "External", id="hybrid with local 1"),
    pytest.param(["-dph", "-dpl", "4", "-dp", "4"], "Internal", id="hybrid with all local"),
    pytest.param(["-dph", "-dpl", "2", "-dp", "4"], "Hybrid", id="hybrid with some local"),
    pytest.param(["-dpr", "0", "--headless"], "Internal", id="headless"),
    pytest.param(["-dpr", "0", "-dpl", "1", "-dp", "4"], "External", id="start rank, local 1"),
    pytest.param(["-dpr", "0", "-dpl", "2", "-dp", "4"], "Hybrid", id="start rank, local 2"),
    pytest.param(["-dpr", "0", "-dpl", "4", "-dp", "4"], "Internal", id="start rank, all local"),
    pytest.param(["-dpr", "0", "-dp", "4"], "Internal", id="start rank, local not given, one node"),
    pytest.param(["-dpr", "0", "-dp", "4", "--nnodes", "1"], "Internal", id="nnodes 1"),
    pytest.param(["-dpr", "0", "-dp", "4", "-n2"], "Unknown", id="glued nnodes 2"),
    pytest.param(["-dpr", "0", "-dp", "4", "--nnodes", "x"], "Unknown", id="unreadable nnodes"),
    pytest.param(["-dpe=1"], "Internal", id="a flag with a value is ignored"),
    pytest.param(["--no-data-parallel-external-lb"], "Internal", id="a negated flag casts no vote"),
]


@pytest.mark.parametrize(("arguments", "expected"), BALANCE)
def test_load_balance(arguments, expected):
    found = read(*arguments)
    assert found.load_balance.value == expected
    assert found.source.complete
    assert bool(found.source.unreadable_reason) is (expected == "Unknown")


def test_flags_that_disagree_are_named():
    reason = read("-dpe", "--data-parallel-hybrid-lb").source.unreadable_reason
    assert "-dpe" in reason
    assert "--data-parallel-hybrid-lb" in reason


def test_a_replaced_command_is_not_read():
    found = read("-tp", "2", command=("serve", "-tp", "2"))
    assert (found.source.kind.value, found.source.complete, found.source.unreadable_reason) == (
        "Unknown",
        False,
        "Unmanaged",
    )
    assert (found.declared, found.modes, found.load_balance.value) == ((), (), "Unknown")


def test_elsewhere_the_deployed_command_is_what_is_read():
    found = read("-tp", "2", command=("vllm", "serve"), managed=False)
    assert (found.source.kind.value, dict(found.declared)) == ("Command", {"tensorParallel": 2})


def test_elsewhere_no_arguments_is_no_reading():
    found = read(managed=False)
    assert (found.source.complete, found.load_balance.value) == (False, "Unknown")


def test_an_engine_without_a_table_is_unknown():
    assert read(engine="other").source.complete is False


def test_engine_names_in_any_case():
    assert [engine_family(name) for name in ("vLLM", "vllm-ascend", "SGLang", "TGI")] == [
        "vllm",
        "vllm",
        "sglang",
        "tgi",
    ]


def test_ranks_seen_stand_beside_the_declared():
    role = Role(name="r", engine="vllm", arguments=("-dp", "2"))
    found = read_parallelism(role, managed=True, ranks_seen=3)
    assert (found.degree("dataParallel"), found.degree("tensorParallel"), found.ranks_seen) == (2, None, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("-0", 0), ("١", None), ("1__0", None), ("1_", None), ("0x1", None), ("9" * 65, None), ("\t3\n", 3)],
)
def test_integers(text, value):
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    ("engine", "arguments", "expected"),
    [
        ("vllm", ("-dpe",), True),
        ("vllm", ("-dph",), True),
        ("vllm", ("-dp", "2"), False),
        ("sglang", ("--disaggregation-mode", "prefill"), True),
        ("sglang", ("--disaggregation-mode=decode",), True),
        ("sglang", ("--disaggregation-mode", "null"), False),
        ("sglang", (), False),
    ],
)
def test_disaggregated_commands(engine, arguments, expected):
    assert disaggregated(Role(name="r", engine=engine, arguments=arguments)) is expected
