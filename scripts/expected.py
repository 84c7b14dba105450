"""Writes the expected document of every recording: what ``observer read FILE … -o json`` prints for it.

The documents under ``tests/expected`` are checked in; ``tests/test_expected.py`` compares the reader with them, and
`recompute.py` recomputes their numbers independently. ``--check`` only says which ones would change.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RECORDINGS = ROOT / "tests" / "recordings"
EXPECTED = ROOT / "tests" / "expected"

TABLES = (
    ("lmcache-0.5.6/vllm-metrics-*", "engine", "vllm", "0.32.0"),
    ("lmcache-0.5.6/*", "store", "lmcache", "0.5.6"),
    ("mooncake-0.3.13.post1/*", "store", "mooncake", "0.3.13.post1"),
    ("sglang-0.5.23/*", "engine", "sglang", "0.5.23"),
    ("sglang-old-modules/sglang-0.4.6.post5.*", "engine", "sglang", "0.4.6.post5"),
    ("sglang-old-modules/sglang-0.4.10.post2.*", "engine", "sglang", "0.4.10.post2"),
    ("sglang-old-modules/sglang-0.5.23-*", "engine", "sglang", "0.5.23"),
    ("sglang-router-0.1.9/*", "router", "sglang_gateway", "0.1.9"),
    ("sglang-router-0.2.4/*", "router", "sglang_gateway", "0.2.4"),
    ("sglang-router-0.3.2/*", "router", "sglang_gateway", "0.3.2"),
    ("synthetic/epp-v0.8-*", "router", "llm_d", "0.8.0"),
    ("synthetic/epp-v0.10-*", "router", "llm_d", "0.10.0"),
    ("vllm-0.32.0/*", "engine", "vllm", "0.32.0"),
    ("vllm-old-modules/vllm-0.9.0.1-*", "engine", "vllm", "0.9.0.1"),
    ("vllm-old-modules/vllm-0.10.2-*", "engine", "vllm", "0.10.2"),
    ("vllm-router-0.1.17/*", "router", "vllm_router", "0.1.17"),
)
"""By place: which table reads a recording, and the version of the program that wrote it."""


def recordings() -> list[Path]:
    """Every metrics recording of the tests."""
    return sorted(path for path in RECORDINGS.rglob("*") if path.suffix in {".prom", ".openmetrics"})


def place_of(path: Path) -> str:
    return path.relative_to(RECORDINGS).as_posix()


def document_path(path: Path) -> Path:
    """Where the expected document of a recording stands."""
    return EXPECTED / f"{place_of(path)}.json"


def arguments_of(path: Path) -> list[str]:
    """The command line that reads a recording. Raises `LookupError` for a recording that no line of `TABLES` fits."""
    place = place_of(path)
    for pattern, role, name, version in TABLES:
        if fnmatch.fnmatch(place, pattern):
            return ["read", str(path), f"--{role}", name, "--version", version, "-o", "json"]
    raise LookupError(f"{place}: no table is named for this recording in scripts/expected.py")


def read(path: Path) -> dict[str, Any]:
    """The document that the reader prints for a recording. Raises `RuntimeError` when the command fails."""
    from observer.cli import main  # noqa: PLC0415 - the search path is set above

    out, code = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), 0
    with contextlib.redirect_stdout(out):
        try:
            code = main(arguments_of(path)) or 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    if code:
        raise RuntimeError(f"{place_of(path)}: the reader exited with {code}, wanted 0")
    out.seek(0)
    document: dict[str, Any] = json.loads(out.read())
    return document


def text_of(document: dict[str, Any]) -> str:
    """One entry a line, so that a change shows as the line it is."""
    lines = []
    for signal, entries in sorted(document["signals"].items()):
        rows = ",\n   ".join(json.dumps(entry, sort_keys=True) for entry in entries)
        lines.append(f"  {json.dumps(signal)}: [\n   {rows}\n  ]" if entries else f"  {json.dumps(signal)}: []")
    head = {key: value for key, value in document.items() if key != "signals"}
    rest = ",\n ".join(f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in sorted(head.items()))
    return "{\n " + rest + ',\n "signals": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a document would change")
    check = parser.parse_args().check
    changed = 0
    paths = recordings()
    for path in paths:
        text, target = text_of(read(path)), document_path(path)
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        changed += 1
        print(f"{'would change' if check else 'written'}: {target.relative_to(ROOT)}")
        if not check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    kept = {document_path(path) for path in paths}
    for stray in sorted(set(EXPECTED.rglob("*.json")) - kept):
        changed += 1
        print(f"{'would remove' if check else 'removed'}: {stray.relative_to(ROOT)}")
        if not check:
            stray.unlink()
    print(f"figure: {len(paths)} documents, {changed} changed")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
