"""The grammar of FROM: the stream, its window, and the tables joined to it."""

from weft.errors import BadWindow
from weft.query.cursor import Cursor
from weft.query.interval_literal import duration_literal
from weft.query.lexer import Token, TokenKind
from weft.query.operators import expression
from weft.query.syntax import Name, Node, SourceSyntax, WindowSyntax

_REFUSED_JOINS = {
    "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN", "CROSS": "CROSS JOIN", "NATURAL": "NATURAL JOIN",
    "SEMI": "SEMI JOIN", "ANTI": "ANTI JOIN", "LATERAL": "LATERAL",
}  # fmt: skip
_NOT_ALIASES = frozenset(
    "WINDOW LATERAL OFFSET SORT CLUSTER DISTRIBUTE MINUS PIVOT TABLESAMPLE SEMI ANTI OUTER LIFETIME".split()
)
_TABLE_FUNCTIONS = frozenset({"HOP", "TUMBLE"})
_BRACKET_WORDS = frozenset({"RANGE", "WINDOW"})


def sources(cursor: Cursor) -> tuple[SourceSyntax, ...]:
    """Read what follows FROM."""
    inputs = [_source(cursor, left=False)]
    while True:
        if cursor.accept(","):
            inputs.append(_source(cursor, left=False))
        elif (left := _join(cursor)) is not None:
            inputs.append(_source(cursor, left=left, joined=True))
        else:
            return tuple(inputs)


def _join(cursor: Cursor) -> bool | None:
    """Move past the words of a join; say whether it is a left one, or None if none follows."""
    refused = _REFUSED_JOINS.get(cursor.token.key)
    left_of = _REFUSED_JOINS.get(cursor.peek().key) if cursor.at("LEFT") else None
    if refused or left_of:
        join = refused or left_of
        raise cursor.refusal(f"{join} is not in the language; use JOIN or LEFT JOIN with a static table")
    if cursor.accept("LEFT"):
        cursor.accept("OUTER")
        cursor.expect("JOIN")
        return True
    if cursor.accept("INNER"):
        cursor.expect("JOIN")
        return False
    return False if cursor.accept("JOIN") else None


def _source(cursor: Cursor, *, left: bool, joined: bool = False) -> SourceSyntax:
    if cursor.at("("):
        raise cursor.refusal("subqueries are not in the language; name a stream")
    call = cursor.at("TABLE", "(") or (cursor.at_name() and cursor.peek().key == "(")
    name, window = _table_function(cursor) if call else (cursor.name("a stream"), None)
    span = cursor.span(name)
    if cursor.at("."):
        raise cursor.mistake("names of streams and tables have one part")
    window = _bracket(cursor, window)
    alias = cursor.alias(_NOT_ALIASES)
    window = _bracket(cursor, window)
    on, using = _condition(cursor) if joined else (None, ())
    return SourceSyntax(name=name.text, alias=alias, span=span, window=window, left=left, on=on, using=using)


def _condition(cursor: Cursor) -> tuple[Node | None, tuple[Name, ...]]:
    if cursor.accept("ON"):
        return expression(cursor), ()
    if not cursor.accept("USING"):
        return None, ()
    cursor.expect("(")
    names = cursor.listed(_using_column)
    cursor.expect(")")
    return None, tuple(names)


def _using_column(cursor: Cursor) -> Name:
    span = cursor.span()
    return Name(span, (cursor.name("a column").text,))


def _bracket(cursor: Cursor, window: WindowSyntax | None) -> WindowSyntax | None:
    """Read `[RANGE '12 min' SLIDE '5 min' OFFSET '1 min']`, if it follows."""
    start = cursor.index
    if not cursor.accept("["):
        return window
    if window is not None:
        raise BadWindow("a stream has one window; remove one of the two", span=cursor.span_from(start))
    form = cursor.token.key
    if form not in _BRACKET_WORDS:
        raise cursor.mistake("expected RANGE or WINDOW, as in [RANGE '12 min' SLIDE '5 min']")
    cursor.advance()
    durations = (duration_literal(cursor), _optional(cursor, "SLIDE"), _optional(cursor, "OFFSET"))
    cursor.expect("]")
    return WindowSyntax(form=form, durations=durations, span=cursor.span_from(start))


def _optional(cursor: Cursor, word: str) -> Node | None:
    return duration_literal(cursor) if cursor.accept(word) else None


def _table_function(cursor: Cursor) -> tuple[Token, WindowSyntax]:
    """Read `TABLE(HOP(TABLE trades, DESCRIPTOR(time), …))` or `HOP(trades, time, …)`."""
    wrapped = cursor.accept("TABLE", "(")
    start = cursor.index
    form = cursor.token.key
    if form not in _TABLE_FUNCTIONS:
        problem = "is not in the language; the window functions of FROM are HOP and TUMBLE"
        raise cursor.refusal(f"{cursor.token.text}(…) {problem}")
    cursor.advance()
    cursor.expect("(")
    cursor.accept("TABLE")
    stream = cursor.name("a stream")
    cursor.expect(",")
    time = _descriptor(cursor)
    durations = cursor.listed(_duration) if cursor.accept(",") else ()
    cursor.expect(")")
    window = WindowSyntax(form=form, time=time, durations=tuple(durations), span=cursor.span_from(start))
    if wrapped:
        cursor.expect(")")
    return stream, window


def _duration(cursor: Cursor) -> Node:
    if cursor.token.kind is TokenKind.END:
        raise cursor.mistake("expected a duration")
    return expression(cursor)


def _descriptor(cursor: Cursor) -> Node:
    if not cursor.accept("DESCRIPTOR", "("):
        return expression(cursor)
    time = expression(cursor)
    cursor.expect(")")
    return time
