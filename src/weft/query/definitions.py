"""CREATE STREAM and CREATE TABLE."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.errors import (
    BadWindow,
    NotAllowed,
    QueryError,
    Span,
    SyntaxMistake,
    TypeMismatch,
    UnknownName,
    suggestion,
)
from weft.query.cursor import Cursor
from weft.query.data_types import data_type
from weft.query.interval_literal import read_duration, read_period
from weft.query.lexer import TokenKind
from weft.query.logical import DEFAULT_SKEW_MS, ColumnDef, Source, StreamDef, TableDef, TimeUnit

_UNITS: dict[str, TimeUnit] = {
    spelling: unit
    for unit, spellings in {
        TimeUnit.SECONDS: "s sec second seconds",
        TimeUnit.MILLISECONDS: "ms milli millis millisecond milliseconds",
        TimeUnit.MICROSECONDS: "us µs micro micros microsecond microseconds",
        TimeUnit.NANOSECONDS: "ns nano nanos nanosecond nanoseconds",
    }.items()
    for spelling in spellings.split()
}


@dataclass(slots=True)
class _Clauses:
    """What the clauses of CREATE STREAM have said so far."""

    time: str = ""
    time_span: Span | None = None
    unit: TimeUnit | None = None
    delay_ms: int = 0
    skew_ms: int | None = DEFAULT_SKEW_MS
    options: tuple[tuple[str, str], ...] = ()


def create_stream(cursor: Cursor) -> StreamDef:
    """Read what follows CREATE STREAM."""
    start = cursor.index
    name = cursor.name("the stream's name").text
    span = cursor.span_from(start)
    columns = _columns(cursor)
    format = _format(cursor)
    clauses = _clauses(cursor)
    if not clauses.time:
        raise SyntaxMistake(f"stream {name} has no event time; add EVENT TIME and a column", span=span)
    stream = StreamDef(
        name=name, columns=columns, time=clauses.time, time_unit=clauses.unit, delay_ms=clauses.delay_ms,
        skew_ms=clauses.skew_ms, source=Source(format=format, options=clauses.options),
    )  # fmt: skip
    if columns:
        _check_located(stream, clauses.time_span)
    return stream


def create_table(cursor: Cursor) -> TableDef:
    """Read what follows CREATE TABLE."""
    name = cursor.name("the table's name").text
    columns = _columns(cursor)
    format = _format(cursor)
    options: tuple[tuple[str, str], ...] = ()
    refresh_ms, seen = None, set[str]()
    while (word := cursor.token.key) in ("OPTIONS", "REFRESH"):
        _once(cursor, word, seen)
        if word == "OPTIONS":
            options = _options(cursor)
        else:
            refresh_ms = read_period(cursor, word)
    cursor.finish()
    source = Source(format=format, options=options)
    return TableDef(name=name, columns=columns, source=source, refresh_ms=refresh_ms)


def check_stream(definition: StreamDef) -> None:
    """Check that the event time is a column that can serve as one."""
    time = next((c for c in definition.columns if c.name.casefold() == definition.time.casefold()), None)
    if time is None:
        hint = suggestion(definition.time, [column.name for column in definition.columns])
        raise UnknownName(f'event time "{definition.time}" is not a column of stream {definition.name}{hint}')
    if time.type.is_time:
        if definition.time_unit is not None:
            raise TypeMismatch(f'event time "{time.name}" is a {time.type}, which has no unit; remove UNIT')
    elif not time.type.is_numeric:
        raise TypeMismatch(
            f'event time "{time.name}" is a {time.type}; it must be a timestamp, a date or a number'
        )
    elif definition.time_unit is None:
        raise TypeMismatch(
            f'event time "{time.name}" is a {time.type} and its unit is unknown; '
            "add UNIT 's', 'ms', 'us' or 'ns' (in Python unit=\"ms\")"
        )


def _check_located(stream: StreamDef, span: Span | None) -> None:
    try:
        check_stream(stream)
    except QueryError as error:
        error.span = span
        raise


def _columns(cursor: Cursor) -> tuple[ColumnDef, ...]:
    if not cursor.accept("("):
        return ()
    columns: dict[str, ColumnDef] = {}
    while not columns or cursor.accept(","):
        span, name = cursor.span(), _column_name(cursor)
        if name.casefold() in columns:
            raise NotAllowed(f'column "{name}" is declared twice; remove one', span=span)
        columns[name.casefold()] = ColumnDef(name=name, type=data_type(cursor))
    cursor.expect(")")
    return tuple(columns.values())


def _column_name(cursor: Cursor) -> str:
    # No expression can stand here, so reserved words do as names.
    if cursor.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        raise cursor.mistake("expected a column")
    return cursor.advance().text


def _format(cursor: Cursor) -> str:
    if not cursor.accept("USING"):
        raise cursor.mistake("expected USING and a format, as in USING parquet")
    parts = [cursor.name("a format").text]
    while cursor.accept("."):
        parts.append(cursor.name("a format").text)
    return ".".join(parts)


def _options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    cursor.expect("(")
    options: dict[str, tuple[str, str]] = {}
    while not options or cursor.accept(","):
        span, key = cursor.span(), _option_key(cursor)
        cursor.accept("=")
        if key.casefold() in options:
            raise NotAllowed(f'option "{key}" is given twice; remove one', span=span)
        options[key.casefold()] = key, _option_value(cursor)
    cursor.expect(")")
    return tuple(options.values())


def _option_key(cursor: Cursor) -> str:
    if cursor.token.kind is TokenKind.STRING:
        return cursor.advance().text
    parts = [_column_name(cursor)]
    while cursor.accept("."):
        parts.append(_column_name(cursor))
    return ".".join(parts)


def _option_value(cursor: Cursor) -> str:
    sign = cursor.advance().text if cursor.at("-") else ""
    token = cursor.token
    if token.kind is TokenKind.NUMBER or (not sign and token.kind is TokenKind.STRING):
        return sign + cursor.advance().text
    if not sign and token.key in ("TRUE", "FALSE"):
        return cursor.advance().text.lower()
    raise cursor.mistake("expected a string, a number, true or false")


def _clauses(cursor: Cursor) -> _Clauses:
    clauses, seen = _Clauses(), set[str]()
    while cursor.token.kind is not TokenKind.END:
        word = cursor.token.key
        read = _CLAUSES.get(word)
        if read is None:
            raise cursor.mistake("expected OPTIONS, EVENT TIME, UNIT, DELAY or SKEW")
        _once(cursor, word, seen)
        read(cursor, clauses)
    return clauses


def _once(cursor: Cursor, word: str, seen: set[str]) -> None:
    """Read the first word of a clause, which no clause before it may have had."""
    if word in seen:
        raise SyntaxMistake(f"{word} is given twice; remove one", span=cursor.span())
    seen.add(word)
    cursor.advance()


def _read_options(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.options = _options(cursor)


def _read_time(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("TIME")
    clauses.time_span, clauses.time = cursor.span(), _column_name(cursor)


def _read_unit(cursor: Cursor, clauses: _Clauses) -> None:
    token = cursor.token
    if token.kind not in (TokenKind.STRING, TokenKind.WORD):
        raise cursor.mistake("expected a unit: 's', 'ms', 'us' or 'ns'")
    unit = _UNITS.get(token.text.casefold())
    if unit is None:
        raise BadWindow(f"unknown unit \"{token.text}\"; known are 's', 'ms', 'us', 'ns'", span=cursor.span())
    cursor.advance()
    clauses.unit = unit


def _read_delay(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.delay_ms = read_duration(cursor)


def _read_skew(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.skew_ms = None if cursor.accept("NONE") else read_duration(cursor)


_CLAUSES: dict[str, Callable[[Cursor, _Clauses], None]] = {
    "OPTIONS": _read_options, "EVENT": _read_time, "UNIT": _read_unit,
    "DELAY": _read_delay, "SKEW": _read_skew,
}  # fmt: skip
