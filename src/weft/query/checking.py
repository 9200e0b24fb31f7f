"""Finds all mistakes of a workload that its text shows: no file is opened, and nothing is started."""

from collections.abc import Collection
from dataclasses import dataclass

from weft.errors import QueryError, UnknownName, suggestion, without_strings
from weft.limits import DEFAULTS, Limits
from weft.query.binder import bind
from weft.query.cursor import located
from weft.query.lexer import TokenKind, lex
from weft.query.logical import Catalog, StreamDef, TableDef
from weft.query.statements import (
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    DropQuery,
    Statement,
    Written,
    read,
    span_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A workload that was checked."""

    written: tuple[Written, ...]
    """The statements that can be read, in order."""
    mistakes: tuple[QueryError, ...]
    """In the order of the text."""

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements without their places."""
        return tuple(written.statement for written in self.written)


def check(text: str, *, limits: Limits = DEFAULTS, alone: bool = True, queries_known: bool = True) -> Checked:
    """Read a workload, and find what is wrong with its statements and with its queries' meaning.

    Queries of streams and tables whose columns are not declared are bound later, when these were read. If the
    workload is not `alone`, an engine may have streams, tables and functions that it does not declare. If its
    `queries_known` are not all that there are, sinks may be FOR others.
    """
    everything = list(read(text, limits=limits))
    declared = {
        written.statement.definition.name.casefold()
        for written in everything
        if isinstance(written, Written) and isinstance(written.statement, CreateStream | CreateTable)
    }
    checking = _Checking(limits, declared, alone=alone)
    for written in everything:
        if isinstance(written, QueryError):
            checking.note_unread(written)
    for written in everything:
        if isinstance(written, Written):
            checking.look_at(written)
    if queries_known:
        checking.check_sinks()
    mistakes = sorted(checking.mistakes, key=lambda error: error.position)
    return Checked(written=tuple(checking.written), mistakes=tuple(mistakes))


class _Checking:
    """The names of a workload up to a statement, and the mistakes up to there."""

    def __init__(self, limits: Limits, declared: Collection[str], *, alone: bool) -> None:
        self.written: list[Written] = []
        self.mistakes: list[QueryError] = []
        self._limits, self._alone = limits, alone
        self._inputs: dict[str, StreamDef | TableDef] = {}
        self._catalog = Catalog()
        """The same, for queries."""
        self._declared = frozenset(declared)
        """Streams and tables of the whole workload."""
        self._unread = set[str]()
        """Streams and tables that cannot be read: queries of them have no mistake of their own."""
        self._queries = set[str]()
        """Present ones, and those that cannot be read."""
        self._named = set[str]()
        """All that are or were there."""

    def note_unread(self, error: QueryError) -> None:
        """Note a statement that cannot be read."""
        self.mistakes.append(error)
        if error.query:
            self._queries.add(error.query)
            self._named.add(error.query)
        if (name := _input_of(error.text)) is not None:
            self._unread.add(name.casefold())

    def look_at(self, written: Written) -> None:
        """Note a statement, and its mistake if it has one."""
        self.written.append(written)
        statement = written.statement
        if isinstance(statement, CreateStream | CreateTable):
            self._inputs[statement.definition.name.casefold()] = statement.definition
            inputs = self._inputs.values()
            self._catalog = Catalog(
                streams=tuple(input for input in inputs if isinstance(input, StreamDef)),
                tables=tuple(input for input in inputs if isinstance(input, TableDef)),
            )
        elif isinstance(statement, CreateQuery):
            self._queries.add(statement.name)
            self._named.add(statement.name)
            try:
                self._bind(statement)
            except QueryError as error:
                # One that nests too deeply has no place in its text.
                error.start = error.start or statement.start
                self.mistakes.append(error.named(statement.name))
        elif isinstance(statement, DropQuery):
            if self._alone and statement.name not in self._queries:
                problem = f'unknown query "{statement.name}"{suggestion(statement.name, self._queries)}'
                self.mistakes.append(mistake(written, statement.name, problem))
            self._queries.discard(statement.name)

    def _bind(self, query: CreateQuery) -> None:
        """Raise the mistake of a query, as far as what it reads is declared."""
        names = {source.name.casefold() for source in query.syntax.sources}
        unknown = names - self._inputs.keys()
        if unknown & self._unread or (unknown and not self._alone):
            return
        for source in query.syntax.sources:
            if source.name.casefold() in unknown & self._declared:
                problem = f'"{source.name}" is declared further down; declare it before it is used'
                raise located(UnknownName(problem, span=source.span), query.select, start=query.start)
        if not unknown and not all(self._inputs[name].columns for name in names):
            return
        try:
            bind(query, self._catalog, limits=self._limits)
        except UnknownName as error:
            if self._alone or not error.problem.startswith('function "'):
                raise

    def check_sinks(self) -> None:
        """Note sinks that are FOR queries which there are not."""
        for written in self.written:
            if isinstance(written.statement, CreateSink):
                sink = written.statement.definition
                for query in sink.queries:
                    if query not in self._named:
                        problem = unknown_query(sink.name, query, self._named)
                        self.mistakes.append(mistake(written, query, problem, last=True))


def unknown_query(sink: str, query: str, known: Collection[str]) -> str:
    """Return what is wrong with a sink that is FOR a query which there is not."""
    hint = suggestion(query, known) or "; there are no queries"
    return f'sink {sink} is FOR "{query}", which is no query{hint}'


def mistake(written: Written, name: str, problem: str, *, last: bool = False) -> QueryError:
    """Return a mistake of a statement, at the first or last place where that has a name."""
    # Options may hold a password.
    text = without_strings(written.text)
    error = UnknownName(problem, text=text, span=span_of(name, text, last=last))
    error.start = written.start
    return error


def _input_of(text: str) -> str | None:
    """Return the name of the stream or table that a statement declares which cannot be read."""
    try:
        create, kind, name, *_ = lex(text)
    except (QueryError, ValueError):
        return None
    declares = create.key == "CREATE" and kind.key in ("STREAM", "TABLE") and name.kind is not TokenKind.END
    return name.text if declares else None


def place(text: str, error: QueryError) -> tuple[int, int]:
    """Return the line and column of a mistake in the text of a workload, both counted from 1.

    >>> [place(text, error) for text in ["DROP QUERY a;\\n DRAP"] for error in check(text).mistakes]
    [(1, 12), (2, 2)]
    """
    before = text[: error.position]
    return before.count("\n") + 1, len(before) - before.rfind("\n")
