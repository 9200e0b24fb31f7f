"""Who is told of results, and whose trouble is whose."""

import logging

import pyarrow as pa
import pytest

from weft.queries import Subscribers

ROWS = pa.table({"value": [4711]})


def test_the_trouble_of_one_is_not_that_of_others(caplog: pytest.LogCaptureFixture) -> None:
    told: list[pa.Table] = []
    subscribers = Subscribers()

    def closed(rows: pa.Table) -> None:
        raise ConnectionError(str(rows))

    subscribers.add("one", closed)
    subscribers.add("one", told.append)
    subscribers.add("other", told.append)
    with caplog.at_level(logging.DEBUG):
        subscribers.tell("one", ROWS)
        subscribers.tell("one", ROWS)
    assert told == [ROWS, ROWS]
    assert [(vars(one)["query"], vars(one)["kind"]) for one in caplog.records] == [
        ("one", "ConnectionError")
    ] * 2
    assert "4711" not in caplog.text


def test_who_asked_for_a_query_that_left_is_told_nothing() -> None:
    told: list[pa.Table] = []
    subscribers = Subscribers()
    subscribers.add("one", told.append)
    subscribers.forget("one")
    subscribers.tell("one", ROWS)
    assert told == []
