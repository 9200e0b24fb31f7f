"""Registered functions, each called once per row however many queries use it.

A function written in Python that raises for a row gives NULL there, as other expressions that fail do, and
harms no other query. (One that takes many rows at a time, as a pandas UDF does, cannot be asked row by row.)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructType
from pyspark.util import PythonEvalType

from weft.expression import Call, Expression, walk
from weft.optimizer.plan import Relation, SharedPlan
from weft.predicates import tests
from weft.query.fallible import sites
from weft.spark.columns import Translator, Udf

_VALUE, _FAILED = "value", "failed"
_BY_ROW = (PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF)


class FunctionCalls:
    """The calls of registered functions in a plan, as columns of their own; inner calls come first."""

    def __init__(
        self, plan: SharedPlan, translator: Callable[[Relation], Translator], functions: Mapping[str, Udf]
    ) -> None:
        self._steps: list[dict[str, Column]] = []
        guarded = {name: _guarded(function) for name, function in functions.items()}
        calls: dict[tuple[Translator, Call], int] = {}
        for number, relation in enumerate(plan.relations):
            judged = [sites(one.query.predicate) for one in plan.answers_of(number) if one.query.predicate]
            read = (*_expressions(relation), *(site for several in judged for site in several))
            for call in _calls(read, functions):
                calls[translator(relation), call] = _depth(call, functions)
        for depth in sorted(set(calls.values())):
            step: dict[str, Column] = {}
            for number, ((translate, call), own) in enumerate(calls.items()):
                if own == depth:
                    step[f"__weft_call{number}"] = guarded[call.function](*map(translate, call.args))
            self._steps.append(step)
            for number, ((translate, call), own) in enumerate(calls.items()):
                result = F.col(f"__weft_call{number}")
                if own == depth and guarded[call.function] is not functions[call.function]:
                    translate.given(call, result[_VALUE], result[_FAILED])
                elif own == depth:
                    translate.given(call, result)

    def apply(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the results of all calls."""
        for step in self._steps:
            rows = rows.withColumns(step)
        return rows


def _guarded(function: Udf) -> Udf:
    """Return a Python function as one that tells of an exception beside its value; others as they are."""
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


def _expressions(relation: Relation) -> Iterator[Expression]:
    yield from relation.keys
    yield from (one.argument for one in relation.primitives if one.argument is not None)
    yield from (one.expression for predicate in relation.predicates for one in tests(predicate))


def _calls(expressions: Iterable[Expression], functions: Mapping[str, Udf]) -> Iterator[Call]:
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Call) and node.function in functions:
                yield node


def _depth(call: Call, functions: Mapping[str, Udf]) -> int:
    """Return how many calls are nested in a call, itself included."""
    inner = [_depth(one, functions) for one in _calls(call.args, functions)]
    return 1 + max(inner, default=0)
