"""The form of a job in which the driver groups rows: what Spark selects, and how that is grouped.

Spark reads rows, judges their times and hands over the columns that queries read; it joins tables where the
driver does not look them up.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from weft.evaluation import can_evaluate
from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.predicates import Attribute, Formula, attributes
from weft.spark.columns import Translator
from weft.spark.input.keyed_tables import LocalTable
from weft.spark.job.batch_groups import READ, BatchGroups, Layout
from weft.spark.job.cells import Cells, Lone, Worded
from weft.spark.job.failures import Failures
from weft.spark.job.folding import FoldedRelation, RowColumns, RowTable, fold
from weft.spark.job.fragment_coder import FragmentCoder
from weft.spark.job.handover import Handover
from weft.spark.job.joins import Joins
from weft.spark.job.slicing import SliceCoder
from weft.spark.job.verdicts import BAD, TIME


@dataclass(frozen=True, slots=True)
class RowFolder:
    """The columns to select from rows, and the grouping of those."""

    columns: tuple[SparkColumn, ...]
    """What Spark selects, after rows were judged."""
    rows: RowColumns
    relations: tuple[FoldedRelation, ...]
    fragments: FragmentCoder

    @property
    def needs_joins(self) -> bool:
        """Whether Spark must join the tables that are to be looked up."""
        return self.rows.handover.looks_up and self.rows.handover.needs_joins

    def fold(self, rows: pa.Table, tables: Mapping[int, LocalTable]) -> BatchGroups:
        """Return the groups of a batch's rows, with the tables that are to be looked up."""
        return fold(
            RowTable(rows, self.rows, tables),
            self.relations,
            first_counts=self.fragments.first_counts,
            firsts=lambda: [numbered.first for numbered in self.fragments.number_again()],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderBuilder:
    """The parts of a job that its row folder is built of."""

    relations: Sequence[Relation]
    layout: Layout
    coders: Sequence[SliceCoder]
    joins: Joins
    fragments: FragmentCoder
    failures: Failures
    looks_up: bool
    """Whether the driver looks up tables."""

    def build(self) -> RowFolder:
        """Return the form of the job in which the driver groups rows."""
        handover, has_copies = Handover(joins=self.joins, looks_up=self.looks_up), self.joins.repeats_rows
        attributes: dict[Attribute, Attribute] = {}
        relations = tuple(self._relation(index, handover, attributes) for index in range(len(self.relations)))
        failing = {
            name: self._failing(name, translate, sites, handover)
            for name, (translate, sites) in self.failures.failing.items()
        }
        first_copy = [self.joins.first_copy().alias(READ)] if has_copies else []
        rows = RowColumns(
            handover=handover,
            has_copies=has_copies,
            failed_tests={name: failing[name] for name in self.failures.queries},
            failed_values={name: failing[name] for name in self.failures.answers},
        )
        fields = (F.col(TIME).alias(TIME), F.col(BAD).alias(BAD), *first_copy, *handover.fields())
        return RowFolder(fields, rows, relations, self.fragments)

    def _relation(
        self, index: int, handover: Handover, attributes: dict[Attribute, Attribute]
    ) -> FoldedRelation:
        relation, layout = self.relations[index], self.layout
        translate = self.joins.translator(relation)
        arguments = [primitive.argument for primitive in relation.primitives]
        return FoldedRelation(
            fragments=self._fragments(index, translate, handover, attributes),
            taken=handover.taken(relation),
            starts=self.coders[index].starts,
            keys=tuple(
                (slot, handover.over(translate, key))
                for slot, key in zip(layout.keys[index], relation.keys, strict=True)
            ),
            values=tuple(
                (slot, handover.over(translate, argument))
                for slot, argument in zip(layout.primitives[index], arguments, strict=True)
                if slot is not None and argument is not None
            ),
        )

    def _fragments(
        self, index: int, translate: Translator, handover: Handover, shared: dict[Attribute, Attribute]
    ) -> Cells | Lone | Worded:
        relation, book = self.relations[index], self.fragments.codebooks[index]

        def own(attribute: Attribute) -> Attribute:
            over = replace(attribute, expression=handover.over(translate, attribute.expression))
            return shared.setdefault(over, over)

        def alone(predicate: Formula) -> Lone:
            tested = {expression: own(attribute) for expression, attribute in attributes([predicate]).items()}
            return Lone(predicate=predicate, attributes=tested)

        words = self.fragments.driver_words(index)
        if words is not None:
            inputs: dict[Hashable, Attribute | Expression | Lone] = {}
            for axis in words.book.axes:
                if axis.key in words.attributes:
                    inputs[axis.key] = own(words.attributes[axis.key])
                elif isinstance(axis.key, Formula):
                    inputs[axis.key] = alone(axis.key)
                else:
                    inputs[axis.key] = handover.over(translate, axis.key)  # type: ignore[arg-type]
            return Worded(book=words.book, inputs=inputs, shared=relation.shared, seen=words.seen)
        if book is None:
            return alone(*relation.predicates)
        return Cells(book=book, attributes=tuple(map(own, book.attributes)), shared=relation.shared)

    def _failing(
        self, name: str, translate: Translator, sites: Sequence[Expression], handover: Handover
    ) -> tuple[Expression, ...]:
        if all(map(can_evaluate, sites)):
            return tuple(handover.over(translate, site) for site in sites)
        failed = self.failures.failed(name).isNotNull()
        # Not by its name alone: a column of the stream may have the same name.
        return (handover.condition(("failed", name), failed, translate, *sites),)
