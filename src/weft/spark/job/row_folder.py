"""The form of a job in which the driver groups rows: what Spark selects, and how that is grouped.

Spark reads rows, judges their times and hands over the columns that queries read; it joins tables where the
driver does not look them up.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import functions as F

from weft.evaluation import can_evaluate
from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.predicates import Attribute, Formula, attributes
from weft.spark.columns import Translator
from weft.spark.input.tables import LocalTable
from weft.spark.job.batch_groups import READ, BatchGroups, Layout
from weft.spark.job.cells import Cells, Lone, Worded
from weft.spark.job.failures import Failures
from weft.spark.job.folding import FoldedRelation, RowColumns, RowTable, fold
from weft.spark.job.fragment_coder import FragmentCoder
from weft.spark.job.handover import Handover
from weft.spark.job.joins import Joins
from weft.spark.job.slicing import SliceCoder
from weft.spark.job.verdicts import BAD, TIME


class RowFolder:
    """The columns to select from rows, and the grouping of those."""

    def __init__(
        self,
        relations: Sequence[Relation],
        layout: Layout,
        coders: Sequence[SliceCoder],
        joins: Joins,
        fragments: FragmentCoder,
        failures: Failures,
        *,
        looks_up: bool,
    ) -> None:
        """Lay out the form of a job in which the driver groups rows, and looks up tables if so."""
        self._joins, self._fragments, self._failures = joins, fragments, failures
        self._handover, has_copies = Handover(joins=joins, looks_up=looks_up), joins.repeats_rows
        self._attributes: dict[Attribute, Attribute] = {}
        self._relations = tuple(
            self._relation(index, relation, layout, coders[index]) for index, relation in enumerate(relations)
        )
        failing = {name: self._failing(name, *own) for name, own in failures.failing.items()}
        self._rows = RowColumns(
            handover=self._handover,
            has_copies=has_copies,
            failed_tests={name: failing[name] for name in failures.queries},
            failed_values={name: failing[name] for name in failures.answers},
        )
        first_copy = [joins.first_copy().alias(READ)] if has_copies else []
        self.columns = (
            F.col(TIME).alias(TIME), F.col(BAD).alias(BAD), *first_copy, *self._handover.fields()
        )  # fmt: skip
        """What Spark selects, after rows were judged."""

    @property
    def needs_joins(self) -> bool:
        """Whether Spark must join the tables that are to be looked up."""
        return self._handover.looks_up and self._handover.needs_joins

    def fold(self, rows: pa.Table, tables: Mapping[int, LocalTable]) -> BatchGroups:
        """Return the groups of a batch's rows, with the tables that are to be looked up."""
        return fold(
            RowTable(rows, self._rows, tables),
            self._relations,
            first_counts=self._fragments.first_counts,
            firsts=lambda: [numbered.first for numbered in self._fragments.number_again()],
        )

    def _relation(self, index: int, relation: Relation, layout: Layout, coder: SliceCoder) -> FoldedRelation:
        translate, over = self._joins.translator(relation), self._handover.over
        return FoldedRelation(
            fragments=self._fragments_of(index, relation, translate),
            taken=self._handover.taken(relation),
            starts=coder.starts,
            keys=tuple(
                (slot, over(translate, key))
                for slot, key in zip(layout.keys[index], relation.keys, strict=True)
            ),
            values=tuple(
                (slot, tuple(over(translate, argument) for argument in primitive.arguments))
                for slot, primitive in zip(layout.primitives[index], relation.primitives, strict=True)
                if slot is not None
            ),
        )

    def _fragments_of(self, index: int, relation: Relation, translate: Translator) -> Cells | Lone | Worded:
        book = self._fragments.codebooks[index]

        def own(attribute: Attribute) -> Attribute:
            over = replace(attribute, expression=self._handover.over(translate, attribute.expression))
            return self._attributes.setdefault(over, over)

        def alone(predicate: Formula) -> Lone:
            tested = {expression: own(attribute) for expression, attribute in attributes([predicate]).items()}
            return Lone(predicate=predicate, attributes=tested)

        coder = self._fragments.word_coders.get(index)
        if coder is not None:
            words = coder.for_driver
            inputs: dict[Hashable, Attribute | Expression | Lone] = {}
            for axis in words.book.axes:
                if axis.key in words.attributes:
                    inputs[axis.key] = own(words.attributes[axis.key])
                elif isinstance(axis.key, Formula):
                    inputs[axis.key] = alone(axis.key)
                else:
                    inputs[axis.key] = self._handover.over(translate, axis.key)  # type: ignore[arg-type]
            return Worded(book=words.book, inputs=inputs, shared=relation.shared, seen=words.seen)
        if book is None:
            return alone(*relation.predicates)
        return Cells(book=book, attributes=tuple(map(own, book.attributes)), shared=relation.shared)

    def _failing(
        self, name: str, translate: Translator, sites: Sequence[Expression]
    ) -> tuple[Expression, ...]:
        if all(map(can_evaluate, sites)):
            return tuple(self._handover.over(translate, site) for site in sites)
        failed = self._failures.failed(name).isNotNull()
        # Not by its name alone: a column of the stream may have the same name.
        return (self._handover.condition(("failed", name), failed, translate, *sites),)
