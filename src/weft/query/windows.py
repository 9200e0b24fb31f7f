"""The window of a query, from each way to write one.

Brackets place window *ends* at multiples of the slide; `window(…)`, HOP and TUMBLE place *starts* there, as
in Spark and Flink. Hence `end offset = (start offset + range) mod slide` for the latter:

    [RANGE 12 SLIDE 5]     |-----------|                 ends   at 10, 15, 20
    window(t, 12, 5)       5  |-----------| 17           starts at 5, 10, so ends at 17, 22 (≡ 2 mod 5)
"""

from dataclasses import dataclass

from weft.errors import BadWindow, Span
from weft.expression import Call, Expression, Literal, Slot, SlotKind
from weft.query.duration import MAX_DURATION_MS, parse_duration
from weft.query.logical import StreamDef, TimeUnit
from weft.query.scope import Scope
from weft.query.syntax import Interval, Invocation, Name, Node, Number, Operation, Text, WindowSyntax
from weft.types import BIGINT, TIMESTAMP
from weft.window import Refresh, Window, duration

CALLS = {"window": "SLIDING", "hop": "HOP", "tumble": "TUMBLE"}
"""Functions of GROUP BY that are windows."""
REFUSED_CALLS = frozenset({"session", "session_window", "cumulate", "window_time"})
START = Slot(SlotKind.WINDOW_START, 0, TIMESTAMP)
END = Slot(SlotKind.WINDOW_END, 0, TIMESTAMP)

_US = {TimeUnit.SECONDS: 1_000_000, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1}
_EXAMPLE = "[RANGE '12 min' SLIDE '5 min'] after the stream, or GROUP BY window(time, '12 min', '5 min')"
_ARGUMENTS = {
    "SLIDING": ("window(time, range[, slide[, start]])", 1, 3),
    "HOP": ("HOP(time, slide, size[, start])", 2, 3),
    "TUMBLE": ("TUMBLE(time, size[, start])", 1, 2),
}
_OFFSETS = {"RANGE": 2, "WINDOW": 2, "SLIDING": 2, "HOP": 2, "TUMBLE": 1}
"""Which of a window's durations is its offset, which may be negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundWindow:
    """A window, where it stands, what was understood, and the number that the text may use for it."""

    window: Window
    span: Span
    note: str = ""
    index: Expression | None = None


def no_window(stream: StreamDef, span: Span) -> BadWindow:
    """Say that a query has no window."""
    return BadWindow(f"the query has no window over stream {stream.name}; write {_EXAMPLE}", span=span)


def from_call(node: Invocation) -> WindowSyntax:
    """Return the window that a call in GROUP BY means."""
    form = CALLS[node.name.casefold()]
    if not node.args:
        raise BadWindow(
            f"{node.name} needs the event time and durations: {_ARGUMENTS[form][0]}", span=node.span
        )
    return WindowSyntax(form=form, time=node.args[0], durations=node.args[1:], span=node.span)


def bind_window(syntax: WindowSyntax, stream: StreamDef, scope: Scope) -> BoundWindow:
    """Return the window that was written."""
    if syntax.time is not None:
        _check_time(syntax, syntax.time, stream, scope)
        _check_count(syntax)
    offset = _OFFSETS[syntax.form]
    lengths = [
        None if node is None else _milliseconds(node, signed=place == offset)
        for place, node in enumerate(syntax.durations)
    ]
    if syntax.form in ("RANGE", "WINDOW"):
        return _bracket(syntax, *lengths)
    return _call(syntax, [length for length in lengths if length is not None])


def _bracket(
    syntax: WindowSyntax, range_ms: int | None, slide_ms: int | None, offset: int | None
) -> BoundWindow:
    assert range_ms is not None
    slide = range_ms if slide_ms is None else slide_ms
    _check_positive(syntax, range_ms, slide)
    refresh = Refresh.AT_MOST if syntax.form == "WINDOW" else Refresh.EXACT
    window = Window(range_ms=range_ms, slide_ms=slide, offset_ms=(offset or 0) % slide, refresh=refresh)
    return BoundWindow(window=window, span=syntax.span)


def _call(syntax: WindowSyntax, lengths: list[int]) -> BoundWindow:
    note = ""
    if syntax.form == "TUMBLE":
        range_ms, slide_ms, start = lengths[0], lengths[0], lengths[1:]
    elif syntax.form == "HOP":
        # Flink has (slide, size), others (size, slide); a hop longer than its window is rarely meant.
        (slide_ms, range_ms), start = sorted(lengths[:2]), lengths[2:]
        note = f"HOP read as range {duration(range_ms)}, slide {duration(slide_ms)}"
    else:
        range_ms, slide_ms, start = lengths[0], (lengths[1:] or lengths)[0], lengths[2:]
    _check_positive(syntax, range_ms, slide_ms)
    if syntax.form == "SLIDING":
        _check_start(syntax, sum(start), slide_ms)
    offset = (sum(start) + range_ms) % slide_ms
    window = Window(range_ms=range_ms, slide_ms=slide_ms, offset_ms=offset)
    return BoundWindow(window=window, span=syntax.span, note=note)


def _check_positive(syntax: WindowSyntax, range_ms: int, slide_ms: int) -> None:
    for what, length, place in (("range", range_ms, 0), ("slide", slide_ms, 1)):
        if length <= 0:
            node = syntax.durations[min(place, len(syntax.durations) - 1)]
            if syntax.form == "HOP":
                node = None
            raise BadWindow(f"the {what} is 0; it must be longer, as in '5 min'", span=(node or syntax).span)


def _check_start(syntax: WindowSyntax, start_ms: int, slide_ms: int) -> None:
    """Refuse what Spark refuses; HOP and TUMBLE take any offset, as Flink's do."""
    if abs(start_ms) >= slide_ms:
        problem = f"the start is moved by {duration(slide_ms)} or more, which is the slide"
        node = syntax.durations[_OFFSETS[syntax.form]]
        raise BadWindow(f"{problem}; as in Spark, it must be by less", span=(node or syntax).span)


def _check_time(syntax: WindowSyntax, time: Node, stream: StreamDef, scope: Scope) -> None:
    if not isinstance(time, Name) or not is_event_time(time, stream, scope):
        if isinstance(time, Name):
            scope.resolve(time)
        problem = f'the window must be over the event time of stream {stream.name}, "{stream.time}"'
        raise BadWindow(problem, span=time.span)


def is_event_time(node: Node, stream: StreamDef, scope: Scope) -> bool:
    """Say whether a node is the stream's event time."""
    if not isinstance(node, Name) or not scope.has(node):
        return False
    return scope.resolve(node).name.casefold() == stream.time.casefold()


def _check_count(syntax: WindowSyntax) -> None:
    usage, least, most = _ARGUMENTS[syntax.form]
    if not least <= len(syntax.durations) <= most:
        found = len(syntax.durations)
        raise BadWindow(f"expected {least} to {most} durations, found {found}: {usage}", span=syntax.span)


def _milliseconds(node: Node, *, signed: bool) -> int:
    if not isinstance(node, Text | Interval):
        raise BadWindow("expected a duration such as '12 min' or INTERVAL 12 MINUTES", span=node.span)
    try:
        return parse_duration(node.value if isinstance(node, Text) else node.text, signed=signed)
    except BadWindow as error:
        error.span = node.span
        raise


def quotient(node: Node, stream: StreamDef, scope: Scope) -> int | None:
    """Return 300 for `time/300` over the event time, else None."""
    if not isinstance(node, Operation) or node.operator not in ("/", "div"):
        return None
    time, divisor = node.args
    if not isinstance(divisor, Number) or not divisor.text.isdecimal() or len(divisor.text) > 18:
        return None
    return int(divisor.text) if is_event_time(time, stream, scope) else None


def bind_quotient(divisor: int, stream: StreamDef, span: Span) -> BoundWindow:
    """Return the tumbling window that `GROUP BY time/300` means (Gigascope)."""
    unit = stream.time_unit or TimeUnit.SECONDS
    if unit is TimeUnit.NANOSECONDS:
        micros, rest = divmod(divisor, 1_000)
    else:
        micros, rest = divisor * _US[unit], 0
    if rest or micros % 1_000 or not 0 < micros // 1_000 <= MAX_DURATION_MS:
        problem = f"a window of {divisor} {unit} is not whole milliseconds up to ten years"
        raise BadWindow(f"{problem}; divide by another number", span=span)
    length = micros // 1_000
    index = Call("floor_div", (Call("unix_micros", (START,), BIGINT), Literal(micros, BIGINT)), BIGINT)
    note = f"{stream.time}/{divisor} read as windows of {duration(length)}"
    window = Window(range_ms=length, slide_ms=length)
    return BoundWindow(window=window, span=span, note=note, index=index)
