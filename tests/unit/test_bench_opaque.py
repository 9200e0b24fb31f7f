"""The queries of the bench of predicates that are no thresholds."""

from io import StringIO

import pytest
from rich.console import Console

from weft.bench.equality import Comparison
from weft.bench.opaque import COLUMNS, SIZES, Case, OpaquePredicates, OpaqueResult, Size, opaque_queries
from weft.bench.records import Seconds
from weft.bench.runs import WeftRun
from weft.predicates import canonical
from weft.query import CreateStream, bind, parse, parse_select
from weft.query.logical import Catalog, LogicalQuery


def bound(case: Case, count: int, seed: int) -> list[LogicalQuery]:
    (statement,) = parse(f"CREATE STREAM readings ({COLUMNS}) USING rate EVENT TIME time")
    assert isinstance(statement, CreateStream)
    catalog = Catalog(streams=(statement.definition,))
    queries = opaque_queries(case, count, seed=seed)
    return [bind(parse_select(query.sql, name=query.name), catalog) for query in queries]


@pytest.mark.parametrize("case", Case)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_two_queries_have_a_window_or_a_predicate_in_common(case: Case, seed: int) -> None:
    found = bound(case, max(SIZES), seed)
    assert len({query.window for query in found}) == len(found)
    assert len({canonical(query.predicate) for query in found}) == len(found)


def test_the_same_seed_gives_the_same_queries() -> None:
    assert opaque_queries(Case.LIKE, 16, seed=3) == opaque_queries(Case.LIKE, 16, seed=3)
    assert opaque_queries(Case.LIKE, 16, seed=3) != opaque_queries(Case.LIKE, 16, seed=4)


def test_fewer_queries_are_the_first_of_more() -> None:
    few, many = (opaque_queries(Case.DIMENSIONS, count, seed=1) for count in (1, 256))
    assert few[0].where == many[0].where


def test_ratios_are_of_medians_and_of_pairs() -> None:
    size = Size(
        case=Case.LIKE, predicates=2, weft=Seconds((2.0, 9.0, 4.0)), one_query=Seconds((1.0, 2.0, 4.0)),
        run=WeftRun(),
        compared=Comparison(queries=1, differences=("q0: value differs",)),
    )  # fmt: skip
    assert (size.ratio, size.ratio_by_pairs) == (2.0, 2.0)
    asked = OpaquePredicates(console=Console(file=StringIO()))
    result = OpaqueResult(bench=asked, case=Case.LIKE, rows=9, sizes=(size,), compared=size.compared)
    assert not result.passed
    assert result.as_json()["sizes"][0]["ratio"] == 2.0  # type: ignore[index]
