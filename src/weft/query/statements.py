"""The statements of a workload."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from weft.errors import NotAllowed, QueryError, SyntaxMistake, TooLarge
from weft.limits import DEFAULTS, Limits
from weft.query.cursor import Cursor, error_span, located
from weft.query.definitions import create_stream, create_table
from weft.query.lexer import Chunk, TokenKind, lex, split
from weft.query.logical import StreamDef, TableDef
from weft.query.selects import select
from weft.query.syntax import SelectSyntax, check_size

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
class CreateQuery:
    """A query as written, before its names and types are resolved."""

    name: str
    select: str
    """The text of the SELECT; spans of errors are offsets into it."""
    line: int = field(default=1, compare=False)
    """The line of the workload where the statement begins."""
    syntax: SelectSyntax = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropQuery:
    """A query ends."""

    name: str


Statement = CreateStream | CreateTable | CreateQuery | DropQuery


def parse(text: str, *, limits: Limits = DEFAULTS) -> tuple[Statement, ...]:
    """Read the statements of a workload, within limits of size.

    >>> [statement.name for statement in parse("DROP QUERY a; DROP QUERY b")]
    ['a', 'b']
    """
    statements: list[Statement] = []
    taken: set[tuple[str, str]] = set()
    for chunk in split(text, limits):
        cursor = Cursor(chunk.text, lex(chunk.text), limits=limits)
        if cursor.token.kind is not TokenKind.END:
            with _locating(cursor):
                statement = _statement(cursor, chunk)
            _claim(statement, taken, chunk)
            statements.append(statement)
    return tuple(statements)


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
            if cursor.accept("CREATE", "QUERY"):
                written = _query_name(cursor)
                cursor.expect("AS")
                return _query(cursor, chunks[0], name or written)
            if not name:
                problem = 'the query has no name; give one, as in add("SELECT …", name="big")'
                raise SyntaxMistake(problem)
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
    if cursor.accept("CREATE", "QUERY"):
        name = _query_name(cursor)
        cursor.expect("AS")
        return _query(cursor, chunk, name)
    if cursor.accept("DROP", "QUERY"):
        name = _query_name(cursor)
        cursor.finish()
        return DropQuery(name=name)
    if cursor.at("SELECT"):
        raise SyntaxMistake("a query needs a name; write CREATE QUERY name AS SELECT …", span=cursor.span())
    raise cursor.mistake("expected CREATE STREAM, CREATE TABLE, CREATE QUERY or DROP QUERY")


def _query(cursor: Cursor, chunk: Chunk, name: str) -> CreateQuery:
    try:
        if cursor.token.kind is TokenKind.END:
            raise cursor.mistake("expected SELECT")
        cursor.rebase()
        syntax = select(cursor)
        check_size(syntax, cursor.limits)
    except QueryError as error:
        error.named(name)
        raise
    line = chunk.line + chunk.text.count("\n", 0, cursor.tokens[0].start)
    return CreateQuery(name=name, select=cursor.text, line=line, syntax=syntax)


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
        located(error, cursor.text)
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
    else:
        what, name = "stream or table", statement.definition.name
    if (what, name.casefold()) in taken:
        at = re.search(re.escape(name), chunk.text)
        problem = f'{what} "{name}" is defined twice; rename one'
        raise NotAllowed(problem, text=chunk.text, span=at and at.span())
    taken.add((what, name.casefold()))
