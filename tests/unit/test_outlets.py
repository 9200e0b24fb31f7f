"""Sinks with FOR: each gets exactly the rows of its queries, once, however often deliveries end and begin."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.deliveries import FAST, result

from weft.sinks import Delivery, Outlet, ParquetSink
from weft.storage import LocalFolder

QUERIES = ("a", "b", "c")
SCHEMA = result().schema
Commits = list[dict[str, int]]
"""For each commit, how many rows which query gives."""


def rows_of(commits: Commits) -> list[dict[str, pa.Table]]:
    """Return the results of commits; no two rows are equal."""
    return [
        {query: result(*range(number * 100, number * 100 + rows)) for query, rows in commit.items()}
        for number, commit in enumerate(commits)
    ]


def outlet(folder: Path, queries: frozenset[str]) -> Outlet:
    made = Outlet(sink=ParquetSink(LocalFolder(folder), run="a run"), queries=queries)
    for query in QUERIES:
        made.expect(query, SCHEMA)
    return made


def found(folder: Path) -> Mapping[str, list[int]]:
    """Return the rows of each query that a sink has, once for each time that they are there."""
    return {
        query.name: sorted(x for file in query.glob("[!._]*") for x in pq.read_table(file)["x"].to_pylist())
        for query in folder.iterdir()
        if query.is_dir()
    }


@settings(max_examples=15, deadline=None)
@given(
    fors=st.lists(st.frozensets(st.sampled_from(QUERIES)), min_size=1, max_size=3),
    commits=st.lists(st.dictionaries(st.sampled_from(QUERIES), st.integers(0, 3)), max_size=6),
    lives=st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), max_size=3),
)
def test_each_sink_gets_the_rows_of_its_queries_once(
    fors: list[frozenset[str]], commits: Commits, lives: list[tuple[int, bool, bool]]
) -> None:
    """A life gets commits up to one, from the outbox or from memory, and ends with what it had written."""
    results = rows_of(commits)
    with tempfile.TemporaryDirectory() as root:
        for number, queries in enumerate(fors):
            folder, done = Path(root, str(number)), -1
            for until, from_outbox, drained in [*lives, (len(commits), True, True)]:
                own = outlet(folder, queries)
                delivery = Delivery(
                    own.sink,
                    gets=own.gets,
                    after=done,
                    origin="c1 trades",
                    outbox=results.__getitem__,
                    limits=FAST,
                )
                for commit in range(done + 1, min(until, len(commits))):
                    delivery.offer(commit, None if from_outbox else results[commit])
                if drained:
                    assert delivery.drain(30)
                    # What is not noted is delivered again.
                    done = max(delivery.status.done - (0 if until == len(commits) else 1), -1)
                delivery.close()
            assert found(folder) == {
                query: [x for commit in results if query in commit for x in commit[query]["x"].to_pylist()]
                for query in queries or QUERIES
            }


def test_a_sink_is_told_of_its_queries_only(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "weft-01234567-0123-000000000-000000001.parquet").write_bytes(b"another checkpoint's")
    own = outlet(tmp_path, frozenset({"a"}))
    own.sink.resume(-1)
    own.expect_no_more("b")
    own.sink.flush()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["a", "b"]
