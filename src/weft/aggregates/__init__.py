"""Aggregates as lift, combine and lower over shared primitives."""

from weft.aggregates.aggregate_functions import AGGREGATES, Aggregate, aggregate, count_of
from weft.aggregates.combine import combine
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

__all__ = [
    "AGGREGATES", "Aggregate", "Combine", "Partial", "Primitive", "aggregate", "arrow_type", "combine",
    "concatenate", "count_of", "decode", "empty", "from_arrow", "to_arrow",
]  # fmt: skip
