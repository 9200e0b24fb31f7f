"""Patterns of LIKE and RLIKE: those that would make Spark fail are refused before it sees them.

One bad pattern would otherwise end the batch for every query. Regular expressions are Java's in the end; the
check takes what Java and Python both understand, and the same way.
"""

import re

from weft.errors import TypeMismatch
from weft.expression import Expression, Literal

PATTERNS = frozenset({"like", "ilike", "rlike"})
"""Functions whose second argument is a pattern."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_SET = re.compile(r"\[\^?\]?[^\]]*\]")
_JAVA_CLASS = re.compile(r"\\[pP]\{\w+\}")
_DIFFERENT = (
    (re.compile(r"\(\?P|\(\?\("), "named groups and conditionals"),
    (re.compile(r"\(\?[a-z]*[aL]"), "the flags a and L"),
    (re.compile(r"\{(?!\d+(?:,\d*)?\})"), "a brace that is no repetition (write \\{)"),
)
"""What Python reads and Java does not, in text without escapes and sets."""


def check_pattern(function: str, pattern: Expression) -> None:
    """Refuse a pattern that Spark cannot read."""
    assert isinstance(pattern, Literal)
    assert isinstance(pattern.value, str)
    problem = _regex_problem(pattern.value) if function == "rlike" else _like_problem(function, pattern.value)
    if problem:
        raise TypeMismatch(problem, span=pattern.span)


def _like_problem(function: str, pattern: str) -> str:
    if "\\" in re.sub(r"\\[%_\\]", "", pattern):
        return f"in a {function.upper()} pattern a backslash stands before %, _ or another backslash"
    return ""


def _regex_problem(pattern: str) -> str:
    if re.search(r"\\(U|0(?![0-7]))", pattern):
        return "the pattern has an escape that Spark does not know"
    bare = _ESCAPED.sub("x", _JAVA_CLASS.sub("x", pattern))
    for found in _SET.findall(bare):
        if re.search(r"\[|&&|--|~~|\|\|", found[1:]):
            return "the pattern has a set inside a set; write one set"
    outside = _SET.sub("x", bare)
    for regex, what in _DIFFERENT:
        if regex.search(outside):
            return f"the pattern has {what}, which Spark does not know"
    try:
        re.compile(_JAVA_CLASS.sub(r"\\w", pattern))
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern is not a regular expression: {error}"
    return ""
