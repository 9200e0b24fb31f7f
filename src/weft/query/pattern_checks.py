"""Patterns of LIKE and RLIKE: those that would make Spark fail are refused before it sees them.

One bad pattern would otherwise end the batch for every query. Java interprets the regular expressions; the
check accepts what Java and Python both understand in the same way.
"""

import re

from weft.errors import TypeMismatch
from weft.expression import Expression, Literal

PATTERNS = frozenset({"like", "ilike", "rlike"})
"""Functions whose second argument is a pattern."""

_ESCAPE = re.compile(r"\\(?:[pP]\{(\w+)\}|.)", re.DOTALL)
_SET = re.compile(r"\[\^?\]?[^\]]*\]")
_JAVA_CLASSES = frozenset(
    """L Lu Ll Lt Lm Lo M N Nd Nl No P S Z C Alpha Digit Alnum Upper Lower Punct Graph Print Blank Cntrl
    XDigit Space ASCII IsAlphabetic IsLetter IsDigit IsUppercase IsLowercase
    IsPunctuation IsWhite_Space""".split()
)
_DIFFERENT = (
    (re.compile(r"\(\?P|\(\?\(|\(\?#"), "a named group, conditional or comment"),
    (re.compile(r"\(\?[a-z]*[aL]"), "the flag a or L"),
    (re.compile(r"\{(?!\d{1,4}(?:,\d{0,4})?\})"), "a brace that is not a repetition (write \\{)"),
)
"""What Python reads and Java does not, in text without escapes and sets."""


def check_pattern(function: str, pattern: Expression) -> None:
    """Refuse a pattern that Spark cannot read."""
    assert isinstance(pattern, Literal)
    assert isinstance(pattern.value, str)
    problem = ""
    if function == "rlike":
        problem = _regex_problem(pattern.value)
    elif "\\" in re.sub(r"\\[%_\\]", "", pattern.value):
        problem = f"in a {function.upper()} pattern a backslash stands before %, _ or another backslash"
    if problem:
        raise TypeMismatch(problem, span=pattern.span)


def _regex_problem(pattern: str) -> str:
    escapes = list(_ESCAPE.finditer(pattern))
    if any(escape.group(1) is not None and escape.group(1) not in _JAVA_CLASSES for escape in escapes):
        return "the pattern has a class \\p{…} that Spark does not know"
    if any(escape.group() in (r"\U", r"\N") or _is_bare_zero(escape) for escape in escapes):
        return "the pattern has an escape that Spark does not know"
    bare = _ESCAPE.sub("x", pattern)
    if any(re.search(r"\[|&&|--|~~|\|\|", characters[1:]) for characters in _SET.findall(bare)):
        return "the pattern has a set inside a set; write one set"
    outside = _SET.sub("x", bare)
    if "[" in outside:
        return "the pattern is not a regular expression: a set has no end"
    for regex, what in _DIFFERENT:
        if regex.search(outside):
            return f"the pattern has {what}, which Spark does not know"
    try:
        # Python does not know Java's classes.
        re.compile(_ESCAPE.sub(lambda escape: escape.group() if escape.group(1) is None else r"\w", pattern))
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern is not a regular expression: {error}"
    return ""


def _is_bare_zero(escape: re.Match[str]) -> bool:
    return escape.group() == r"\0" and escape.string[escape.end() : escape.end() + 1] not in tuple("01234567")
