"""The alerts of the bench differ in one constant alone."""

import pytest

from weft.bench.alerts import SHAPES, alert
from weft.bench.trades import COLUMNS
from weft.finals.readings import program_of
from weft.optimizer.plan import answer, leaf
from weft.query import CreateStream, bind, parse, parse_select
from weft.query.logical import Catalog


@pytest.mark.parametrize("having", SHAPES)
def test_alerts_of_one_shape_are_one_program(having: str) -> None:
    (statement,) = parse(f"CREATE STREAM trades ({COLUMNS}) USING rate EVENT TIME time")
    assert isinstance(statement, CreateStream)
    catalog = Catalog(streams=(statement.definition,))
    queries = [bind(parse_select(alert(having, number, 300), name="q"), catalog) for number in range(300)]
    programs, parameters = zip(*(program_of(answer(query, leaf(query))) for query in queries), strict=True)
    assert len(set(programs)) == 1
    *agreed, threshold = (len(set(column)) for column in zip(*parameters, strict=True))
    assert threshold == 300
    assert set(agreed) <= {1}
