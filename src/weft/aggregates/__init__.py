"""Aggregates as lift, combine and lower over shared primitives."""

from weft.aggregates.aggregate import REQUIRED, Aggregate, Constant, ConstantRule, Constants
from weft.aggregates.aggregate_functions import AGGREGATES, COMBINES, SKETCHES, aggregate
from weft.aggregates.bags import Bags, bags
from weft.aggregates.combine import ADD, BAG, GREATEST, LEAST, combine, kept, materialized, merged
from weft.aggregates.moments import MOMENTS
from weft.aggregates.partial import (
    Combine,
    Partial,
    Primitive,
    arrow_type,
    concatenate,
    decode,
    empty,
    from_arrow,
    to_arrow,
)
from weft.aggregates.ranges import Ranges
from weft.aggregates.sums import count_of

__all__ = [
    "ADD", "AGGREGATES", "Aggregate", "BAG", "Bags", "COMBINES", "Combine", "Constant", "ConstantRule",
    "Constants", "GREATEST", "LEAST", "MOMENTS", "Partial", "Primitive", "REQUIRED", "Ranges", "SKETCHES",
    "aggregate", "arrow_type", "bags", "combine", "concatenate", "count_of", "decode", "empty", "from_arrow",
    "kept", "materialized", "merged", "to_arrow",
]  # fmt: skip
