"""Regular expressions and their replacements: which ones Spark can read.

Java interprets them; the check accepts what Java and Python both understand in the same way.
"""

import re

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
_REFERENCE = re.compile(r"\\(.)|\$(\d+)|([^\\$]+)", re.DOTALL)


def regex_problem(pattern: str) -> str:
    """Return what is wrong with a regular expression, or nothing."""

    def is_bare_zero(escape: re.Match[str]) -> bool:
        return escape.group() == r"\0" and pattern[escape.end() : escape.end() + 1] not in tuple("01234567")

    escapes = list(_ESCAPE.finditer(pattern))
    if any(escape.group(1) is not None and escape.group(1) not in _JAVA_CLASSES for escape in escapes):
        return "the pattern has a class \\p{…} that Spark does not know"
    if any(escape.group() in (r"\U", r"\N") or is_bare_zero(escape) for escape in escapes):
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
        _compiled(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern is not a regular expression: {error}"
    return ""


def _compiled(pattern: str) -> re.Pattern[str]:
    # Python does not know Java's classes.
    return re.compile(
        _ESCAPE.sub(lambda escape: escape.group() if escape.group(1) is None else r"\w", pattern)
    )


def groups_of(pattern: str) -> int:
    """Return the number of groups of a regular expression without problems.

    >>> groups_of("(a|b)(?:c)(d)")
    2
    """
    return _compiled(pattern).groups


def replacement_parts(replacement: str, groups: int) -> tuple[str | int, ...] | None:
    """Return the strings and numbers of groups that a replacement consists of, or None if it has none such.

    A number of a group ends before the digit that would make it a group that there is not, as in Java.

    >>> replacement_parts(r"<$12> \\$1", 3)
    ('<', 1, '2', '> ', '$', '1')
    """
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        match = _REFERENCE.match(replacement, at)
        if match is None:
            return None
        at = match.end()
        escaped, digits, plain = match.groups()
        if digits is None:
            parts.append(escaped or plain)
            continue
        if int(digits[0]) > groups:
            return None
        size = _group_digits(digits, groups)
        parts += [int(digits[:size]), *([digits[size:]] if digits[size:] else [])]
    return tuple(parts)


def _group_digits(digits: str, groups: int) -> int:
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    return size
