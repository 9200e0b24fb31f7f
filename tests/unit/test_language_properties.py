"""Properties: spelling does not matter, and no text brings anything down."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG, query

from weft.errors import QueryError
from weft.query import CreateQuery, bind, parse
from weft.query.lexer import TokenKind, lex

SELECTS = [
    "SELECT symbol , sum ( price * vol ) AS v FROM trades [ RANGE '12 min' SLIDE '5 min' ] "
    "WHERE vol > 5 GROUP BY symbol",
    "SELECT avg ( price ) AS p FROM trades T , close C WHERE T . symbol = C . symbol AND T . n IN ( 1 , 2 ) "
    "GROUP BY window ( time , '5 min' ) HAVING count ( * ) > 1 EMIT EMPTY",
    "SELECT tb , count ( * ) FILTER ( WHERE len BETWEEN 1 AND 9 ) AS c FROM tcp GROUP BY ts / 300 AS tb",
    "SELECT CASE WHEN max ( n ) IS NOT NULL THEN 1.5 ELSE - 2 END AS x FROM trades [ WINDOW 5 MINUTES ]",
]
SPACES = [" ", "\n", "\t", "  ", " /* c */ ", " -- c\n"]
WORDS = [
    *"SELECT FROM WHERE GROUP BY HAVING AND OR NOT IN LIKE BETWEEN CASE WHEN THEN ELSE END AS IS".split(),
    *"NULL JOIN ON LEFT trades close T symbol price vol time sum count window HOP TUMBLE RANGE SLIDE".split(),
    *"INTERVAL MINUTES CREATE QUERY STREAM TABLE USING OPTIONS EVENT TIME DELAY EMIT EMPTY DROP".split(),
    *"CAST EXTRACT FILTER DESCRIPTOR DISTINCT TRUE 1 2.5 1e3 'A%' {{ }} {% ~ ! @ # $ ? : || :: ;".split(),
    *"( ) [ ] , . * + - / % = <> < <= <=> ' \" ` /* */ --".split(),
    "'5 min'",
]


@given(st.sampled_from(SELECTS), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_spaces_comments_and_case_do_not_matter(text: str, source: random.Random) -> None:
    pieces = []
    for token in lex(text)[:-1]:
        written = text[token.start : token.end]
        is_word = token.kind is TokenKind.WORD
        pieces.append(
            source.choice([written.upper(), written.lower(), written.title()]) if is_word else written
        )
    spelled = "".join(piece + source.choice(SPACES) for piece in pieces)
    # Names of outputs and aliases are kept as written, so they are compared without case.
    assert (
        repr(query(spelled)).casefold().split("stream=")[1]
        == repr(query(text)).casefold().split("stream=")[1]
    )


def survives(text: str) -> None:
    try:
        for statement in parse(text):
            if isinstance(statement, CreateQuery):
                bind(statement, CATALOG)
    except QueryError as error:
        str(error)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_workload_or_a_query_error(text: str) -> None:
    survives(text)
    survives("CREATE QUERY q AS SELECT " + text)


@given(st.lists(st.sampled_from(WORDS), max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_words_are_a_workload_or_a_query_error(words: list[str]) -> None:
    text = " ".join(words)
    survives(text)
    survives("CREATE QUERY q AS SELECT " + text)
    survives("CREATE QUERY q AS SELECT count(*) AS c FROM trades [RANGE '5 min'] WHERE " + text)


@given(st.sampled_from(SELECTS), st.data())
@settings(max_examples=300, deadline=None)
def test_a_query_with_a_part_missing_is_a_query_or_a_query_error(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    survives(f"CREATE QUERY q AS {text[:begin]}{text[end:]}")
    survives(f"CREATE QUERY q AS {text[:end]}{text[begin:]}")
