"""What a terminal shows: numbers, columns that give way, and a screen that is drawn or printed on change."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group
from rich.text import Text

from exporters import signal_tables, tables
from exporters.grid import cells_of, columns_of, grid
from exporters.live import Screen, changes_key, console, deployments_picture, summaries, width
from router_contract.readings import State
from router_contract.verdicts import RoleMeasurement, TargetState
from tests.exporters.reports import Pods, counter, gauge, hist, report

FORMS = {
    tables.number: {None: "-", 0.0: "0", 12.0: "12", 9999.0: "9999", 12_345.0: "12.3k", 0.25: "0.25", 0.004: "0.004"}
    | {2.5e6: "2.5M", 3e9: "3.0G"},
    tables.seconds: {None: "-", 0.0: "0s", 0.00005: "50µs", 0.0015: "1.5ms", 0.012: "12ms", 2.34: "2.3s", 45.0: "45s"}
    | {600.0: "10m", 7200.0: "2h"},
    tables.percent: {None: "-", 0.0: "0.0%", 0.012: "1.2%", 0.43: "43%", 1.0: "100%"},
    tables.size: {None: "-", 10: "10B", 191_000: "186.5KiB", 5 << 20: "5.0MiB", 3 << 30: "3.0GiB"},
}


@pytest.mark.parametrize(
    ("form", "value", "wanted"),
    [(form, value, wanted) for form, cases in FORMS.items() for value, wanted in cases.items()],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_numbers_for_people(form, value: float | None, wanted: str) -> None:
    assert form(value) == wanted


@pytest.mark.parametrize(
    ("value", "unit", "wanted"),
    [
        (0.12, "seconds", "120ms"),
        (12.0, "milliseconds", "12ms"),
        (0.5, "fraction", "50%"),
        (4.0, "requests/second", "4/s"),
        (3.0, "GB/second", "3"),
        (40.0, "MB", "40"),
    ],
)
def test_values_in_their_unit(value: float, unit: str, wanted: str) -> None:
    assert tables.amount(value, unit) == wanted


def items(*groups: Pods) -> list[dict[str, object]]:
    role = RoleMeasurement(name="server", values=(hist("time-to-first-token", 4.0, 0.25),))
    return summaries([report(*groups, roles=(role,))])


def engine(running: float = 3.0) -> Pods:
    return Pods().pod("p", gauge("requests-running", running), gauge("requests-waiting", 1.0))


def router() -> Pods:
    return Pods("router", "Router", "vllm_router").pod("r", counter("router-successful-requests", 60.0))


def printed(picture, columns: int, *, terminal: bool = False) -> list[str]:
    out = io.StringIO()
    target = Console(file=out, width=columns, force_terminal=terminal, color_system=None)
    target.print(picture)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("columns", [60, 70, 80, 100, 120, 200])
def test_every_line_fits_and_the_columns_that_matter_stay(columns: int) -> None:
    lines = printed(tables.deployments(items(engine(), router()), width=columns), columns)
    assert len(lines) == 3
    assert all(len(line) <= columns for line in lines)
    for title in ("DEPLOYMENT", "PHASE", "ROLE", "READY", "ELIGIBLE", "STATE"):
        assert title in lines[0].split()


def test_all_columns_where_there_is_no_width() -> None:
    (heading, *_) = printed(tables.deployments(items(engine()), wide=True), 500)
    assert heading.split("  ")[0] == "NAMESPACE"
    assert {"WHY", "OBSERVED"} <= set(heading.split())


def test_names_are_never_read_as_markup() -> None:
    shown = tables.targets(
        [
            {
                **dict.fromkeys(("ageSeconds", "durationSeconds", "nextDueSeconds", "lastSuccess"), None),
                "namespace": "[red]ns[/]",
                "deployment": "d",
                "pod": "p",
                "software": "",
                "state": "Pending",
                "lastErrorKind": None,
                "lastError": "",
                "bodyBytes": 0,
                "samplesKept": 0,
                "samplesDropped": 0,
            }
        ]
    )
    assert printed(shown, 200)[1].split() == ["[red]ns[/]", "d", "p", "-", "Pending", "-", "-", "-", "-", "-", "-"]


def test_a_screen_without_a_terminal_prints_changes_only() -> None:
    out = io.StringIO()
    target = Console(file=out, width=200)
    with Screen(target) as screen:
        for picture in ("one", "one", "two", "two", "one"):
            screen.show(Text(picture))
    assert out.getvalue() == "one\ntwo\none\n"


def test_a_screen_without_a_terminal_can_be_told_what_a_change_is() -> None:
    out = io.StringIO()
    target = Console(file=out, width=300)
    with Screen(target) as screen:
        for running in (1.0, 2.0, 3.0):
            found = items(engine(running))
            screen.show(deployments_picture(found, target), key=changes_key(found))
        found = items(Pods().pod("p", state=TargetState.FAILING))
        screen.show(deployments_picture(found, target, "note"), key=changes_key(found))
    lines = [line for line in out.getvalue().splitlines() if "server" in line]
    assert ["3" in lines[0].split(), "Unavailable" in lines[1]] == [False, True]
    assert len(lines) == 2
    assert "note" in out.getvalue()


def test_a_screen_on_a_terminal_is_drawn_in_place() -> None:
    out = io.StringIO()
    target = Console(file=out, width=80, force_terminal=True, _environ={"TERM": "xterm"})
    with Screen(target) as screen:
        screen.show(Text("one"))
        screen.show(Text("two"))
    assert "\x1b[" in out.getvalue()
    assert "Ctrl-C ends this." in out.getvalue()
    assert width(target) == 80


def test_no_deployment_is_said() -> None:
    target = Console(file=io.StringIO())
    assert printed(deployments_picture([], target), 80) == ["No deployment is observed."]


def test_output_that_is_no_terminal_keeps_its_lines_whole(capsys) -> None:
    target = console()
    target.print(Text("x" * 500))
    assert capsys.readouterr().out == "x" * 500 + "\n"
    assert width(target) is None


@pytest.mark.parametrize(
    ("more", "wanted"), [({}, "0.50/s"), ({"atLeast": 0.1}, "≤ 0.50/s")], ids=["exact", "upper bound"]
)
def test_an_upper_bound_is_shown_as_one(more: dict[str, float], wanted: str) -> None:
    entry = {"name": "failed-requests", "pod": "r", "unit": "errors/second", "value": 0.5, "samples": 30.0}
    entry |= {"windowSeconds": 60.0, "source": "s", "scope": "router", **more}
    head = {"metadata": {"name": "chat", "namespace": "prod"}, "timestamp": "t", "partial": False}
    shown = Console(width=200, record=True, file=io.StringIO())
    for part in tables.document({**head, "traffic": [entry]}, width=200):
        shown.print(part)
    line = next(line for line in shown.export_text().splitlines() if line.startswith("failed-requests"))
    assert line.split("r ", 1)[1].strip().startswith(wanted)


LONG = {
    "namespace": "production",
    "name": "llama-3-70b-instruct-long-name",
    "phase": "Degraded",
    "answer": {"type": "EndpointEligibility", "status": "False", "reason": "NoEligibleEndpointsAtAll"},
}


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_a_long_phase_gives_way_before_what_is_queued(columns: int) -> None:
    lines = printed(tables.deployments([items(engine())[0] | LONG], width=columns, everywhere=True), columns)
    assert len(lines) == 2
    assert all(len(line) <= columns for line in lines)
    assert {"NAMESPACE", "DEPLOYMENT", "READY", "RUNNING", "WAITING", "STATE"} <= set(lines[0].split())
    assert "Degrade" in lines[1]


def test_a_sum_with_a_stale_part_is_marked() -> None:
    pods = Pods().pod("p", gauge("requests-running", 1.0))
    pods.pod("q", gauge("requests-running", 2.0, state=State.STALE, age=30.0))
    (item,) = items(pods)
    (role,) = item["roles"]
    assert (role["running"], role["runningState"], role["ageSeconds"]) == (3.0, "Stale", 30.0)
    lines = printed(tables.deployments([item], width=100), 100)
    assert "3~" in lines[1].split()
    assert lines[-1].startswith("~ partly stale")
    (fresh,) = items(engine())
    assert fresh["roles"][0]["runningState"] == "Fresh"
    assert not any("~" in line for line in printed(tables.deployments([fresh]), 300))


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((2, 3, 3), "2/3"),
        ((None, 3, 3), "?/3"),
        ((None, 0, 3), "0/3"),
        ((1, 2, None), "1/?"),
        ((None, None, None), "?/?"),
    ],
    ids=["judged", "not known", "none is there", "desired not known", "nothing known"],
)
def test_ready_of_desired(counts: tuple[int | None, ...], wanted: str) -> None:
    (item,) = items(engine())
    (role,) = item["roles"]
    item["roles"] = [role | dict(zip(("ready", "observed", "desired"), counts, strict=True))]
    lines = printed(tables.deployments([item]), 300)
    assert lines[1].split()[lines[0].split().index("READY")] == wanted


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_shortened_names_stay_different(columns: int) -> None:
    names = ["llama-3-70b-instruct-prefill-worker-0-7d9f", "llama-3-70b-instruct-decode-worker-0-7d9f"]
    rows = [cells_of([name, "12345678", "a text that may go"]) for name in names]
    lines = printed(grid(columns_of("POD^, COUNT>, MORE 1"), rows, columns), columns)
    shown = [line.split()[0] for line in lines[1:]]
    assert len(set(shown)) == 2
    assert all("12345678" in line and len(line) <= columns for line in lines[1:])


def test_what_is_missing_for_one_reason_is_one_line() -> None:
    gap = {"code": "ScrapeFailed", "source": "scrape", "reason": "the last read failed: Http: status 500 " + "x" * 80}
    gaps = [gap | {"pod": f"chat-{index}"} for index in range(5)] + [gap | {"pod": "", "source": "pod-discovery"}]
    head = {"metadata": {"name": "chat", "namespace": "prod"}, "timestamp": "t", "partial": True, "missing": gaps}
    lines = printed(Group(*tables.document(head, width=80)), 80)
    assert [line.split()[0] for line in lines[1:]] == ["MISSING", "ScrapeFailed", "ScrapeFailed", "-o"]
    assert "  5 Pods  " in lines[2]
    whole = printed(Group(*tables.document(head, wide=True, width=200)), 200)
    assert sum("chat-" in line for line in whole) == 5


@pytest.mark.parametrize("wide", [False, True])
def test_what_is_missing_names_the_value(wide: bool) -> None:
    gap = {"pod": "r", "code": "NotYet", "source": "requests+retries", "reason": "why"}
    gaps = [gap | {"name": "error-ratio"}, gap | {"name": "failed-requests"}, gap | {"source": "scrape"}]
    head = {"metadata": {"name": "chat", "namespace": "prod"}, "timestamp": "t", "partial": True, "missing": gaps}
    lines = printed(Group(*tables.document(head, wide=wide, width=100)), 100)
    assert lines[1].split() == ["MISSING", "SIGNAL", "POD", "SOURCE", "REASON"]
    assert [line.split()[1] for line in lines[2:5]] == ["error-ratio", "failed-requests", "everything"]


def test_a_moment_is_shown_as_a_time() -> None:
    assert tables.amount(1_800_000_000.0, "unix-seconds") == "2027-01-15T08:00:00.000Z"
    assert tables.amount(1e300, "unix-seconds").endswith("G")


def test_label_pairs_stay_whole_in_a_terminal() -> None:
    labels = {"engine": "0", "model_name": "meta-llama/Llama-3-70B", "finished_reason": "length"}
    entry = {"value": 3.0, "unit": "requests", "labels": labels, "state": "Fresh"}
    answer = {"signals": {"requests-finished-by-reason": [entry]}, "absent": [], "unknown": []}
    lines = printed(signal_tables.signals(answer, width=80), 80)
    assert {"SIGNAL", "LABELS", "VALUE", "STATE"} <= set(lines[0].split())
    text = "\n".join(lines)
    assert all(pair in text for pair in ("engine=0", "model_name=meta-llama/Llama-3…", "finished_reason=length"))
