"""Which constants functions take: patterns, paths, zones and sizes.

A constant that would make Spark fail is refused before Spark sees it, because it would end the batch for
every query.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from weft.errors import TypeMismatch, suggestion
from weft.expression import Expression, Literal
from weft.query.date_patterns import read_pattern
from weft.query.regexes import groups_of, regex_problem, replacement_parts
from weft.query.zones import is_constant_zone, regions

Check = Callable[..., None]
"""Takes the arguments; raises TypeMismatch."""

URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
"""The parts that `parse_url` returns."""
_KEY = re.compile(r"[\w.~%-]+")
_PATH = re.compile(r"\$(?:\.\*|\['\*'\]|\.[^.\[\s][^.\[]*|\['[^'?]+'\]|\[(?:\*|\d{1,9})\])*")
_MOST_PADDED, _MOST_REPEATED = 65_536, 1_000


def check_constants(function: str, args: tuple[Expression, ...]) -> None:
    """Refuse constants that a function cannot be called with."""
    check = _CHECKS.get(function)
    if check is not None:
        check(*args)


def _text(arg: Expression) -> str:
    assert isinstance(arg, Literal)
    assert isinstance(arg.value, str)
    return arg.value


def _whole(arg: Expression) -> int:
    assert isinstance(arg, Literal)
    return int(str(arg.value))


def _refuse(arg: Expression, problem: str) -> None:
    raise TypeMismatch(problem, span=arg.span)


def _like(_: Expression, pattern: Expression) -> None:
    if "\\" in re.sub(r"\\[%_\\]", "", _text(pattern)):
        _refuse(pattern, "in a LIKE pattern a backslash stands before %, _ or another backslash")


def _regex(_: Expression, pattern: Expression) -> None:
    problem = regex_problem(_text(pattern))
    if problem:
        _refuse(pattern, problem)


def _extract(value: Expression, pattern: Expression, group: Expression | None = None) -> None:
    _regex(value, pattern)
    groups, number = groups_of(_text(pattern)), 1 if group is None else _whole(group)
    if not 0 <= number <= groups:
        has = f"the pattern has {groups} group{'s' * (groups != 1)} in (…)"
        _refuse(group or pattern, f"{has}, so there is no group {number}; 0 is all that matches")


def _replacement(value: Expression, pattern: Expression, replacement: Expression) -> None:
    _regex(value, pattern)
    groups = groups_of(_text(pattern))
    if replacement_parts(_text(replacement), groups) is None:
        stands = f"$ stands before the number of a group, of which the pattern has {groups}"
        _refuse(replacement, f"in a replacement {stands}; write \\$ or \\\\ for the signs themselves")


def _date_pattern(_: Expression, pattern: Expression) -> None:
    try:
        read_pattern(_text(pattern))
    except ValueError as error:
        _refuse(pattern, f"this is not a date pattern: {error}")


def _zone(_: Expression, zone: Expression) -> None:
    name = _text(zone)
    if not is_constant_zone(name):
        hint = suggestion(name, sorted(regions()))
        if "did you mean" not in hint:
            hint = "; write it as in 'Europe/Paris', 'UTC' or '+02:00'"
        _refuse(zone, f"unknown time zone '{name[:60]}'{hint}")


def _json_path(_: Expression, path: Expression) -> None:
    if not _PATH.fullmatch(_text(path)):
        _refuse(path, "this is not a path; write it as in '$.a.b', '$.a[0]', '$[*]' or '$[''a b'']'")


def _url(_: Expression, part: Expression, key: Expression | None = None) -> None:
    if _text(part) not in URL_PARTS:
        _refuse(part, f"parse_url knows the parts {', '.join(URL_PARTS)}, found '{_text(part)[:60]}'")
    if key is not None and _text(part) != "QUERY":
        _refuse(key, "only QUERY has keys")
    if key is not None and not _KEY.fullmatch(_text(key)):
        _refuse(key, "a key is made of letters, digits and . _ ~ % -")


def _number_of_part(_: Expression, delimiter: Expression, number: Expression) -> None:
    if _whole(number) == 0:
        _refuse(number, "parts are counted from 1, or from the end with -1; there is none with the number 0")


def _padded(_: Expression, size: Expression, *more: Expression) -> None:
    if not 0 <= _whole(size) <= _MOST_PADDED:
        _refuse(size, f"the length is from 0 to {_MOST_PADDED:,}, found {_whole(size)}")


def _repeated(_: Expression, count: Expression) -> None:
    if not 0 <= _whole(count) <= _MOST_REPEATED:
        _refuse(count, f"the number is from 0 to {_MOST_REPEATED:,}, found {_whole(count)}")


def _digest(_: Expression, size: Expression) -> None:
    if _whole(size) not in (224, 256, 384, 512):
        _refuse(size, f"sha2 has 224, 256, 384 or 512 bits, found {_whole(size)}")


_CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "like": _like, "ilike": _like, "rlike": _regex, "regexp_extract": _extract,
        "regexp_replace": _replacement, "date_format": _date_pattern, "from_utc_timestamp": _zone,
        "to_utc_timestamp": _zone, "get_json_object": _json_path, "parse_url": _url,
        "split_part": _number_of_part, "lpad": _padded, "rpad": _padded, "repeat": _repeated, "sha2": _digest,
    }
)  # fmt: skip
