"""The queries of the benches."""

import pytest

from weft.bench.equality import Comparison
from weft.bench.options import Check
from weft.bench.workloads import paper_queries, scotty_queries, spread_over
from weft.errors import UserError
from weft.query import parse_select


def test_the_papers_queries_lie_in_its_ranges() -> None:
    queries = paper_queries(256)
    assert len({query.name for query in queries}) == 256
    for query in queries:
        assert 600_000 <= query.window.range_ms <= 900_000
        assert 300_000 <= query.window.slide_ms <= 600_000
        assert query.window.range_ms % 1000 == query.window.slide_ms % 1000 == 0
    assert paper_queries(16) == queries[:16]
    assert paper_queries(16, seed=2) != queries[:16]


@pytest.mark.parametrize("size", [256, 4_096, 20_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_two_windows_of_a_set_are_alike(size: int, seed: int) -> None:
    assert len({query.window for query in paper_queries(size, seed=seed)}) == size
    few = min(size, 5_000)
    assert len({query.window for query in scotty_queries(few, seed=seed)}) == few


def test_more_queries_than_there_are_windows_are_refused() -> None:
    with pytest.raises(UserError, match="90,601 different windows in whole seconds, got 90,602"):
        paper_queries(90_602)
    with pytest.raises(UserError, match="19,000 different tumbling windows"):
        scotty_queries(19_001)


def test_scottys_windows_tumble_and_last_1_to_20_s() -> None:
    for query in scotty_queries(1000):
        assert query.window.range_ms == query.window.slide_ms
        assert 1_000 <= query.window.range_ms < 20_000


@pytest.mark.parametrize("query", [*paper_queries(20), *scotty_queries(20)])
def test_the_text_says_the_window(query: object) -> None:
    assert parse_select(query.sql, name="q").name == "q"  # type: ignore[attr-defined]


def test_what_is_checked() -> None:
    queries = paper_queries(256)
    assert [len(check.choose(queries)) for check in Check] == [256, 16, 0]
    assert Comparison().equal is None
    assert Comparison(queries=1).equal is True
    assert Comparison(queries=1, differences=("q: no",)).equal is False


def test_what_is_measured_is_spread_over_the_queries() -> None:
    queries = paper_queries(10)
    assert spread_over(queries, 3) == [queries[0], queries[3], queries[6]]
    assert spread_over(queries, 99) == list(queries)
