"""Texts of any size end in milliseconds, with an answer or a refusal."""

import contextlib
import time

import pytest
from tests.unit.language_samples import CATALOG, query

from weft.errors import QueryError, TooLarge
from weft.query import CreateQuery, bind, parse

W = "[RANGE '5 min']"


def select(expression: str) -> str:
    return f"SELECT max({expression}) AS m FROM trades {W}"


TOO_LARGE = {
    "a megabyte": select("n + " * 250_000 + "n"),
    "parentheses": select("(" * 10_000 + "n" + ")" * 10_000),
    "open parentheses": "SELECT " + "(" * 60_000,
    "calls": select("abs(" * 5_000 + "n" + ")" * 5_000),
    "minus signs": select("- " * 10_000 + "n"),
    "negations": select("NOT " * 10_000 + "ok"),
    "cases": select("CASE WHEN " * 5_000 + "ok"),
    "sums": select(" + ".join(["n"] * 10_000)),
    "concatenations": select(" || ".join(["symbol"] * 5_000)),
    "casts": select("n" + "::int" * 5_000),
    "doubling by BETWEEN": select("(" * 60 + "ok" + " BETWEEN ok AND ok)" * 60),
    "doubling by nullif": select("nullif(" * 60 + "n" + ", 1)" * 60),
    "doubling by CASE": select("CASE " * 40 + "n" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * 40),
    "doubling by IN": select("(" * 60 + "ok" + " IN (ok, n > 1))" * 60),
    "conditions": f"SELECT count(*) AS c FROM trades {W} WHERE " + " AND ".join(["n>1"] * 8_000),
}


@pytest.mark.parametrize("text", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_what_is_too_large_is_refused_at_once(text: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(TooLarge) as caught:
        query(text)
    assert time.perf_counter() - begin < 3  # a busy machine; it takes well under 0.3 s
    assert len(str(caught.value)) < 1_000


def test_a_thousand_conditions_are_one_flat_call() -> None:
    bound = query(
        f"SELECT count(*) AS c FROM trades {W} WHERE " + " AND ".join(f"n <> {i}" for i in range(1_000))
    )
    assert len(bound.predicate.args) == 1_000  # type: ignore[union-attr]


def test_nesting_within_the_limit_is_understood() -> None:
    assert query(select("(" * 90 + "n" + ")" * 90)).aggregates == query(select("n")).aggregates


def test_limits_are_told() -> None:
    with pytest.raises(
        TooLarge, match=r"1,048,577 characters in one statement, more than the limit query_text ="
    ):
        parse("CREATE QUERY q AS SELECT 1 FROM s -- " + "x" * (1_048_577 - 37))
    with pytest.raises(
        TooLarge, match=r"33,554,433 characters in the workload, more than the limit workload_text"
    ):
        parse(" " * 33_554_433)
    with pytest.raises(
        TooLarge, match=r"expressions nest more than 100 deep, the most that the language has"
    ):
        query(select("(" * 101 + "n" + ")" * 101))


@pytest.mark.parametrize(
    "piece", ["'", '"', "`", "/*", "(", "[", "--", "\\", ";", "a.", "'a' ", "CREATE ", "é", "\x00"]
)
def test_a_piece_repeated_without_end_is_no_crash(piece: str) -> None:
    begin = time.perf_counter()
    for text in (piece * 20_000, "CREATE QUERY q AS SELECT " + piece * 15_000):
        with contextlib.suppress(QueryError):
            parse(text)
    assert time.perf_counter() - begin < 5


def test_a_thousand_queries_are_read_and_bound_in_about_a_second() -> None:
    text = "".join(
        f"CREATE QUERY q{i} AS SELECT symbol, sum(price * vol) AS value, avg(price) AS p FROM trades "
        f"[RANGE '12 min' SLIDE '5 min'] WHERE vol > {i} AND symbol LIKE 'A%' "
        "GROUP BY symbol HAVING count(*) > 9;\n"
        for i in range(1_000)
    )
    begin = time.perf_counter()
    bound = [bind(query, CATALOG) for query in parse(text) if isinstance(query, CreateQuery)]
    assert len(bound) == 1_000
    assert time.perf_counter() - begin < 10  # a busy machine; it takes about 1 s
