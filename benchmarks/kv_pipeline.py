"""The pipeline over ZMQ as whole processes: our collector beside ``python -m dynamo.indexer``, and receiving alone."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zmq

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from observer.clock import SystemClock  # noqa: E402 - the path is set just above
from observer.collect.kv_collector import KvCollector  # noqa: E402
from observer.collect.kv_socket import Receiver, ReceiverLimits  # noqa: E402
from router_contract.kv_streams import StreamKey, StreamSource, StreamState  # noqa: E402
from router_contract.targets import DeploymentKey, KvEventSource  # noqa: E402

PUBLISHERS = 64
RATE = 3000
Figure = tuple[str, str, float, float | None]


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batches() -> Iterator[tuple[int, bytes]]:
    """(publisher, payload) without end: a BlockStored of 16 blocks and, once warm, a BlockRemoved of 16."""
    source = random.Random(11)
    held: list[list[list[int]]] = [[] for _ in range(PUBLISHERS)]
    tokens = source.choices(range(150_000), k=256)
    number = 0
    while True:
        publisher = number % PUBLISHERS
        number += 1
        hashes = [source.getrandbits(64) for _ in range(16)]
        events: list[dict[str, Any]] = [
            {
                "type": "BlockStored",
                "block_hashes": hashes,
                "parent_block_hash": None,
                "token_ids": tokens,
                "block_size": 16,
                "lora_id": None,
                "medium": "GPU",
                "lora_name": None,
            }
        ]
        held[publisher].append(hashes)
        if len(held[publisher]) > 256:
            events.append({"type": "BlockRemoved", "block_hashes": held[publisher].pop(0), "medium": "GPU"})
        yield publisher, msgspec.msgpack.encode([1.0, events, 0])


def _publishers(context: Any, addresses: list[str]) -> list[Any]:
    sockets = []
    for address in addresses:
        pub = context.socket(zmq.PUB)
        pub.setsockopt(zmq.LINGER, 0)
        pub.setsockopt(zmq.SNDHWM, 100_000)
        pub.bind(address)
        sockets.append(pub)
    return sockets


def _peer(addresses: list[str], port: int) -> subprocess.Popen[bytes] | None:
    if importlib.util.find_spec("dynamo") is None:
        return None
    workers = ",".join(f"{number + 1}={address}" for number, address in enumerate(addresses))
    command = [sys.executable, "-m", "dynamo.indexer", "--threads", "1", "--block-size", "16"]
    command += ["--port", str(port), "--workers", workers]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pipeline(seconds: float) -> list[Figure]:
    """CPU a message of both processes over one window in which both receive the same messages."""
    ports = free_ports(PUBLISHERS + 1)
    addresses = [f"tcp://127.0.0.1:{port}" for port in ports[:PUBLISHERS]]
    context = zmq.Context()
    sockets = _publishers(context, addresses)
    command = [sys.executable, str(Path(__file__)), "consume", *addresses]
    ours = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    peer = _peer(addresses, ports[-1])
    try:
        assert ours.stdout is not None
        assert ours.stdin is not None
        assert ours.stdout.readline().strip() == "ready"
        time.sleep(3.0)
        source = batches()
        sequences = [0] * PUBLISHERS
        _send(sockets, source, sequences, 64 * 300)
        time.sleep(0.5)
        before = cpu_of(ours.pid), cpu_of(peer.pid) if peer else 0.0
        sent = _send(sockets, source, sequences, int(RATE * seconds))
        time.sleep(0.5)
        mine, other = cpu_of(ours.pid) - before[0], (cpu_of(peer.pid) - before[1]) if peer else 0.0
        ours.stdin.write("report\n")
        ours.stdin.flush()
        said = json.loads(ours.stdout.readline())
        lost = sum(sequences) - said["batches"]
        found: list[Figure] = [
            (
                "pipeline, messages lost or in gaps",
                f"{lost} of {sum(sequences)}, {said['gaps']} gaps",
                float(lost + said["gaps"]),
                0.0,
            )
        ]
        figure = f"{mine / sent * 1e6:.1f} us a message, whole process"
        if peer is None:
            found.append(("pipeline over ZMQ", figure + "; dynamo.indexer is not installed: not compared", mine, None))
        else:
            ratio = mine / other
            figure += f", dynamo.indexer {other / sent * 1e6:.1f}: {ratio:.2f} of it"
            found.append(("pipeline over ZMQ, 64 publishers", figure, ratio, 0.85))
        return found
    finally:
        for process in (ours, peer):
            if process is not None:
                process.kill()
                process.wait()
        for pub in sockets:
            pub.close(linger=0)
        context.term()


def _send(sockets: list[Any], source: Iterator[tuple[int, bytes]], sequences: list[int], count: int) -> int:
    begun = time.monotonic()
    for number in range(1, count + 1):
        publisher, payload = next(source)
        sockets[publisher].send_multipart((b"", sequences[publisher].to_bytes(8, "big"), payload))
        sequences[publisher] += 1
        if number % 30 == 0:
            ahead = begun + number / RATE - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
    return count


async def consume(addresses: list[str]) -> None:
    """Our side of the pipeline: a collector as the application runs it."""
    deployment = DeploymentKey("bench", "kv")
    async with KvCollector(SystemClock()) as collector, asyncio.TaskGroup() as tasks:
        tasks.create_task(collector.run())
        collector.sync(
            StreamSource(
                key=StreamKey(deployment, f"uid-{n}", 0),
                source=KvEventSource(endpoint=address),
                engine="vllm",
                model="m",
            )
            for n, address in enumerate(addresses)
        )
        while any(found.state is not StreamState.LIVE for found in collector.summaries()):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        summaries = collector.summaries()
        print(
            json.dumps(
                {"batches": sum(s.counters.batches for s in summaries), "gaps": sum(s.counters.gaps for s in summaries)}
            ),
            flush=True,
        )
        collector.stop()


MESSAGES = 60_000


def receive(rounds: int) -> list[Figure]:
    """CPU a message of receiving alone, flat out from one publisher: ``zmq.asyncio`` and our thread, in turn."""
    found: dict[str, list[float]] = {"asyncio": [], "ours": []}
    for _ in range(rounds):
        for kind, times in found.items():
            context = zmq.Context()
            pub = context.socket(zmq.PUB)
            pub.setsockopt(zmq.SNDHWM, 0)
            pub.setsockopt(zmq.LINGER, -1)
            port = pub.bind_to_random_port("tcp://127.0.0.1")
            child = subprocess.Popen(
                [sys.executable, str(Path(__file__)), f"receive-{kind}", f"tcp://127.0.0.1:{port}"],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert child.stdout is not None
            assert child.stdout.readline().strip() == "ready"
            time.sleep(0.5)
            payload = b"x" * 1024
            for number in range(MESSAGES):
                pub.send_multipart((b"t", number.to_bytes(8, "big"), payload))
            times.append(float(child.stdout.readline()))
            child.wait()
            pub.close(linger=0)
            context.term()
    ours, peer = sorted(found["ours"])[rounds // 2], sorted(found["asyncio"])[rounds // 2]
    figure = f"{ours * 1e6:.1f} us a message, zmq.asyncio {peer * 1e6:.1f}: {ours / peer:.2f} of it"
    return [("receive, 1 kB flat out", figure, ours / peer, 0.6)]


async def receive_asyncio(address: str) -> None:
    import zmq.asyncio

    context = zmq.asyncio.Context()
    sub = context.socket(zmq.SUB)
    sub.setsockopt(zmq.RCVHWM, 0)
    sub.subscribe(b"")
    sub.connect(address)
    print("ready", flush=True)
    await sub.recv_multipart()
    begun = time.process_time()
    for _ in range(MESSAGES - 1):
        await sub.recv_multipart()
    print((time.process_time() - begun) / MESSAGES, flush=True)
    sub.close(linger=0)
    context.term()


async def receive_ours(address: str) -> None:
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()
    limits = ReceiverLimits()
    limits = msgspec.structs.replace(
        limits, capacity_bytes=1 << 30, sockets=msgspec.structs.replace(limits.sockets, high_water_mark=0)
    )
    receiver = Receiver(SystemClock(), lambda: loop.call_soon_threadsafe(woken.set), limits)
    receiver.start()
    receiver.open(1, address)
    print("ready", flush=True)
    count, begun = 0, 0.0
    while count < MESSAGES:
        await woken.wait()
        woken.clear()
        while (lot := receiver.take()) is not None:
            for _, messages in lot.live:
                begun = begun or time.process_time()
                count += len(messages)
    print((time.process_time() - begun) / MESSAGES, flush=True)
    receiver.stop()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["consume", *addresses]:
            asyncio.run(consume(addresses))
        case ["receive-asyncio", address]:
            asyncio.run(receive_asyncio(address))
        case ["receive-ours", address]:
            asyncio.run(receive_ours(address))
            assert threading.active_count() == 1
