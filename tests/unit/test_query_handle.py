"""A query as the user of an engine holds it."""

from weft import Engine

STREAM = "CREATE STREAM trades (time TIMESTAMP, vol BIGINT) USING parquet OPTIONS (path 'x') EVENT TIME time"


def test_a_query_shows_its_name_state_and_text() -> None:
    engine = Engine()
    engine.load(STREAM)
    total = engine.add("SELECT sum(vol) AS v\n  FROM trades [RANGE '1 min']", name="total")
    assert repr(total) == "<Query total, running: SELECT sum(vol) AS v FROM trades [RANGE '1 min']>"
    engine.remove("total")
    assert repr(total) == "<Query total, dropped: SELECT sum(vol) AS v FROM trades [RANGE '1 min']>"
