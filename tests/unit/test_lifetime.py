"""LIFETIME: a query that ends by itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG, failure, query

from weft.errors import BadWindow, QueryError, SyntaxMistake
from weft.optimizer.rules import optimize
from weft.query import CreateQuery, bind, parse, parse_select
from weft.query.duration import MAX_DURATION_MS
from weft.window import duration

HOURS = 7_200_000
COUNT = "SELECT count(*) AS n FROM trades [RANGE '5 min']"
CLAUSES = {
    "no other clause": COUNT,
    "WHERE": f"{COUNT} WHERE vol > 5",
    "WHERE with a string": f"{COUNT} WHERE symbol LIKE 'A%'",
    "GROUP BY": "SELECT symbol, count(*) AS n FROM trades [RANGE '5 min'] GROUP BY symbol",
    "GROUP BY a window": "SELECT count(*) AS n FROM trades GROUP BY window(time, '5 min')",
    "HAVING": f"{COUNT} HAVING n > 1",
    "an alias of the stream": "SELECT count(*) AS n FROM trades T [RANGE '5 min']",
    "a joined table": "SELECT count(*) AS n FROM trades [RANGE '5 min'] JOIN close USING (symbol)",
    "a window after the alias": "SELECT count(*) AS n FROM trades [RANGE '5 min'] AS T",
}


@pytest.mark.parametrize("text", CLAUSES.values(), ids=CLAUSES.keys())
def test_it_stands_after_every_clause_and_changes_nothing_else(text: str) -> None:
    assert query(text).lifetime_ms is None
    assert query(f"{text} LIFETIME '2 hours'") == replace(query(text), lifetime_ms=HOURS)


@pytest.mark.parametrize(
    "written",
    ["'2 hours'", "2 HOURS", "INTERVAL 2 HOURS", "INTERVAL '2' HOUR", "'1 hour 60 minutes'", "'2' h"],
)
def test_it_takes_every_spelling_of_a_duration(written: str) -> None:
    assert query(f"{COUNT} LIFETIME {written}").lifetime_ms == HOURS
    assert query(f"{COUNT} lifetime {written} EMIT EMPTY").lifetime_ms == HOURS


def test_create_query_has_it_and_keeps_it_in_its_text() -> None:
    [statement] = parse(f"CREATE QUERY q AS {COUNT} LIFETIME '2 hours';")
    assert isinstance(statement, CreateQuery)
    assert statement.select == f"{COUNT} LIFETIME '2 hours'"
    bound = bind(statement, CATALOG)
    # What a checkpoint keeps is the text: read again, it is the same query.
    assert bind(parse_select(bound.text, name=bound.name), CATALOG) == bound


@given(st.integers(1, MAX_DURATION_MS), st.booleans(), st.booleans())
def test_what_is_written_is_what_is_read_in_either_order(length: int, empty: bool, first: bool) -> None:
    clauses = [f"LIFETIME '{duration(length)}'", *(["EMIT EMPTY"] if empty else [])]
    found = query(f"{COUNT} {' '.join(clauses if first else clauses[::-1])}")
    assert (found.lifetime_ms, found.emit_empty) == (length, empty)


@pytest.mark.parametrize(
    ("written", "kind", "problem", "marked"),
    [
        ("LIFETIME", SyntaxMistake, "expected a duration such as '12 min', but the text ends here", "E"),
        ("LIFETIME EMIT EMPTY", SyntaxMistake, "expected a duration such as '12 min', found EMIT", "EMIT"),
        ("LIFETIME '0 min'", BadWindow, "LIFETIME takes a duration longer than 0", "'0 min'"),
        ("LIFETIME '-2 hours'", BadWindow, 'duration "-2 hours" is negative', "'-2 hours'"),
        ("LIFETIME '2 moons'", BadWindow, 'unknown unit of time "moons"', "'2 moons'"),
        ("LIFETIME 2 moons", BadWindow, 'unknown unit of time "moons"', "2 moons"),
        ("LIFETIME '1 month'", BadWindow, 'duration "1 month" has no fixed length', "'1 month'"),
        ("LIFETIME '20 years'", BadWindow, 'duration "20 years" has no fixed length', "'20 years'"),
        ("LIFETIME '9999 days'", BadWindow, 'duration "9999 days" is longer than ten years', "'9999 days'"),
        ("LIFETIME '1 h' LIFETIME '2 h'", SyntaxMistake, "LIFETIME is given twice; remove one", "LIFETIME"),
        ("EMIT EMPTY LIFETIME '1 h' EMIT EMPTY", SyntaxMistake, "EMIT is given twice; remove one", "EMIT"),
        ("LIFETIME '1 h' WHERE vol > 1", SyntaxMistake, "expected the end of the statement", "WHERE"),
        ("LIFETIME price", SyntaxMistake, "expected a duration such as '12 min', found price", "price"),
    ],
)
def test_mistakes_are_shown_where_they_are(
    written: str, kind: type[QueryError], problem: str, marked: str
) -> None:
    error = failure(f"{COUNT} {written}")
    assert type(error) is kind
    assert error.problem.startswith(problem)
    assert str(error).startswith("query q: ")
    assert error.span is not None
    assert error.text[slice(*error.span)] == marked


def test_the_word_stays_a_name_where_no_clause_can_begin() -> None:
    named = query(
        "SELECT max(price) AS lifetime FROM trades [RANGE '5 min'] HAVING lifetime > 3 LIFETIME '1 h'"
    )
    assert [output.name for output in named.outputs] == ["lifetime"]
    assert named.lifetime_ms == 3_600_000
    assert 'unknown column "lifetime"' in failure(f"{COUNT} WHERE lifetime > 3").problem


def test_queries_that_differ_in_it_alone_share_everything() -> None:
    text = (
        "SELECT symbol, sum(price) AS v FROM trades [RANGE '12 min' SLIDE '5 min'] "
        "WHERE vol > 5 GROUP BY symbol"
    )
    mortal = [
        bind(parse_select(f"{text}{ending}", name=f"q{i}"), CATALOG)
        for i, ending in enumerate(("", " LIFETIME '1 h'", " LIFETIME '2 h'"))
    ]
    alone, shared = optimize(mortal[:1]), optimize(mortal)
    assert shared.relations == alone.relations
    assert {answer.relation for answer in shared.answers} == {0}


@pytest.mark.parametrize("length", [0, -1])
def test_no_query_is_made_with_a_lifetime_that_is_none(length: int) -> None:
    with pytest.raises(BadWindow, match=rf"a query cannot live for {length} ms; write a duration"):
        replace(query(COUNT), lifetime_ms=length)
