"""CREATE STREAM and CREATE TABLE."""

from collections.abc import Iterator

from weft.errors import BadWindow, NotAllowed, SyntaxMistake, TypeMismatch, UnknownName, suggestion
from weft.query.cursor import Cursor, error_span
from weft.query.duration import read_duration, read_period
from weft.query.expression_grammar import data_type
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


def create_stream(cursor: Cursor) -> StreamDef:
    """Read what follows CREATE STREAM."""
    start = cursor.index
    name = cursor.name("the stream's name").text
    span = cursor.span_from(start)
    columns, format = _columns(cursor), _format(cursor)
    time, time_span, delay_ms = "", span, 0
    time_unit: TimeUnit | None = None
    skew_ms: int | None = DEFAULT_SKEW_MS
    options: tuple[tuple[str, str], ...] = ()
    for word in _clauses(cursor, "OPTIONS", "EVENT TIME", "UNIT", "DELAY", "SKEW"):
        match word:
            case "OPTIONS":
                options = _options(cursor)
            case "EVENT":
                cursor.expect("TIME")
                time_span, time = cursor.span(), _column_name(cursor)
            case "UNIT":
                token = cursor.token
                if token.kind not in (TokenKind.STRING, TokenKind.WORD):
                    raise cursor.mistake("expected a unit: 's', 'ms', 'us' or 'ns'")
                time_unit = _UNITS.get(token.text.casefold())
                if time_unit is None:
                    problem = f"unknown unit \"{token.text}\"; known are 's', 'ms', 'us', 'ns'"
                    raise BadWindow(problem, span=cursor.span())
                cursor.advance()
            case "DELAY":
                delay_ms = read_duration(cursor)
            case "SKEW":
                skew_ms = None if cursor.accept("NONE") else read_duration(cursor)
    if not time:
        raise SyntaxMistake(f"stream {name} has no event time; add EVENT TIME and a column", span=span)
    stream = StreamDef(
        name=name, columns=columns, time=time, time_unit=time_unit, delay_ms=delay_ms, skew_ms=skew_ms,
        source=Source(format=format, options=options),
    )  # fmt: skip
    if columns:
        with error_span(time_span):
            check_stream(stream)
    return stream


def create_table(cursor: Cursor) -> TableDef:
    """Read what follows CREATE TABLE."""
    name = cursor.name("the table's name").text
    columns, format = _columns(cursor), _format(cursor)
    options: tuple[tuple[str, str], ...] = ()
    refresh_ms = None
    for word in _clauses(cursor, "OPTIONS", "REFRESH"):
        if word == "OPTIONS":
            options = _options(cursor)
        else:
            refresh_ms = read_period(cursor, word)
    source = Source(format=format, options=options)
    return TableDef(name=name, columns=columns, source=source, refresh_ms=refresh_ms)


def _clauses(cursor: Cursor, *clauses: str) -> Iterator[str]:
    """Yield the first word of each clause up to the end of the statement; none may come twice."""
    seen = set[str]()
    while (word := cursor.token.key) in {clause.split()[0] for clause in clauses}:
        if word in seen:
            raise SyntaxMistake(f"{word} is given twice; remove one", span=cursor.span())
        seen.add(word)
        cursor.advance()
        yield word
    if cursor.token.kind is not TokenKind.END:
        raise cursor.mistake(f"expected {', '.join(clauses[:-1])} or {clauses[-1]}")


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
    # No expression is possible here, so reserved words may be names.
    if cursor.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        raise cursor.mistake("expected a column")
    return cursor.advance().text


def _format(cursor: Cursor) -> str:
    if not cursor.accept("USING"):
        raise cursor.mistake("expected USING and a format, as in USING parquet")
    format = cursor.name("a format").text
    while cursor.accept("."):
        format += "." + cursor.name("a format").text
    return format


def _options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    cursor.expect("(")
    options: dict[str, tuple[str, str]] = {}
    while not options or cursor.accept(","):
        span = cursor.span()
        if cursor.token.kind is TokenKind.STRING:
            key = cursor.advance().text
        else:
            key = _column_name(cursor)
            while cursor.accept("."):
                key += "." + _column_name(cursor)
        cursor.accept("=")
        if key.casefold() in options:
            raise NotAllowed(f'option "{key}" is given twice; remove one', span=span)
        sign = cursor.advance().text if cursor.at("-") else ""
        token = cursor.token
        is_boolean = not sign and token.key in ("TRUE", "FALSE")
        is_string = not sign and token.kind is TokenKind.STRING
        if not is_boolean and not is_string and token.kind is not TokenKind.NUMBER:
            raise cursor.mistake("expected a string, a number, true or false")
        text = sign + cursor.advance().text
        options[key.casefold()] = key, text.lower() if is_boolean else text
    cursor.expect(")")
    return tuple(options.values())
