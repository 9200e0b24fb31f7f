"""What docs/functions.md says: every function of the language, from the tables that define them."""

import re
from collections.abc import Mapping
from typing import cast

from weft.aggregates import REQUIRED, Constant
from weft.aggregates.aggregate_functions import AGGREGATES, SYNONYMS, Aggregate, called
from weft.query.allowed_functions import GROUPS, Function
from weft.query.expression_grammar import SUGAR
from weft.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, DataType, Kind

HEAD = """# Functions

Every function that a query can call, besides those [registered from Python](python.md). All mean what they
mean in Spark 4 with ANSI mode on and UTC as the session's time zone, but what fails for a row is NULL for
that row, and counted. Unless something else is said, the value is NULL where an argument is. Arguments that
are called constant are written in the query itself; what is wrong with one is said before any work begins.

This page is made from the tables that define the functions, by
`python -m pytest tests/unit/test_language_docs.py --update-goldens`.
"""
OTHERWISE = {
    "mod": ("two numbers", "the remainder, as a % b"),
    "if": ("a condition and two values", "the first value where the condition holds, else the second"),
    "nullif": ("two values of one type", "the first, or NULL where they are equal"),
    "nvl2": ("three values", "the second where the first is not NULL, else the third"),
    "to_timestamp": ("a string, date or timestamp", "as CAST(x AS TIMESTAMP)"),
    "isnull": ("anything", "whether it is NULL"),
    "isnotnull": ("anything", "whether it is not NULL"),
}
"""Functions that are other expressions in other words."""
AGGREGATES_HEAD = """## Aggregates

Brackets enclose what may be left out; T is the type of x. Each may have a `FILTER`, and
[the language](query-language.md#aggregates) says what they mean.
"""
CONSTANTS: Mapping[str, tuple[str, ...]] = {
    "first": ("ignore_nulls",), "last": ("ignore_nulls",),
    "collect_list": ("most",), "collect_set": ("most",), "string_agg": ("delimiter", "most"),
    "percentile": ("p",), "percentile_cont": ("p",), "percentile_disc": ("p",),
    "top_k": ("k",), "histogram": ("width",),
    "approx_count_distinct": ("rsd",), "approx_percentile": ("p", "accuracy"),
    "approx_top_k": ("k", "tracked"),
}  # fmt: skip
"""What the constants of aggregates are called here."""
SAMPLES = (INT, BIGINT, DOUBLE, DataType(Kind.DECIMAL, 10, 2), STRING, BOOLEAN)
MARK = "\0"
"""Stands for the argument's type."""
_BY_NAME = {aggregate.name: aggregate for aggregate in AGGREGATES}


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, functions in GROUPS.items():
        parts.append(_table(title, [_row(function) for function in functions]))
    assert set(OTHERWISE) == {*SUGAR, "mod"}
    rows = [f"| `{name}` | {takes} | | {does} |" for name, (takes, does) in OTHERWISE.items()]
    parts.append(_table("In other words", rows))
    parts.append(_aggregates())
    return "\n".join(parts)


def _table(title: str, rows: list[str]) -> str:
    head = "| function | arguments | type | value |\n| --- | --- | --- | --- |"
    return "\n".join([f"## {title}\n", head, *rows, ""])


def _row(function: Function) -> str:
    names = ", ".join(f"`{name}`" for name in function.spellings)
    return f"| {names} | {function.takes} | {function.result.gives} | {function.does} |"


def _aggregates() -> str:
    rows = [AGGREGATES_HEAD, "| function | written | arguments | type |", "| --- | --- | --- | --- |"]
    for aggregate in AGGREGATES:
        if called(aggregate.name) is None:
            continue
        others = [name for name, meant in SYNONYMS.items() if meant == aggregate.name]
        names = ", ".join(f"`{name}`" for name in (aggregate.name, *others))
        rows.append(f"| {names} | {_written(aggregate)} | {_taken(aggregate)} | {_types(aggregate)} |")
    return "\n".join([*rows, ""])


def _written(aggregate: Aggregate) -> str:
    """Return how an aggregate is called; what may be left out is in brackets."""
    name, arguments = aggregate.name, ", ".join("xy"[: max(aggregate.least, 1)])
    letters = _letters(aggregate)
    if aggregate.within_group:
        return f"`{name}({', '.join(letters)}) WITHIN GROUP (ORDER BY {arguments} [DESC])`"
    for letter, rule in zip(letters, aggregate.constants, strict=True):
        arguments += f", {letter}" if rule.default is REQUIRED else f"[, {letter}"
    arguments += "]" * arguments.count("[") + ("[, sum(y)]" if aggregate.weighted else "")
    ways = [f"{name}(*)"] if aggregate.least == 0 else []
    ways.append(f"{name}({arguments})")
    if aggregate.distinct is not None:
        many = _BY_NAME[aggregate.distinct].most > 1
        ways.append(f"{name}(DISTINCT x{'[, y, …]' if many else ''})")
    return ", ".join(f"`{way}`" for way in ways)


def _letters(aggregate: Aggregate) -> tuple[str, ...]:
    """Return names for the constants of an aggregate; the order of WITHIN GROUP is a word."""
    count = len(aggregate.constants) - aggregate.within_group
    letters = CONSTANTS.get(aggregate.name, ())
    assert len(letters) == count, aggregate.name
    return letters


def _taken(aggregate: Aggregate) -> str:
    constants = zip(_letters(aggregate), aggregate.constants, strict=False)
    weight = ["y is a whole number or double"] if aggregate.weighted else []
    return "; ".join([aggregate.takes, *(f"{letter} is {rule.takes}" for letter, rule in constants), *weight])


def _types(aggregate: Aggregate) -> str:
    constants = tuple(
        1 if rule.default is REQUIRED else cast(Constant, rule.default) for rule in aggregate.constants
    )
    found = {type: aggregate.result((type,) * max(aggregate.least, 1), constants) for type in SAMPLES}
    given = {str(type): str(result) for type, result in found.items() if result is not None}
    told = next(filter(None, (_pattern(type, given) for type in given)), None)
    if told is None:
        told = ", ".join(f"{_upper(result)} of {_upper(type)}" for type, result in given.items())
    if any(rule.many for rule in aggregate.constants):
        told += f"; for an array of p `ARRAY<{told}>`"
    return told + ("; `sum` stands for `count` where sum(y) is given" if aggregate.weighted else "")


def _pattern(sample: str, given: Mapping[str, str]) -> str | None:
    """Return the type in terms of the argument's, if what one sample suggests is true of all."""
    marked = given[sample].replace(sample, MARK)
    if any(marked.replace(MARK, type) != result for type, result in given.items()):
        return None
    if marked == MARK:
        return "T" if len(given) > 1 else _upper(sample)
    told = _upper(marked).replace(MARK, "T")
    return f"`{told}`" if "<" in told else told


def _upper(type: str) -> str:
    """Return a type in capitals, but for the names of fields."""
    return re.sub(r"\w+(?!\w*:)", lambda match: match[0].upper(), type)
