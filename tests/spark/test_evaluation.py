"""The evaluator in the driver gives what Spark gives, for every function, type and awkward value."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark import evaluation_cases as made
from tests.spark.evaluation_trees import random_tree
from tests.spark.nasty_values import columns, slot
from tests.unit.nested_samples import OF_NESTED_VALUES
from weft.aggregates import arrow_type
from weft.evaluation import Evaluator, can_evaluate
from weft.evaluation.implementations import SPARK_ONLY
from weft.expression import Call, Expression, Literal, Slot, walk
from weft.query.allowed_functions import FUNCTIONS
from weft.spark.columns import Translator
from weft.types import STRING

_TOGETHER = 250
"""How many expressions Spark evaluates at once."""
_INEXACT = frozenset(
    """exp ln log10 pow cbrt expm1 log2 log1p sin cos tan asin acos atan atan2 sinh cosh tanh hypot degrees
    radians""".split()
)
"""Java's and C's libraries may each be off by some in the last place; IEEE demands no more of them."""
_SIGN_OF_ZERO = frozenset({"greatest", "least"})
"""Where 0.0 meets −0.0 the first is taken, but Spark puts constants last."""


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that compiles nothing: thousands of expressions are evaluated once each."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.set(name, str(old))


def compare(spark: SparkSession, given: Mapping[Slot, pa.Array], expressions: Sequence[Expression]) -> None:
    """Assert that values and failures of expressions are Spark's."""
    arrow = pa.table({str(one): column for one, column in given.items()})
    table = spark.createDataFrame(arrow).cache()
    rows = len(next(iter(given.values())))
    wrong = []
    for first in range(0, len(expressions), _TOGETHER):
        some = expressions[first : first + _TOGETHER]
        translate = Translator(slot=lambda one: F.col(str(one)))
        values = [translate(one).cast(str(one.type)).alias(f"v{at}") for at, one in enumerate(some)]
        failures = [(at, translate.failure(one)) for at, one in enumerate(some)]
        failed = [column.alias(f"f{at}") for at, column in failures if column is not None]
        wanted = table.select(*values, *failed).toArrow()
        evaluator = Evaluator(given, rows)
        for at, one in enumerate(some):
            wrong += differences(evaluator, one, wanted[f"v{at}"].combine_chunks(), given)
            told = evaluator.failed(one)
            expected = wanted[f"f{at}"].to_pylist() if f"f{at}" in wanted.column_names else [False] * rows
            if expected != ([False] * rows if told is None else told.tolist()):
                wrong.append(f"failures of {one}: {sum(expected)}, found {0 if told is None else told.sum()}")
    table.unpersist()
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:20]])


def differences(
    evaluator: Evaluator, expression: Expression, wanted: pa.Array, given: Mapping[Slot, pa.Array]
) -> list[str]:
    """Return the first difference between the evaluator's values and Spark's, in words, if there is one."""
    found = evaluator.values(expression)
    assert found.type == arrow_type(expression.type)
    found.validate()
    functions = {node.function for node in walk(expression) if isinstance(node, Call)}
    pairs = enumerate(zip(plain(found), plain(wanted), strict=True))
    row = next((row for row, (ours, theirs) in pairs if not alike(ours, theirs, functions)), None)
    if row is None:
        return []
    read = {str(node): plain(given[node])[row] for node in walk(expression) if isinstance(node, Slot)}
    return [f"{expression} {read}: {plain(wanted)[row]!r}, found {plain(found)[row]!r}"]


def plain(array: pa.Array) -> list[Any]:
    """Return values that Python can hold: times as numbers, strings as bytes."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    if pa.types.is_string(array.type):
        array = array.view(pa.binary())
    return array.to_pylist()  # type: ignore[no-any-return]


def alike(ours: Any, theirs: Any, functions: set[str]) -> bool:
    """Say whether two values are the same, down to the sign of zero unless functions do not promise that."""
    if not (isinstance(ours, float) and isinstance(theirs, float)):
        return bool(ours == theirs and (ours is None) == (theirs is None))
    if ours != ours or theirs != theirs:
        return ours != ours and theirs != theirs
    if functions & _INEXACT:
        return ours == theirs or abs(ours - theirs) <= 1e-15 * max(abs(ours), abs(theirs))
    if functions & _SIGN_OF_ZERO and ours == theirs:
        return True
    return struct.pack("d", ours) == struct.pack("d", theirs)


@pytest.mark.parametrize("maker", made.MAKERS, ids=lambda maker: maker.__name__)
def test_every_function_gives_sparks_values_and_failures(
    interpreted: SparkSession, maker: Callable[[], Iterator[Call | None]]
) -> None:
    cases = made.cases(maker)
    assert cases
    compare(interpreted, columns(seed=1), cases)


def test_the_cases_cover_the_language() -> None:
    used = {node.function for one in made.cases(*made.MAKERS) for node in walk(one) if isinstance(node, Call)}
    assert used == set(FUNCTIONS) - SPARK_ONLY - OF_NESTED_VALUES


@pytest.mark.parametrize("seed", [1, 2])
def test_nested_expressions_give_sparks_values_and_failures(spark: SparkSession, seed: int) -> None:
    """Here Spark compiles, as it does in a pipeline."""
    rng = Random(seed)
    trees = [tree for tree in (random_tree(rng, depth=3) for _ in range(80)) if can_evaluate(tree)]
    assert len(trees) > 40
    compare(spark, columns(seed=seed, rows=120), trees)


def test_strings_that_are_not_utf8_are_sparks(interpreted: SparkSession) -> None:
    """Not those that end within a character: of these Spark's substring reads on, into other memory."""
    raw = [
        b"\xff",
        b"a\xffb",
        b"\xc3A",
        b"caf\xc3\xa9",
        b"",
        b"\xf0\x9f\x98\x80x",
        b"\x80\x80",
        b"\xfe1",
        None,
    ]
    word, other = slot(STRING, 0), slot(STRING, 1)
    given = {
        word: pa.array(raw, pa.binary()).view(pa.string()),
        other: pa.array(raw[::-1], pa.binary()).view(pa.string()),
    }
    cases = [one for one in made.cases(*made.MAKERS) if set(slots(one)) <= {word, other}]
    assert len(cases) > 100
    compare(interpreted, given, cases)


def slots(expression: Expression) -> Iterator[Slot]:
    """Yield the slots that an expression reads."""
    return (node for node in walk(expression) if isinstance(node, Slot))


def test_case_of_every_letter_is_sparks(spark: SparkSession) -> None:
    """Between letters, where a sigma is none at the end of a word; what comes after emoji has no case."""
    letters = [chr(code) for code in range(0x1F600) if not 0xD800 <= code < 0xE000]
    word = slot(STRING, 0)
    given = {word: pa.array([f"A{letter}b" for letter in letters])}
    compare(spark, given, [Call(name, (word,), STRING) for name in ("upper", "lower")])


def test_a_constant_alone_is_a_column(spark: SparkSession) -> None:
    given = {slot(STRING, 0): pa.array(["a", None, "b"])}
    compare(spark, given, [Literal("x", STRING), *made.CONSTANTS[:5]])
