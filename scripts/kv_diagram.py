"""Draw the KV-event stream's states from its literal table: writes `docs/kv-streams.md` between its markers.

``python scripts/kv_diagram.py`` writes, ``--check`` exits 1 when the page differs from the table.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from observer.measure.stream_table import TABLE  # noqa: E402 - the path is set just above

PAGE = ROOT / "docs" / "kv-streams.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def drawing() -> str:
    """The state diagram (Mermaid) and the whole table (Markdown)."""
    edges: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (state, event), (after, _) in TABLE.items():
        if state is not after:
            edges[state.value, after.value].append(event.value)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> Detached"]
    lines += [f"    {state} --> {after}: {', '.join(events)}" for (state, after), events in edges.items()]
    lines += ["```", "", "| state | event | next state | actions |", "|---|---|---|---|"]
    lines += [
        f"| {state.value} | {event.value} | {after.value} | {', '.join(action.value for action in actions) or 'none'} |"
        for (state, event), (after, actions) in TABLE.items()
    ]
    return "\n".join(lines)


def page() -> str:
    """The page with the drawing between its markers replaced."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{drawing()}\n\n{END}{tail}"


def main() -> int:
    wanted = page()
    if "--check" in sys.argv:
        same = PAGE.read_text(encoding="utf-8") == wanted
        print(f"{PAGE.name}: {'equal to' if same else 'differs from'} the table of {len(TABLE)} transitions")
        return 0 if same else 1
    PAGE.write_text(wanted, encoding="utf-8")
    print(f"wrote {PAGE.name} from {len(TABLE)} transitions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
