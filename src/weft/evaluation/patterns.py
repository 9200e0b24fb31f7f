"""LIKE and regular expressions: those of Java's that Python reads in the same way."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation import strings
from weft.evaluation.strings import mapped
from weft.evaluation.vector import Vector, mask, text
from weft.expression import Call, Literal
from weft.query.regexes import replacement_parts

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


def _constant(call: Call, index: int = 1) -> str:
    constant = call.args[index]
    assert isinstance(constant, Literal)
    return str(constant.value)


def rlike(call: Call, value: Vector, _: Vector) -> Vector:
    """Say where strings contain a match of a regular expression."""
    regex = java_regex(_constant(call))
    assert regex is not None
    return _searched(value, regex.search)


def _searched(value: Vector, test: Callable[[str], object]) -> Vector:
    matches = mapped(value.values, lambda word: test(word.decode("utf-8", "replace")) is not None, pa.bool_())
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


def extract(call: Call, value: Vector, *_: Vector) -> Vector:
    """Return what a group of a regular expression matches first, or an empty string."""
    regex = java_regex(_constant(call))
    assert regex is not None
    group = int(_constant(call, 2)) if len(call.args) > 2 else 1

    def found(word: bytes) -> bytes:
        match = regex.search(word.decode("utf-8", "replace"))
        return b"" if match is None else (match.group(group) or "").encode()

    return text(_each(value, found))


def substituted(call: Call, value: Vector, *_: Vector) -> Vector:
    """Return strings with every match of a regular expression replaced."""
    regex = java_regex(_constant(call))
    assert regex is not None
    parts = replacement_parts(_constant(call, 2), regex.groups)
    assert parts is not None

    def put(match: re.Match[str]) -> str:
        return "".join((match.group(part) or "") if isinstance(part, int) else part for part in parts)

    return text(_each(value, lambda word: regex.sub(put, word.decode("utf-8", "replace")).encode()))


def _each(value: Vector, function: Callable[[bytes], bytes]) -> pa.Array:
    return mapped(value.values, function, pa.binary())


def is_known_pattern(call: Call) -> bool:
    """Say whether a call's regular expression is evaluated here with exactly Java's result."""
    pattern = _constant(call)
    if java_regex(pattern) is None:
        return False
    tokens = list(_tokens(pattern))
    # How Java and Python enter a group again, when it may match nothing, differs.
    repeats_group = any(one == ")" and other in ("*", "+", "{") for one, other in pairwise(tokens))
    if call.function == "regexp_extract":
        return not repeats_group
    # After an empty match Java goes on within a character of two units.
    return not repeats_group and _consumes(tokens)


def _tokens(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        assert match is not None
        yield match.group()
        at = match.end()


_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")


@dataclass(slots=True)
class _Group:
    """A group of a pattern that is being read."""

    opening: str = ""
    before: bool = True
    """Whether each alternative before this one has to match something."""
    this: bool = False
    """Whether this one has to."""

    def consumes(self) -> bool:
        return self.before and self.this and self.opening not in _LOOKS


def _consumes(tokens: list[str]) -> bool:
    """Say whether a pattern certainly matches no empty string: every alternative has something to match."""
    groups, counting = [_Group()], False
    for at, token in enumerate(tokens):
        following = "".join(tokens[at + 1 : at + 3])
        optional = following.startswith(("*", "?", "{0", "{,"))
        if token == "(?i)":
            continue
        if token.startswith("("):
            groups.append(_Group(token))
        elif token == ")":
            closed = groups.pop()
            groups[-1].this |= closed.consumes() and not optional
        elif token == "|":
            groups[-1].before, groups[-1].this = groups[-1].before and groups[-1].this, False
        elif token == "{" or counting:
            counting = token != "}"
        elif token not in ("^", "$", "*", "+", "?") and not optional:
            groups[-1].this = True
    return groups[0].consumes()
