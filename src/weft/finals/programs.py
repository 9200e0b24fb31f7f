"""What a query computes, apart from its name, its window and its predicate.

Queries of one program are evaluated together. Constants that a HAVING clause compares with are not part of
the program: alerts that differ in their thresholds alone are one program with many parameters.
"""

from dataclasses import dataclass, field, replace
from decimal import Decimal

from weft.aggregates import Constants, Primitive
from weft.evaluation import Evaluator, can_evaluate
from weft.evaluation.conditions import as_written
from weft.expression import Call, Expression, Literal, Slot, SlotKind, walk
from weft.finals.limiting import hidden
from weft.optimizer.plan import Answer
from weft.query.coercion import common_type
from weft.types import DataType, Kind

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_CONNECTIVES = frozenset({"and", "or", "not"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How results are read off the partials of a grouping."""

    keys: tuple[int, ...]
    """For each GROUP BY key, its place among the grouping's keys."""
    aggregates: tuple[tuple[str, tuple[Primitive, ...], DataType, Constants], ...]
    """Function, primitives, result type and constants of each aggregate."""
    outputs: tuple[Expression, ...]
    """What is selected, and what LIMIT goes by."""
    having: Expression | None
    """The condition, with parameters for the constants that it compares with."""
    needs_spark: bool = field(init=False, compare=False)
    """Whether it calls a registered function, or anything else that only Spark evaluates."""

    def __post_init__(self) -> None:
        having = () if self.having is None else (self.having,)
        object.__setattr__(self, "needs_spark", not all(map(can_evaluate, (*self.outputs, *having))))


def program_of(answer: Answer) -> tuple[Program, tuple[Literal, ...]]:
    """Return the program of one query, and its parameters."""
    query = answer.query
    calls = zip(query.aggregates, answer.aggregates, strict=True)
    program = Program(
        keys=answer.keys,
        aggregates=tuple(
            (call.function, primitives, call.type, call.constants) for call, primitives in calls
        ),
        outputs=(*(output.expression for output in query.outputs), *hidden(query)),
        having=query.having,
    )
    if query.having is None or program.needs_spark:
        return program, ()
    constants: list[Literal] = []
    having = _parametrised(query.having, constants)
    return replace(program, having=having), tuple(constants)


def _parametrised(condition: Expression, constants: list[Literal]) -> Expression:
    """Put parameters in place of the constants that are compared with, and collect those."""
    if not isinstance(condition, Call):
        return condition
    if condition.function in _CONNECTIVES:
        parts = tuple(_parametrised(part, constants) for part in condition.args)
        return Call(condition.function, parts, condition.type)
    if condition.function in _COMPARISONS:
        left, right = condition.args
        operands = _parameter(left, right.type, constants), _parameter(right, left.type, constants)
        return Call(condition.function, operands, condition.type)
    return condition


def _parameter(operand: Expression, beside: DataType, constants: list[Literal]) -> Expression:
    constant = _constant(operand)
    if constant is None or constant.value is None:
        return operand
    if isinstance(constant.value, int) and beside.kind is Kind.DECIMAL:
        constant = _beside_decimal(constant, as_written(operand), beside)
    constants.append(constant)
    return Slot(SlotKind.PARAMETER, len(constants) - 1, constant.type)


def _beside_decimal(constant: Literal, written: DataType, beside: DataType) -> Literal:
    """Return a whole constant as a decimal of the digits it has, if more would round what stands beside it.

    Else all such constants keep one type, and so belong to one program.
    """
    common = common_type(constant.type, beside)
    if common is None or common.scale == beside.scale:
        return constant
    return Literal(Decimal(constant.value), written.as_decimal())  # type: ignore[arg-type]


def _constant(expression: Expression) -> Literal | None:
    """Return the value of an expression over constants, such as −5; None if it reads any slot, or fails."""
    if isinstance(expression, Literal) or any(isinstance(node, Slot) for node in walk(expression)):
        return expression if isinstance(expression, Literal) else None
    return Literal(Evaluator({}, 1).values(expression)[0].as_py(), expression.type)


def has_parameter(expression: Expression) -> bool:
    """Say whether an expression reads a parameter."""
    return any(isinstance(node, Slot) and node.kind is SlotKind.PARAMETER for node in walk(expression))
