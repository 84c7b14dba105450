"""The parallelism a role's own arguments declare, read by its engine's rules, with the provenance of the reading.

Nothing is defaulted: a degree that is not written is absent, an explicit 1 and an explicit local 0 stay. A stream that
cannot be read gives no degree, no mode and no balance, and the reason names the flag and the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from observer.judge import parallelism_flags as flags
from observer.judge.argv import INT32_MAX, Occurrence, Option, parse_integer, read_options
from router_contract.status import LoadBalance, Parallelism, ParallelismSource, SourceKind
from router_contract.targets import Role

ENGINES: dict[str, tuple[Option, ...]] = {"vllm": flags.VLLM, "sglang": flags.SGLANG}


@lru_cache(maxsize=256)
def engine_family(name: str) -> str:
    """``vllm`` or ``sglang`` for any spelling an operator uses, else the name in lower case."""
    lower = name.lower()
    return next((family for family in ENGINES if lower.startswith(family)), lower)


def read_parallelism(role: Role, *, managed: bool, ranks_seen: int | None = None) -> Parallelism:
    """The reading of a role. ``managed``: an operator renders the command, so a command in the spec is a take-over."""
    if managed and role.command:
        return _unread(SourceKind.UNKNOWN, "Unmanaged", ranks_seen)
    family = engine_family(role.engine)
    options = ENGINES.get(family)
    if options is None:
        return _unread(SourceKind.UNKNOWN, f"engine {role.engine!r} has no argument table", ranks_seen)
    arguments = role.arguments if managed else (*role.command, *role.arguments)
    if not managed and not arguments:
        return _unread(SourceKind.UNKNOWN, "no arguments were observed", ranks_seen)
    found = read_options(arguments, options, underscores=family == "vllm")
    degrees, fault = _degrees(found)
    if not fault and family == "vllm":
        fault = _environment(degrees, role.environment)
    if fault:
        return _unread(SourceKind.UNKNOWN, fault, ranks_seen)
    balance, open_fact = load_balance(found, degrees) if family == "vllm" else (LoadBalance.INTERNAL, "")
    kind = SourceKind.EXTRA_ARGS if managed else SourceKind.COMMAND
    return Parallelism(
        declared=tuple((name, degrees[name]) for name in flags.DEGREES if name in degrees),
        modes=_modes(found),
        load_balance=balance,
        source=ParallelismSource(kind=kind, complete=True, unreadable_reason=open_fact),
        ranks_seen=ranks_seen,
    )


def _unread(kind: SourceKind, reason: str, ranks_seen: int | None) -> Parallelism:
    source = ParallelismSource(kind=kind, complete=False, unreadable_reason=reason)
    return Parallelism(source=source, ranks_seen=ranks_seen)


def _degrees(found: Sequence[Occurrence]) -> tuple[dict[str, int], str]:
    """Last-wins degrees, or a fault that makes the whole reading unknown: every occurrence must be readable."""
    degrees: dict[str, int] = {}
    for item in found:
        minimum = item.option.minimum
        if minimum is None:
            continue
        if item.doubtful:
            return {}, f"{item.flag}: how {item.value!r} is read depends on the Python version"
        if item.value is None:
            return {}, f"{item.flag} has no value"
        number = parse_integer(item.value)
        if number is None:
            return {}, f"{item.flag} is {item.value!r}, an integer is wanted"
        if number < minimum:
            return {}, f"{item.flag} is {item.value!r}, at least {minimum} is wanted"
        if number > INT32_MAX:
            return {}, f"{item.flag} is {item.value!r}, beyond a 32-bit integer"
        degrees[item.option.dest] = number
    return degrees, ""


def _environment(degrees: dict[str, int], environment: Sequence[tuple[str, str]]) -> str:
    """Apply the variable where the engine itself reads it: no data degree above 1 and no explicit local 0."""
    values = [value for name, value in environment if name == flags.DP_SIZE_VARIABLE]
    if not values or degrees.get(flags.DATA, 1) > 1 or degrees.get(flags.DATA_LOCAL) == 0:
        return ""
    number = parse_integer(values[-1])
    if number is None or not 1 <= number <= INT32_MAX:
        return f"{flags.DP_SIZE_VARIABLE} is {values[-1]!r}, an integer of at least 1 is wanted"
    degrees[flags.DATA] = number
    return ""


def _modes(found: Sequence[Occurrence]) -> tuple[tuple[str, bool], ...]:
    modes: dict[str, bool] = {}
    for item in found:
        if item.option.dest.startswith("mode:") and not item.inline:
            modes[item.option.dest.removeprefix("mode:")] = not item.negated
    return tuple(sorted(modes.items()))


def _last(found: Sequence[Occurrence], dest: str) -> Occurrence | None:
    matching = [item for item in found if item.option.dest == dest and (item.option.takes_value or not item.inline)]
    return matching[-1] if matching else None


def _set(found: Sequence[Occurrence], dest: str) -> bool:
    item = _last(found, dest)
    return item is not None and not item.negated


def load_balance(found: Sequence[Occurrence], degrees: dict[str, int]) -> tuple[LoadBalance, str]:
    """The mode of a vLLM role and, where the flags leave it open, the reason."""
    shapes: set[LoadBalance] = set()
    if _set(found, flags.EXTERNAL) or _set(found, flags.RANK):
        shapes.add(LoadBalance.EXTERNAL)
    if _set(found, flags.HYBRID) or (LoadBalance.EXTERNAL in shapes and _set(found, flags.START_RANK)):
        shapes.add(LoadBalance.HYBRID)
    if _set(found, flags.MULTI_PORT):
        shapes.add(LoadBalance.MULTI_PORT)
    if len(shapes) > 1:
        dests = (*flags.VOTES, flags.START_RANK)
        names = sorted({item.flag for item in found if item.option.dest in dests and not item.negated})
        return LoadBalance.UNKNOWN, f"flags disagree: {', '.join(names)}"
    data, local = degrees.get(flags.DATA, 1), degrees.get(flags.DATA_LOCAL)
    if shapes:
        shape = shapes.pop()
        if shape is LoadBalance.HYBRID and local == data:
            return LoadBalance.INTERNAL, ""
        return (LoadBalance.EXTERNAL if shape is LoadBalance.HYBRID and local == 1 else shape), ""
    return _without_votes(found, data, local)


def _without_votes(found: Sequence[Occurrence], data: int, local: int | None) -> tuple[LoadBalance, str]:
    if not _set(found, flags.START_RANK) or _set(found, flags.HEADLESS):
        return LoadBalance.INTERNAL, ""
    if local:
        if local < data:
            return (LoadBalance.EXTERNAL if local == 1 else LoadBalance.HYBRID), ""
        return LoadBalance.INTERNAL, ""
    nodes = _last(found, flags.NODES)
    if nodes is None:
        return LoadBalance.INTERNAL, ""
    count = parse_integer(nodes.value or "")
    if count is None:
        return LoadBalance.UNKNOWN, f"{nodes.flag} is {nodes.value!r}, an integer is wanted"
    if count != 1:
        return LoadBalance.UNKNOWN, f"{nodes.flag} is {count}: the local data-parallel size is needed"
    return LoadBalance.INTERNAL, ""


def disaggregated(role: Role) -> bool:
    """Whether the deployed command makes the engine a half of a pair or moves balancing outside it."""
    return _disaggregates(role.engine, (*role.command, *role.arguments))


@lru_cache(maxsize=1024)
def _disaggregates(engine: str, arguments: tuple[str, ...]) -> bool:
    """The same of an engine's command line; roles keep theirs while each of their groups asks at every pass."""
    if engine_family(engine) == "sglang":
        found = read_options(arguments, (flags.DISAGGREGATION,))
        return bool(found) and (found[-1].value or "") in {"prefill", "decode"}
    found = read_options(arguments, flags.VLLM, underscores=True)
    return any(_set(found, dest) for dest in flags.VOTES)
