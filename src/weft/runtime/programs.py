"""Queries that compute the same outputs from the same relation are answered together.

A program is what is left of a query when its name and window are taken away. All due windows of all
queries of a program are one vectorised piece of work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.expression import Expression
from weft.optimizer.plan import Answer, SharedPlan
from weft.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How results are read off a relation."""

    relation: int
    keys: tuple[int, ...]
    key_types: tuple[DataType, ...]
    aggregates: tuple[tuple[str, tuple[int, ...], DataType], ...]
    """Function, places of its primitives, and result type of each aggregate."""
    outputs: tuple[Expression, ...]
    having: Expression | None
    emit_empty: bool


def program_of(answer: Answer) -> Program:
    """Return the program of one query."""
    query = answer.query
    calls = zip(query.aggregates, answer.aggregates, strict=True)
    return Program(
        relation=answer.relation,
        keys=answer.keys,
        key_types=tuple(key.expression.type for key in query.keys),
        aggregates=tuple((call.function, places, call.type) for call, places in calls),
        outputs=tuple(output.expression for output in query.outputs),
        having=query.having,
        emit_empty=query.emit_empty,
    )


def programs(plan: SharedPlan) -> dict[Program, Sequence[Answer]]:
    """Return the plan's programs, each with its queries."""
    found: dict[Program, list[Answer]] = {}
    for answer in plan.answers:
        found.setdefault(program_of(answer), []).append(answer)
    return dict(found)
