"""Results in a commit: each query's come back as they were."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.durability.commits import read_results, results_bytes
from weft.durability.encoding import arrow_bytes

NAMES = st.text(max_size=5)
TABLES = st.one_of(
    st.lists(st.integers(-9, 9)).map(lambda values: pa.table({"n": pa.array(values, pa.int64())})),
    st.lists(st.text(max_size=3)).map(lambda values: pa.table({"s": pa.array(values, pa.string())})),
    st.lists(st.integers(0, 9)).map(
        lambda values: pa.table({"n": pa.array(values, pa.int64())}).replace_schema_metadata({"unit": "m"})
    ),
)


@given(st.dictionaries(NAMES, TABLES, max_size=8))
def test_results_come_back_by_query(results: dict[str, pa.Table]) -> None:
    found = [one for stored in results_bytes(results) for one in read_results(stored).items()]
    assert len(found) == len(dict(found))
    expected = {name: table for name, table in results.items() if table.num_rows}
    assert dict(found) == expected
    assert {name: table.schema.metadata for name, table in found} == {
        name: table.schema.metadata for name, table in expected.items()
    }


def test_queries_with_the_same_columns_are_one_piece() -> None:
    results = {name: pa.table({"n": [1, 2]}) for name in "abc"} | {"d": pa.table({"m": [1]})}
    assert len(results_bytes(results)) == 2


@pytest.mark.parametrize("names", [["a", "b", "a"], []])
def test_what_older_versions_wrote_is_read(names: list[str]) -> None:
    stored = pa.table({"n": list(range(len(names))), "__weft_query": pa.array(names, pa.string())})
    found = {name: table.to_pydict() for name, table in read_results(arrow_bytes(stored)).items()}
    assert found == ({"a": {"n": [0, 2]}, "b": {"n": [1]}} if names else {})
