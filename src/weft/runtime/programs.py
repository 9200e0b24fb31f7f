"""Queries that compute the same outputs over the same groups are answered together.

A program is what is left of a query when its name, window and predicate are taken away. All due windows of
all queries of a program are one vectorised piece of work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.aggregates import Primitive
from weft.expression import Expression
from weft.optimizer.plan import Answer, SharedPlan
from weft.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How results are read off the partials of a grouping."""

    grouping: object
    """The joins and keys, which say whose state it is."""
    keys: tuple[int, ...]
    """For each GROUP BY key, its place among the grouping's keys."""
    aggregates: tuple[tuple[str, tuple[Primitive, ...], DataType], ...]
    """Function, primitives and result type of each aggregate."""
    outputs: tuple[Expression, ...]
    having: Expression | None
    emit_empty: bool

    @property
    def primitives(self) -> tuple[Primitive, ...]:
        """All primitives that the aggregates are made from, each once."""
        return tuple(dict.fromkeys(one for _, several, _ in self.aggregates for one in several))


def program_of(answer: Answer) -> Program:
    """Return the program of one query."""
    query = answer.query
    calls = zip(query.aggregates, answer.aggregates, strict=True)
    return Program(
        grouping=answer.grouping,
        keys=answer.keys,
        aggregates=tuple((call.function, primitives, call.type) for call, primitives in calls),
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
