"""The workloads with predicates are the paper's (STS, Table 8 and section 6.4)."""

from collections import Counter

import numpy as np
import pytest
from tests.unit.market_samples import small_market

from weft.bench.predicates import Index, Predicate, Quantity, predicates
from weft.bench.workloads import BenchQuery, Predicates, predicate_queries, turnover
from weft.errors import UserError
from weft.query import CreateQuery, CreateStream, CreateTable, bind, parse, parse_select
from weft.query.logical import Catalog
from weft.window import Window

MARKET = small_market(20_000)
DECLARED = parse(
    "CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT) USING parquet "
    "OPTIONS (path 'a') EVENT TIME time DELAY '10 seconds';"
    "CREATE TABLE close (symbol STRING, cp DOUBLE) USING parquet OPTIONS (path 'b');"
    "CREATE TABLE index (symbol STRING, r3000 BOOLEAN, r2000 BOOLEAN, r1000 BOOLEAN) USING parquet "
    "OPTIONS (path 'c')"
)
CATALOG = Catalog(
    streams=tuple(one.definition for one in DECLARED if isinstance(one, CreateStream)),
    tables=tuple(one.definition for one in DECLARED if isinstance(one, CreateTable)),
)


def of(queries: tuple[BenchQuery, ...]) -> list[Predicate]:
    return [query.predicate for query in queries if query.predicate is not None]


def test_a_query_is_the_papers_template() -> None:
    predicate = Predicate(
        index=Index.R2000, member=True, quantity=Quantity.VOLUME, above=True, constant=350.0
    )
    window = Window(range_ms=668_000, slide_ms=591_000)
    query = BenchQuery(name="q", window=window, stream="trades", value="price * vol", predicate=predicate)
    assert query.sql == (
        "SELECT sum(T.price * T.vol) AS value FROM trades T [RANGE '668 s' SLIDE '591 s'], close C, index X "
        "WHERE T.symbol = C.symbol AND T.symbol = X.symbol AND X.r2000 = true AND T.vol > 350"
    )
    assert predicate.bare == "r2000 = true AND vol > 350"


@pytest.mark.parametrize("quantity", Quantity)
def test_the_constant_in_the_text_is_the_one_that_is_counted_with(quantity: Quantity) -> None:
    several = [one for one in predicates(300, MARKET) if one.quantity is quantity]
    for one in several:
        assert float(one.sql.split()[-1]) == float(one.bare.split()[-1]) == one.constant


@pytest.mark.parametrize("workload", Predicates)
def test_weft_understands_every_query(workload: Predicates) -> None:
    for query in predicate_queries(workload, 36, MARKET):
        written = parse_select(query.sql, name=query.name)
        assert isinstance(written, CreateQuery)
        bound = bind(written, CATALOG)
        assert bound.window == query.window
        assert [join.table for join in bound.joins] == ["close", "index"]


def test_predicates_differ_and_fewer_are_the_first_of_more() -> None:
    several = predicates(1_000, MARKET)
    assert len(set(several)) == 1_000
    assert predicates(16, MARKET) == several[:16]
    assert predicates(16, MARKET, seed=2) != several[:16]


def test_the_parameters_are_uniform() -> None:
    several = predicates(3_000, MARKET)
    for counted, ways in (
        (Counter((one.index, one.member) for one in several), 6),
        (Counter((one.quantity, one.above) for one in several), 6),
    ):
        assert len(counted) == ways
        assert all(times == pytest.approx(3_000 / ways, rel=0.2) for times in counted.values())


def test_constants_differ_as_far_as_the_data_allows() -> None:
    several = predicates(256, MARKET)
    constants = Counter((one.quantity, one.constant) for one in several)
    assert max(constants.values()) == 1


def test_a_row_satisfies_about_as_many_queries_as_in_the_paper() -> None:
    shares = [one.holds(MARKET).mean() for one in predicates(256, MARKET)]
    assert 0.22 < np.mean(shares) < 0.38


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows do not tell"):
        predicates(2_000, small_market(3))


def test_a_predicate_is_true_of_the_rows_that_it_describes() -> None:
    for one in predicates(60, MARKET):
        holds = one.holds(MARKET)
        for row in range(0, 200, 7):
            vol, price, cp = MARKET.vol[row], MARKET.price[row], MARKET.cp[row]
            large, small = MARKET.r1000[row], MARKET.r2000[row]
            asked = {"r1000": large, "r2000": small, "r3000": large or small}[one.index]
            value = {"vol": vol, "vol * price": vol * price}.get(one.quantity, abs(price - cp) / cp)
            compared = value > one.constant if one.above else value < one.constant
            assert holds[row] == (bool(asked) == one.member and compared)


def test_fragments_have_one_window() -> None:
    queries = predicate_queries(Predicates.FRAGMENTS, 64, MARKET)
    assert {query.window for query in queries} == {Window(range_ms=600_000, slide_ms=600_000)}
    assert len(set(of(queries))) == 64


@pytest.mark.parametrize("size", Predicates.REGULAR.sizes)
def test_a_regular_workload_has_the_root_of_predicates_and_windows(size: int) -> None:
    queries = predicate_queries(Predicates.REGULAR, size, MARKET)
    assert len({(query.predicate, query.window) for query in queries}) == len(queries) == size
    assert len(set(of(queries))) ** 2 == len({query.window for query in queries}) ** 2 == size


@pytest.mark.parametrize("size", [16, 256, 4_096])
def test_low_sharing_repeats_nothing(size: int) -> None:
    queries = predicate_queries(Predicates.LOW, size, MARKET)
    windows = {query.window for query in queries}
    assert len(windows) == len(set(of(queries))) == len({query.name for query in queries}) == size
    assert all(600_000 <= window.range_ms <= 900_000 for window in windows)
    assert all(300_000 <= window.slide_ms <= 600_000 for window in windows)


@pytest.mark.parametrize(
    ("workload", "size", "said"),
    [
        (Predicates.REGULAR, 32, "square number of queries, got 32; try 25 or 36"),
        (Predicates.LOW, 0, "1 query or more"),
    ],
)
def test_impossible_sizes_are_refused(workload: Predicates, size: int, said: str) -> None:
    with pytest.raises(UserError, match=said):
        predicate_queries(workload, size, MARKET)


@pytest.mark.parametrize("size", [1, 4, 16])
def test_a_regular_workload_that_changes_stays_regular(size: int) -> None:
    few, count = round(size**0.5), 100
    there = {one.name: one for one in predicate_queries(Predicates.REGULAR, size, MARKET)}
    ever = set(there.values())
    for number, (leaves, joins) in enumerate(turnover(size, count, MARKET), start=1):
        del there[leaves]
        there[joins.name] = joins
        ever.add(joins)
        if number % few == 0:
            pairs = {(one.predicate, one.window) for one in there.values()}
            tests, windows = ({pair[place] for pair in pairs} for place in (0, 1))
            assert (len(pairs), len(tests), len(windows)) == (size, few, few)
    assert len(there) == size
    assert len({(one.predicate, one.window) for one in ever}) == size + count
    # Predicates and windows alike, not one of them alone.
    assert len({one.predicate for one in ever}) == few + -(-count // (2 * few))
    assert len({one.window for one in ever}) >= few + count // (2 * few)


def test_no_run_makes_the_changes_of_another() -> None:
    size, count = 16, 40
    there = {(one.predicate, one.window) for one in predicate_queries(Predicates.REGULAR, size, MARKET)}
    tests, windows = ({pair[place] for pair in there} for place in (0, 1))
    joined = [[joins for _, joins in turnover(size, count, MARKET, run=run)] for run in range(3)]
    for place, known in ((0, tests), (1, windows)):
        new = [{(one.predicate, one.window)[place] for one in some} - known for some in joined]
        assert all(new)
        assert sum(map(len, new)) == len(set.union(*new))
