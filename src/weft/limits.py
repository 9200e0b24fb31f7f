"""Limits of an engine: each has a name, a default, and an error that says how to change it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal, get_args

from weft.errors import Span, TooLarge, UnknownName, UserError, suggestion

LimitName = Literal[
    "queries", "windows_per_row", "groups_per_query", "result_rows", "expression_nodes", "query_text",
    "query_words", "workload_text",
]  # fmt: skip
"""The names of limits, as in `--limit name=value`."""

NAMES: tuple[LimitName, ...] = get_args(LimitName)
"""The limits in the order in which they are listed."""

_WHAT: dict[LimitName, str] = {
    "queries": "queries at once", "windows_per_row": "windows per row", "groups_per_query": "groups",
    "result_rows": "result rows in one batch", "expression_nodes": "nodes in its expressions",
    "query_text": "characters in one statement", "query_words": "words and symbols in one statement",
    "workload_text": "characters in the workload",
}  # fmt: skip
"""What a limit counts."""
_NUMBER = re.compile(r"[0-9]{1,3}(?:[_,][0-9]{3})+|[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of an engine; what exceeds one is refused, or fails the one query that needs it."""

    queries: int = 10_000
    """Queries at once."""
    windows_per_row: int = 100_000
    """Windows of one query that contain a row: range ÷ slide, rounded up."""
    groups_per_query: int = 10_000_000
    """Groups that a query holds at once."""
    result_rows: int = 10_000_000
    """Rows that a query answers in one batch; with EMIT EMPTY, the windows that are due, before HAVING."""
    expression_nodes: int = 10_000
    """Columns, constants, operators and calls of one query, with what BETWEEN and the like repeat."""
    query_text: int = 1_048_576
    """Characters of one statement."""
    query_words: int = 50_000
    """Words, constants and symbols of one statement."""
    workload_text: int = 33_554_432
    """Characters of a workload."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise _not_a_number(field.name, repr(value))

    @classmethod
    def parse(cls, settings: Iterable[str]) -> "Limits":
        """Read `name=value` settings; limits that are not named keep their defaults.

        >>> Limits.parse(["queries=500", "result_rows=1_000_000"]).queries
        500
        """
        values: dict[str, int] = {}
        for setting in settings:
            name, equals, value = (part.strip() for part in setting.partition("="))
            if not equals:
                raise UserError(f'a limit is given as name=value, as in queries=500; found "{setting}"')
            if name not in NAMES:
                raise UnknownName(f'unknown limit "{name}"{suggestion(name, NAMES)}')
            if name in values:
                raise UserError(f"limit {name} is given twice; remove one")
            if not _NUMBER.fullmatch(value):
                raise _not_a_number(name, f'"{value}"')
            values[name] = int(re.sub("[_,]", "", value))
        return cls(**values)

    def enforce(self, name: LimitName, count: int, *, query: str = "", span: Span | None = None) -> None:
        """Raise TooLarge for a count beyond a limit, as a mistake of the named query."""
        if count > getattr(self, name):
            raise TooLarge(over_limit(name, count, self), query=query, span=span)


DEFAULTS = Limits()
"""The default limits of an engine."""


def over_limit(name: LimitName, count: int, limits: Limits) -> str:
    """Return which limit was exceeded, by what, and how to change it.

    >>> print(over_limit("windows_per_row", 12_000, Limits(windows_per_row=10_000)))
    12,000 windows per row, more than the limit windows_per_row = 10,000; raise it with
    --limit windows_per_row=… or Engine(limits=Limits(windows_per_row=…))
    """
    remedy = f"raise it with --limit {name}=… or Engine(limits=Limits({name}=…))"
    # Nested sugar can stand for more nodes than a line could show.
    shown = f"{count:,}" if count < 10**15 else f"over {10**15:,}"
    limit = f"{name} = {getattr(limits, name):,}"
    return f"{shown} {_WHAT[name]}, more than the limit {limit}; {remedy}"


def _not_a_number(name: str, found: str) -> UserError:
    return UserError(f"limit {name} must be a whole number from 1, found {found}; write e.g. {name}=500")
