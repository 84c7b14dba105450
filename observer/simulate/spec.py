"""What a simulated fleet consists of: deployments, roles, engines, routers. Descriptions only."""

from __future__ import annotations

import msgspec

from router_contract.targets import RoleKind


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One engine: which program, how it is split, and how fast it is.

    ``max_running`` and ``num_blocks`` are for each data-parallel rank. ``prefill_rate`` is in tokens per second,
    ``token_seconds`` the time of one decode step. ``warm_seconds`` is how long SGLang answers 503 after loading.
    """

    software: str = "vllm"
    version: str = ""
    model: str = "tiny"
    dp_size: int = 1
    tp_size: int = 1
    api_servers: int = 1
    block_size: int = 16
    num_blocks: int = 1024
    max_running: int = 8
    max_model_len: int = 4096
    prefill_rate: float = 40_000.0
    token_seconds: float = 0.004
    load_seconds: float = 0.0
    warm_seconds: float = 0.0
    tensor_rank_copies: bool = False

    def __post_init__(self) -> None:
        if self.software not in DEFAULT_VERSIONS:
            raise ValueError(f"simulated engine: unknown software {self.software!r}, want one of vllm, sglang")

    @property
    def shown_version(self) -> str:
        """The version the engine reports."""
        return self.version or DEFAULT_VERSIONS[self.software]

    @property
    def multiprocess(self) -> bool:
        """Whether metrics come from several processes: always for SGLang, with ranks or API servers for vLLM."""
        return self.software == "sglang" or self.dp_size > 1 or self.api_servers > 1


DEFAULT_VERSIONS = {"vllm": "0.32.0", "sglang": "0.5.23"}


class RouterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One router: ``vllm_router``, ``sglang_gateway`` or ``llm_d``. Times in seconds, attempts include the first.

    With ``dp_aware`` each rank of a worker is a worker of its own; ``dp_ranks`` is their number for the router that is
    told it instead of asking.
    """

    software: str
    policy: str = "round_robin"
    decode_policy: str = ""
    replicas: int = 1
    health_interval: float = 2.0
    health_timeout: float = 1.0
    failure_threshold: int = 2
    success_threshold: int = 1
    max_attempts: int = 2
    breaker_failures: int = 3
    breaker_successes: int = 2
    breaker_open_seconds: float = 5.0
    request_timeout: float = 30.0
    backoff_seconds: float = 0.05
    dp_aware: bool = False
    dp_ranks: int = 1
    version: str = ""
    observer_endpoints: bool = False
    metrics_token: str = ""

    def __post_init__(self) -> None:
        if self.software not in ROUTER_VERSIONS:
            raise ValueError(
                f"simulated router: unknown software {self.software!r}, want one of {', '.join(ROUTER_VERSIONS)}"
            )

    @property
    def shown_version(self) -> str:
        """The version whose series it exposes."""
        return self.version or ROUTER_VERSIONS[self.software]


ROUTER_VERSIONS = {"vllm_router": "0.1.17", "sglang_gateway": "0.3.2", "llm_d": "0.10.0"}


class RoleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One role: its kind, how many replicas, how many members a replica has (only the first serves)."""

    name: str = "server"
    kind: str = RoleKind.SERVER
    replicas: int = 1
    size: int = 1
    engine: EngineSpec = EngineSpec()


class DeploymentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment; ``rate`` is how many requests a second its clients send."""

    name: str
    namespace: str = "demo"
    model: str = "tiny"
    roles: tuple[RoleSpec, ...] = (RoleSpec(),)
    router: RouterSpec | None = None
    rate: float = 4.0


class FleetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole fleet. ``seed`` makes its traffic repeatable."""

    deployments: tuple[DeploymentSpec, ...]
    seed: int = 1


def demo_fleet(rate: float = 4.0) -> FleetSpec:
    """Four deployments, one for each way of serving: replicas, data parallel, prefill/decode, encode/prefill/decode."""
    vllm = EngineSpec(software="vllm", model="llama-3.1-8b")
    sglang = EngineSpec(software="sglang", model="qwen3-32b", dp_size=2)
    prefill = EngineSpec(software="sglang", model="deepseek-v3")
    multimodal = EngineSpec(software="vllm", model="qwen3-vl-8b")
    return FleetSpec(
        deployments=(
            DeploymentSpec(
                name="chat",
                model=vllm.model,
                roles=(RoleSpec(replicas=3, engine=vllm),),
                router=RouterSpec(software="vllm_router", replicas=2),
                rate=rate,
            ),
            DeploymentSpec(
                name="reason",
                model=sglang.model,
                roles=(RoleSpec(replicas=2, engine=sglang),),
                router=RouterSpec(software="sglang_gateway"),
                rate=rate,
            ),
            DeploymentSpec(
                name="long-context",
                model=prefill.model,
                roles=(
                    RoleSpec(name="prefill", kind=RoleKind.PREFILL, replicas=2, engine=prefill),
                    RoleSpec(name="decode", kind=RoleKind.DECODE, replicas=2, size=2, engine=prefill),
                ),
                router=RouterSpec(software="sglang_gateway", policy="cache_aware", decode_policy="power_of_two"),
                rate=rate,
            ),
            DeploymentSpec(
                name="vision",
                model=multimodal.model,
                roles=(
                    RoleSpec(name="encode", kind=RoleKind.ENCODE, engine=multimodal),
                    RoleSpec(name="prefill", kind=RoleKind.PREFILL, engine=multimodal),
                    RoleSpec(name="decode", kind=RoleKind.DECODE, engine=multimodal),
                ),
                router=RouterSpec(software="llm_d", observer_endpoints=True),
                rate=rate,
            ),
        )
    )
