"""The options of each engine that declare parallelism or wire it: data only."""

from __future__ import annotations

from observer.judge.argv import Option

TENSOR = "tensorParallel"
PIPELINE = "pipelineParallel"
DATA = "dataParallel"
DATA_LOCAL = "dataParallelLocal"
PREFILL_CONTEXT = "prefillContextParallel"
DECODE_CONTEXT = "decodeContextParallel"
EXPERT = "expertParallel"
ATTENTION_CONTEXT = "attentionContextParallel"
MOE_DATA = "moeDpSize"
DWDP = "dwdpSize"

DEGREES = (
    TENSOR,
    PIPELINE,
    DATA,
    DATA_LOCAL,
    PREFILL_CONTEXT,
    DECODE_CONTEXT,
    EXPERT,
    ATTENTION_CONTEXT,
    MOE_DATA,
    DWDP,
)
"""The declared degrees that are shown, in this order."""

MODE_EXPERT = "mode:expertParallel"
MODE_DP_ATTENTION = "mode:dpAttention"
MODE_PREFILL_CONTEXT = "mode:prefillContextParallel"

EXTERNAL = "externalLb"
HYBRID = "hybridLb"
MULTI_PORT = "multiPortLb"
RANK = "rank"
START_RANK = "startRank"
NODES = "nnodes"
HEADLESS = "headless"

VLLM = (
    Option(TENSOR, ("--tensor-parallel-size", "-tp"), minimum=1, abbreviations=("-t",)),
    Option(PIPELINE, ("--pipeline-parallel-size", "-pp"), minimum=1),
    Option(DATA, ("--data-parallel-size", "-dp"), minimum=1),
    Option(DATA_LOCAL, ("--data-parallel-size-local", "-dpl"), minimum=0),
    Option("elasticMax", ("--elastic-ep-max-dp-size",), minimum=1),
    Option(PREFILL_CONTEXT, ("--prefill-context-parallel-size", "-pcp"), minimum=1, abbreviations=("-pc",)),
    Option(DECODE_CONTEXT, ("--decode-context-parallel-size", "-dcp"), minimum=1),
    Option(
        MODE_EXPERT,
        ("--enable-expert-parallel", "-ep"),
        takes_value=False,
        abbreviations=("-e",),
        negatable=True,
    ),
    Option(NODES, ("--nnodes", "-n")),
    Option("nodeRank", ("--node-rank", "-r")),
    Option("masterAddr", ("--master-addr",)),
    Option("masterPort", ("--master-port",)),
    Option(RANK, ("--data-parallel-rank", "-dpn")),
    Option(START_RANK, ("--data-parallel-start-rank", "-dpr")),
    Option("dataAddress", ("--data-parallel-address", "-dpa")),
    Option("dataRpcPort", ("--data-parallel-rpc-port", "-dpp")),
    Option("dataBackend", ("--data-parallel-backend", "-dpb")),
    Option(HEADLESS, ("--headless",), takes_value=False),
    Option(HYBRID, ("--data-parallel-hybrid-lb", "-dph"), takes_value=False, negatable=True),
    Option(EXTERNAL, ("--data-parallel-external-lb", "-dpe"), takes_value=False, negatable=True),
    Option(MULTI_PORT, ("--data-parallel-multi-port-external-lb", "-dpm"), takes_value=False, negatable=True),
)

SGLANG = (
    Option(TENSOR, ("--tp-size", "--tensor-parallel-size"), minimum=1),
    Option(PIPELINE, ("--pp-size", "--pipeline-parallel-size"), minimum=1),
    Option(DATA, ("--dp-size", "--data-parallel-size"), minimum=1),
    Option(EXPERT, ("--ep-size", "--expert-parallel-size", "--ep"), minimum=1),
    Option(DECODE_CONTEXT, ("--dcp-size", "--decode-context-parallel-size"), minimum=1),
    Option(ATTENTION_CONTEXT, ("--attn-cp-size", "--attention-context-parallel-size"), minimum=1),
    Option(MOE_DATA, ("--moe-dp-size", "--moe-data-parallel-size"), minimum=1),
    Option(DWDP, ("--dwdp-size",), minimum=1),
    Option(MODE_DP_ATTENTION, ("--enable-dp-attention",), takes_value=False),
    Option(MODE_PREFILL_CONTEXT, ("--enable-prefill-cp",), takes_value=False),
    Option(NODES, ("--nnodes",)),
    Option("nodeRank", ("--node-rank",)),
    Option("distInit", ("--dist-init-addr", "--nccl-init-addr")),
)

VOTES = (EXTERNAL, HYBRID, MULTI_PORT, RANK)
"""The options that vote for a load-balancing mode."""

DP_SIZE_VARIABLE = "VLLM_DP_SIZE"
"""The one environment variable that an engine reads as a degree."""

DISAGGREGATION = Option("disaggregation", ("--disaggregation-mode",))
"""SGLang's option that makes an engine one half of a pair."""
