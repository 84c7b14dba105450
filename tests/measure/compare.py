"""What our reader and prometheus_client say of the same body, in one shape that can be compared."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from observer.measure.exposition import NotRead, Reader, Reading, Shape

RECORDINGS = Path(__file__).parent.parent / "recordings"
BODIES = sorted(RECORDINGS.glob("*/*.prom"))


def same(value: float) -> float | str:
    """A value that compares equal to itself, NaN too."""
    return "nan" if math.isnan(value) else float(value)


def peer(body: bytes, *, openmetrics: bool = False) -> tuple[list[str], Counter]:
    """Family names as on the wire, and every sample, as prometheus_client reads them."""
    parse = parse_openmetrics if openmetrics else parse_text
    samples: Counter = Counter()
    names = []
    for metric in parse(body.decode().removeprefix("\ufeff")):
        names.append(metric.name)
        for sample in metric.samples:
            stamp = None if sample.timestamp is None else same(float(sample.timestamp))
            samples[sample.name, tuple(sorted(sample.labels.items())), same(sample.value), stamp] += 1
    return names, samples


def ours(reading: Reading, *, openmetrics: bool = False) -> Counter:
    """Every sample of a reading, named as prometheus_client names it (it gives counters their `_total`)."""
    samples: Counter = Counter()
    for family in reading.shape.families.values():
        for row, key in enumerate(family.keys(), family.start):
            stamp = None if reading.timestamps is None else same(reading.timestamps[row])
            if isinstance(stamp, float) and not openmetrics:
                stamp /= 1000
            old = family.type == "counter" and not family.name.endswith("_total") and key.name == family.name
            name = key.name + "_total" if old else key.name
            samples[name, tuple(sorted(key.labels)), same(reading.values[row]), None if stamp == "nan" else stamp] += 1
    return samples


def wire_families(body: bytes) -> set[str]:
    """Every family a body declares, and every sample name that stands without a declaration."""
    declared = {line.split()[2].decode() for line in body.splitlines() if line.startswith((b"# TYPE", b"# HELP"))}
    bare = {line.split(b"{")[0].split()[0].decode() for line in body.splitlines() if line[:1].isalpha()}
    suffixes = ("", "_bucket", "_sum", "_count", "_total", "_created", "_info", "_gsum", "_gcount")
    return declared | {name for name in bare if not any(name.removesuffix(s) in declared for s in suffixes if s)}


def outcome(reader: Reader, body: bytes, *, openmetrics: bool = False, hint: Shape | None = None) -> object:
    """Everything a read says, as plain values, to compare one way of reading with another."""
    result = reader.read(body, openmetrics=openmetrics, hint=hint)
    if isinstance(result, NotRead):
        return result
    shape = result.shape
    rows = [
        (family.name, family.type, key.name, key.labels, same(result.values[row]))
        for family in shape.families.values()
        for row, key in enumerate(family.keys(), family.start)
    ]
    stamps = None if result.timestamps is None else [same(stamp) for stamp in result.timestamps]
    counts = (shape.kept, shape.dropped, shape.truncated, shape.ended)
    return rows, stamps, dict(shape.types), shape.problems, shape.unreadable, counts
