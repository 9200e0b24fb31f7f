"""The statements of a workload: CREATE STREAM, TABLE, SINK and QUERY, DROP QUERY."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial

from weft.errors import (
    BadWindow,
    NameMissing,
    NotAllowed,
    QueryError,
    Span,
    SyntaxMistake,
    TooLarge,
    TypeMismatch,
    UnknownName,
    suggestion,
    without_strings,
)
from weft.limits import DEFAULTS, Limits
from weft.query.cursor import Cursor, error_span, located
from weft.query.duration import read_duration, read_period
from weft.query.expression_grammar import data_type
from weft.query.lexer import Chunk, TokenKind, lex, split
from weft.query.logical import (
    DEFAULT_SKEW_MS,
    ColumnDef,
    SinkDef,
    SinkKind,
    Source,
    StreamDef,
    TableDef,
    TimeUnit,
)
from weft.query.reader_options import check_reader_option
from weft.query.selects import select
from weft.query.sink_options import check_sink_option, sink_def, sink_kind
from weft.query.syntax import SelectSyntax, check_size

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
_FORMATS = (
    "parquet", "csv", "json", "orc", "text", "xml", "avro", "delta", "iceberg", "kafka", "kinesis", "jdbc",
    "rate", "rate-micro-batch", "socket", "binaryfile",
)  # fmt: skip
"""Well-known formats of Spark's sources."""


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
                options = _options(cursor, check=partial(check_reader_option, format))
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
            options = _options(cursor, check=partial(check_reader_option, format))
        else:
            refresh_ms = read_period(cursor, word)
    source = Source(format=format, options=options)
    return TableDef(name=name, columns=columns, source=source, refresh_ms=refresh_ms)


def create_sink(cursor: Cursor) -> SinkDef:
    """Read what follows CREATE SINK."""
    # Errors quote the text, and a string may hold a password.
    cursor.text = without_strings(cursor.text)
    name = cursor.name("the sink's name").text
    if not cursor.accept("USING"):
        raise cursor.mistake(f"expected USING and {_one_of(SinkKind)}")
    span = cursor.span()
    written = cursor.name(_one_of(SinkKind)).text
    with error_span(span):
        kind = sink_kind(written)
    options: tuple[tuple[str, str], ...] = ()
    queries: tuple[str, ...] = ()
    for word in _clauses(cursor, "OPTIONS", "FOR"):
        if word == "OPTIONS":
            options = _options(cursor, check=partial(check_sink_option, kind))
        else:
            queries = tuple(cursor.listed(lambda cursor: cursor.name("a query's name").text))
    with error_span(span):
        return sink_def(name, kind, dict(options), queries)


def _one_of(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


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
        raise cursor.mistake(f"expected {_one_of(clauses)}")


def check_stream(definition: StreamDef) -> None:
    """Check that the event time is a column that can serve as one."""
    time = next((c for c in definition.columns if c.name.casefold() == definition.time.casefold()), None)
    if time is None:
        names = [column.name for column in definition.columns]
        hint = suggestion(definition.time, names)
        if names[:1] == ["_c0"]:
            hint += "; if the first line of its files has the names, add OPTIONS (header 'true')"
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


def parse_columns(text: str) -> tuple[ColumnDef, ...]:
    """Read columns as a declaration has them, without the brackets around them.

    >>> [str(column.type) for column in parse_columns("time TIMESTAMP, price DECIMAL(10, 2)")]
    ['timestamp', 'decimal(10,2)']
    """
    inside = f"({text})"
    cursor = Cursor(inside, lex(inside), limits=DEFAULTS)
    with _locating(cursor):
        columns = _columns(cursor)
        cursor.finish()
    return columns


def _column_name(cursor: Cursor) -> str:
    # No expression is possible here, so reserved words may be names.
    if cursor.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        raise cursor.mistake("expected a column")
    return cursor.advance().text


def _format(cursor: Cursor) -> str:
    if not cursor.accept("USING"):
        raise cursor.mistake("expected USING and a format, as in USING parquet")
    span = cursor.span()
    format = cursor.name("a format").text
    while cursor.accept("."):
        format += "." + cursor.name("a format").text
    # Packages may bring formats of their own, so only a name that looks mistyped is a mistake here.
    if format.casefold() not in _FORMATS and get_close_matches(format.casefold(), _FORMATS, n=1):
        raise UnknownName(f'unknown format "{format}"{suggestion(format, _FORMATS)}', span=span)
    return format.casefold() if format.casefold() in _FORMATS else format


def _options(
    cursor: Cursor, *, check: Callable[[str], None] = lambda key: None
) -> tuple[tuple[str, str], ...]:
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
        with error_span(span):
            check(key)
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
        # The one option that Weft itself reads.
        key = "path" if key.casefold() == "path" else key
        options[key.casefold()] = key, text.lower() if is_boolean else text
    cursor.expect(")")
    return tuple(options.values())


# What can be typed in a terminal without quotes, except for spaces.
_QUERY_NAME = re.compile(r"\w[\w.\- ]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """A stream is declared."""

    definition: StreamDef


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """A static table is declared."""

    definition: TableDef


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSink:
    """A sink is declared."""

    definition: SinkDef


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQuery:
    """A query as written, before its names and types are resolved."""

    name: str
    select: str
    """The text of the SELECT; spans of errors are offsets into it."""
    replace: bool = False
    """Whether it takes the place of the query of its name, if there is one."""
    start: int = field(default=0, compare=False)
    """Where the text begins in the workload's."""
    syntax: SelectSyntax = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropQuery:
    """A query ends."""

    name: str


Statement = CreateStream | CreateTable | CreateSink | CreateQuery | DropQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A statement, its text, and where that begins in the workload's."""

    statement: Statement
    text: str
    start: int


def parse(text: str, *, limits: Limits = DEFAULTS) -> tuple[Statement, ...]:
    """Read the statements of a workload, within limits of size; raise the first mistake.

    >>> [statement.name for statement in parse("DROP QUERY a; DROP QUERY b")]
    ['a', 'b']
    """
    statements: list[Statement] = []
    for written in read(text, limits=limits):
        if isinstance(written, QueryError):
            raise written
        statements.append(written.statement)
    return tuple(statements)


def read(text: str, *, limits: Limits = DEFAULTS) -> Iterator[Written | QueryError]:
    """Yield the statements of a workload in order, and in the place of one that has a mistake its error."""
    taken: set[tuple[str, str]] = set()
    try:
        for chunk in split(text, limits):
            try:
                statement = _read(chunk, limits)
                if statement is not None:
                    _claim(statement, taken, chunk)
                    yield Written(statement=statement, text=chunk.text, start=chunk.start)
            except QueryError as error:
                error.start += chunk.start
                yield error
    except QueryError as error:
        yield error


def _read(chunk: Chunk, limits: Limits) -> Statement | None:
    """Return a statement; None for one that consists of comments."""
    cursor = Cursor(chunk.text, lex(chunk.text), limits=limits)
    if cursor.token.kind is TokenKind.END:
        return None
    with _locating(cursor):
        return _statement(cursor, chunk)


def parse_select(text: str, *, name: str, limits: Limits = DEFAULTS) -> CreateQuery:
    """Read one query, a bare SELECT or a whole CREATE QUERY, under the given name.

    An empty name leaves the one that CREATE QUERY gives.
    """
    try:
        chunks = list(split(text, limits))
        tokens = lex(chunks[0].text) if len(chunks) == 1 else ()
        if not tokens or tokens[0].kind is TokenKind.END:
            count = f"{len(chunks)} statements" if len(chunks) > 1 else "nothing"
            raise SyntaxMistake(f"expected one SELECT, found {count}")
        cursor = Cursor(chunks[0].text, tokens, limits=limits)
        with _locating(cursor):
            if (replace := _accept_create_query(cursor)) is not None:
                written = _query_name(cursor)
                cursor.expect("AS")
                return _query(cursor, chunks[0], name or written, replace=replace)
            if not name:
                problem = 'the query has no name; give one, as in add("SELECT …", name="big")'
                raise NameMissing(problem)
            _check_query_name(name)
            return _query(cursor, chunks[0], name)
    except QueryError as error:
        error.named(name)
        raise


def _statement(cursor: Cursor, chunk: Chunk) -> Statement:
    if cursor.accept("CREATE", "STREAM"):
        return CreateStream(definition=create_stream(cursor))
    if cursor.accept("CREATE", "TABLE"):
        return CreateTable(definition=create_table(cursor))
    if cursor.accept("CREATE", "SINK"):
        return CreateSink(definition=create_sink(cursor))
    if (replace := _accept_create_query(cursor)) is not None:
        name = _query_name(cursor)
        cursor.expect("AS")
        return _query(cursor, chunk, name, replace=replace)
    if cursor.accept("DROP", "QUERY"):
        name = _query_name(cursor)
        cursor.finish()
        return DropQuery(name=name)
    if cursor.at("SELECT"):
        raise SyntaxMistake("a query needs a name; write CREATE QUERY name AS SELECT …", span=cursor.span())
    raise cursor.mistake("expected CREATE STREAM, CREATE TABLE, CREATE SINK, CREATE QUERY or DROP QUERY")


def _accept_create_query(cursor: Cursor) -> bool | None:
    """Pass CREATE QUERY, and say whether it is CREATE OR REPLACE QUERY; None if there is neither."""
    if cursor.accept("CREATE", "OR"):
        cursor.expect("REPLACE")
        cursor.expect("QUERY")
        return True
    return False if cursor.accept("CREATE", "QUERY") else None


def _query(cursor: Cursor, chunk: Chunk, name: str, *, replace: bool = False) -> CreateQuery:
    try:
        if cursor.token.kind is TokenKind.END:
            raise cursor.mistake("expected SELECT")
        cursor.rebase()
        syntax = select(cursor)
        check_size(syntax, cursor.limits)
    except QueryError as error:
        error.named(name)
        raise
    start = chunk.start + cursor.base
    return CreateQuery(name=name, select=cursor.text, replace=replace, start=start, syntax=syntax)


def _query_name(cursor: Cursor) -> str:
    span = cursor.span()
    name = cursor.name("the query's name").text
    with error_span(span):
        _check_query_name(name)
    return name


def _check_query_name(name: str) -> None:
    if not _QUERY_NAME.fullmatch(name):
        shown = name if len(name) < 60 else name[:60] + "…"
        raise NotAllowed(f'"{shown}" cannot name a query; use letters, digits, "_", "-", "." and spaces')


@contextmanager
def _locating(cursor: Cursor) -> Iterator[None]:
    """Give every error the text that its span points into."""
    try:
        yield
    except QueryError as error:
        located(error, cursor.text, start=cursor.base)
        raise
    except RecursionError:
        raise TooLarge("the statement nests too deeply; write it with fewer levels") from None


def _claim(statement: Statement, taken: set[tuple[str, str]], chunk: Chunk) -> None:
    """Refuse a name that another statement has given already."""
    if isinstance(statement, DropQuery):
        taken.discard(("query", statement.name.casefold()))
        return
    if isinstance(statement, CreateQuery):
        what, name = "query", statement.name
    elif isinstance(statement, CreateSink):
        what, name = "sink", statement.definition.name
    else:
        what, name = "stream or table", statement.definition.name
    again = isinstance(statement, CreateQuery) and statement.replace
    if (what, name.casefold()) in taken and not again:
        problem = f'{what} "{name}" is defined twice; rename one'
        raise NotAllowed(problem, text=chunk.text, span=span_of(name, chunk.text))
    taken.add((what, name.casefold()))


def span_of(name: str, text: str, *, last: bool = False) -> Span | None:
    """Return where a statement has a name: the first place after CREATE and what is created, or the last.

    >>> span_of("q", "CREATE QUERY q AS SELECT q FROM s"), span_of("b", "CREATE SINK b FOR a, b", last=True)
    ((13, 14), (21, 22))
    """
    names = [token for token in lex(text)[2:] if token.kind in (TokenKind.WORD, TokenKind.QUOTED)]
    places = [(token.start, token.end) for token in names if token.text == name]
    return places[-1 if last else 0] if places else None
