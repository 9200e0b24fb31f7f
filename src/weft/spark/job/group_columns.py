"""What Spark groups rows by and aggregates, for all relations of a job at once."""

from collections.abc import Hashable, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.optimizer.plan import Relation
from weft.spark.job.batch_groups import FRAGMENT, NEWEST, OLDEST, READ, ROWS, SLICE, Layout, Slot
from weft.spark.job.failures import Failures
from weft.spark.job.fragment_coder import IN_NO_FRAGMENT, FragmentCoder
from weft.spark.job.joins import Joins
from weft.spark.job.lifts import spark_lift
from weft.spark.job.verdicts import TIME

WORD = "__weft_word"
"""The beginning of the names of words that rows are grouped by."""
Use = tuple[Hashable, Column, int]
"""A column that a relation uses: a key that is equal for equal columns, the column, the relation's number."""


class GroupColumns:
    """The columns of grouping and aggregation."""

    def __init__(
        self,
        relations: Sequence[Relation],
        layout: Layout,
        joins: Joins,
        fragments: FragmentCoder,
        failures: Failures,
    ) -> None:
        self._relations, self._layout, self._joins = relations, layout, joins
        self._fragments, self._failures = fragments, failures

    def fields(self, slice: Column) -> list[Column]:
        """Return what is grouped and aggregated, each in its slot; `slice` is the slice of a row.

        A row that is in no fragment must not open a group: its slice and keys are NULL.
        """
        fields = [F.col(TIME), F.col(FRAGMENT), self._joins.first_copy().alias(READ), slice.alias(SLICE)]
        for number, uses in enumerate(self._fragments.word_uses()):
            fields.append(self.of_relation(uses).cast("bigint").alias(f"{WORD}{number}"))
        fields += self._fragments.missed(F.col(FRAGMENT) >= IN_NO_FRAGMENT)
        for slot in self._layout.key_slots():
            fields.append(self.of_relation(self._uses(slot)).cast(str(slot.types[0])).alias(slot.name))
        for slot in self._layout.primitive_slots():
            for place, (name, type) in enumerate(zip(slot.inputs(), slot.types, strict=True)):
                uses = self._uses(slot, place)
                all_equal = len({key for key, _, _ in uses}) == 1
                # Rows of relations that have no such bag must not be grouped by its values.
                value = uses[0][1] if all_equal and not slot.is_bag else self.of_relation(uses)
                fields.append(value.cast(str(type)).alias(name))
        first_of_row = (F.col(FRAGMENT) < self._fragments.counting_end(coded=True)) & self._joins.first_copy()
        return [*fields, *self._failures.fields(first_of_row)]

    def grouping(self) -> list[str]:
        """Return the names of the columns that rows are grouped by."""
        keys = (slot.name for slot in self._layout.key_slots())
        bags = (name for slot in self._layout.bag_slots() for name in slot.inputs()[: slot.grouped_by])
        return [FRAGMENT, SLICE, *self.words(), *self._fragments.missed_names(), *keys, *bags]

    def words(self) -> list[str]:
        """Return the names of the words that rows are grouped by."""
        return [f"{WORD}{number}" for number in range(len(self._fragments.word_uses()))]

    def aggregates(self) -> list[Column]:
        """Return the aggregates of each group."""
        lifted = [field for slot in self._layout.primitive_slots() for field in _lifted(slot)]
        read = [F.count_if(F.col(READ)).alias(READ)] if self._joins else []
        span = [F.min(TIME).alias(OLDEST), F.max(TIME).alias(NEWEST)]
        return [F.count(F.lit(1)).alias(ROWS), *span, *read, *lifted, *self._failures.counts()]

    def _uses(self, slot: Slot, place: int = 0) -> list[Use]:
        """Return what relations keep in a column of a slot."""
        uses: list[Use] = []
        for index, relation in enumerate(self._relations):
            keys = [(key,) for key in relation.keys]
            values = (*keys, *(primitive.arguments for primitive in relation.primitives))
            own_slots = (*self._layout.keys[index], *self._layout.primitives[index])
            for own_slot, expressions in zip(own_slots, values, strict=True):
                if own_slot == slot and expressions:
                    expression = expressions[place]
                    # Equal expressions over different joins read different columns.
                    key = (expression, relation.joins if self._joins else ())
                    uses.append((key, self._joins.translator(relation)(expression), index))
        return uses

    def of_relation(self, uses: Sequence[Use]) -> Column:
        """Return the value that a row's relation has, or NULL where it has none."""
        numbers: dict[Hashable, list[int]] = {}
        columns: dict[Hashable, Column] = {}
        for key, column, index in uses:
            numbers.setdefault(key, []).append(index)
            columns[key] = column
        chosen, fragment = F.lit(None), F.col(FRAGMENT)
        for key, members in numbers.items():
            has_value = fragment > IN_NO_FRAGMENT
            if len(members) < len(self._relations):
                coded = [self._fragments.coded[index] for index in members]
                inside = [(fragment >= own.first) & (fragment < own.bound) for own in coded]
                has_value = reduce(Column.__or__, inside)
            chosen = F.when(has_value, columns[key]).otherwise(chosen)
        return chosen


def _lifted(slot: Slot) -> list[Column]:
    """Return the aggregates of a slot; the values of a bag are grouped by, and only weights are added up."""
    columns = [F.col(name) for name in slot.inputs()]
    if slot.is_bag:
        first = slot.grouped_by
        pairs = zip(columns[first:], slot.fields()[first:], strict=True)
        return [F.sum(own).alias(field) for own, field in pairs]
    lifts = [spark_lift(lift, columns, slot.parameters) for lift in slot.lifts]
    return [lifted.alias(field) for lifted, field in zip(lifts, slot.fields(), strict=True)]
