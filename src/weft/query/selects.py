"""The grammar of SELECT, and of FROM: the stream, its window, and the tables joined to it."""

from weft.errors import BadWindow, NotAllowed, Span, SyntaxMistake
from weft.query.cursor import Cursor
from weft.query.duration import duration_literal, read_period
from weft.query.expression_grammar import WINDOW_WORDS, expression
from weft.query.grouping_sets import groups
from weft.query.lexer import Token, TokenKind
from weft.query.syntax import (
    ItemSyntax,
    LimitSyntax,
    Name,
    Node,
    OrderSyntax,
    SelectSyntax,
    SetsSyntax,
    SourceSyntax,
    WindowSyntax,
)

_REFUSED = {
    "DISTINCT": "DISTINCT is not in the language; GROUP BY the columns instead",
    "SORT": "SORT BY is not in the language; results come by window",
    "CLUSTER": "CLUSTER BY is not in the language", "DISTRIBUTE": "DISTRIBUTE BY is not in the language",
    "OFFSET": "OFFSET is not in the language", "UNION": "UNION is not in the language; write one query each",
    "INTERSECT": "INTERSECT is not in the language; write one query each",
    "EXCEPT": "EXCEPT is not in the language; write one query each",
    "MINUS": "MINUS is not in the language; write one query each",
    "QUALIFY": "QUALIFY is not in the language; use HAVING",
    "WINDOW": "named windows are not in the language; write the window after the stream",
    "LATERAL": "LATERAL is not in the language", "PIVOT": "PIVOT is not in the language",
    "TABLESAMPLE": "TABLESAMPLE is not in the language",
    "WITH": "WITH (common table expressions) is not in the language",
    "/*+": "hints are not in the language; remove the hint",
}  # fmt: skip
_NOT_ITEM_ALIASES = frozenset({*_REFUSED, "LIFETIME"})
_MOST_ROWS = 1 << 53


def select(cursor: Cursor) -> SelectSyntax:
    """Read a SELECT up to the end of the statement."""
    _refuse(cursor)
    cursor.expect("SELECT")
    if cursor.at("DISTINCT") or cursor.at("/*+"):
        _refuse(cursor)
    cursor.accept("ALL")
    items = tuple(cursor.listed(_item))
    if cursor.token.kind is TokenKind.END:
        raise cursor.mistake("expected FROM and a stream")
    if not cursor.accept("FROM"):
        raise cursor.mistake("expected a comma or FROM")
    from_ = sources(cursor)
    where = expression(cursor) if cursor.accept("WHERE") else None
    grouped: tuple[ItemSyntax, ...] = ()
    sets: SetsSyntax | None = None
    if cursor.accept("GROUP"):
        cursor.expect("BY")
        grouped, sets = groups(cursor, _item)
    having = expression(cursor) if cursor.accept("HAVING") else None
    order, limits = _order(cursor), _limits(cursor)
    empty: Span | None = None
    lifetime_ms: int | None = None
    while cursor.at("EMIT") or cursor.at("LIFETIME"):
        start, word = cursor.index, cursor.advance().key
        if (empty if word == "EMIT" else lifetime_ms) is not None:
            raise SyntaxMistake(f"{word} is given twice; remove one", span=cursor.span_from(start))
        if word == "EMIT":
            cursor.expect("EMPTY")
            empty = cursor.span_from(start)
        else:
            lifetime_ms = read_period(cursor, word)
    _refuse(cursor)
    cursor.finish()
    return SelectSyntax(
        items=items, sources=from_, where=where, groups=grouped, sets=sets, having=having, order=order,
        limits=limits, emit_empty=empty, lifetime_ms=lifetime_ms,
    )  # fmt: skip


def _refuse(cursor: Cursor) -> None:
    problem = _REFUSED.get(cursor.token.key)
    if problem is not None:
        raise cursor.refusal(problem)


def _item(cursor: Cursor) -> ItemSyntax:
    start = cursor.index
    if cursor.accept("*"):
        raise NotAllowed("SELECT * is not in the language; name the columns", span=cursor.span_from(start))
    node = expression(cursor)
    written = cursor.written(cursor.span_from(start))
    return ItemSyntax(node=node, alias=cursor.alias(_NOT_ITEM_ALIASES), written=written)


def _order(cursor: Cursor) -> tuple[OrderSyntax, ...]:
    """Read `ORDER BY n DESC NULLS LAST, symbol`, if it follows; a LIMIT must come next."""
    start = cursor.index
    if not cursor.accept("ORDER", "BY"):
        return ()
    span = cursor.span_from(start)
    order = tuple(cursor.listed(_order_item))
    if not cursor.at("LIMIT"):
        problem = "ORDER BY without LIMIT is not in the language, as results come by window"
        raise NotAllowed(f"{problem}; add a LIMIT, or remove it", span=span)
    return order


def _order_item(cursor: Cursor) -> OrderSyntax:
    node = expression(cursor)
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    nulls_first = not descending
    if cursor.accept("NULLS"):
        nulls_first = cursor.accept("FIRST")
        if not nulls_first and not cursor.accept("LAST"):
            raise cursor.mistake("expected FIRST or LAST")
    return OrderSyntax(node=node, descending=descending, nulls_first=nulls_first)


def _limits(cursor: Cursor) -> tuple[LimitSyntax, ...]:
    """Read `LIMIT 3 BY symbol LIMIT 10`, or one of the two, if they follow."""
    limits: list[LimitSyntax] = []
    while cursor.at("LIMIT") and (not limits or limits[-1].by):
        start = cursor.index
        cursor.advance()
        limits.append(_limit(cursor))
        if limits[-1].by and len(limits) > 1:
            raise SyntaxMistake("LIMIT … BY is given twice; remove one", span=cursor.span_from(start))
    if cursor.at("LIMIT"):
        raise cursor.mistake("expected the end of the statement")
    return tuple(limits)


def _limit(cursor: Cursor) -> LimitSyntax:
    number = cursor.token
    if not number.text.isdecimal() or not 0 < int(number.text) <= _MOST_ROWS:
        raise cursor.mistake("expected a number of rows, at least 1")
    cursor.advance()
    by = tuple(cursor.listed(expression)) if cursor.accept("BY") else ()
    return LimitSyntax(rows=int(number.text), by=by)


_REFUSED_JOINS = {
    "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN", "CROSS": "CROSS JOIN", "NATURAL": "NATURAL JOIN",
    "SEMI": "SEMI JOIN", "ANTI": "ANTI JOIN", "LATERAL": "LATERAL",
}  # fmt: skip
_NOT_INPUT_ALIASES = frozenset(
    "WINDOW LATERAL OFFSET SORT CLUSTER DISTRIBUTE MINUS PIVOT TABLESAMPLE SEMI ANTI OUTER LIFETIME".split()
)
_TABLE_FUNCTIONS = frozenset({"HOP", "TUMBLE", "CUMULATE"})


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
    alias = cursor.alias(_NOT_INPUT_ALIASES)
    window = _bracket(cursor, window)
    on, using = None, list[Name]()
    if joined and cursor.accept("ON"):
        on = expression(cursor)
    elif joined and cursor.accept("USING"):
        cursor.expect("(")
        using = cursor.listed(lambda cursor: Name(cursor.span(), (cursor.name("a column").text,)))
        cursor.expect(")")
    return SourceSyntax(
        name=name.text, alias=alias, span=span, window=window, left=left, on=on, using=tuple(using)
    )


def _bracket(cursor: Cursor, window: WindowSyntax | None) -> WindowSyntax | None:
    """Read `[RANGE '12 min' SLIDE '5 min' OFFSET '1 min']`, if it follows."""
    start = cursor.index
    if not cursor.accept("["):
        return window
    if window is not None:
        raise BadWindow("a stream has one window; remove one of the two", span=cursor.span_from(start))
    form = cursor.token.key
    if form not in WINDOW_WORDS:
        raise cursor.mistake("expected RANGE or WINDOW, as in [RANGE '12 min' SLIDE '5 min']")
    cursor.advance()
    durations: list[Node | None] = [duration_literal(cursor)]
    durations += [duration_literal(cursor) if cursor.accept(word) else None for word in ("SLIDE", "OFFSET")]
    cursor.expect("]")
    return WindowSyntax(form=form, durations=tuple(durations), span=cursor.span_from(start))


def _table_function(cursor: Cursor) -> tuple[Token, WindowSyntax]:
    """Read `TABLE(HOP(TABLE trades, DESCRIPTOR(time), …))` or `HOP(trades, time, …)`."""
    wrapped = cursor.accept("TABLE", "(")
    start = cursor.index
    form = cursor.token.key
    if form not in _TABLE_FUNCTIONS:
        problem = "is not in the language; the window functions of FROM are HOP, TUMBLE and CUMULATE"
        raise cursor.refusal(f"{cursor.token.text}(…) {problem}")
    cursor.advance()
    cursor.expect("(")
    cursor.accept("TABLE")
    stream = cursor.name("a stream")
    cursor.expect(",")
    described = cursor.accept("DESCRIPTOR", "(")
    time = expression(cursor)
    if described:
        cursor.expect(")")
    durations: list[Node] = []
    while cursor.accept(","):
        if cursor.token.kind is TokenKind.END:
            raise cursor.mistake("expected a duration")
        durations.append(expression(cursor))
    cursor.expect(")")
    window = WindowSyntax(form=form, time=time, durations=tuple(durations), span=cursor.span_from(start))
    if wrapped:
        cursor.expect(")")
    return stream, window
