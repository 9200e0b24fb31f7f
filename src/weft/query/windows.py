"""The window of a query, however it was written.

Brackets place window *ends* at multiples of the slide; `window(…)`, HOP and TUMBLE place *starts* there, as
in Spark and Flink. Hence `end offset = (start offset + range) mod slide` for the latter:

    [RANGE 12 SLIDE 5]     |-----------|                 ends   at 10, 15, 20
    window(t, 12, 5)       5  |-----------| 17           starts at 5, 10, so ends at 17, 22 (≡ 2 mod 5)
"""

from dataclasses import dataclass

from weft.errors import BadWindow, Span
from weft.expression import Call, Expression, Literal, Slot, SlotKind
from weft.query.duration import MAX_DURATION_MS, milliseconds
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

_NANOSECONDS = {
    TimeUnit.SECONDS: 1_000_000_000, TimeUnit.MILLISECONDS: 1_000_000, TimeUnit.MICROSECONDS: 1_000,
    TimeUnit.NANOSECONDS: 1,
}  # fmt: skip
_ARGUMENTS = {
    "SLIDING": ("window(time, range[, slide[, start]])", 1, 3),
    "HOP": ("HOP(time, slide, size[, start])", 2, 3),
    "TUMBLE": ("TUMBLE(time, size[, start])", 1, 2),
}
_OFFSETS = {"RANGE": 2, "WINDOW": 2, "SLIDING": 2, "HOP": 2, "TUMBLE": 1}
"""Which of a window's durations is its offset, which may be negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundWindow:
    """A window and its place in the text."""

    window: Window
    span: Span
    note: str = ""
    """How the text was understood, if it could be read in two ways."""
    divisor: int | None = None
    """300 if the window was written `time/300`."""
    index: Expression | None = None
    """The value of `time/300`, then."""


def bind_call(node: Invocation, stream: StreamDef, scope: Scope) -> BoundWindow:
    """Return the window that a call in GROUP BY means."""
    form = CALLS[node.name.casefold()]
    if not node.args:
        problem = f"{node.name} needs the event time and durations: {_ARGUMENTS[form][0]}"
        raise BadWindow(problem, span=node.span)
    syntax = WindowSyntax(form=form, time=node.args[0], durations=node.args[1:], span=node.span)
    return bind_window(syntax, stream, scope)


def bind_window(syntax: WindowSyntax, stream: StreamDef, scope: Scope) -> BoundWindow:
    """Return the window that was written."""
    if syntax.time is not None:
        _check_call(syntax, syntax.time, stream, scope)
    offset = _OFFSETS[syntax.form]
    lengths = [
        None if node is None else _length(node, signed=index == offset)
        for index, node in enumerate(syntax.durations)
    ]
    if syntax.form in ("RANGE", "WINDOW"):
        return _bracket(syntax, *lengths)
    return _call(syntax, [length for length in lengths if length is not None])


def _length(node: Node, *, signed: bool) -> int:
    if not isinstance(node, Text | Interval):
        raise BadWindow("expected a duration such as '12 min' or INTERVAL 12 MINUTES", span=node.span)
    return milliseconds(node, signed=signed)


def _bracket(
    syntax: WindowSyntax, range_ms: int | None, slide_ms: int | None, offset_ms: int | None
) -> BoundWindow:
    assert range_ms is not None
    slide_ms = range_ms if slide_ms is None else slide_ms
    _check_positive(syntax, range_ms, slide_ms)
    refresh = Refresh.AT_MOST if syntax.form == "WINDOW" else Refresh.EXACT
    offset_ms = (offset_ms or 0) % slide_ms
    window = Window(range_ms=range_ms, slide_ms=slide_ms, offset_ms=offset_ms, refresh=refresh)
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
    start_ms = sum(start)
    # Spark refuses this; HOP and TUMBLE take any offset, as Flink's do.
    if syntax.form == "SLIDING" and abs(start_ms) >= slide_ms:
        problem = f"the start is moved by {duration(slide_ms)} or more, which is the slide"
        node = syntax.durations[_OFFSETS[syntax.form]]
        raise BadWindow(f"{problem}; as in Spark, it must be by less", span=(node or syntax).span)
    window = Window(range_ms=range_ms, slide_ms=slide_ms, offset_ms=(start_ms + range_ms) % slide_ms)
    return BoundWindow(window=window, span=syntax.span, note=note)


def _check_positive(syntax: WindowSyntax, range_ms: int, slide_ms: int) -> None:
    for index, (name, length) in enumerate((("range", range_ms), ("slide", slide_ms))):
        if length <= 0:
            # HOP may have its arguments in either order.
            at = syntax.durations[min(index, len(syntax.durations) - 1)] if syntax.form != "HOP" else None
            raise BadWindow(f"the {name} is 0; it must be longer, as in '5 min'", span=(at or syntax).span)


def _check_call(syntax: WindowSyntax, time: Node, stream: StreamDef, scope: Scope) -> None:
    if not is_event_time(time, stream, scope):
        if isinstance(time, Name):
            scope.resolve(time)
        problem = f'the window must be over the event time of stream {stream.name}, "{stream.time}"'
        raise BadWindow(problem, span=time.span)
    usage, least, most = _ARGUMENTS[syntax.form]
    count = len(syntax.durations)
    if not least <= count <= most:
        raise BadWindow(f"expected {least} to {most} durations, found {count}: {usage}", span=syntax.span)


def is_event_time(node: Node, stream: StreamDef, scope: Scope) -> bool:
    """Say whether a node is the stream's event time."""
    if not isinstance(node, Name) or not scope.has(node):
        return False
    return scope.resolve(node).name.casefold() == stream.time.casefold()


def quotient(node: Node, stream: StreamDef, scope: Scope) -> int | None:
    """Return 300 for `time/300` over the event time, else None."""
    if not isinstance(node, Operation) or node.operator not in ("/", "div"):
        return None
    time, divisor = node.args
    if not isinstance(divisor, Number) or not divisor.text.isdecimal() or len(divisor.text) > 18:
        return None
    return int(divisor.text) if is_event_time(time, stream, scope) else None


def bind_quotient(node: Node, stream: StreamDef, scope: Scope) -> BoundWindow | None:
    """Return the tumbling window that `GROUP BY time/300` means (Gigascope), or None for others."""
    divisor = quotient(node, stream, scope)
    if divisor is None:
        return None
    unit = stream.time_unit or TimeUnit.SECONDS
    length_ms, rest = divmod(divisor * _NANOSECONDS[unit], 1_000_000)
    if rest or not 0 < length_ms <= MAX_DURATION_MS:
        problem = f"a window of {divisor} {unit} is not whole milliseconds up to ten years"
        raise BadWindow(f"{problem}; divide by another number", span=node.span)
    micros = Literal(length_ms * 1_000, BIGINT)
    index = Call("floor_div", (Call("unix_micros", (START,), BIGINT), micros), BIGINT)
    note = f"{stream.time}/{divisor} read as windows of {duration(length_ms)}"
    window = Window(range_ms=length_ms, slide_ms=length_ms)
    return BoundWindow(window=window, span=node.span, note=note, divisor=divisor, index=index)
