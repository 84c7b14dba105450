"""Run every proof about KV events that a command can run: one line each with its figure; exits 1 if one fails.

    python scripts/prove_kv.py [--quick]

``--quick`` leaves out the minute of real-time silence and the benchmark. Proofs that run the engines' own classes need
`scripts/kv_publishers.py`; where it cannot fetch them the recorded frames over real sockets stand in, and the line says so.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import kv_publishers  # noqa: E402 - the path is set just above

from tests.fakes import kv_scenarios as scenes  # noqa: E402

RECORDINGS = ROOT / "tests" / "recordings"


class FailedProofError(Exception):
    """A proof did not hold; the text is its figure."""


def tests(*arguments: str) -> str:
    """Run tests; what pytest counted."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    counted = re.findall(r"\d+ (?:passed|failed|skipped|error)[^\n]*", done.stdout)
    summary = counted[-1] if counted else "did not run"
    if done.returncode:
        raise FailedProofError(f"{summary}\n{done.stdout[-3000:]}")
    return summary


def real_classes() -> str:
    """The real publisher classes, else the recorded frames over real sockets."""
    try:
        for engine in kv_publishers.MODULES:
            kv_publishers.fetch(engine)
    except subprocess.CalledProcessError as error:
        figures = [
            asyncio.run(scenes.recorded_frames(RECORDINGS / name))
            for name in ("vllm-0.32.0/kv-events-real-int.jsonl", "sglang-0.5.23/kv-events-real.jsonl")
        ]
        return f"wheels not fetched ({error}), recorded frames instead: {'; '.join(figures)}"
    named = ", ".join(requirement for requirement, _ in kv_publishers.MODULES.values())
    return f"{tests('tests/real/test_kv_publishers.py')}: the classes of {named}"


def documentation() -> str:
    done = subprocess.run(
        [sys.executable, "scripts/kv_diagram.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise FailedProofError(done.stdout + done.stderr)
    return done.stdout.strip()


def benchmark() -> str:
    """The figures beside their peers. Missed speed targets are shown here and judged by the proofs of speed."""
    done = subprocess.run(
        [sys.executable, "benchmarks/kv_events.py", "--short"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("{")]
    if done.returncode not in (0, 1) or not done.stdout.rstrip().endswith("]}"):
        raise FailedProofError(f"the benchmark ended early\n{done.stdout}\n{done.stderr[-2000:]}")
    lost = [line for line in lines if line.startswith("pipeline, messages lost") and "MISSED" in line]
    if lost:
        raise FailedProofError(lost[0])
    missed = sum("MISSED" in line for line in lines)
    return "\n    ".join([f"{missed} speed targets missed, no message lost" if missed else "every target met", *lines])


PROOFS: list[tuple[str, Callable[[], str], bool]] = [
    (
        "every recorded batch decodes to what was recorded",
        lambda: tests("tests/router_contract/test_kv_events.py"),
        True,
    ),
    ("every mutation has its checked-in outcome", lambda: tests("tests/measure/test_kv_recordings.py"), True),
    ("the index equals a model or says approximate", lambda: tests("tests/measure/test_kv_model.py"), True),
    ("every situation of a stream, by injected time", lambda: tests("tests/measure/test_streams.py"), True),
    ("copies, loose blocks, budgets, prefixes", lambda: tests("tests/measure/test_residency.py"), True),
    ("slow joiner, buffer holds all", lambda: asyncio.run(scenes.slow_joiner()), True),
    ("slow joiner, buffer holds a part", lambda: asyncio.run(scenes.slow_joiner(1000, 200)), True),
    ("stalled consumer, buffer 10,000", lambda: asyncio.run(scenes.stalled_consumer(10_000)), True),
    ("stalled consumer, buffer 1,000", lambda: asyncio.run(scenes.stalled_consumer(1_000)), True),
    ("stalled consumer in real time", lambda: asyncio.run(scenes.stalled_consumer(10_000, real_time=True)), False),
    ("restart on the same port, idle", lambda: asyncio.run(scenes.restarted(traffic=False)), True),
    ("restart on the same port, with traffic", lambda: asyncio.run(scenes.restarted(traffic=True)), True),
    ("slow reader of a replay", lambda: asyncio.run(scenes.slow_replay_reader()), True),
    ("the engines' own publishers", real_classes, True),
    ("conditions on evidence", lambda: tests("tests/judge/test_attachment.py"), True),
    ("documents, look-ups, families", lambda: tests("tests/exporters/test_kv.py"), True),
    ("the page is drawn from the table", documentation, True),
    ("benchmark against its peers", benchmark, False),
]


def main() -> int:
    quick = "--quick" in sys.argv
    failed = 0
    for name, proof, always in PROOFS:
        if quick and not always:
            continue
        begun = time.monotonic()
        try:
            figure, verdict = proof(), "proved"
        except (FailedProofError, AssertionError, ExceptionGroup) as error:
            figure, verdict = str(error), "FAILED"
            failed += 1
        print(f"{verdict}  {name}: {figure}  ({time.monotonic() - begun:.1f} s)", flush=True)
    print(f"{failed} of the proofs failed" if failed else "all proofs hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
