"""The shared plan: a forest of relations, and how each query is answered from one of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NewType

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
Selection = tuple[Grouping, Formula]
"""The rows of a grouping that satisfy a predicate: one relation of a plan aggregates them."""
RelationId = NewType("RelationId", int)
"""Names a relation within its plan; another plan numbers its relations anew."""
FIRST = RelationId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Rows grouped by slices of time and by attributes, with partials for each group."""

    id: RelationId = FIRST
    source: RelationId | None = None
    """The relation from whose partials it is computed; None if it is computed from the stream."""
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

    @property
    def selections(self) -> Iterator[Selection]:
        """The rows that can be told apart, by predicate."""
        grouping = self.grouping
        return ((grouping, predicate) for predicate in self.predicates)

    def edges(self, slicing: Slicing) -> frozenset[EdgeClass]:
        """Return where time is cut."""
        return edge_classes(self.windows, slicing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """What one query needs and nothing more."""

    joins: tuple[Join, ...]
    window: Window
    keys: tuple[Expression, ...]
    """GROUP BY attributes, in a canonical order."""
    predicate: Formula
    primitives: tuple[Primitive, ...]

    @property
    def selection(self) -> Selection:
        """The rows that it aggregates, whatever the window."""
        return (self.joins, self.keys), self.predicate

    def relation(self, id: RelationId = FIRST) -> Relation:
        """Return the relation that answers this query and no other."""
        return Relation(
            id=id,
            joins=self.joins,
            windows=frozenset((self.window,)),
            keys=self.keys,
            predicates=(self.predicate,),
            primitives=self.primitives,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a query is answered from a relation."""

    query: LogicalQuery
    relation: RelationId
    grouping: Grouping
    predicate: Formula
    """The query reads the fragments that satisfy it."""
    keys: tuple[int, ...]
    """For each GROUP BY key of the query, its place among the relation's keys."""
    aggregates: tuple[tuple[Primitive, ...], ...]
    """For each aggregate of the query, its primitives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """A forest of relations, and the queries that they answer."""

    relations: tuple[Relation, ...]
    """Each comes after its source."""
    answers: tuple[Answer, ...]
    slicing: Slicing = Slicing.PAIRED
    by_value: tuple[str, ...] = ()
    """The stream's columns for which predicates are evaluated once a value, not once a row."""
    _by_id: dict[RelationId, Relation] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_id: dict[RelationId, Relation] = {}
        for relation in self.relations:
            if relation.id in by_id:
                raise InternalError(f"two relations of a plan have the id {relation.id}")
            if relation.source is not None and relation.source not in by_id:
                raise InternalError(f"relation {relation.id} comes before its source, {relation.source}")
            by_id[relation.id] = relation
        if not by_id.keys() >= {answer.relation for answer in self.answers}:
            raise InternalError("a query is answered from no relation of its plan")
        object.__setattr__(self, "_by_id", by_id)

    def relation(self, id: RelationId) -> Relation:
        """Return the relation of that id."""
        return self._by_id[id]

    @property
    def roots(self) -> tuple[Relation, ...]:
        """The relations that are computed from the stream."""
        return tuple(relation for relation in self.relations if relation.source is None)

    def children(self, id: RelationId) -> tuple[Relation, ...]:
        """Return the relations that are computed from the partials of another."""
        return tuple(relation for relation in self.relations if relation.source == id)

    @property
    def selections(self) -> Iterator[Selection]:
        """The rows that all relations tell apart."""
        return (selection for relation in self.relations for selection in relation.selections)

    def answers_by_relation(self) -> dict[RelationId, list[Answer]]:
        """Return the queries answered from each relation."""
        answers: dict[RelationId, list[Answer]] = {relation.id: [] for relation in self.relations}
        for answer in self.answers:
            answers[answer.relation].append(answer)
        return answers


def plan_of(
    relations: Iterable[Relation], answers: Iterable[Answer], slicing: Slicing, by_value: tuple[str, ...] = ()
) -> SharedPlan:
    """Return the plan of some roots, numbered in this order; queries go where their selection is."""
    numbered = tuple(replace(relation, id=RelationId(id)) for id, relation in enumerate(relations))
    ids = {selection: relation.id for relation in numbered for selection in relation.selections}
    return SharedPlan(
        relations=numbered,
        answers=tuple(replace(answer, relation=ids[answer.grouping, answer.predicate]) for answer in answers),
        slicing=slicing,
        by_value=by_value,
    )


def lift(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives of an aggregate; a FILTER becomes part of what they are computed over."""
    function = aggregate(call.function)
    if function is None:
        raise InternalError(f"no aggregate {call.function}")
    arguments = call.arguments
    if call.filter is not None:
        values = arguments or (Literal(True, call.filter.type),)
        nothing = Literal(None, NULL)
        arguments = tuple(Call("case", (call.filter, value, nothing), value.type) for value in values)
    return function.lift(arguments, call.constants)


def leaf(query: LogicalQuery) -> Leaf:
    """Return what a query needs and nothing more."""
    primitives = dict.fromkeys(primitive for call in query.aggregates for primitive in lift(call))
    keys = dict.fromkeys(key.expression for key in query.keys)
    return Leaf(
        joins=query.joins,
        window=query.window,
        # In one order, so that queries that list them differently share.
        keys=tuple(sorted(keys, key=str)),
        predicate=canonical(query.predicate),
        primitives=tuple(primitives),
    )


def answer(query: LogicalQuery, leaf: Leaf, relation: RelationId = FIRST) -> Answer:
    """Return how a query with the given leaf reads its result off a relation."""
    grouping, predicate = leaf.selection
    return Answer(
        query=query,
        relation=relation,
        grouping=grouping,
        predicate=predicate,
        keys=tuple(leaf.keys.index(key.expression) for key in query.keys),
        aggregates=tuple(lift(call) for call in query.aggregates),
    )


def union(relations: Iterable[Relation]) -> Relation:
    """Return the root that serves all of some relations of one grouping."""
    first, *others = members = tuple(relations)
    return Relation(
        joins=first.joins,
        windows=first.windows.union(*(relation.windows for relation in others)),
        keys=first.keys,
        predicates=tuple(dict.fromkeys(formula for relation in members for formula in relation.predicates)),
        primitives=tuple(dict.fromkeys(kept for relation in members for kept in relation.primitives)),
    )
