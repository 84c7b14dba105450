"""The doctor: from facts about a target to findings, by a table of causes walked from top to bottom.

For the exposition the first row that holds is the finding; every KV-event socket is judged by itself. Facts that no row
explains are a finding too: nothing is ever well because nobody understood it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from observer.judge import diagnosis_answer, diagnosis_kv, diagnosis_reach, diagnosis_tls
from observer.judge.diagnosis_row import Row
from router_contract.diagnosis import Answer, Certainty, Diagnosis, Dial, Examined, Facts, KvSeen

TABLE: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("Reaching it", diagnosis_reach.ROWS),
    ("TLS and meshes", diagnosis_tls.ROWS),
    ("What answers", diagnosis_answer.ROWS),
    ("KV events", diagnosis_kv.ROWS),
)
"""Every row under the heading it is printed under."""
EXPOSITION: tuple[Row, ...] = (*diagnosis_reach.ROWS, *diagnosis_tls.ROWS, *diagnosis_answer.ROWS)
UNDETERMINED = "Undetermined"


def examine(facts: Facts) -> Examined:
    """Everything that is wrong with one target, the exposition first."""
    findings = (*_exposition(facts), *_kv(facts))
    return Examined(
        namespace=facts.namespace,
        deployment=facts.deployment,
        role=facts.role,
        member=facts.member,
        component=facts.component,
        software=facts.software,
        url=_url(facts),
        well=not findings,
        findings=findings,
    )


def _exposition(facts: Facts) -> Iterator[Diagnosis]:
    found = first(EXPOSITION, facts)
    if found is not None:
        yield found
    elif facts.answer is None or facts.answer.failure is not None or facts.answer.contents is None:
        answer = facts.answer
        yield Diagnosis(
            cause=UNDETERMINED,
            certainty=Certainty.LIKELY,
            said=f"{_url(facts)} is silent and no known cause explains it",
            seen=_seen(facts),
            change=(f"curl -v {_url(facts)}",) if answer is not None else (),
        )


def _kv(facts: Facts) -> Iterator[Diagnosis]:
    for each in facts.kv:
        for what, endpoint, dial in _sockets(each):
            about = msgspec.structs.replace(facts, dial=dial, port=dial.port)
            found = first(diagnosis_kv.ROWS, about, {"kv_what": what, "kv_endpoint": endpoint})
            if found is not None:
                yield found


def _sockets(each: KvSeen) -> Iterator[tuple[str, str, Dial]]:
    rank = f" of rank {each.rank}" if each.rank else ""
    if each.events is not None:
        yield f"KV-event{rank}", each.endpoint, each.events
    if each.replay is not None:
        yield f"replay{rank}", each.replay_endpoint, each.replay


def first(rows: Sequence[Row], facts: Facts, more: Mapping[str, object] | None = None) -> Diagnosis | None:
    """The finding of the first row that holds, ``None`` when none does."""
    for row in rows:
        needs = row.when(facts)
        if needs is not None:
            words = {**_words(facts), **(more or {}), **needs}
            return Diagnosis(
                cause=row.cause,
                certainty=row.certainty,
                said=row.said.format_map(words),
                seen=_seen(facts),
                change=_change(row, facts, words),
            )
    return None


def _change(row: Row, facts: Facts, words: Mapping[str, object]) -> tuple[str, ...]:
    """What to change; commands about a Pod only where one is known, unless they are all there is."""
    lines = tuple(each.format_map(words) for each in row.change)
    kept = tuple(line for line in lines if facts.member or not line.startswith("kubectl"))
    return kept or lines


def _url(facts: Facts) -> str:
    return f"{facts.scheme}://{_host(facts)}:{facts.port}{facts.path}"


def _host(facts: Facts) -> str:
    return f"[{facts.host}]" if ":" in facts.host else facts.host


def _words(facts: Facts) -> dict[str, object]:
    answer = facts.answer if facts.answer is not None else Answer()
    return {
        "namespace": facts.namespace,
        "member": facts.member or "POD",
        "software": facts.software or "the program",
        "component": facts.component,
        "version": facts.version or "the one that it reports",
        "scheme": facts.scheme,
        "host": _host(facts),
        "port": facts.port,
        "path": facts.path,
        "url": _url(facts),
        "status": answer.status,
        "answer_detail": answer.detail,
        "dial_detail": facts.dial.detail if facts.dial is not None else "",
        "dns_error": facts.dns_error,
        "local_fault": facts.local_fault,
    }


def _seen(facts: Facts) -> tuple[str, ...]:
    """What was tried and what came of it, a line each."""
    lines: list[str] = []
    if facts.addresses:
        lines.append(f"{facts.host} is {', '.join(facts.addresses[:4])}")
    if facts.dial is not None:
        lines.append(f"connecting to port {facts.dial.port}: {facts.dial.reach.value} in {facts.dial.seconds:.2f} s")
    if facts.answer is not None:
        lines.append(f"reading: {_told(facts.answer)}")
    if facts.tls is not None:
        lines.append(f"TLS on the port: {'spoken' if facts.tls.spoken else 'not spoken'} {facts.tls.reason}".rstrip())
    lines += [
        f"port {each.port}{each.path}: {each.reach.value}, {each.own} names of {facts.software}"
        for each in facts.elsewhere
    ]
    return tuple(lines)


def _told(answer: Answer) -> str:
    if answer.failure is not None:
        return f"{answer.failure.value}: {answer.detail}"
    if answer.contents is None:
        return f"{answer.size} bytes"
    return (
        f"{answer.contents.names} names, {answer.contents.own} of the program, {answer.contents.matched} signals read"
    )
