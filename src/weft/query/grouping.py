"""GROUP BY: which of its items is the window, and which are keys; and the window, however it was written.

Brackets place window *ends* at multiples of the slide; `window(…)`, HOP, TUMBLE and CUMULATE place *starts*
there, as in Spark and Flink. Hence `end offset = (start offset + range) mod slide` for the latter:

    [RANGE 12 SLIDE 5]     |-----------|                 ends   at 10, 15, 20
    window(t, 12, 5)       5  |-----------| 17           starts at 5, 10, so ends at 17, 22 (≡ 2 mod 5)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import BadWindow, GroupingMistake, NotAllowed, Span
from weft.expression import Call, Expression, Literal, Slot, SlotKind
from weft.query.duration import MAX_DURATION_MS, milliseconds
from weft.query.expressions import Context, typed
from weft.query.joins import From
from weft.query.logical import NamedExpression, TimeUnit
from weft.query.syntax import (
    Interval,
    Invocation,
    ItemSyntax,
    Name,
    Node,
    Number,
    Operation,
    SelectSyntax,
    SetsSyntax,
    Text,
    WindowSyntax,
)
from weft.types import BIGINT, TIMESTAMP
from weft.window import Refresh, Window, duration

CALLS = {"window": "SLIDING", "hop": "HOP", "tumble": "TUMBLE", "cumulate": "CUMULATE"}
"""Functions of GROUP BY that are windows."""
REFUSED_CALLS = frozenset({"session", "session_window", "window_time"})
START = Slot(SlotKind.WINDOW_START, 0, TIMESTAMP)
END = Slot(SlotKind.WINDOW_END, 0, TIMESTAMP)
GROUPING = Slot(SlotKind.GROUPING, 0, BIGINT)

_NANOSECONDS = {
    TimeUnit.SECONDS: 1_000_000_000, TimeUnit.MILLISECONDS: 1_000_000, TimeUnit.MICROSECONDS: 1_000,
    TimeUnit.NANOSECONDS: 1,
}  # fmt: skip
_ARGUMENTS = {
    "SLIDING": ("window(time, range[, slide[, start]])", 1, 3),
    "HOP": ("HOP(time, slide, size[, start])", 2, 3),
    "TUMBLE": ("TUMBLE(time, size[, start])", 1, 2),
    "CUMULATE": ("CUMULATE(time, step, size[, start])", 2, 3),
}
_TRUNCATED = {
    "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
"""The units of date_trunc that are windows, in milliseconds."""
_VARYING = frozenset({"month", "quarter", "year"})
_MONDAY_MS = 946_857_600_000
"""3 January 2000, a Monday: the start of a week, and the origin of time_bucket in TimescaleDB and DuckDB."""
_OFFSETS = {"RANGE": 2, "WINDOW": 2, "SLIDING": 2, "HOP": 2, "TUMBLE": 1, "CUMULATE": 2}
"""Which of a window's durations is its offset, which may be negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundWindow:
    """A window and its place in the text."""

    window: Window
    span: Span
    note: str = ""
    """How the text was understood, if it could be read in two ways."""
    buckets: "Buckets | None" = None
    """What GROUP BY had in place of a window function, if it had."""
    value: Expression | None = None
    """Its value, then: of `time/300`, the number of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """An expression of the event time whose values are adjacent windows."""

    units: int | None = None
    """300 for `time/300`."""
    length_ms: int = 0
    start_ms: int = 0
    """A moment at which one of `date_trunc(…)` or `time_bucket(…)` starts."""


def bind_window(syntax: WindowSyntax, origin: From) -> BoundWindow:
    """Return the window that was written."""
    lengths = _lengths(syntax, origin)
    given = [length for length in lengths if length is not None]
    if syntax.form == "CUMULATE":
        return _bind_cumulative(syntax, *given)
    range_ms, slide_ms, note, start = given[0], given[0], "", given[1:]
    if syntax.form == "HOP":
        # Flink has (slide, size), others (size, slide); a hop longer than its window is rarely meant.
        (slide_ms, range_ms), start = sorted(given[:2]), given[2:]
        note = f"HOP read as range {duration(range_ms)}, slide {duration(slide_ms)}"
    elif syntax.form == "SLIDING":
        slide_ms, start = (given[1:] or given)[0], given[2:]
    elif syntax.form != "TUMBLE":
        slide_ms = range_ms if lengths[1] is None else lengths[1]
    for index, (name, length) in enumerate((("range", range_ms), ("slide", slide_ms))):
        if length <= 0:
            # HOP may have its arguments in either order.
            at = syntax.durations[min(index, len(syntax.durations) - 1)] if syntax.form != "HOP" else None
            raise BadWindow(f"the {name} is 0; it must be longer, as in '5 min'", span=(at or syntax).span)
    # Spark refuses this; HOP and TUMBLE take any offset, as Flink's do.
    if syntax.form == "SLIDING" and abs(sum(start)) >= slide_ms:
        problem = f"the start is moved by {duration(slide_ms)} or more, which is the slide"
        node = syntax.durations[_OFFSETS[syntax.form]]
        raise BadWindow(f"{problem}; as in Spark, it must be by less", span=(node or syntax).span)
    is_bracket = syntax.form in ("RANGE", "WINDOW")
    offset_ms = (lengths[2] or 0) if is_bracket else sum(start) + range_ms
    refresh = Refresh.AT_MOST if syntax.form == "WINDOW" else Refresh.EXACT
    window = Window(range_ms=range_ms, slide_ms=slide_ms, offset_ms=offset_ms % slide_ms, refresh=refresh)
    return BoundWindow(window=window, span=syntax.span, note=note)


def _bind_cumulative(syntax: WindowSyntax, step_ms: int, size_ms: int, start_ms: int = 0) -> BoundWindow:
    """Return windows that start at multiples of their size, and end step by step."""
    if step_ms <= 0 or size_ms <= 0:
        node = syntax.durations[0 if step_ms <= 0 else 1] or syntax
        word = "step" if step_ms <= 0 else "size"
        raise BadWindow(f"the {word} is 0; it must be longer, as in '5 min'", span=node.span)
    if size_ms % step_ms:
        problem = f"the size, {duration(size_ms)}, is no multiple of the step, {duration(step_ms)}"
        usage = _ARGUMENTS["CUMULATE"][0]
        raise BadWindow(
            f"{problem}; the step comes first: {usage}", span=(syntax.durations[1] or syntax).span
        )
    step = None if step_ms == size_ms else step_ms
    window = Window(range_ms=size_ms, slide_ms=size_ms, offset_ms=start_ms % size_ms, step_ms=step)
    return BoundWindow(window=window, span=syntax.span)


def _lengths(syntax: WindowSyntax, origin: From) -> list[int | None]:
    """Return the durations of a window, once its arguments are known to be right."""
    if syntax.time is not None:
        if not is_event_time(syntax.time, origin):
            if isinstance(syntax.time, Name):
                origin.scope.resolve(syntax.time)
            stream = origin.stream
            problem = f'the window must be over the event time of stream {stream.name}, "{stream.time}"'
            raise BadWindow(problem, span=syntax.time.span)
        usage, least, most = _ARGUMENTS[syntax.form]
        count = len(syntax.durations)
        if not least <= count <= most:
            raise BadWindow(f"expected {least} to {most} durations, found {count}: {usage}", span=syntax.span)
    lengths: list[int | None] = []
    for index, node in enumerate(syntax.durations):
        if node is not None and not isinstance(node, Text | Interval):
            raise BadWindow("expected a duration such as '12 min' or INTERVAL 12 MINUTES", span=node.span)
        is_offset = index == _OFFSETS[syntax.form]
        lengths.append(None if node is None else milliseconds(node, signed=is_offset))
    return lengths


def is_event_time(node: Node, origin: From) -> bool:
    """Say whether a node is the stream's event time."""
    if not isinstance(node, Name) or not origin.scope.has(node):
        return False
    return origin.scope.resolve(node).name.casefold() == origin.stream.time.casefold()


def buckets(node: Node, origin: From) -> Buckets | None:
    """Return what `time/300`, `date_trunc('minute', time)` or `time_bucket('5 min', time)` cut time into."""
    match node:
        case Operation(operator="/" | "div", args=(time, Number(text=text))):
            written = text.isdecimal() and len(text) <= 18 and is_event_time(time, origin)
            return Buckets(units=int(text)) if written else None
        case Invocation(args=(Text(value=unit), time)) if node.name.casefold() == "date_trunc":
            length_ms = _TRUNCATED.get(unit.casefold())
            if length_ms is None or not is_event_time(time, origin):
                return None
            return Buckets(length_ms=length_ms, start_ms=_MONDAY_MS % length_ms)
        case Invocation(args=(Text() | Interval() as length, time)) if node.name.casefold() == "time_bucket":
            length_ms = milliseconds(length)
            if length_ms <= 0 or not is_event_time(time, origin):
                return None
            return Buckets(length_ms=length_ms, start_ms=_MONDAY_MS % length_ms)
    return None


def bind_buckets(node: Node, origin: From) -> BoundWindow | None:
    """Return the adjacent windows that an expression of GROUP BY means, or None for others."""
    found = buckets(node, origin)
    if found is None:
        return None
    if found.units is not None:
        return _bind_quotient(node, found.units, origin)
    length_ms = found.length_ms
    window = Window(range_ms=length_ms, slide_ms=length_ms, offset_ms=found.start_ms)
    return BoundWindow(window=window, span=node.span, buckets=found, value=START)


def _bind_quotient(node: Node, divisor: int, origin: From) -> BoundWindow:
    """Return the windows of `GROUP BY time/300` (Gigascope)."""
    unit = origin.stream.time_unit or TimeUnit.SECONDS
    length_ms, rest = divmod(divisor * _NANOSECONDS[unit], 1_000_000)
    if rest or not 0 < length_ms <= MAX_DURATION_MS:
        problem = f"a window of {divisor} {unit} is not whole milliseconds up to ten years"
        raise BadWindow(f"{problem}; divide by another number", span=node.span)
    micros = Literal(length_ms * 1_000, BIGINT)
    value = Call("floor_div", (Call("unix_micros", (START,), BIGINT), micros), BIGINT)
    note = f"{origin.stream.time}/{divisor} read as windows of {duration(length_ms)}"
    window = Window(range_ms=length_ms, slide_ms=length_ms)
    return BoundWindow(window=window, span=node.span, note=note, buckets=Buckets(units=divisor), value=value)


_MOST_KEYS = 63
"""Maximum number of keys of a query with grouping sets: each is a bit of grouping_id()."""
_EXAMPLE = "[RANGE '12 min' SLIDE '5 min'] after the stream, or GROUP BY window(time, '12 min', '5 min')"
RESERVED_OUTPUTS = {"window_start": START, "window_end": END}
"""Columns that all results have."""
_BOUNDS = {
    ("window_start",): START, ("window_end",): END, ("window", "start"): START, ("window", "end"): END,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The window and keys of a query, and the names that GROUP BY gives them."""

    bound: BoundWindow
    keys: tuple[NamedExpression, ...]
    aliases: tuple[tuple[str, Expression], ...]
    """Folded names: expressions over columns, or over the window's slots."""
    sets: tuple[tuple[int, ...], ...] = ()
    """Which keys each grouping set has; empty without ROLLUP and the like."""


def window_bound(node: Node) -> Expression | None:
    """Return the slot of `window_start`, `window.end` and the like."""
    return _BOUNDS.get(tuple(part.casefold() for part in node.parts)) if isinstance(node, Name) else None


def bind_grouping(syntax: SelectSyntax, origin: From, context: Context) -> Grouping:
    """Return the window and the keys of a query."""
    bound: BoundWindow | None = None
    if origin.source.window is not None:
        bound = bind_window(origin.source.window, origin)
    keys: list[ItemSyntax] = []
    aliases: dict[str, Expression] = {}
    items = [_followed(written, syntax, origin) for written in syntax.groups]
    truncates = bound is None and not any(_is_window(item.node, origin) for item in items)
    for written, item in zip(syntax.groups, items, strict=True):
        window = _window(item.node, origin, truncates=truncates)
        if window is None:
            keys.append(item)
        elif bound is not None:
            raise BadWindow("the query has two windows; remove one", span=written.node.span)
        else:
            bound = window
            if item.alias and window.value is not None:
                aliases[item.alias.casefold()] = window.value
    if bound is None:
        for item in items:
            _refuse_varying(item.node, origin)
        problem = f"the query has no window over stream {origin.stream.name}; write {_EXAMPLE}"
        raise BadWindow(problem, span=origin.source.span)
    named, places = _keys(keys, aliases, origin, context)
    sets = _bind_sets(syntax.sets, [places.get(id(item)) for item in items], named)
    return Grouping(bound=bound, keys=named, aliases=tuple(aliases.items()), sets=sets)


def _bind_sets(
    syntax: SetsSyntax | None, places: Sequence[int | None], keys: tuple[NamedExpression, ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the keys of each grouping set, given the key that each item is; the window is none."""
    if syntax is None:
        return ()
    windows = {index for index, place in enumerate(places) if place is None}
    if not all(windows.issubset(own) for own in syntax.sets):
        problem = "the window is part of every result, so no grouping set is without it"
        raise BadWindow(
            f"{problem}; write it first, as in GROUP BY window(…), ROLLUP(a, b)", span=syntax.span
        )
    if len(keys) > _MOST_KEYS:
        problem = f"GROUP BY has {len(keys)} keys, and with grouping sets the most is {_MOST_KEYS}"
        raise GroupingMistake(f"{problem}; remove some", span=syntax.span)
    sets = [
        tuple(sorted({place for index in own if (place := places[index]) is not None})) for own in syntax.sets
    ]
    for number, own in enumerate(sets):
        if own in sets[:number]:
            names = ", ".join(keys[place].name for place in own)
            problem = f"the grouping set ({names}) occurs twice, and its results would come twice"
            raise GroupingMistake(f"{problem}; name each set once in GROUPING SETS", span=syntax.span)
    return tuple(sets)


def _keys(
    items: list[ItemSyntax], aliases: dict[str, Expression], origin: From, context: Context
) -> tuple[tuple[NamedExpression, ...], dict[int, int]]:
    """Return the keys, and which of them each item is, by identity; add their aliases to the others."""
    keys: dict[Expression, NamedExpression] = {}
    places: dict[int, int] = {}
    for item in items:
        node = item.node
        if isinstance(node, Name) and window_bound(node) is not None and not origin.scope.has(node):
            continue
        expression = typed(node, context)
        name = output_name(item)
        if name.casefold() in RESERVED_OUTPUTS:
            problem = f'the results have a column "{name}" of their own'
            raise NotAllowed(f"{problem}; add an alias, as in {item.written} AS k", span=node.span)
        taken = {key.name.casefold() for key in keys.values()}
        candidates = (name, item.written, *(f"{name}_{number}" for number in range(2, len(taken) + 3)))
        name = next(candidate for candidate in candidates if candidate.casefold() not in taken)
        keys.setdefault(expression, NamedExpression(name=name, expression=expression))
        places[id(item)] = list(keys).index(expression)
        if item.alias:
            aliases[item.alias.casefold()] = expression
    return tuple(keys.values()), places


def output_name(item: ItemSyntax) -> str:
    """Return the name of an item's column: its alias, its column's, or its text."""
    if item.alias is not None:
        return item.alias
    return item.node.parts[-1] if isinstance(item.node, Name) else item.written


def _followed(item: ItemSyntax, syntax: SelectSyntax, origin: From) -> ItemSyntax:
    """Follow `GROUP BY 1` and `GROUP BY alias` to the item of SELECT."""
    node = item.node
    if isinstance(node, Number) and item.alias is None:
        return syntax.items[ordinal(node, len(syntax.items), "GROUP BY")]
    if isinstance(node, Name) and len(node.parts) == 1 and not origin.scope.has(node):
        for selected in syntax.items:
            if selected.alias is not None and selected.alias.casefold() == node.parts[0].casefold():
                return selected
    return item


def ordinal(node: Number, count: int, clause: str) -> int:
    """Return the index of the item of SELECT that a number names."""
    if not node.text.isdecimal() or len(node.text) > 6 or not 1 <= int(node.text) <= count:
        problem = f"{clause} {node.text} names no item of SELECT; it has {count}"
        raise GroupingMistake(problem, span=node.span)
    return int(node.text) - 1


def is_window_call(node: Invocation) -> bool:
    """Say whether a function is one of GROUP BY that is nothing but a window."""
    return node.name.casefold() in CALLS or node.name.casefold() == "time_bucket"


def _is_window(node: Node, origin: From) -> bool:
    """Say whether an item of GROUP BY can only be a window; date_trunc may also be a key beside one."""
    if not isinstance(node, Invocation):
        return buckets(node, origin) is not None
    return is_window_call(node) or node.name.casefold() in REFUSED_CALLS


def _window(node: Node, origin: From, *, truncates: bool) -> BoundWindow | None:
    """Return the window that an item of GROUP BY means, or None for a key.

    `truncates` says whether date_trunc is a window, as there is no other.
    """
    if not isinstance(node, Invocation):
        return bind_buckets(node, origin)
    form, name = CALLS.get(node.name.casefold()), node.name
    if name.casefold() in REFUSED_CALLS:
        problem = f"{name} is not in the language; use window, HOP, TUMBLE or CUMULATE"
        raise BadWindow(problem, span=node.name_span)
    if name.casefold() == "date_trunc":
        return bind_buckets(node, origin) if truncates else None
    if name.casefold() == "time_bucket":
        window = bind_buckets(node, origin)
        if window is None:
            raise _unusable_bucket(node, origin)
        return window
    if form is None:
        return None
    if not node.args:
        problem = f"{name} needs the event time and durations: {_ARGUMENTS[form][0]}"
        raise BadWindow(problem, span=node.span)
    syntax = WindowSyntax(form=form, time=node.args[0], durations=node.args[1:], span=node.span)
    return bind_window(syntax, origin)


def _refuse_varying(node: Node, origin: From) -> None:
    """Refuse `date_trunc('month', time)` as the only window."""
    match node:
        case Invocation(args=(Text(value=unit), time)) if node.name.casefold() == "date_trunc":
            if unit.casefold() in _VARYING and is_event_time(time, origin):
                problem = f"a {unit.casefold()} has no fixed length, so it is not a window"
                hint = "use a unit from second to week, or days, as in time_bucket('30 days', …)"
                raise BadWindow(f"{problem}; {hint}", span=node.args[0].span)


def _unusable_bucket(node: Invocation, origin: From) -> BadWindow:
    time = origin.stream.time
    if len(node.args) != 2 or not isinstance(node.args[0], Text | Interval):
        return BadWindow(
            f"time_bucket takes a duration and the event time: time_bucket('5 min', {time})", span=node.span
        )
    if not is_event_time(node.args[1], origin):
        problem = f'the window must be over the event time of stream {origin.stream.name}, "{time}"'
        return BadWindow(problem, span=node.args[1].span)
    return BadWindow("the window is 0 long; it must be longer, as in '5 min'", span=node.args[0].span)
