"""The shared plan: a forest of relations, and how each query is answered from its root."""

from collections.abc import Iterable
from dataclasses import dataclass

from weft.aggregates import Primitive, aggregate
from weft.errors import InternalError
from weft.expression import Call, Expression, Literal
from weft.optimizer.slices import EdgeClass, Slicing, edge_classes
from weft.predicates import TRUE, Formula, canonical
from weft.query.logical import AggregateCall, Join, LogicalQuery
from weft.types import NULL
from weft.window import Window

Grouping = tuple[tuple[Join, ...], tuple[Expression, ...]]
"""What is joined to the stream, and the GROUP BY keys: where both agree, partials are kept together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Rows grouped by slices of time and by attributes, with partials for each group."""

    joins: tuple[Join, ...] = ()
    """The tables joined to the stream before anything else."""
    windows: frozenset[Window]
    """What the edges come from."""
    keys: tuple[Expression, ...] = ()
    """GROUP BY attributes, in a canonical order."""
    predicates: tuple[Formula, ...] = (TRUE,)
    """What tells fragments apart: all rows of a fragment satisfy the same of these."""
    primitives: tuple[Primitive, ...] = ()
    shared: bool = True
    """Whether a row is aggregated once, into its fragment, or once for each predicate that it satisfies."""

    @property
    def grouping(self) -> Grouping:
        """Everything but time, predicates and primitives."""
        return self.joins, self.keys

    def edges(self, slicing: Slicing) -> frozenset[EdgeClass]:
        """Return where time is cut."""
        return edge_classes(self.windows, slicing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a query is answered from a relation."""

    query: LogicalQuery
    relation: int
    """Which of the plan's relations."""
    grouping: Grouping
    predicate: Formula
    """The query reads the fragments that satisfy it."""
    keys: tuple[int, ...]
    """For each GROUP BY key of the query, its place among the relation's keys."""
    aggregates: tuple[tuple[Primitive, ...], ...]
    """For each aggregate of the query, its primitives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """Relations computed from the stream in one job, and the queries they answer."""

    relations: tuple[Relation, ...]
    answers: tuple[Answer, ...]
    slicing: Slicing = Slicing.PAIRED
    by_value: tuple[str, ...] = ()
    """The stream's columns for which predicates are evaluated once a value, not once a row."""

    def answers_of(self, relation: int) -> tuple[Answer, ...]:
        """Return the queries answered from one relation."""
        return tuple(answer for answer in self.answers if answer.relation == relation)

    def answers_by_relation(self) -> list[list[Answer]]:
        """Return the queries answered from each relation: for whoever asks of all relations."""
        answers: list[list[Answer]] = [[] for _ in self.relations]
        for answer in self.answers:
            answers[answer.relation].append(answer)
        return answers


def lift(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives of an aggregate; a FILTER becomes part of what they are computed over."""
    function = aggregate(call.function)
    if function is None:
        raise InternalError(f"no aggregate {call.function}")
    return function.lift(_filtered(call))


def _filtered(call: AggregateCall) -> Expression | None:
    if call.filter is None:
        return call.argument
    value = call.argument if call.argument is not None else Literal(True, call.filter.type)
    return Call("case", (call.filter, value, Literal(None, NULL)), value.type)


def leaf(query: LogicalQuery) -> Relation:
    """Return the relation that a query needs and nothing more."""
    primitives = dict.fromkeys(primitive for call in query.aggregates for primitive in lift(call))
    return Relation(
        joins=query.joins,
        windows=frozenset((query.window,)),
        keys=canonical_keys(key.expression for key in query.keys),
        predicates=(canonical(query.predicate),),
        primitives=tuple(primitives),
    )


def canonical_keys(keys: Iterable[Expression]) -> tuple[Expression, ...]:
    """Order GROUP BY keys so that queries that list them differently share."""
    return tuple(sorted(dict.fromkeys(keys), key=str))


def answer(query: LogicalQuery, own: Relation, index: int) -> Answer:
    """Return how a query with the given leaf reads its result off the relation of that index."""
    keys = {key: place for place, key in enumerate(own.keys)}
    return Answer(
        query=query,
        relation=index,
        grouping=own.grouping,
        predicate=own.predicates[0],
        keys=tuple(keys[key.expression] for key in query.keys),
        aggregates=tuple(lift(call) for call in query.aggregates),
    )


def union(relations: Iterable[Relation]) -> Relation:
    """Return the relation that serves all of some relations of one grouping."""
    several = tuple(relations)
    return Relation(
        joins=several[0].joins,
        windows=frozenset().union(*(relation.windows for relation in several)),
        keys=several[0].keys,
        predicates=tuple(dict.fromkeys(one for relation in several for one in relation.predicates)),
        primitives=tuple(dict.fromkeys(one for relation in several for one in relation.primitives)),
    )
