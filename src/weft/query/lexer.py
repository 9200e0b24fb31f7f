"""From text to statements, and from a statement to tokens.

Statements are cut apart first, by one regular expression that knows only quotes, comments and semicolons. So
a statement that is too large is refused before it is tokenized.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sqlglot import Dialect, TokenType
from sqlglot import Token as RawToken
from sqlglot.errors import SqlglotError

from weft.errors import SyntaxMistake, TooLarge
from weft.limits import DEFAULTS, Limits

_PIECE = re.compile(
    r"""(?<!\w)[rR]'[^']*+' | (?<!\w)[rR]"[^"]*+"
      | '[^'\\]*+(?:\\.[^'\\]*+)*+' | "[^"\\]*+(?:\\.[^"\\]*+)*+" | `[^`]*+`
      | --[^\r\n]*+ | /\* | ; | ['"`]""",
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"\S+")
_PART = re.compile(r"\d+\.\d+|\w+|<=>|[<>=!]=|<>|\|\||::|\S")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SPARK = Dialect.get_or_raise("spark")
_STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING})


class TokenKind(StrEnum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """A word, name, constant or symbol and its position."""

    # A tuple, not a dataclass: a workload has a million, and a tuple is made four times as fast.

    kind: TokenKind
    text: str
    """As written; of strings and quoted names, what is inside the quotes."""
    key: str
    """What the grammar compares: upper case of a word, the symbol itself, empty for all others."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text of one statement, and where it begins in the workload's."""

    text: str
    start: int


def split(text: str, limits: Limits = DEFAULTS) -> Iterator[Chunk]:
    """Cut a workload into statements at semicolons outside quotes and comments."""
    limits.enforce("workload_text", len(text))
    begin = 0
    for end in _ends(text):
        chunk = text[begin:end]
        start = begin + len(chunk) - len(chunk.lstrip())
        statement = chunk.strip()
        try:
            limits.enforce("query_text", len(statement), span=(0, 1))
            # A word has a character at least, so short texts need no count.
            if len(statement) > limits.query_words:
                limits.enforce("query_words", _count_words(statement), span=(0, 1))
        except TooLarge as error:
            error.text, error.start = statement[:200], start
            raise
        if statement:
            yield Chunk(statement, start)
        begin = end + 1


def _count_words(text: str) -> int:
    """Count words, constants and symbols, much faster than `lex`."""
    count = position = 0
    while (match := _PIECE.search(text, position)) is not None:
        count += len(_PART.findall(text, position, match.start()))
        is_comment = match.group().startswith(("/*", "--"))
        count += not is_comment
        position = _comment_end(text, match.start()) if match.group() == "/*" else match.end()
    return count + len(_PART.findall(text, position))


def _ends(text: str) -> Iterator[int]:
    position = 0
    while (match := _PIECE.search(text, position)) is not None:
        piece, position = match.group(), match.end()
        if piece == ";":
            yield match.start()
        elif piece == "/*":
            position = _comment_end(text, match.start())
        elif len(piece) == 1:
            raise SyntaxMistake("this quote has no end", text=text, span=match.span())
    yield len(text)


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SyntaxMistake("this comment has no end", text=text, span=(start, start + 2))


def lex(text: str) -> tuple[Token, ...]:
    """Return the tokens of one statement, with an end token last."""
    try:
        raw = _SPARK.tokenize(text)
    except SqlglotError:
        raise SyntaxMistake("the text cannot be cut into words", text=text, span=(0, 1)) from None
    tokens: list[Token] = []
    covered = 0
    for token in raw:
        # sqlglot spells the suffix of `12L` as a cast: two more tokens at the same place.
        start, end = token.start, token.end + 1
        if start >= covered:
            written = text[start:end]
            if written.isascii() and written.isidentifier():
                # Most are words, and a workload has a million of them.
                tokens.append(Token(TokenKind.WORD, written, written.upper(), start, end))
            else:
                tokens.extend(_tokens(text, token, tokens))
            covered = end
    return *tokens, Token(TokenKind.END, "", "", len(text), len(text))


def _tokens(text: str, raw: RawToken, before: list[Token]) -> Iterator[Token]:
    start, end = raw.start, raw.end + 1
    written = text[start:end]
    if raw.token_type in _STRINGS:
        yield _string(raw.text, text, start, end, before)
    elif raw.token_type == TokenType.IDENTIFIER:
        yield Token(TokenKind.QUOTED, raw.text, "", start, end)
    elif raw.token_type == TokenType.NUMBER:
        yield Token(TokenKind.NUMBER, written, "", start, end)
    elif "'" not in written and (written[:1].isalnum() or written[:1] == "_" or written[:1] > "\x7f"):
        # x'AB' begins like a word, too, and `GROUP BY` comes as one token.
        for word in _WORD.finditer(written):
            part = word.group()
            yield Token(TokenKind.WORD, part, part.upper(), start + word.start(), start + word.end())
    else:
        # A hint is one token, text and all.
        key = "/*+" if raw.token_type == TokenType.HINT else written
        yield Token(TokenKind.SYMBOL, written, key, start, end)


def _string(value: str, text: str, start: int, end: int, before: list[Token]) -> Token:
    """Join 'it''s', which comes as two strings that touch."""
    last = before[-1] if before and before[-1].kind is TokenKind.STRING else None
    if last is not None and last.end == start and text[last.start] == text[start]:
        before.pop()
        return Token(TokenKind.STRING, last.text + text[start] + value, "", last.start, end)
    return Token(TokenKind.STRING, value, "", start, end)
