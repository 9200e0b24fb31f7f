"""Registered functions, each called once per row however many queries use it."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.expression import Call, Expression, walk
from weft.optimizer.plan import Relation, SharedPlan
from weft.predicates import tests
from weft.spark.columns import Translator, Udf


class FunctionCalls:
    """The calls of registered functions in a plan, as columns of their own; inner calls come first."""

    def __init__(
        self, plan: SharedPlan, translator: Callable[[Relation], Translator], functions: Mapping[str, Udf]
    ) -> None:
        self._steps: list[dict[str, Column]] = []
        calls: dict[tuple[Translator, Call], int] = {}
        for relation in plan.relations:
            for call in _calls(_expressions(relation), functions):
                calls[translator(relation), call] = _depth(call, functions)
        for depth in sorted(set(calls.values())):
            step: dict[str, Column] = {}
            for number, ((translate, call), own) in enumerate(calls.items()):
                if own == depth:
                    step[f"__weft_call{number}"] = translate(call)
            self._steps.append(step)
            for number, ((translate, call), own) in enumerate(calls.items()):
                if own == depth:
                    translate.given(call, F.col(f"__weft_call{number}"))

    def apply(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the results of all calls."""
        for step in self._steps:
            rows = rows.withColumns(step)
        return rows


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
