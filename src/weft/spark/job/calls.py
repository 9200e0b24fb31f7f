"""Registered functions, each called once per row however many queries use it.

A function written in Python that raises for a row gives NULL there, as other expressions that fail do, and
harms no other query. (One that takes many rows at a time, as a pandas UDF does, cannot be called row by row.)
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructType
from pyspark.util import PythonEvalType

from weft.expression import Call, Expression, walk
from weft.optimizer.plan import Relation, SharedPlan
from weft.predicates import tests
from weft.query.failures import sites
from weft.spark.columns import Translator, Udf

_VALUE, _FAILED = "value", "failed"
_BY_ROW = (PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF)


class FunctionCalls:
    """The calls of registered functions in a plan, as columns of their own; inner calls come first."""

    def __init__(
        self,
        plan: SharedPlan,
        translator: Callable[[Relation], Translator],
        functions: Mapping[str, Udf],
        elsewhere: Container[Expression] = (),
    ) -> None:
        """Gather the calls, except in the tested expressions `elsewhere`: those are evaluated by value."""
        reads: list[tuple[Translator, Sequence[Expression]]] = []
        answers = plan.answers_by_relation()
        for relation in plan.roots:
            tested = [test.expression for predicate in relation.predicates for test in tests(predicate)]
            predicates = [answer.query.predicate for answer in answers[relation.id]]
            judged = [site for predicate in predicates if predicate for site in sites(predicate)]
            read = [expression for expression in (*tested, *judged) if expression not in elsewhere]
            reads.append((translator(relation), [*relation_values(relation), *read]))
        self._steps = registered_calls(reads, functions)

    def apply(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the results of all calls."""
        for step in self._steps:
            rows = rows.withColumns(step)
        return rows


def _guarded(function: Udf) -> Udf:
    """Return a Python function as one that returns whether it raised beside its value; others unchanged."""
    call, type = getattr(function, "func", None), getattr(function, "returnType", None)
    kind = getattr(function, "evalType", None)
    if call is None or type is None or kind not in _BY_ROW:
        return function
    returns = StructType().add(_VALUE, type).add(_FAILED, BooleanType())
    guarded: Udf = F.udf(_Guard(call), returns, useArrow=kind == PythonEvalType.SQL_ARROW_BATCHED_UDF)
    return guarded


class _Guard:
    """A function's value, and whether it raised instead."""

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call

    def __call__(self, *values: object) -> tuple[object, bool]:
        try:
            return self._call(*values), False
        except Exception:
            return None, True


def registered_calls(
    reads: Iterable[tuple[Translator, Sequence[Expression]]], functions: Mapping[str, Udf]
) -> list[dict[str, Column]]:
    """Return the calls in some expressions as columns, step by step; translators read those from now on."""
    guarded = {name: _guarded(function) for name, function in functions.items()}
    calls: dict[tuple[Translator, Call], int] = {}
    for translate, expressions in reads:
        for call in calls_in(expressions, functions):
            calls[translate, call] = _depth(call, functions)
    steps: list[dict[str, Column]] = []
    for depth in sorted(set(calls.values())):
        of_depth = {
            f"__weft_call{number}": key
            for number, (key, call_depth) in enumerate(calls.items())
            if call_depth == depth
        }
        steps.append(
            {
                name: guarded[call.function](*map(translate, call.args))
                for name, (translate, call) in of_depth.items()
            }
        )
        for name, (translate, call) in of_depth.items():
            result = F.col(name)
            if guarded[call.function] is functions[call.function]:
                translate.given(call, result)
            else:
                translate.given(call, result[_VALUE], result[_FAILED])
    return steps


def relation_values(relation: Relation) -> Iterator[Expression]:
    """Yield what a relation groups by and aggregates."""
    yield from relation.keys
    for primitive in relation.primitives:
        yield from primitive.arguments


def calls_in(expressions: Iterable[Expression], functions: Mapping[str, Udf]) -> Iterator[Call]:
    """Yield the calls of registered functions in some expressions."""
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Call) and node.function in functions:
                yield node


def _depth(call: Call, functions: Mapping[str, Udf]) -> int:
    """Return how many calls are nested in a call, itself included."""
    inner = [_depth(nested, functions) for nested in calls_in(call.args, functions)]
    return 1 + max(inner, default=0)
