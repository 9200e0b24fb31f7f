"""The form of a job in which the driver groups rows: what it asks of Spark, and what becomes of that.

No column depends on how many relations there are, but for those of lone predicates: the code that Spark
generates grows with the expressions that queries use, not with the number of GROUP BYs.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.spark.failures import Failures
from weft.spark.folding import FoldedRelation, Names, RowTable, fold
from weft.spark.fragments import FragmentCoder
from weft.spark.joins import Joins
from weft.spark.layout import Layout
from weft.spark.slicing import SliceCoder


@dataclass(frozen=True, slots=True)
class RowFolder:
    """Ask for rows and group them."""

    columns: tuple[Column, ...]
    """What is asked of Spark, after positions were found."""
    names: Names
    relations: tuple[FoldedRelation, ...]
    first_counts: bool

    def fold(self, rows: pa.Table) -> pa.Table:
        """Return the groups of a batch's rows."""
        return fold(RowTable(rows, self.names), self.relations, first_counts=self.first_counts)


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
        columns: dict[str, Column] = {name: F.col(name) for name in (names.time, names.verdict)}
        if names.first_copy is not None:
            columns[names.first_copy] = self.joins.first_copy()
        known: dict[Hashable, str] = {}
        relations = tuple(self._relation(index, columns, known) for index in range(len(self.relations)))
        fields = [column.alias(name) for name, column in columns.items()]
        fields += self.failures.fields(self.joins.first_copy())
        return RowFolder(tuple(fields), names, relations, self.fragments.first_counts)

    def _relation(self, index: int, columns: dict[str, Column], known: dict[Hashable, str]) -> FoldedRelation:
        relation, layout = self.relations[index], self.layout
        conditions = self.joins.taken(relation)
        taken = reduce(Column.__and__, conditions) if conditions else None
        fragments, taken_name = self.fragments.cells(index), None
        if fragments is None:
            name = f"__weft_fragment{index}"
            columns[name] = self.fragments.fragment(index, taken)
        elif taken is not None:
            taken_name = known.setdefault(relation.joins, f"__weft_taken{len(known)}")
            columns[taken_name] = taken
        if fragments is not None:
            columns |= {part.column: F.col(part.column) for part in fragments.parts}

        def field(expression: Expression) -> str:
            # Equal expressions over different joins read different columns.
            key = (expression, relation.joins if self.joins else ())
            if key not in known:
                known[key] = f"__weft_field{len(known)}"
                translated = self.joins.translator(relation)(expression)
                columns[known[key]] = translated.cast(str(expression.type))
            return known[key]

        arguments = [primitive.argument for primitive in relation.primitives]
        return FoldedRelation(
            fragments=name if fragments is None else fragments,
            taken=taken_name,
            first=self.fragments.numbered[index].first,
            starts=self.coders[index].starts,
            keys=tuple(
                (slot.name, field(key)) for slot, key in zip(layout.keys[index], relation.keys, strict=True)
            ),
            values=tuple(
                (slot, field(argument))
                for slot, argument in zip(layout.primitives[index], arguments, strict=True)
                if slot is not None and argument is not None
            ),
        )
