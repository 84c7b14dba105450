"""Write ``docs/doctor.md`` from the doctor's table; ``--check`` exits 1 when the page differs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from observer.judge.diagnosis import TABLE, UNDETERMINED  # noqa: E402 - the path is set just above
from router_contract.diagnosis import Certainty  # noqa: E402

PAGE = ROOT / "docs" / "doctor.md"
INTRODUCTION = f"""# Why a target is silent

Written by `make docs` from the table that `observer doctor` walks; a test compares. Change the table, not this page.

```sh
observer doctor NAME -n NAMESPACE            # the observer examines the deployment's targets from where it runs
observer doctor --config fleet.yaml          # every target of fleet files, from this machine
observer doctor --target http://10.0.0.7:8000/metrics --engine vllm --kv-events tcp://10.0.0.7:5557
```

For each target it looks the name up, connects, reads what a scrape would read, looks at TLS where that makes one wonder, tries the
member's other ports, and connects to its KV-event sockets. Of the exposition it names the first cause below that holds; each
KV-event socket is judged by itself. It changes nothing, sends credentials to no port but the target's own, and needs at most a few
seconds for a target. `-o wide` adds what was tried, `-o json` is for programs; it exits with 0 when all is well and 1 when not.

Ask by NAME when it is about a cluster: policies and meshes differ by who asks, and only the observer's own place counts. An answer is
kept for 10 s, and only addresses of observed deployments are dialled.

*Likely* says that the facts leave other causes open. What no row explains is `{UNDETERMINED}`, never well. Words in capitals stand for what
the finding fills in.
"""


class _Capitals(dict[str, str]):
    """Every placeholder as its name in capitals."""

    def __missing__(self, name: str) -> str:
        return name.upper()


def made() -> tuple[str, int]:
    """The page and the number of causes on it."""
    lines = [INTRODUCTION]
    count = 0
    for heading, rows in TABLE:
        lines.append(f"## {heading}\n")
        for row in rows:
            count += 1
            likely = " (likely)" if row.certainty is Certainty.LIKELY else ""
            lines.append(f"### {row.cause}\n")
            lines.append(f"{_shown(row.said)}{likely}.\n")
            lines.append(f"Told apart by: {_shown(row.told)}\n")
            lines += [f"- {_shown(each)}" for each in row.change]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n", count


def _shown(text: str) -> str:
    said = text.format_map(_Capitals())
    return (
        said[:1].upper() + said[1:]
        if not said.startswith(("kubectl", "openssl", "curl", "getent", "ip ", "observer"))
        else f"`{said}`"
    )


def main() -> int:
    """Write or compare."""
    text, count = made()
    if "--check" not in sys.argv:
        PAGE.write_text(text, "utf-8")
    same = PAGE.is_file() and PAGE.read_text("utf-8") == text
    print(f"figure: {count} causes on docs/doctor.md, {'equal to' if same else 'which differs from'} the table")
    if not same:
        print("docs/doctor.md differs: run `make docs` and commit it")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
