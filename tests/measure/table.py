"""A small table of a program that does not exist, and bodies of it."""

from __future__ import annotations

from observer.measure.extract import Extractor, Frame
from router_contract.signals import Kind
from router_contract.targets import Component
from router_contract.vocabulary import Absence, Labels, Matcher, Term, Vocabulary

TABLE = Vocabulary(
    name="toy",
    component=Component.ENGINE,
    labels=Labels(model=("model",), rank=("engine", "dp"), copy=("tp",), process=("pid",)),
    terms=(
        Term(signal="requests-running", name="toy:running", sentinels=(-1.0,)),
        Term(signal="kv-cache-usage", name="toy:usage", since="0.3.0"),
        Term(signal="kv-cache-usage", name="toy:old_usage", before="0.4.0", preference=1, scale=0.01),
        Term(signal="kv-capacity-blocks", name="toy:config_info", value_label="blocks"),
        Term(signal="cache-config", name="toy:config_info"),
        Term(signal="prompt-tokens", name="toy:prompt_total"),
        Term(signal="requests-finished", name="toy:done_total", keep=(("reason", "why"),)),
        Term(
            signal="aborted-requests",
            name="toy:done_total",
            match=(Matcher("why", ("abort",)),),
            absence=Absence.NOT_YET,
            paired="requests-finished",
        ),
        Term(signal="preemptions", name="toy:preempted_total", absence=Absence.NOT_YET, paired="prompt-tokens"),
        Term(signal="time-to-first-token", name="toy:ttft_seconds"),
        Term(
            signal="inter-token-latency", name="toy:itl_seconds", absence=Absence.NOT_YET, paired="time-to-first-token"
        ),
        Term(signal="transfer-latency", name="toy:transfer_seconds", scale=1e3, since="0.5.0"),
        Term(signal="transfer-latency", name="toy:transfer_ms", kind=Kind.GAUGE, preference=1),
        Term(signal="process-start-time", name="process_start_time_seconds"),
    ),
    prefixes=("toy:",),
    ignored=("toy:boring",),
    version_terms=(("toy:build_info", "version"),),
)


def read(body: bytes, **options) -> Frame:
    frame = Extractor(TABLE, **options).read(body)
    assert isinstance(frame, Frame), frame
    return frame


def values(frame: Frame, signal: str) -> dict:
    return {tuple(text for _, text in each.labels): each.value for each in frame.series(signal)}


def histogram(name: str, counts: dict, total: float | None = None, labels: str = "") -> bytes:
    """The lines of one wire histogram: cumulative ``{bound text: count}``."""
    comma = "," if labels else ""
    lines = [f'{name}_bucket{{{labels}{comma}le="{bound}"}} {count}' for bound, count in counts.items()]
    lines.append(f"{name}_count{{{labels}}} {list(counts.values())[-1]}")
    if total is not None:
        lines.append(f"{name}_sum{{{labels}}} {total}")
    return ("\n".join(lines) + "\n").encode()
