"""One campaign over one harness: `python -m fuzz.one NAME --seconds 20`. A finding ends it with its input kept.

atheris guides the inputs by coverage where it can be imported; else inputs are mutated blindly, which is said.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

try:
    import atheris
except ImportError:
    atheris = None

from fuzz.mutate import LONGEST, mutated

if atheris is not None:
    with atheris.instrument_imports(include=["observer", "router_contract"]):
        from fuzz.harnesses import HARNESSES, Harness
else:
    from fuzz.harnesses import HARNESSES, Harness

FINDINGS = Path(__file__).parent / "findings"


def guided(harness: Harness, seconds: int) -> None:
    """LibFuzzer ends the process: 0 when the time is over, else its own code."""
    FINDINGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="observer-corpus-") as folder:
        for place, seed in enumerate(harness.seeds()):
            Path(folder, f"seed-{place}").write_bytes(seed[:LONGEST])
        options = [
            sys.argv[0],
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST}",
            "-timeout=10",
            "-rss_limit_mb=1024",
            "-print_final_stats=1",
            f"-artifact_prefix={FINDINGS}/{harness.name}-",
            folder,
        ]
        atheris.Setup(options, harness.run)
        atheris.Fuzz()


def blind(harness: Harness, seconds: float, seed: int = 1, most: int = sys.maxsize) -> int:
    """How many inputs were tried. Raises what the harness raises, with the input kept."""
    draw, pool = random.Random(seed), [data[:LONGEST] for data in harness.seeds()] or [b""]
    end, count = time.monotonic() + seconds, 0
    while count < most and time.monotonic() < end:
        data = mutated(draw.choice(pool), draw)
        kept(harness, data)
        count += 1
    return count


def kept(harness: Harness, data: bytes, run: Callable[[bytes], None] | None = None) -> None:
    """Run one input; when it fails, write it where findings lie."""
    try:
        (run or harness.run)(data)
    except BaseException:
        FINDINGS.mkdir(exist_ok=True)
        Path(FINDINGS, f"{harness.name}-blind").write_bytes(data)
        raise


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(HARNESSES))
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--blind", action="store_true", help="no coverage, even where atheris is there")
    asked = parser.parse_args()
    harness = HARNESSES[asked.name]
    if atheris is None or asked.blind:
        print(f"{harness.name}: without coverage ({'asked' if atheris else 'atheris cannot be imported'})")
        print(f"Done {blind(harness, asked.seconds)} runs")
        return
    guided(harness, asked.seconds)


if __name__ == "__main__":
    main()
