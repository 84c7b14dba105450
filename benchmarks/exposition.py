"""Reading expositions: our selective reader against ``prometheus_client``'s parser, in one interleaved run.

    python benchmarks/exposition.py [--rounds N] [--json FILE]

Bodies: a recorded vLLM body with its engine repeated until it has about 191 kB, values changing from read to read, with
20 (14 scalars and 6 histograms) or all wanted families; and the recordings themselves with the programs' own tables.
Every method reads the same bodies in every round; times are CPU time; medians with the quartiles, and ratios of medians.
The samples are compared with the parser's in the same run. The last line is JSON.

Ways of reading: `again` (the layout is known: every read but a target's first, and the first of every further target with
the same series), `changed` (some series are new), `first` (a reader that never read, once for each program and version
in the life of a process), `first two` (that and the next read, in which its layout is prepared).
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - the search path is set above
import orjson  # noqa: E402
import prometheus_client  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from observer.collect.allocator import tune_allocator  # noqa: E402
from observer.measure.exposition import Reader, Reading  # noqa: E402
from observer.measure.planner import wanted_families  # noqa: E402
from router_contract.catalog import TABLES  # noqa: E402
from router_contract.targets import Component  # noqa: E402

RECORDINGS = ROOT / "tests" / "recordings"
SEED = RECORDINGS / "vllm-0.32.0" / "metrics-02-warm.prom"
SIZE = 191_185
TARGETS = {
    "20 families": {"again": 150, "changed": 50, "first": 50},
    "all families": {"again": 45, "changed": 12, "first": 12},
}
TYPE = re.compile(rb"^# TYPE (\S+) (\S+)", re.MULTILINE)
REAL = (
    ("vllm-0.32.0/metrics-05-load.prom", Component.ENGINE, "vllm"),
    ("sglang-0.5.23/metrics-04-load.prom", Component.ENGINE, "sglang"),
    ("sglang-router-0.3.2/metrics-07-dead-just.prom", Component.ROUTER, "sglang_gateway"),
    ("vllm-router-0.1.17/metrics-07-dead-just.prom", Component.ROUTER, "vllm_router"),
    ("mooncake-0.3.13.post1/metrics-06-after-fill-evict.prom", Component.STORE, "mooncake"),
)
Times = dict[str, list[float]]


def repeated(body: bytes, engines: int) -> bytes:
    """The body as that many engines would write it: each family's lines once for every engine."""
    out: list[bytes] = []
    block: list[bytes] = []

    def flush() -> None:
        out.extend(block)
        for engine in range(1, engines):
            out.extend(line.replace(b'engine="0"', b'engine="%d"' % engine) for line in block if b'engine="0"' in line)
        block.clear()

    for line in body.splitlines(keepends=True):
        if line.startswith(b"#"):
            flush()
            out.append(line)
        else:
            block.append(line)
    flush()
    return b"".join(out)


def moved(body: bytes, step: int) -> bytes:
    """The body some work later: every number has grown, so that no line of samples stays the same."""

    def grow(line: bytes) -> bytes:
        if line.startswith(b"#") or not line.strip():
            return line
        head, _, value = line.rpartition(b" ")
        return head + b" " + repr(float(value) + step).encode()

    return b"\n".join(map(grow, body.split(b"\n")))


def extended(body: bytes, count: int) -> bytes:
    """The body with so many series more in its first engine family."""
    place = body.index(b"\n", body.index(b"# TYPE vllm:num_requests_running")) + 1
    series = b"".join(b'vllm:num_requests_running{engine="new-%d",model_name="tiny"} 1.0\n' % n for n in range(count))
    return body[:place] + series + body[place:]


def selections(body: bytes) -> dict[str, list[str]]:
    """Wanted families: 14 scalars and 6 histograms of the engine, and every family but the `_created` ones."""
    types = [(name.decode(), kind.decode()) for name, kind in TYPE.findall(body)]
    engine = [(name, kind) for name, kind in types if name.startswith("vllm:") and not name.endswith("_created")]
    scalars = [name for name, kind in engine if kind != "histogram"][:14]
    histograms = [name for name, kind in engine if kind == "histogram"][:6]
    return {
        "20 families": scalars + histograms,
        "all families": [name for name, _ in types if not name.endswith("_created")],
    }


def parse(body: bytes) -> list[object]:
    """The peer's whole job, decoding included."""
    return list(text_string_to_metric_families(body.decode()))


def check(body: bytes, wanted: list[str], reader: Reader) -> int:
    """Compare our samples with the parser's for one body; how many there are. Exits where they differ."""
    reading = reader.read(body)
    if not isinstance(reading, Reading) or reading.shape.unreadable:
        sys.exit(f"not read: {reading}")
    families = reading.shape.families.values()
    mine = {
        # The parser gives every counter a `_total`, also one that has none on the wire.
        (
            key.name + "_total" * (family.type == "counter" and key.name == family.name.removesuffix("_total")),
            tuple(sorted(key.labels)),
        ): float(reading.values[row])
        for family in families
        for row, key in enumerate(family.keys(), family.start)
    }
    names = set(wanted)
    theirs = {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in text_string_to_metric_families(body.decode())
        if family.name in names or f"{family.name}_total" in names
        for sample in family.samples
    }
    if {key: repr(value) for key, value in mine.items()} != {key: repr(value) for key, value in theirs.items()}:
        sys.exit(f"samples differ: {sorted(mine.items() ^ theirs.items())[:4]}")
    return len(mine)


def timed(run: Callable[[], object], times: int) -> float:
    """Mean CPU milliseconds of one of several calls."""
    start = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - start) / times * 1e3


def spread(values: list[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):8.3f} [{low:.3f} {high:.3f}]"


def progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text:<60}")
    else:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def cycle(bodies: list[bytes], read: Callable[[bytes], object]) -> Callable[[], object]:
    """A call that reads the next body each time."""
    place = -1

    def run() -> object:
        nonlocal place
        place = (place + 1) % len(bodies)
        return read(bodies[place])

    return run


def once(wanted: list[str], body: bytes) -> object:
    """A new reader's first read."""
    return Reader(wanted).read(body)


def twice(wanted: list[str], body: bytes) -> object:
    """A new reader's first two reads."""
    reader = Reader(wanted)
    reader.read(body)
    return reader.read(body)


def measure(rounds: int, methods: dict[str, tuple[Callable[[], object], int]], label: str) -> Times:
    """Every method in every round, one after the other."""
    times: Times = {name: [] for name in methods}
    for number in range(rounds):
        progress(f"{label}: round {number + 1} of {rounds}")
        for name, (run, count) in methods.items():
            times[name].append(timed(run, count))
    return times


def synthetic(rounds: int) -> list[dict[str, object]]:
    """The 191 kB body in its ways of reading."""
    seed = SEED.read_bytes()
    engines = min(range(1, 12), key=lambda count: abs(len(repeated(seed, count)) - SIZE))
    body = repeated(seed, engines)
    bodies = [moved(body, step) for step in range(1, 9)]
    fresh = [extended(bodies[step % 8], step + 1) for step in range(20)]
    results = []
    for name, wanted in selections(body).items():
        again, changing = Reader(wanted), Reader(wanted, layouts=4)
        samples = check(bodies[0], wanted, again)
        check(bodies[1], wanted, again)
        check(fresh[10], wanted, changing)
        methods = {
            "prometheus_client": (cycle(bodies, parse), 2),
            "again": (cycle(bodies, again.read), 60),
            "changed": (cycle(fresh, changing.read), 20),
            "first": (cycle(bodies, partial(once, wanted)), 4),
            "first two": (cycle(bodies, partial(twice, wanted)), 4),
        }
        before = again.layout_reads, changing.layout_reads
        times = measure(rounds, methods, name)
        if (again.layout_reads - before[0], changing.layout_reads - before[1]) != (60 * rounds, 0):
            sys.exit("the reads did not go the way that they were meant to")
        results.append(report(name, len(body), samples, times, TARGETS[name]))
    return results


def real(rounds: int) -> list[dict[str, object]]:
    """Recordings, with everything that the program's table wants."""
    results = []
    for place, component, table in REAL:
        body = (RECORDINGS / place).read_bytes()
        wanted = sorted(wanted_families(TABLES[component][table], None))
        reader = Reader(wanted)
        samples = check(body, wanted, reader)
        bodies = [body, body[:-1] + b"\n"]
        methods = {"prometheus_client": (cycle(bodies, parse), 2), "again": (cycle(bodies, reader.read), 60)}
        results.append(report(place, len(body), samples, measure(rounds, methods, place), {}))
    return results


def report(name: str, size: int, samples: int, times: Times, targets: dict[str, int]) -> dict[str, object]:
    progress("")
    base = statistics.median(times["prometheus_client"])
    print(f"{name}: {size:,} bytes, {samples} wanted samples, all equal to the parser's")
    ratios = {}
    for method, values in times.items():
        ratio = base / statistics.median(values)
        ratios[method] = round(ratio, 1)
        target = targets.get(method)
        verdict = "" if target is None else f"   target {target}: {'met' if ratio >= target else 'MISSED'}"
        speed = size / statistics.median(values) / 1e3
        print(f"  {method:18} {spread(values)} ms   {speed:8.1f} MB/s   x {ratio:6.1f}{verdict}")
    return {
        "body": name,
        "bytes": size,
        "samples": samples,
        "ratios": ratios,
        "targets": targets,
        "ms": {
            method: [round(value, 4) for value in statistics.quantiles(values, n=4)] for method, values in times.items()
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11, help="interleaved rounds (default 11, at least 3)")
    parser.add_argument("--json", type=Path, help="write the JSON line to this file too")
    arguments = parser.parse_args()
    rounds = max(arguments.rounds, 3)
    tune_allocator()
    results = [*synthetic(rounds), *real(rounds)]
    first = results[0]["ratios"]
    line = json.dumps(
        {
            "benchmark": "exposition",
            "python": platform.python_version(),
            "versions": {
                "prometheus_client": getattr(prometheus_client, "__version__", ""),
                "numpy": np.__version__,
                "orjson": orjson.__version__,
            },
            "rounds": rounds,
            "results": results,
        }
    )
    if arguments.json:
        arguments.json.write_text(line + "\n", encoding="utf-8")
    print(line)
    again = first["again"] if isinstance(first, dict) else 0.0
    print(f"figure: a body read again {again:.0f} times as fast as prometheus_client (20 families, target 50)")
    return 0 if again >= 50 else 1


if __name__ == "__main__":
    sys.exit(main())
