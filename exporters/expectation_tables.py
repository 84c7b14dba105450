"""The tables of what a `ModelDeploymentMetrics` document shows: entries, cache tiers, and how routers count requests.

Data only; `exporters.expectations` says what a row means.
"""

from __future__ import annotations

from exporters.expectations import Entry, Part, Section, Tally, Tier
from router_contract.readings import MissingCode
from router_contract.targets import RoleKind

VLLM = "vllm"
SGLANG = "sglang"
LLM_D = "llm_d"
VLLM_ROUTER = "vllm_router"
GATEWAY = "sglang_gateway"

_P, _Q, _L, _T, _X = Section.PROCESSING, Section.QUEUEING, Section.LATENCY, Section.TRAFFIC, Section.TRANSFER
_V, _S = (VLLM,), (SGLANG,)
_PREFILL, _DECODE = RoleKind.PREFILL.value, RoleKind.DECODE.value
_TTFT, _ITL, _TPOT = "time-to-first-token", "inter-token-latency", "time-per-output-token"

ENGINE_ENTRIES: tuple[Entry, ...] = (
    Entry(section=_P, name="running", unit="requests", signals=("requests-running",)),
    Entry(section=_P, name="kv-cache-usage", unit="fraction", signals=("kv-cache-usage",), optional=True),
    Entry(section=_Q, name="waiting", unit="requests", signals=("requests-waiting",)),
    Entry(
        section=_Q,
        name="decode-transfer-waiting",
        unit="requests",
        signals=("decode-transfer-waiting",),
        software=_S,
        only_half=_DECODE,
    ),
    Entry(section=_L, name="ttft", unit="seconds", signals=(_TTFT,), software=_V, generates=True),
    Entry(section=_L, name="ttft", unit="seconds", signals=(_TTFT,), software=_S, generates=True, not_half=_PREFILL),
    Entry(section=_L, name="tpot", unit="seconds", signals=(_TPOT,), software=_V, generates=True, not_half=_PREFILL),
    Entry(section=_L, name="itl", unit="seconds", signals=(_ITL,), software=_V, generates=True, not_half=_PREFILL),
    Entry(
        section=_L,
        name="itl",
        unit="seconds",
        signals=(_ITL,),
        software=_S,
        generates=True,
        not_half=_PREFILL,
        companion=_TTFT,
    ),
    Entry(section=_T, name="preemptions", unit="events/second", signals=("preemptions",), optional=True),
    Entry(section=_T, name="prompt-tokens", unit="tokens/second", signals=("prompt-tokens",), optional=True),
    Entry(
        section=_T,
        name="generation-tokens",
        unit="tokens/second",
        signals=("generation-tokens",),
        optional=True,
        generates=True,
    ),
    Entry(
        section=_X,
        name="transfer-latency",
        unit="milliseconds",
        signals=("transfer-latency",),
        software=_S,
        only_half=_PREFILL,
    ),
    Entry(
        section=_X,
        name="transfer-speed",
        unit="GB/second",
        signals=("transfer-speed",),
        software=_S,
        only_half=_PREFILL,
    ),
    Entry(section=_X, name="transfer-size", unit="MB", signals=("transfer-size",), software=_S, only_half=_PREFILL),
    Entry(
        section=_X,
        name="transfer-failures",
        unit="errors/second",
        signals=("transfer-failures",),
        software=_S,
        only_half=_PREFILL,
        companion="transfer-size",
    ),
)

_RUNNING = ("router-requests-running", "router-worker-active-requests")
_ERRORS = ("router-errors", "router-request-errors")

ROUTER_ENTRIES: tuple[Entry, ...] = (
    Entry(section=_P, name="router-running", unit="requests", signals=_RUNNING, software=(LLM_D,)),
    Entry(
        section=_P,
        name="router-running",
        unit="requests",
        signals=_RUNNING,
        software=(GATEWAY,),
        absent_as=MissingCode.NOT_BY_POLICY,
    ),
    Entry(section=_P, name="router-backends", unit="backends", signals=("router-backends",), software=(LLM_D, GATEWAY)),
    Entry(
        section=_P,
        name="router-running",
        unit="requests",
        signals=_RUNNING,
        software=(VLLM_ROUTER,),
        pair=False,
        absent_as=MissingCode.NOT_BY_POLICY,
    ),
    Entry(
        section=_P,
        name="router-reported-workers",
        unit="workers",
        signals=("router-reported-workers",),
        software=(VLLM_ROUTER,),
        pair=False,
    ),
    Entry(
        section=_P,
        name="router-running",
        unit="requests",
        signals=_RUNNING,
        software=(VLLM_ROUTER,),
        pair=True,
        unsupported=MissingCode.NO_ROUTER_GAUGE,
    ),
    Entry(
        section=_P,
        name="router-reported-workers",
        unit="workers",
        signals=("router-reported-workers",),
        software=(VLLM_ROUTER,),
        pair=True,
        unsupported=MissingCode.NO_ROUTER_GAUGE,
    ),
    Entry(
        section=_L,
        name="ttft",
        unit="seconds",
        signals=("router-time-to-first-token",),
        software=(LLM_D,),
        generates=True,
    ),
    Entry(
        section=_L,
        name="tpot",
        unit="seconds",
        signals=("router-time-per-output-token",),
        software=(LLM_D,),
        generates=True,
    ),
    Entry(section=_T, name="requests", unit="requests/second", signals=("router-requests",), software=(LLM_D,)),
    Entry(
        section=_T,
        name="request-errors",
        unit="errors/second",
        signals=tuple(reversed(_ERRORS)),
        software=(LLM_D,),
        companion="router-requests",
    ),
    Entry(
        section=_T,
        name="errors",
        unit="errors/second",
        signals=_ERRORS,
        software=(GATEWAY,),
        companion="router-requests",
    ),
    Entry(
        section=_T,
        name="http-5xx-responses",
        unit="responses/second",
        signals=("router-http-responses",),
        software=(GATEWAY,),
        at_least=("status_code", 500),
    ),
    Entry(
        section=_T,
        name="successful-requests",
        unit="requests/second",
        signals=("router-successful-requests",),
        software=(VLLM_ROUTER,),
        pair=False,
    ),
    Entry(
        section=_T,
        name="errors",
        unit="errors/second",
        signals=_ERRORS,
        software=(VLLM_ROUTER,),
        pair=False,
        companion="router-successful-requests",
    ),
    Entry(
        section=_T,
        name="retries-exhausted",
        unit="events/second",
        signals=("router-retries-exhausted",),
        software=(VLLM_ROUTER,),
        pair=False,
        companion="router-successful-requests",
    ),
    Entry(
        section=_T,
        name="pd-requests",
        unit="requests/second",
        signals=("router-pd-requests",),
        software=(VLLM_ROUTER,),
        pair=True,
    ),
    Entry(
        section=_T,
        name="pd-errors",
        unit="errors/second",
        signals=("router-pd-errors",),
        software=(VLLM_ROUTER,),
        pair=True,
        companion="router-pd-requests",
    ),
)

_GAVE_UP = "router-retries-exhausted"
_NOT_RETRIED = Part("router-errors", "error_type", ("backend_error",))
"""A 5xx that the gateway passes on at once; every other type of that counter is a 4xx."""
_REFUSED = Part("router-http-responses", "status_code", ("408", "429"))
"""The 4xx that are retried, so that giving up on one counts like a failure."""
_PD_HALVES = (Part("router-pd-prefill-errors"), Part("router-pd-decode-errors"))

TALLIES: tuple[Tally, ...] = (
    Tally(
        software=GATEWAY,
        pair=False,
        requests=(Part("router-requests"),),
        failed=(Part(_GAVE_UP), _NOT_RETRIED),
        unclear=(_REFUSED,),
    ),
    Tally(
        software=GATEWAY,
        pair=True,
        requests=(Part("router-requests"),),
        failed=(Part(_GAVE_UP, larger_of="worker_type"), _NOT_RETRIED),
        unclear=(_REFUSED,),
    ),
    # A worker's 408 or 429 is retried and no failure of its circuit: attempts that failed at no circuit may be those.
    Tally(
        software=VLLM_ROUTER,
        pair=False,
        requests=(Part("router-successful-requests"), Part(_GAVE_UP)),
        failed=(Part(_GAVE_UP),),
        unclear=(Part("router-retries"), Part(_GAVE_UP)),
        cleared=(
            Part("router-errors", "error_type", ("no_available_workers",)),
            Part("router-worker-outcomes", "outcome", ("failure",)),
        ),
    ),
    Tally(
        software=VLLM_ROUTER,
        pair=True,
        requests=(Part("router-pd-requests"), Part("router-pd-errors")),
        failed=(Part("router-pd-errors"), *_PD_HALVES),
        unclear=_PD_HALVES,
    ),
)

_MODES = ("input", "device_hit", "host_hit", "storage_hit")
_EFFECTIVE = "effective-prefill-tokens"

TIERS: tuple[Tier, ...] = (
    Tier(scope="local-prefix", software=VLLM, hits="prefix-cache-hits", queries="prefix-cache-queries"),
    Tier(
        scope="external-store",
        software=VLLM,
        hits="external-cache-hits",
        queries="external-cache-queries",
        flags=("--kv-transfer-config",),
        without=MissingCode.NO_CONNECTOR,
        store=True,
    ),
    Tier(
        scope="device-prefix",
        software=SGLANG,
        hits=_EFFECTIVE,
        queries=_EFFECTIVE,
        mode="device_hit",
        modes=_MODES,
        not_half=_DECODE,
    ),
    Tier(
        scope="host-prefix",
        software=SGLANG,
        hits=_EFFECTIVE,
        queries=_EFFECTIVE,
        mode="host_hit",
        modes=_MODES,
        not_half=_DECODE,
        flags=(
            "--enable-hierarchical-cache",
            "--enable-lmcache",
            "--enable-flexkv",
            "--radix-cache-backend=flexkv",
        ),
        without=MissingCode.NO_HOST_TIER,
    ),
    Tier(
        scope="storage-prefix",
        software=SGLANG,
        hits=_EFFECTIVE,
        queries=_EFFECTIVE,
        mode="storage_hit",
        modes=_MODES,
        not_half=_DECODE,
        flags=("--hicache-storage-backend",),
        without=MissingCode.NO_STORAGE_TIER,
    ),
)

IDLE_SIGNALS = (
    _TTFT,
    "router-time-to-first-token",
    "router-requests",
    "router-successful-requests",
    "router-pd-requests",
)
"""Beside the signals marked as progress: what also moves when a Pod works."""
BUSY_SIGNALS = ("requests-running", "requests-waiting", "router-requests-running", "router-worker-active-requests")
"""Levels above zero that show work in hand."""

ROLE_LATENCY = (("ttft", _TTFT), ("tpot", _TPOT), ("itl", _ITL))
"""The latency entries of a whole role and their signals."""
