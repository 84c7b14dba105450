"""A process that runs an engine's own KV-event publisher class, its imports stubbed, on loopback.

Arguments: engine, module file, buffer steps, and for a restart the former ports. It prints its endpoints, then obeys
lines: ``store FIRST LAST``, ``fat FIRST LAST`` (1,024 tokens a block), ``remove FIRST LAST``, ``clear``, ``flush`` (answers when everything was sent).
"""

from __future__ import annotations

import importlib.util
import json
import logging
import socket
import sys
import time
import types
from dataclasses import make_dataclass
from typing import Any


def stub(name: str, **members: Any) -> None:
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
    for key, value in members.items():
        setattr(sys.modules[name], key, value)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NetworkAddress:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    @classmethod
    def parse(cls, text: str) -> NetworkAddress:
        host, _, port = text.rpartition(":")
        return cls(host, int(port))

    def to_tcp(self) -> str:
        return f"tcp://{self.host}:{self.port}"


def split_zmq_path(path: str) -> tuple[str, str, str]:
    scheme, _, rest = path.partition("://")
    host, _, port = rest.rpartition(":")
    return scheme, host, port


def stubs() -> None:
    fields = ("enable_kv_cache_events", "publisher", "endpoint", "replay_endpoint", "buffer_steps", "hwm", "max_queue_size", "topic")  # fmt: skip
    stub("vllm.config.kv_events", KVEventsConfig=make_dataclass("KVEventsConfig", fields))
    stub("vllm.logger", init_logger=logging.getLogger)
    stub(
        "vllm.utils.network_utils",
        get_ip=lambda: "127.0.0.1",
        get_tcp_uri=lambda ip, port: f"tcp://{ip}:{port}",
        is_valid_ipv6_address=lambda _: False,
        split_zmq_path=split_zmq_path,
    )
    stub("vllm.v1.core.kv_cache_utils", ExternalBlockHash=bytes | int)
    stub("sglang.srt.runtime_context", get_parallel=lambda: None)
    stub("sglang.srt.utils.network", NetworkAddress=NetworkAddress)
    try:
        import pydantic  # noqa: F401 - present or stubbed
    except ImportError:
        stub("pydantic", BaseModel=object)


def load(path: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("real_kv_events", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["real_kv_events"] = module
    spec.loader.exec_module(module)
    return module


def publisher(engine: str, module: types.ModuleType, buffer_steps: int, ports: list[int]) -> tuple[Any, str, str]:
    if engine == "vllm":
        # The class binds wildcards only, but with port 0 the address it found for itself, which is loopback here.
        made = module.ZmqEventPublisher(0, "tcp://*:0", "tcp://*:0", buffer_steps=buffer_steps, topic="kv@real")
        config = made.get_publisher_config()
        return made, config.endpoint, config.replay_endpoint
    live, replay = (f"tcp://127.0.0.1:{port}" for port in ports or [free_port(), free_port()])
    made = module.ZmqEventPublisher(0, live, replay, buffer_steps=buffer_steps, topic="kv@real", bind=True)
    return made, live, replay


def main() -> None:
    engine, path, buffer_steps, *ports = sys.argv[1:]
    stubs()
    module = load(path)
    made, live, replay = publisher(engine, module, int(buffer_steps), [int(port) for port in ports])
    print(json.dumps({"endpoint": live, "replay": replay}), flush=True)
    extra = {"lora_name": None} if engine == "vllm" else {}
    sign = -1 if engine == "sglang" else 1
    for line in sys.stdin:
        word, *numbers = line.split()
        for number in range(int(numbers[0]), int(numbers[1]) + 1) if numbers else ():
            if word in ("store", "fat"):
                size = 16 if word == "store" else 1024
                above = sign * (number - 1) if number > 1 else None
                event = module.BlockStored([sign * number], above, [number] * size, size, None, medium="GPU", **extra)
            else:
                event = module.BlockRemoved([sign * number], medium="GPU")
            made.publish(module.EventBatch(float(number), [event]))
        if word == "clear":
            made.publish(module.EventBatch(0.0, [module.AllBlocksCleared()]))
        while made._event_queue.qsize():
            time.sleep(0.005)
        print("done", flush=True)


if __name__ == "__main__":
    main()
