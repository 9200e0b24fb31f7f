"""FROM: streams, tables and the equalities that join them."""

import pytest
from tests.unit.language_samples import query

from weft.expression import Column
from weft.query.logical import Join, JoinKind
from weft.types import STRING

ON_SYMBOL = ((Column("symbol", STRING), Column("close.symbol", STRING)),)
CLOSE = Join(table="close", alias="close", kind=JoinKind.INNER, on=ON_SYMBOL)


@pytest.mark.parametrize(
    "source",
    [
        "trades T [RANGE '5 min'], close C WHERE T.symbol = C.symbol",
        "trades [RANGE '5 min'], close WHERE close.symbol = trades.symbol",
        "close C, trades T [RANGE '5 min'] WHERE T.symbol = C.symbol",
        "trades T [RANGE '5 min'] JOIN close C ON T.symbol = C.symbol",
        "trades T [RANGE '5 min'] INNER JOIN close AS C ON C.symbol = T.symbol AND T.symbol = C.symbol",
        "trades [RANGE '5 min'] JOIN Close USING (symbol)",
    ],
)
def test_equal_joins_are_equal_however_written(source: str) -> None:
    bound = query(f"SELECT max(cp) AS m FROM {source}")
    assert bound.joins == (CLOSE,)
    assert bound.predicate is None
    assert str(bound.aggregates[0]) == "max(close.cp)"


def test_what_is_no_equality_stays_a_predicate() -> None:
    bound = query(
        "SELECT sum(T.price * C.cp) AS s FROM trades T [RANGE '5 min'], close C "
        "WHERE T.vol > 5 AND T.symbol = C.symbol AND C.symbol = 'X' AND T.price > C.cp"
    )
    assert bound.joins == (CLOSE,)
    assert str(bound.predicate) == "and((vol > 5), (close.symbol = 'X'), (price > close.cp))"


def test_a_left_join_keeps_where_as_a_predicate() -> None:
    bound = query(
        "SELECT count(*) AS c FROM trades T [RANGE '5 min'] LEFT OUTER JOIN close C "
        "ON upper(T.symbol) = C.symbol WHERE T.symbol = C.symbol"
    )
    (join,) = bound.joins
    assert join.kind is JoinKind.LEFT
    assert [(str(left), str(right)) for left, right in join.on] == [("upper(symbol)", "close.symbol")]
    assert str(bound.predicate) == "(symbol = close.symbol)"


def test_tables_may_be_linked_through_one_another() -> None:
    bound = query(
        "SELECT title, count(*) AS c FROM trades T [RANGE '5 min'], close C, sector S "
        "WHERE C.symbol = S.symbol AND T.symbol = S.symbol GROUP BY title"
    )
    assert [(join.alias, [(str(a), str(b)) for a, b in join.on]) for join in bound.joins] == [
        ("sector", [("symbol", "sector.symbol")]),
        ("close", [("sector.symbol", "close.symbol")]),
    ]


def test_a_table_joined_twice_goes_by_its_aliases() -> None:
    bound = query(
        "SELECT max(A.cp - B.cp) AS d FROM trades T [RANGE '5 min'] "
        "JOIN close A ON T.symbol = A.symbol JOIN close B ON lower(T.symbol) = B.symbol"
    )
    assert [(join.table, join.alias) for join in bound.joins] == [("close", "A"), ("close", "B")]
    assert str(bound.aggregates[0]) == "max((A.cp - B.cp))"


def test_using_makes_the_column_unambiguous() -> None:
    bound = query(
        "SELECT count(*) AS c FROM trades [RANGE '5 min'] LEFT JOIN close USING (symbol) GROUP BY symbol"
    )
    assert [str(key.expression) for key in bound.keys] == ["symbol"]
