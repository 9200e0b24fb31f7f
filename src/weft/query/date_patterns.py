"""Patterns of `date_format`, as Java's DateTimeFormatter reads them: those whose text no locale changes."""

from typing import NamedTuple

MOST_LETTERS = {
    "y": 4, "Q": 4, "M": 4, "D": 3, "d": 2, "E": 4, "a": 1, "H": 2, "k": 2, "K": 2, "h": 2, "m": 2, "s": 2,
    "S": 9, "X": 3, "x": 3, "Z": 3,
}  # fmt: skip
"""The letters of patterns, and how many of one may follow each other."""
_RESERVED = "[]{}#"


class Field(NamedTuple):
    """A part of a time: a letter, so many times."""

    letter: str
    times: int


def read_pattern(pattern: str) -> tuple[Field | str, ...]:
    """Return the fields of a pattern and the texts between them; raise ValueError with what is wrong.

    >>> read_pattern("yyyy-MM'T'")
    (Field(letter='y', times=4), '-', Field(letter='M', times=2), 'T')
    """
    parts: list[Field | str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "'":
            text, at = _quoted(pattern, at)
            parts.append(text)
            continue
        count = 1
        if sign.isascii() and sign.isalpha():
            while pattern[at + count : at + count + 1] == sign:
                count += 1
            parts.append(_field(sign, count))
        elif sign in _RESERVED:
            raise ValueError(f"{sign} has to stand in quotes")
        else:
            parts.append(sign)
        at += count
    return tuple(parts)


def _field(letter: str, count: int) -> Field:
    if letter not in MOST_LETTERS:
        known = " ".join(MOST_LETTERS)
        problem = f"'{letter}' is not a letter of patterns; known are {known}"
        raise ValueError(f"{problem}; text stands in quotes, as in 'T'")
    if count > MOST_LETTERS[letter]:
        raise ValueError(f"'{letter * count}' has more than {MOST_LETTERS[letter]} letters")
    return Field(letter, count)


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """Return the text in quotes that begins here, and where it ends; two quotes, or no text, are one."""
    text, at = "", at + 1
    while at < len(pattern):
        if pattern[at] != "'":
            text, at = text + pattern[at], at + 1
        elif pattern[at + 1 : at + 2] == "'":
            text, at = text + "'", at + 2
        else:
            return text or "'", at + 1
    raise ValueError("a quote has no end")
