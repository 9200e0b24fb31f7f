"""The grammar of SELECT."""

from weft.errors import NotAllowed, Span, SyntaxMistake
from weft.query.cursor import Cursor
from weft.query.interval_literal import read_period
from weft.query.lexer import TokenKind
from weft.query.operators import expression
from weft.query.sources import sources
from weft.query.syntax import ItemSyntax, SelectSyntax

_REFUSED = {
    "DISTINCT": "DISTINCT is not in the language; GROUP BY the columns instead",
    "ORDER": "ORDER BY is not in the language; results come by window",
    "SORT": "SORT BY is not in the language; results come by window",
    "CLUSTER": "CLUSTER BY is not in the language",
    "DISTRIBUTE": "DISTRIBUTE BY is not in the language",
    "LIMIT": "LIMIT is not in the language; use HAVING to keep fewer groups",
    "OFFSET": "OFFSET is not in the language",
    "UNION": "UNION is not in the language; write one query each",
    "INTERSECT": "INTERSECT is not in the language; write one query each",
    "EXCEPT": "EXCEPT is not in the language; write one query each",
    "MINUS": "MINUS is not in the language; write one query each",
    "QUALIFY": "QUALIFY is not in the language; use HAVING",
    "WINDOW": "named windows are not in the language; write the window after the stream",
    "LATERAL": "LATERAL is not in the language",
    "PIVOT": "PIVOT is not in the language",
    "TABLESAMPLE": "TABLESAMPLE is not in the language",
    "WITH": "WITH (common table expressions) is not in the language",
    "/*+": "hints are not in the language; remove the hint",
}
_NOT_ALIASES = frozenset({*_REFUSED, "LIFETIME"})
_GROUPINGS = frozenset({"ROLLUP", "CUBE", "GROUPING", "ALL"})


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
    cursor.expect("FROM")
    from_ = sources(cursor)
    where = expression(cursor) if cursor.accept("WHERE") else None
    groups = _groups(cursor) if cursor.accept("GROUP") else ()
    having = expression(cursor) if cursor.accept("HAVING") else None
    empty, lifetime_ms = _ending(cursor)
    _refuse(cursor)
    cursor.finish()
    return SelectSyntax(
        items=items, sources=from_, where=where, groups=groups, having=having, emit_empty=empty,
        lifetime_ms=lifetime_ms,
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
    return ItemSyntax(node=node, alias=cursor.alias(_NOT_ALIASES), written=written)


def _groups(cursor: Cursor) -> tuple[ItemSyntax, ...]:
    cursor.expect("BY")
    if cursor.token.key in _GROUPINGS and (cursor.at("ALL") or cursor.peek().key in ("(", "SETS")):
        raise cursor.refusal(f"GROUP BY {cursor.token.key} is not in the language; write one query each")
    return tuple(cursor.listed(_item))


def _ending(cursor: Cursor) -> tuple[Span | None, int | None]:
    """Read EMIT EMPTY and LIFETIME, in either order."""
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
    return empty, lifetime_ms
