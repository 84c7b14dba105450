"""Writes the committed dashboards and rules anew, or says which of them differ: ``python -m dashboards.generate [--check]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dashboards import canary, itself, kv, overview, roles, routers
from dashboards.rules import EXPORTED, HONOURED, rules_text

FOLDER = Path(__file__).parent


def texts() -> dict[str, str]:
    """Every generated file: its path in this package and its text."""
    made = {f"grafana/{each.UID}.json": each.build() for each in (overview, roles, routers, kv, canary, itself)}
    made["rules/observer.rules.yaml"] = rules_text(HONOURED)
    made["rules/observer-exported-labels.rules.yaml"] = rules_text(EXPORTED)
    return made


def differing(folder: Path = FOLDER) -> list[str]:
    """The files whose committed text is not what is generated now, and files nothing generates."""
    made = texts()
    found = {str(path.relative_to(folder)) for part in ("grafana", "rules") for path in (folder / part).glob("*")}
    old = [name for name, text in made.items() if name not in found or (folder / name).read_text("utf-8") != text]
    return sorted([*old, *(found - set(made))])


def main(arguments: Sequence[str]) -> int:
    """Write everything, or with ``--check`` write nothing and return 1 when something differs."""
    if "--check" in arguments:
        wrong = differing()
        sys.stdout.write("".join(f"differs: {name}\n" for name in wrong) or "nothing differs\n")
        return 1 if wrong else 0
    for name, text in texts().items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
