"""Random queries over a schema."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import combinations
from random import Random

from tests.oracle.aggregates import OF_PAIRS, Aggregate
from tests.oracle.arithmetic import Abs, Arithmetic
from tests.oracle.cases import TIME
from tests.oracle.conditions import COMPARISONS, And, Between, Compare, In, IsNull, Not, Or
from tests.oracle.expressions import Column, Expression, Instant, Literal, walk
from tests.oracle.functions import Case, Cast, Coalesce, Length, Upper
from tests.oracle.more_functions import random_scalar
from tests.oracle.spec import Key, Order, Result, Spec
from tests.oracle.types import BIGINT, INT, TIMESTAMP, Kind, SqlType

WINDOWS_MS = (
    (1_000, 1_000),
    (10_000, 10_000),
    (10_000, 5_000),
    (12_000, 5_000),  # range no multiple of slide
    (7_000, 3_000),
    (200, 40),
    (250, 100),
    (3_000, 10_000),  # hopping
    (1, 7),
    (60_000, 7_000),
    (1_500, 500),
)
STEPS_MS = {1_000: 200, 10_000: 2_500}
"""Of adjacent windows, some are cumulative ones."""

SHARES = (0.0, 0.25, 0.5, 0.9, 1.0)
"""Shares of percentiles."""
CONSTANTS: dict[Kind, tuple[Literal, ...]] = {
    Kind.INT: tuple(map(Literal, (0, 1, -5, 7, 2**31 - 1))),
    Kind.BIGINT: tuple(map(Literal, (0, 5, -100, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1))),
    Kind.DOUBLE: tuple(map(Literal, (0.0, -0.0, 0.1, -1.5, 100.25, 1e17))),
    Kind.STRING: tuple(map(Literal, ("", "a", "A", "é", "日本", "zz"))),
    Kind.DECIMAL: tuple(map(Literal, (0, 1, -2))),
    Kind.TIMESTAMP: tuple(map(Literal, (Instant(0), Instant(-1), Instant(1_459_069_200_000_000)))),
    Kind.DATE: tuple(map(Literal, (date(1970, 1, 1), date(2024, 1, 4), date(2024, 2, 29)))),
    Kind.BOOLEAN: tuple(map(Literal, (True, False))),
}


def random_spec(rng: Random, name: str, schema: Sequence[Column]) -> Spec:
    """Return a query over the columns of a schema."""
    range_ms, slide_ms = rng.choice(WINDOWS_MS)
    keys = _random_keys(rng, schema)
    aggregates = tuple(random_aggregate(rng, f"a{index}", schema) for index in range(rng.randint(1, 4)))
    spec = Spec(
        name=name,
        range_ms=range_ms,
        slide_ms=slide_ms,
        step_ms=STEPS_MS[range_ms] if range_ms == slide_ms and rng.random() < 0.4 else None,
        offset_ms=rng.randrange(slide_ms) if rng.random() < 0.3 else 0,
        predicate=random_condition(rng, schema) if rng.random() < 0.7 else None,
        keys=keys,
        aggregates=aggregates,
        having=_random_having(rng, keys, aggregates, schema) if rng.random() < 0.3 else None,
        # Not for the finest windows: a gap in the stream would give thousands of empty ones.
        emit_empty=not keys and slide_ms >= 500 and rng.random() < 0.3,
    )
    spec = random_sets(rng, spec) if keys and not _tests_a_key(spec) and rng.random() < 0.4 else spec
    return random_limits(rng, spec) if keys and rng.random() < 0.4 else spec


def _tests_a_key(spec: Spec) -> bool:
    """Tell whether HAVING reads a key: Spark finds no expression there that a grouping set is without."""
    nodes = () if spec.having is None else walk(spec.having)
    return any(isinstance(node, Result) and isinstance(node.of, Key) for node in nodes)


def random_sets(rng: Random, spec: Spec) -> Spec:
    """Return a query with grouping sets: those of ROLLUP, of CUBE, or any others."""
    places = range(len(spec.keys))
    every = [own for length in (*places, len(spec.keys)) for own in combinations(places, length)][::-1]
    # Bits of grouping_id() are in the order in which keys first occur: that of the keys, as all come first.
    some = [every[0], *rng.sample(every[1:], rng.randint(0, len(every) - 1))]
    rolled_up = [tuple(range(length)) for length in range(len(spec.keys), -1, -1)]
    return replace(spec, sets=tuple(rng.choice((rolled_up, every, some))))


def random_limits(rng: Random, spec: Spec) -> Spec:
    """Return a query of which each window keeps the first few rows, by what rounding cannot change."""
    exact = [
        Result(call) for call in spec.aggregates if call.type.is_integer or call.function in ("min", "max")
    ]
    count = Result(Aggregate(name="hidden", function="count"))
    choices = [*exact, count, *map(Result, spec.keys)]
    order = tuple(
        Order(of=of, descending=rng.random() < 0.5, nulls_first=rng.choice((None, None, True, False)))
        for of in rng.sample(choices, rng.randint(0, min(3, len(choices))))
    )
    by = (rng.randint(1, 2), (Result(rng.choice(spec.keys)),)) if rng.random() < 0.4 else None
    limit = rng.randint(1, 4) if by is None or rng.random() < 0.3 else None
    return replace(spec, order=order, limit_by=by, limit=limit)


def with_functions(rng: Random, spec: Spec, schema: Sequence[Column]) -> Spec:
    """Return a query that also groups by functions of columns, aggregates them and tests them."""
    key, argument, tested = (random_scalar(rng, rng.choice(list(schema))) for _ in range(3))
    if rng.random() < 0.4 and not spec.emit_empty and not spec.sets:
        spec = replace(spec, keys=(*spec.keys, Key(name="f_key", expression=key)))
    if rng.random() < 0.6:
        functions = ["count", "min", "max", *(["sum"] if argument.type.is_integer else [])]
        further = Aggregate(name="f_value", function=rng.choice(functions), argument=argument)
        spec = replace(spec, aggregates=(*spec.aggregates, further))
    if rng.random() < 0.4:
        test = Compare(rng.choice(list(COMPARISONS)), tested, rng.choice(CONSTANTS[tested.type.kind]))
        spec = replace(spec, predicate=test if spec.predicate is None else Or(spec.predicate, test))
    return spec


def _random_keys(rng: Random, schema: Sequence[Column]) -> tuple[Key, ...]:
    chosen = rng.sample(list(schema[1:]), rng.choice((0, 0, 1, 1, 2)))
    return tuple(random_key(rng, column) for column in chosen)


def random_key(rng: Random, column: Column) -> Key:
    if rng.random() < 0.7:
        return Key(name=column.name, expression=column)
    match column.type.kind:
        case Kind.INT | Kind.BIGINT:
            return Key(name=f"k_{column.name}", expression=Arithmetic("%", column, Literal(3)))
        case Kind.STRING:
            return Key(name=f"k_{column.name}", expression=rng.choice((Upper, Length))(column))
        case Kind.DOUBLE:
            return Key(name=f"k_{column.name}", expression=Compare(">", column, Literal(0.0)))
    return Key(name=f"k_{column.name}", expression=IsNull(column))


# Aggregates


def random_aggregate(rng: Random, name: str, schema: Sequence[Column]) -> Aggregate:
    """Return an aggregate over a random argument."""
    condition = random_condition(rng, schema) if rng.random() < 0.25 else None
    if rng.random() < 0.2:
        return Aggregate(name=name, function="count", filter=condition)
    argument = random_number(rng, schema) if rng.random() < 0.6 else rng.choice(list(schema))
    if rng.random() < 0.3:
        return replace(_random_holistic(rng, argument, schema), name=name, filter=condition)
    if rng.random() < 0.4:
        draw = rng.choice((_random_fold, _random_statistic, _random_choice, _random_choice))
        return replace(draw(rng, schema), name=name, filter=condition)
    functions = ["count", "min", "max"]
    if argument.type.is_numeric:
        functions += ["sum"] * 4 + ["avg"] * 2 + ["var_pop", "var_samp", "stddev_pop", "stddev_samp"]
    return Aggregate(name=name, function=rng.choice(functions), argument=argument, filter=condition)


def _random_holistic(rng: Random, argument: Expression, schema: Sequence[Column]) -> Aggregate:
    """Return an aggregate that needs all values of a group."""
    functions = ["count_distinct", "count_distinct", "mode"]
    if argument.type.is_numeric:
        functions += ["sum_distinct", "avg_distinct", "median", "percentile", "percentile_cont"]
        functions += ["percentile_disc"] * 2
    function = rng.choice(functions)
    call = Aggregate(name="h", function=function, argument=argument)
    if function == "count_distinct" and rng.random() < 0.3:
        return replace(call, others=tuple(rng.sample(list(schema), rng.choice((1, 2)))))
    if function.startswith("percentile"):
        descending = function != "percentile" and rng.random() < 0.5
        return replace(call, constant=rng.choice(SHARES), descending=descending)
    return call


def _random_fold(rng: Random, schema: Sequence[Column]) -> Aggregate:
    """Return an aggregate that one operation folds, or a string that is put together."""
    function = rng.choice(("count_if", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "any_value"))
    if function in ("count_if", "bool_and", "bool_or"):
        return Aggregate(name="f", function=function, argument=random_condition(rng, schema, depth=1))
    if function == "any_value":
        return Aggregate(name="f", function=function, argument=rng.choice(list(schema)))
    whole = [column for column in schema if column.type.is_integer]
    return Aggregate(name="f", function=function, argument=rng.choice(whole))


def _small_number(rng: Random, schema: Sequence[Column]) -> Expression:
    """Return small whole numbers: no digit of their powers is lost."""
    whole = [column for column in schema if column.type.is_integer]
    return Arithmetic("%", rng.choice(whole), Literal(rng.choice((2, 3, 5, 7))))


def _random_statistic(rng: Random, schema: Sequence[Column]) -> Aggregate:
    """Return a product, a higher moment, or how two numbers vary together."""
    function = rng.choice(("product", "skewness", "kurtosis", *OF_PAIRS))
    others = (_small_number(rng, schema),) if function in OF_PAIRS else ()
    return Aggregate(name="s", function=function, argument=_small_number(rng, schema), others=others)


def _random_choice(rng: Random, schema: Sequence[Column]) -> Aggregate:
    """Return an aggregate that depends on the order of rows: by time, or by another column."""
    function = rng.choice(("first", "last", "min_by", "max_by", "string_agg"))
    column = rng.choice(list(schema))
    if function in ("min_by", "max_by"):
        by = rng.choice((random_number(rng, schema), rng.choice(list(schema))))
        return Aggregate(name="c", function=function, argument=column, others=(by,))
    if function == "string_agg":
        texts = [column for column in schema if column.type.kind is Kind.STRING]
        if not texts:
            return Aggregate(name="c", function="any_value", argument=column)
        return Aggregate(
            name="c", function=function, argument=rng.choice(texts), constant=rng.choice((1, 3, 1000)),
            delimiter=rng.choice(("", ", ", "é")), ties=_ties(schema),
        )  # fmt: skip
    ignores_null = rng.random() < 0.5
    return Aggregate(
        name="c", function=function, argument=column, ties=_ties(schema), ignores_null=ignores_null
    )


def _ties(schema: Sequence[Column]) -> tuple[Column, ...]:
    """Return the event time, then all columns of the stream in their order; those of tables have a dot."""
    time = Column(TIME, TIMESTAMP)
    return time, time, *(column for column in schema if column.name != TIME and "." not in column.name)


def random_list(rng: Random, name: str, schema: Sequence[Column]) -> Aggregate:
    """Return an aggregate that lists values, over a random column."""
    condition = random_condition(rng, schema) if rng.random() < 0.25 else None
    function = rng.choice(("collect_list", "collect_list", "collect_set"))
    return Aggregate(
        name=name, function=function, argument=rng.choice(list(schema)), constant=rng.choice((1, 2, 5, 1000)),
        ties=_ties(schema) if function == "collect_list" else (), filter=condition,
    )  # fmt: skip


def random_nested(rng: Random, name: str, schema: Sequence[Column]) -> Aggregate:
    """Return an aggregate whose result is an array, over a random argument."""
    condition = random_condition(rng, schema) if rng.random() < 0.25 else None
    number, column = random_number(rng, schema), rng.choice(list(schema))
    whole = [own for own in schema if own.type.is_integer]
    call = rng.choice(
        [
            Aggregate(
                name=name, function="percentile", argument=number, constant=tuple(rng.sample(SHARES, 2))
            ),
            Aggregate(name=name, function="histogram", argument=number, constant=rng.choice((1, 2.5, 1000))),
            Aggregate(name=name, function="top_k", argument=column, constant=rng.randint(1, 3)),
            Aggregate(name=name, function="top_k", argument=column, constant=2, others=(rng.choice(whole),)),
            random_list(rng, name, schema),
        ]
    )
    return replace(call, filter=condition)


def random_number(rng: Random, schema: Sequence[Column]) -> Expression:
    """Return a numeric expression: a column, arithmetic, CASE, coalesce, abs or length."""
    columns = [column for column in schema if column.type.is_numeric]
    column = rng.choice(columns)
    match rng.randrange(9):
        case 0 | 1 | 2:
            return column
        case 3 | 4:
            return _random_arithmetic(rng, columns)
        case 5 if column.type.precision <= 34:
            # Spark's abs rounds a longer decimal to 34 digits.
            return Abs(column)
        case 6:
            return Case(((random_condition(rng, schema, depth=1), column),), rng.choice((None, column)))
        case 7:
            return Coalesce((column, _matching_constant(rng, column.type)))
    return _from_string(rng, schema, column)


def _random_arithmetic(rng: Random, columns: Sequence[Column]) -> Expression:
    # Decimals wider than this make result types whose scale Spark cuts; that is a subject of its own.
    narrow = [column for column in columns if column.type.precision <= 10]
    left = rng.choice(narrow)
    right = rng.choice([*narrow, Literal(2), Literal(0), Literal(-3), Literal(7)])
    op = rng.choice("+-*/%")
    if Kind.DECIMAL in (left.type.kind, right.type.kind) and op in "*/":
        op = "+"
    return Arithmetic(op, left, right)


def _matching_constant(rng: Random, of: SqlType) -> Literal:
    if of.kind is Kind.DECIMAL:
        return Literal(Decimal((0, (5,), -of.scale)) if of.scale else 0)
    return rng.choice(CONSTANTS[of.kind])


def _from_string(rng: Random, schema: Sequence[Column], otherwise: Column) -> Expression:
    words = [column for column in schema if column.type.kind is Kind.STRING]
    if not words:
        return otherwise
    return rng.choice((Length(words[0]), Cast(words[0], rng.choice((INT, BIGINT)))))


# Conditions


def random_condition(rng: Random, schema: Sequence[Column], depth: int = 2) -> Expression:
    """Return a condition, at most so many connectives deep."""
    if depth and rng.random() < 0.45:
        below = random_condition(rng, schema, depth - 1)
        match rng.randrange(5):
            case 0:
                return Not(below)
            case 1 | 2:
                return And(below, random_condition(rng, schema, depth - 1))
        return Or(below, random_condition(rng, schema, depth - 1))
    return _random_test(rng, rng.choice(list(schema)), schema)


def _random_test(rng: Random, column: Column, schema: Sequence[Column]) -> Expression:
    options = CONSTANTS[column.type.kind]
    if column.type.kind is Kind.BOOLEAN and rng.random() < 0.5:
        return column
    match rng.randrange(7):
        case 0:
            return IsNull(column, rng.random() < 0.5)
        case 1:
            chosen = rng.sample(options, rng.randint(1, len(options)))
            listed = (*chosen, Literal(None)) if rng.random() < 0.2 else tuple(chosen)
            return In(column, listed, rng.random() < 0.3)
        case 2 if column.type.kind is not Kind.BOOLEAN:
            return Between(column, rng.choice(options), rng.choice(options), rng.random() < 0.2)
        case 3:
            return _column_test(rng, column, schema)
        case 4 if column.type.kind is Kind.STRING:
            return Compare(rng.choice((">", "=")), Length(column), Literal(rng.randint(0, 3)))
        case 4 if column.type.is_integer:
            zero = Compare("=", Arithmetic("%", column, Literal(rng.choice((0, 2, 3)))), Literal(0))
            return rng.choice((zero, Compare(">", column, Literal(Decimal("1.5")))))
    return Compare(rng.choice(list(COMPARISONS)), column, rng.choice(options))


def _column_test(rng: Random, column: Column, schema: Sequence[Column]) -> Expression:
    def comparable(other: Column) -> bool:
        binary = all(c.type.is_numeric and c.type.kind is not Kind.DECIMAL for c in (column, other))
        return binary or other.type == column.type

    partner = rng.choice([other for other in schema if comparable(other)])
    return Compare(rng.choice(list(COMPARISONS)), column, partner)


def _random_having(
    rng: Random, keys: Sequence[Key], aggregates: Sequence[Aggregate], schema: Sequence[Column]
) -> Expression:
    """Return a condition on results that rounding cannot flip: counts, exact numbers, keys."""
    count = Compare(
        rng.choice((">", ">=", "<=", "<>")),
        Result(Aggregate(name="hidden", function="count")),
        Literal(rng.randint(0, 4)),
    )
    exact = [call for call in aggregates if call.type.is_integer]
    choice = rng.random()
    if exact and choice < 0.4:
        return Or(Compare(">", Result(rng.choice(exact)), Literal(rng.randint(-50, 50))), count)
    if keys and choice < 0.6:
        return And(IsNull(Result(rng.choice(list(keys))), rng.random() < 0.5), count)
    if choice < 0.7:
        column = rng.choice(list(schema))
        largest = Result(Aggregate(name="hidden", function="max", argument=column))
        return Compare(rng.choice(("<", ">=")), largest, rng.choice(CONSTANTS[column.type.kind]))
    return count
