"""LIKE, ILIKE and RLIKE. Regular expressions are Java's; Spark evaluates those unlike Python's."""

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation import strings
from weft.evaluation.vector import Vector, mask
from weft.expression import Call, Literal

_WILD = re.compile(r"\\(.)|([%_])|([^\\%_]+)", re.DOTALL)
_TERMINATORS = "\n\r\u0085\u2028\u2029"
_END = r"(?:(?=\r\n\Z|[\r\u0085\u2028\u2029]?\Z)|(?<!\r)(?=\n\Z))"
"""Java's $: the end, or before a line terminator at the end."""
_TOKEN = re.compile(
    r"(?P<escape>\\[dDwWsStnrf]|\\[^a-zA-Z0-9\s])|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<dot>\.)|(?P<end>\$)"
    r"|(?P<flag>\(\?i\))|(?P<group>\((?:\?(?::|=|!|<=|<!|>)|(?!\?)))|(?P<plain>[^\\\[\].$(])",
    re.DOTALL,
)
_SET_ESCAPES = re.compile(r"\\[^dDwWsStnrf\W]|[^\\]-\\[dDwWsS]|\[:|&&|\\[dDwWsS]-|\s")
"""What a set may contain that Java and Python read differently."""
_lower = strings.cased(pc.ascii_lower, strings.lowered)


def _constant(call: Call) -> str:
    pattern = call.args[1]
    assert isinstance(pattern, Literal)
    return str(pattern.value)


def rlike(call: Call, value: Vector, _: Vector) -> Vector:
    """Say where strings contain a match of a regular expression."""
    regex = java_regex(_constant(call))
    assert regex is not None
    return _searched(value, regex.search)


def _searched(value: Vector, test: Callable[[str], object]) -> Vector:
    matches = strings.mapped(
        value.values, lambda word: test(word.decode("utf-8", "replace")) is not None, pa.bool_()
    )
    return Vector(mask(matches), value.valid)


def like(call: Call, value: Vector, _: Vector) -> Vector:
    """Say where strings match a pattern of % and _, with ILIKE whatever their case."""
    pattern = _constant(call)
    if call.function == "ilike":
        value, pattern = _lower(call, value), strings.lowered(pattern)
    kernel = _kernel(pattern)
    if kernel is None:
        return _searched(value, _like_regex(pattern).fullmatch)
    return Vector(mask(kernel(value.values)), value.valid)


@lru_cache(maxsize=1024)
def _kernel(pattern: str) -> Callable[[pa.Array], pa.Array] | None:
    """Return Arrow's function for a pattern with % at its ends only."""
    middle = pattern.strip("%")
    if "\\" in pattern or "%" in middle or "_" in middle:
        return None
    word = middle.encode()
    if pattern == middle:
        return lambda array: pc.equal(array, word)
    if not pattern.startswith("%"):
        return lambda array: pc.starts_with(array, pattern=word)
    kernel = pc.match_substring if pattern.endswith("%") else pc.ends_with
    return lambda array: kernel(array, pattern=word)


@lru_cache(maxsize=1024)
def _like_regex(pattern: str) -> re.Pattern[str]:
    parts = []
    for match in _WILD.finditer(pattern):
        escaped, wild, plain = match.groups()
        parts.append({"%": ".*", "_": "."}[wild] if wild else re.escape(escaped or plain))
    return re.compile("".join(parts), re.DOTALL)


@lru_cache(maxsize=1024)
def java_regex(pattern: str) -> re.Pattern[str] | None:
    """Return a Java regular expression as one of Python's that matches the same, or None.

    >>> java_regex("^a.*[0-9]$") is None, java_regex(r"\\bword") is None
    (False, True)
    """
    translations = {"dot": f"[^{_TERMINATORS}]", "end": _END}
    parts, at = [], 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        if match is None or (match.lastgroup == "set" and _SET_ESCAPES.search(match.group()[1:-1])):
            return None
        parts.append(translations.get(match.lastgroup or "", match.group()))
        at = match.end()
    flags = re.ASCII | (re.IGNORECASE if "(?i)" in parts[:1] else 0)
    if "(?i)" in parts[1:]:
        return None
    try:
        return re.compile("".join(part for part in parts if part != "(?i)"), flags)
    except (re.error, OverflowError, RecursionError):
        return None
