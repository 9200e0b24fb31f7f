"""The aggregate functions: how each is lifted to primitives and lowered to its value.

To add one, write its `Aggregate` and put it into `AGGREGATES`; nothing else names an aggregate.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from weft.aggregates.aggregate import Aggregate, Arguments, Constants, Partials, Types
from weft.aggregates.approximate import APPROXIMATE
from weft.aggregates.chosen import CHOSEN, EARLIEST, LATEST
from weft.aggregates.collected import COLLECTED
from weft.aggregates.combine import ADD, BAG, GREATEST, LEAST
from weft.aggregates.heaviest import Heaviest
from weft.aggregates.holistic import HOLISTIC
from weft.aggregates.logic import BIT_AND, BIT_OR, BIT_XOR, LOGIC, MULTIPLY
from weft.aggregates.moments import COMOMENTS, MOMENT_AGGREGATES, MOMENTS, SHAPE
from weft.aggregates.partial import Combine, Primitive, to_arrow
from weft.aggregates.registers import Registers
from weft.aggregates.sample import Sample
from weft.aggregates.sums import count_of, lift_sum, lower_avg, lower_sum, result_avg, result_sum
from weft.types import BIGINT, DataType, Kind


def _lower_first(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    return to_arrow(partials[0].fields[0], partials[0].valid_mask(), type)


def _extreme(name: str, combine: Combine) -> Aggregate:
    def lift(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
        return (Primitive((name,), arguments, combine, (arguments[0].type,)),)

    return Aggregate(
        name=name, result=_any_plain, lift=lift,
        lower=_lower_first, takes="a number, string, boolean, date or time",
    )  # fmt: skip


def _any_plain(types: Types, constants: Constants) -> DataType | None:
    return types[0] if types[0].kind is not Kind.OTHER else None


AGGREGATES: tuple[Aggregate, ...] = (
    Aggregate(
        name="count", result=lambda types, _: BIGINT,
        lift=lambda arguments, _: (count_of(*arguments or (None,)),),
        lower=_lower_first, takes="anything, or *", least=0, distinct="count_distinct",
    ),
    Aggregate(
        name="sum", result=lambda types, _: result_sum(types[0]),
        lift=lambda arguments, _: lift_sum(*arguments),
        lower=lower_sum, takes="a number", can_overflow=True, distinct="sum_distinct",
    ),
    Aggregate(
        name="avg", result=lambda types, _: result_avg(types[0]),
        lift=lambda arguments, _: (*lift_sum(*arguments), count_of(*arguments)),
        lower=lower_avg, takes="a number", can_overflow=True, distinct="avg_distinct",
    ),
    _extreme("min", LEAST),
    _extreme("max", GREATEST),
    *MOMENT_AGGREGATES,
    *LOGIC,
    *CHOSEN,
    *COLLECTED,
    *HOLISTIC,
    *APPROXIMATE,
)  # fmt: skip

SYNONYMS: dict[str, str] = {
    "mean": "avg", "variance": "var_samp", "stddev": "stddev_samp", "std": "stddev_samp",
    "variance_pop": "var_pop", "variance_samp": "var_samp", "every": "bool_and", "any": "bool_or",
    "some": "bool_or", "first_value": "first", "last_value": "last", "array_agg": "collect_list",
    "listagg": "string_agg", "percentile_approx": "approx_percentile",
}  # fmt: skip
"""Other spellings, as Spark has them."""

COMBINES: Mapping[str, Combine] = {
    own.name: own
    for own in (
        ADD, LEAST, GREATEST, MOMENTS, SHAPE, COMOMENTS, BIT_AND, BIT_OR, BIT_XOR, MULTIPLY, EARLIEST,
        LATEST, BAG,
    )
}  # fmt: skip
"""All ways to merge partials, by the names under which they are stored."""
SKETCHES: Mapping[str, Callable[..., Combine]] = {own.name: own for own in (Registers, Sample, Heaviest)}
"""Ways to merge that have parameters, by the names under which they are stored before those."""
_BY_NAME = {aggregate.name: aggregate for aggregate in AGGREGATES}
_BY_DISTINCT = frozenset(aggregate.distinct for aggregate in AGGREGATES)


def aggregate(name: str) -> Aggregate | None:
    """Return the aggregate with a name or synonym, in any case, or None.

    >>> aggregate("MEAN").name
    'avg'
    """
    folded = name.casefold()
    return _BY_NAME.get(SYNONYMS.get(folded, folded))


def called(name: str) -> Aggregate | None:
    """Return the aggregate that a query calls by a name, or None.

    Those over distinct values are called by DISTINCT, not by a name.

    >>> called("count").distinct
    'count_distinct'
    >>> called("count_distinct") is None
    True
    """
    found = aggregate(name)
    return None if found is None or found.name in _BY_DISTINCT else found


CALLED: tuple[str, ...] = (
    *(aggregate.name for aggregate in AGGREGATES if aggregate.name not in _BY_DISTINCT), *SYNONYMS,
)  # fmt: skip
"""The names by which queries call aggregates."""
