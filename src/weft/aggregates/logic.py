"""Aggregates of conditions, bits and products: folded by one operation each."""

import numpy as np
import pyarrow as pa

from weft.aggregates.aggregate import Aggregate, Arguments, Constants, Partials, Types
from weft.aggregates.combine import GREATEST, LEAST, Folded
from weft.aggregates.partial import Combine, Primitive, RunningForm, to_arrow
from weft.aggregates.sums import cast_to, count_of
from weft.expression import Call, Literal
from weft.types import BIGINT, BOOLEAN, DOUBLE, NULL, DataType, Kind

BIT_AND = Folded("bit_and", RunningForm(np.bitwise_and, 0.0, -1))
BIT_OR = Folded("bit_or", RunningForm(np.bitwise_or, 0.0, 0))
BIT_XOR = Folded("bit_xor", RunningForm(np.bitwise_xor, 0.0, 0))
MULTIPLY = Folded("multiply", RunningForm(np.multiply, 1.0, 1), rounds=True)


def _value(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    return to_arrow(partials[0].fields[0], partials[0].valid_mask(), type)


def _lift_count_if(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    counted = Call("case", (arguments[0], Literal(True, BOOLEAN), Literal(None, NULL)), BOOLEAN)
    return (count_of(counted),)


def _boolean(types: Types, constants: Constants) -> DataType | None:
    return BOOLEAN if types[0].kind is Kind.BOOLEAN else None


def _fold(name: str, lift: str, combine: Combine, *, of_bits: bool) -> Aggregate:
    def primitives(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
        return (Primitive((lift,), arguments, combine, (arguments[0].type,)),)

    def whole(types: Types, constants: Constants) -> DataType | None:
        return types[0] if types[0].is_integer else None

    return Aggregate(
        name=name, result=whole if of_bits else _boolean, lift=primitives, lower=_value,
        takes="a whole number" if of_bits else "a condition",
    )  # fmt: skip


def _lift_product(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    return (Primitive(("product",), (cast_to(arguments[0], DOUBLE),), MULTIPLY, (DOUBLE,)),)


LOGIC: tuple[Aggregate, ...] = (
    Aggregate(
        name="count_if", lift=_lift_count_if, lower=_value, takes="a condition",
        result=lambda types, constants: BIGINT if _boolean(types, constants) else None,
    ),
    _fold("bool_and", "min", LEAST, of_bits=False),
    _fold("bool_or", "max", GREATEST, of_bits=False),
    _fold("bit_and", "bit_and", BIT_AND, of_bits=True),
    _fold("bit_or", "bit_or", BIT_OR, of_bits=True),
    _fold("bit_xor", "bit_xor", BIT_XOR, of_bits=True),
    Aggregate(
        name="product", lift=_lift_product, lower=_value, takes="a number",
        result=lambda types, _: DOUBLE if types[0].is_numeric else None,
    ),
)  # fmt: skip
"""Aggregates folded by one operation."""
