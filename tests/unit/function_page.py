"""What docs/functions.md says: every function of the language, from the tables that define them."""

from weft.aggregates.aggregate_functions import AGGREGATES, SYNONYMS, Aggregate
from weft.query.allowed_functions import GROUPS, Function
from weft.query.expression_grammar import SUGAR
from weft.types import BIGINT, DOUBLE, INT, STRING, DataType, Kind

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
SAMPLES = (INT, BIGINT, DOUBLE, DataType(Kind.DECIMAL, 10, 2), STRING)


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
    rows = ["## Aggregates\n", "| function | argument | type |", "| --- | --- | --- |"]
    for aggregate in AGGREGATES:
        others = [name for name, meant in SYNONYMS.items() if meant == aggregate.name]
        names = ", ".join(f"`{name}`" for name in (aggregate.name, *others))
        rows.append(f"| {names} | {aggregate.takes} | {_types(aggregate)} |")
    return "\n".join([*rows, ""])


def _types(aggregate: Aggregate) -> str:
    found = {type: aggregate.result(type) for type in SAMPLES}
    given = {type: result for type, result in found.items() if result is not None}
    if len(set(given.values())) == 1:
        return str(next(iter(given.values()))).upper()
    if all(type == result for type, result in given.items()):
        return "as the argument"
    return ", ".join(f"{result} of {type}".upper().replace(" OF ", " of ") for type, result in given.items())
