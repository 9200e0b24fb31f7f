"""The form of a job in which the driver groups rows: what it asks of Spark, and what becomes of that.

Spark reads rows, joins tables to them and judges their times; it hands over the columns that queries read,
and what only it can evaluate (registered functions). So neither the code that it generates nor what is
handed over grows with the number of queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from weft.evaluation import can_evaluate
from weft.expression import Call, Column, Expression
from weft.optimizer.plan import Relation
from weft.predicates import Attribute, attributes
from weft.query.logical import Join
from weft.spark.cells import Cells, Lone
from weft.spark.columns import Translator, named
from weft.spark.failures import Failures
from weft.spark.folding import FoldedRelation, Names, RowColumns, RowTable, fold
from weft.spark.fragments import FragmentCoder
from weft.spark.groups import BatchGroups
from weft.spark.joins import Joins
from weft.spark.layout import Layout
from weft.spark.slicing import SliceCoder
from weft.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class RowFolder:
    """Ask for rows and group them."""

    columns: tuple[SparkColumn, ...]
    """What is asked of Spark, after rows were judged."""
    rows: RowColumns
    relations: tuple[FoldedRelation, ...]
    first_counts: bool

    def fold(self, rows: pa.Table) -> BatchGroups:
        """Return the groups of a batch's rows."""
        return fold(RowTable(rows, self.rows), self.relations, first_counts=self.first_counts)


@dataclass(slots=True)
class _Asked:
    """The columns that are asked of Spark, each once, by what they hold."""

    columns: dict[Column, SparkColumn] = field(default_factory=dict)
    _known: dict[object, Column] = field(default_factory=dict)

    def over(self, translate: Translator, expression: Expression) -> Expression:
        """Return an expression over the columns asked for that has the values of another over joined rows."""
        if not can_evaluate(expression):
            return self._ask((translate, expression), translate(expression), expression)
        if isinstance(expression, Column):
            name = translate.name(expression.name)
            return self._ask(name, named(name), expression)
        if isinstance(expression, Call):
            return replace(expression, args=tuple(self.over(translate, one) for one in expression.args))
        return expression

    def condition(self, key: object, holds: SparkColumn) -> Column:
        """Return the column of a condition that Spark evaluates."""
        return self._ask(key, holds, Column("", BOOLEAN))

    def _ask(self, key: object, column: SparkColumn, like: Expression) -> Column:
        if key not in self._known:
            own = self._known[key] = Column(f"__weft_given{len(self._known)}", like.type)
            self.columns[own] = column.cast(str(like.type))
        return self._known[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderParts:
    """What a job knows of its relations."""

    relations: Sequence[Relation]
    layout: Layout
    coders: Sequence[SliceCoder]
    joins: Joins
    fragments: FragmentCoder
    failures: Failures

    def folder(self, names: Names) -> RowFolder:
        """Return the form of the job in which the driver groups rows."""
        asked = _Asked()
        columns = {name: F.col(name) for name in (names.time, names.verdict)}
        if names.first_copy is not None:
            columns[names.first_copy] = self.joins.first_copy()
        relations = tuple(self._relation(index, asked) for index in range(len(self.relations)))
        failures = {
            name: self._failing(name, translate, sites, asked)
            for name, (translate, sites) in self.failures.failing.items()
        }
        fields = [column.alias(name) for name, column in columns.items()]
        fields += [column.alias(one.name) for one, column in asked.columns.items()]
        rows = RowColumns(names=names, given=tuple(asked.columns), failures=failures)
        return RowFolder(tuple(fields), rows, relations, self.fragments.first_counts)

    def _relation(self, index: int, asked: _Asked) -> FoldedRelation:
        relation, layout = self.relations[index], self.layout
        translate = self.joins.translator(relation)
        arguments = [primitive.argument for primitive in relation.primitives]
        return FoldedRelation(
            fragments=self._fragments(index, translate, asked),
            taken=self._taken(relation, asked),
            starts=self.coders[index].starts,
            keys=tuple(
                (slot, asked.over(translate, key))
                for slot, key in zip(layout.keys[index], relation.keys, strict=True)
            ),
            values=tuple(
                (slot, asked.over(translate, argument))
                for slot, argument in zip(layout.primitives[index], arguments, strict=True)
                if slot is not None and argument is not None
            ),
        )

    def _fragments(self, index: int, translate: Translator, asked: _Asked) -> Cells | Lone:
        relation, book = self.relations[index], self.fragments.codebooks[index]
        first = self.fragments.coded[index].first

        def own(attribute: Attribute) -> Attribute:
            return replace(attribute, expression=asked.over(translate, attribute.expression))

        if book is None:
            (predicate,) = relation.predicates
            tested = {expression: own(one) for expression, one in attributes([predicate]).items()}
            return Lone(first=first, predicate=predicate, attributes=tested)
        several = tuple(map(own, book.attributes))
        return Cells(first=first, book=book, attributes=several, shared=relation.shared)

    def _taken(self, relation: Relation, asked: _Asked) -> Expression | None:
        conditions = self.joins.taken(relation)
        if not conditions:
            return None
        key: tuple[str, tuple[Join, ...]] = "taken", relation.joins
        return asked.condition(key, reduce(SparkColumn.__and__, conditions))

    def _failing(
        self, name: str, translate: Translator, sites: Sequence[Expression], asked: _Asked
    ) -> tuple[Expression, ...]:
        if all(map(can_evaluate, sites)):
            return tuple(asked.over(translate, site) for site in sites)
        return (asked.condition(name, self.failures.failed(name).isNotNull()),)
