"""A position among the tokens of a statement, and what a grammar needs to read on from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from weft.errors import NotAllowed, QueryError, Span, SyntaxMistake, TooLarge
from weft.limits import DEFAULTS, Limits
from weft.query.lexer import Token, TokenKind

_Item = TypeVar("_Item")

MAX_DEPTH = 100
"""How deep expressions may nest; no setting changes it, because Python's stack does not grow."""

MAX_SHOWN = 120
"""How much of a text an error underlines."""

RESERVED = frozenset(
    """ALL AND AS BETWEEN CASE CREATE CROSS DISTINCT ELSE EMIT EXCEPT FROM FULL GROUP HAVING IN INNER
    INTERSECT IS JOIN LEFT LIKE ILIKE RLIKE LIMIT NATURAL NOT ON OR ORDER QUALIFY RIGHT SELECT THEN UNION
    USING WHEN WHERE WITH""".split()
)
"""Words that are never names unless quoted."""


def too_deep(span: Span) -> TooLarge:
    """Return the error of expressions that nest too deeply."""
    problem = f"expressions nest more than {MAX_DEPTH} deep, the most that the language has"
    return TooLarge(f"{problem}; write them with fewer levels", span=span)


def located(error: QueryError, text: str, *, start: int = 0) -> QueryError:
    """Return an error with the text that its span points into, and a span short enough to read.

    `start` is where that text begins in a longer one.
    """
    if not error.text:
        error.text, error.start = text, start
        if error.span is not None:
            error.span = error.span[0], min(error.span[1], error.span[0] + MAX_SHOWN)
    return error


@contextmanager
def error_span(span: Span | None) -> Iterator[None]:
    """Give this span to the errors of a check that does not know the text."""
    try:
        yield
    except QueryError as error:
        error.span = span
        raise


@dataclass(slots=True)
class Cursor:
    """A reader of one statement's tokens; spans are offsets into `text`."""

    text: str
    tokens: tuple[Token, ...]
    base: int = 0
    index: int = 0
    depth: int = 0
    limits: Limits = DEFAULTS

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.index]

    def peek(self) -> Token:
        """Return the token after the next one without moving."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Move past the next token and return it."""
        token = self.tokens[self.index]
        if token.kind is not TokenKind.END:
            self.index += 1
        return token

    def at(self, key: str, following: str | None = None) -> bool:
        """Say whether this word or symbol comes next, and after it the following one."""
        if self.tokens[self.index].key != key:
            return False
        return following is None or self.peek().key == following

    def accept(self, key: str, following: str | None = None) -> bool:
        """Move past this word or symbol, and the following one, if they come next."""
        if not self.at(key, following):
            return False
        self.index += 1 if following is None else 2
        return True

    def expect(self, key: str) -> None:
        """Move past this word or symbol, which must come next."""
        if not self.accept(key):
            raise self.mistake(f"expected {key}")

    def at_name(self) -> bool:
        """Say whether a name comes next."""
        token = self.token
        return token.kind is TokenKind.QUOTED or (token.kind is TokenKind.WORD and token.key not in RESERVED)

    def name(self, what: str) -> Token:
        """Move past a name and return it."""
        if not self.at_name():
            raise self.mistake(f"expected {what}")
        return self.advance()

    def listed(self, read: "Callable[[Cursor], _Item]") -> list[_Item]:
        """Read one or more items with commas between them."""
        items = [read(self)]
        while self.accept(","):
            items.append(read(self))
        return items

    def alias(self, excluded: frozenset[str]) -> str | None:
        """Read `AS name`, or a name that follows directly and is not excluded, if there is one."""
        if self.accept("AS"):
            return self.name("an alias").text
        return self.advance().text if self.at_name() and self.token.key not in excluded else None

    def span(self, token: Token | None = None) -> Span:
        """Return the span of a token, by default the next."""
        token = token or self.token
        return token.start - self.base, token.end - self.base

    def span_from(self, index: int) -> Span:
        """Return the span from the token at `index` to the one just passed."""
        last = self.tokens[max(self.index - 1, index)]
        return self.tokens[index].start - self.base, last.end - self.base

    def written(self, span: Span) -> str:
        """Return the text of a span on one line."""
        return " ".join(self.text[span[0] : span[1]].split())

    def rebase(self) -> None:
        """Make the text and its spans begin at the next token."""
        start, end = self.token.start, self.tokens[-2].end
        self.text = self.text[start - self.base : end - self.base]
        self.base = start

    def mistake(self, problem: str) -> QueryError:
        """Return a syntax error at the next token that also says what was found."""
        token = self.token
        if token.kind is TokenKind.END:
            span = max(0, len(self.text) - 1), len(self.text)
            return SyntaxMistake(f"{problem}, but the text ends here", span=span)
        written = self.written(self.span())
        shown = written if len(written) <= 40 else written[:40] + "…"
        is_next = token.key == "CREATE" or self.at("DROP", "QUERY")
        hint = "; a semicolon ends the statement before it" if is_next and self.index else ""
        return SyntaxMistake(f"{problem}, found {shown}{hint}", span=self.span())

    def refusal(self, problem: str) -> NotAllowed:
        """Return an error that refuses the next token."""
        return NotAllowed(problem, span=self.span())

    def refuse_subquery(self) -> None:
        """Refuse a query where an expression is expected."""
        if self.at("SELECT") or self.at("WITH"):
            raise self.refusal("subqueries are not in the language; join a static table instead")

    def finish(self) -> None:
        """Check that the statement ends here."""
        if self.token.kind is not TokenKind.END:
            raise self.mistake("expected the end of the statement")
