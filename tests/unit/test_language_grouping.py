"""Keys, aggregates, outputs, HAVING and EMIT EMPTY."""

import pytest
from tests.unit.language_samples import query

from weft.expression import Slot, SlotKind
from weft.finals.results import result_schema
from weft.query.logical import AggregateCall
from weft.sinks import keys_of
from weft.types import BIGINT, STRING

W = "[RANGE '5 min']"


def outputs(text: str) -> list[tuple[str, str]]:
    return [(output.name, str(output.expression)) for output in query(text).outputs]


def keys(text: str) -> list[tuple[str, str]]:
    return [(key.name, str(key.expression)) for key in query(text).keys]


def test_outputs_are_all_items_in_order() -> None:
    bound = query(f"SELECT sum(vol) AS s, symbol, count(*) FROM trades {W} GROUP BY symbol")
    assert [output.name for output in bound.outputs] == ["s", "symbol", "count(*)"]
    assert bound.outputs[0].expression == Slot(SlotKind.AGGREGATE, 0, BIGINT)
    assert bound.outputs[1].expression == Slot(SlotKind.KEY, 0, STRING)


def test_an_output_is_named_by_alias_column_or_text() -> None:
    text = f"SELECT trades.symbol, sum( price\n  *  vol ), max(n) m, 1 FROM trades {W} GROUP BY symbol"
    assert [name for name, _ in outputs(text)] == ["symbol", "sum( price * vol )", "m", "1"]


def test_aggregates_are_kept_once() -> None:
    bound = query(
        f"SELECT avg(price) AS a, AVG(price) + 1 AS b, mean(price) AS c, count(*) AS d, count(1) AS e "
        f"FROM trades {W} HAVING count(*) > 5 AND min(n) > 0"
    )
    assert [str(call) for call in bound.aggregates] == ["avg(price)", "count(*)", "min(n)"]
    assert str(bound.having) == "and((aggregate1 > 5), (aggregate2 > 0))"


def test_a_filter_makes_another_aggregate() -> None:
    bound = query(f"SELECT sum(n) FILTER (WHERE ok) AS a, sum(n) AS b FROM trades {W}")
    assert [str(call) for call in bound.aggregates] == ["sum(n) FILTER (WHERE ok)", "sum(n)"]
    assert bound.aggregates[0] == AggregateCall(
        function="sum",
        arguments=bound.aggregates[1].arguments,
        filter=bound.aggregates[0].filter,
        type=BIGINT,
    )


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("symbol", [("symbol", "symbol")]),
        ("SYMBOL, trades.symbol", [("SYMBOL", "symbol")]),
        ("n % 5", [("n % 5", "(n % 5)")]),
        ("n % 5 AS bucket", [("bucket", "(n % 5)")]),
        ("k", [("k", "upper(symbol)")]),
        ("1", [("k", "upper(symbol)")]),
        ("upper( symbol )", [("upper( symbol )", "upper(symbol)")]),
    ],
)
def test_keys_are_columns_expressions_aliases_or_ordinals(
    group: str, expected: list[tuple[str, str]]
) -> None:
    item = "upper(symbol) AS k, " if expected[0][1].startswith("upper") else ""
    assert keys(f"SELECT {item}count(*) AS c FROM trades {W} GROUP BY {group}") == expected


def test_keys_of_one_name_are_told_apart() -> None:
    source = f"trades T {W}, close C WHERE T.symbol = C.symbol"
    text = f"SELECT count(*) AS c FROM {source} GROUP BY T.symbol, C.symbol"
    assert keys(text) == [("symbol", "symbol"), ("C.symbol", "close.symbol")]


def test_outputs_compute_with_keys_and_aggregates() -> None:
    text = f"SELECT n + 1 AS a, -(n % 5) AS b, sum(vol) / count(*) AS c FROM trades {W} GROUP BY n, n % 5"
    assert outputs(text) == [("a", "(key0 + 1)"), ("b", "neg(key1)"), ("c", "(aggregate0 / aggregate1)")]


def test_a_key_is_found_inside_an_output() -> None:
    text = (
        f"SELECT upper(substr(symbol, 1)) AS a, count(*) AS c FROM trades {W} GROUP BY substring(symbol, 1)"
    )
    assert outputs(text)[0] == ("a", "upper(key0)")


def test_having_knows_the_aliases_of_select() -> None:
    bound = query(
        f"SELECT symbol AS s, sum(vol) AS vol FROM trades {W} GROUP BY symbol HAVING vol > 5 AND s <> 'X'"
    )
    assert str(bound.having) == "and((aggregate0 > 5), (key0 <> 'X'))"
    inside = query(f"SELECT sum(vol) AS vol FROM trades {W} HAVING max(vol) > 5")
    assert str(inside.aggregates[1]) == "max(vol)"


def test_a_query_may_have_keys_only() -> None:
    assert query(f"SELECT symbol FROM trades {W} GROUP BY symbol").aggregates == ()


def test_emit_empty_is_noted() -> None:
    assert query(f"SELECT count(*) AS c FROM trades {W} emit empty").emit_empty
    assert not query(f"SELECT count(*) AS c FROM trades {W}").emit_empty


@pytest.mark.parametrize(
    ("call", "type"),
    [
        ("count(*)", "bigint"), ("sum(n)", "bigint"), ("sum(fee)", "decimal(20,2)"),
        ("sum(ratio)", "double"), ("avg(n)", "double"), ("avg(fee)", "decimal(14,6)"), ("min(ok)", "boolean"),
        ("max(symbol)", "string"), ("max(time)", "timestamp"), ("stddev(n)", "double"),
        ("var_pop(n)", "double"),
    ],
)  # fmt: skip
def test_aggregates_have_sparks_types(call: str, type: str) -> None:
    assert str(query(f"SELECT {call} AS x FROM trades {W}").aggregates[0].type) == type


@pytest.mark.parametrize(
    ("group", "sets"),
    [
        ("ROLLUP(symbol, n)", ((0, 1), (0,), ())),
        ("symbol, n WITH ROLLUP", ((0, 1), (0,), ())),
        ("rollup(symbol, (n, ok))", ((0, 1, 2), (0,), ())),
        ("CUBE(symbol, n)", ((0, 1), (0,), (1,), ())),
        ("symbol, n WITH CUBE", ((0, 1), (0,), (1,), ())),
        ("GROUPING SETS ((symbol, n), n, ())", ((0, 1), (1,), ())),
        ("GROUPING SETS ((symbol), ROLLUP(n, ok))", ((0,), (1, 2), (1,), ())),
        ("symbol, ROLLUP(n, ok)", ((0, 1, 2), (0, 1), (0,))),
        ("ROLLUP(symbol), CUBE(n)", ((0, 1), (0,), (1,), ())),
        ("ROLLUP((n + 1) * 2, (ok))", ((0, 1), (0,), ())),
        ("ROLLUP(1, upper(symbol) AS u)", ((0, 1), (0,), ())),
        ("GROUPING SETS ((symbol, Symbol))", ((0,),)),
    ],
)
def test_grouping_sets_are_spelled_out(group: str, sets: tuple[tuple[int, ...], ...]) -> None:
    selected = "n % 2 AS h, " if "1," in group else ""
    assert query(f"SELECT {selected}count(*) AS c FROM trades {W} GROUP BY {group}").sets == sets


def test_which_keys_are_absent_is_known_by_their_bits() -> None:
    selected = "grouping(n) AS a, grouping(ok) AS b, grouping_id() AS c, grouping_id(n, ok) AS d"
    text = f"SELECT {selected} FROM trades {W}"
    found = outputs(f"{text} GROUP BY ROLLUP(n, ok) HAVING grouping(n) = 0")
    assert found == [
        ("a", "cast((shiftright(grouping_id0, 1) & 1) as tinyint)"),
        ("b", "cast((shiftright(grouping_id0, 0) & 1) as tinyint)"),
        ("c", "grouping_id0"),
        ("d", "grouping_id0"),
    ]


@pytest.mark.parametrize(
    ("selected", "identity"),
    [("n, ok, grouping_id() AS g", ("n", "ok", "g")), ("n, ok", None), ("n, grouping_id() AS g", None)],
)
def test_rows_of_grouping_sets_are_identified_by_their_bits_too(
    selected: str, identity: tuple[str, ...] | None
) -> None:
    bound = query(f"SELECT {selected}, count(*) AS c FROM trades {W} GROUP BY CUBE(n, ok)")
    assert keys_of(result_schema(bound)) == identity
