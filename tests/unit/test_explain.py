"""Explain, word for word.

Each `tests/goldens/NAME.sql` is a workload and `NAME.txt` what explain says of it. To write the texts anew:

    python -m pytest tests/unit/test_explain.py --update-goldens
"""

from pathlib import Path

import pytest

from weft.optimizer.explain import explain
from weft.optimizer.rules import optimize
from weft.optimizer.slices import Slicing
from weft.query import CreateQuery, CreateStream, CreateTable, bind, parse
from weft.query.logical import Catalog, LogicalQuery, StreamDef

FOLDER = Path(__file__).parents[1] / "goldens"
WORKLOADS = sorted(path.stem for path in FOLDER.glob("*.sql"))


def read(text: str) -> tuple[StreamDef, list[LogicalQuery]]:
    """Return a workload's only stream and its queries."""
    statements = parse(text)
    streams = tuple(one.definition for one in statements if isinstance(one, CreateStream))
    tables = tuple(one.definition for one in statements if isinstance(one, CreateTable))
    catalog = Catalog(streams=streams, tables=tables)
    (stream,) = streams
    return stream, [bind(one, catalog) for one in statements if isinstance(one, CreateQuery)]


def explained(text: str) -> str:
    """Return the plan at the paper's 375 rows a second, and the one with panes without a rate."""
    stream, queries = read(text)
    parts = {
        "paired, 375 rows/s": explain(stream, optimize(queries), rows_per_second=375),
        "paned": explain(stream, optimize(queries, Slicing.PANED)),
    }
    return "\n\n".join(f"# {title}\n\n{part}" for title, part in parts.items()) + "\n"


def test_there_are_workloads() -> None:
    assert WORKLOADS == ["apart", "figure3", "fragments", "shared"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_explain_says_what_it_said(name: str, update_goldens: bool) -> None:
    found = explained((FOLDER / f"{name}.sql").read_text("utf-8"))
    golden = FOLDER / f"{name}.txt"
    if update_goldens:
        golden.write_text(found, "utf-8")
    assert found == golden.read_text("utf-8")


def test_figure_3_in_words() -> None:
    stream, queries = read((FOLDER / "figure3.sql").read_text("utf-8"))
    # 12 slices in 45 s are 960 an hour; the panes of 3 s are 1,200.
    assert "960 paired slices an hour (common panes: 1,200)" in explain(stream, optimize(queries))


def test_the_verdict_follows_the_costs_that_it_stands_under() -> None:
    # Two tumbling windows: below 0.1 rows/ms their slices cost more operations shared than not.
    text = (
        "CREATE STREAM s (time TIMESTAMP) USING rate EVENT TIME time; "
        "CREATE QUERY a AS SELECT count(*) AS c FROM s [RANGE '10 ms']; "
        "CREATE QUERY b AS SELECT count(*) AS c FROM s [RANGE '15 ms'];"
    )
    stream, queries = read(text)
    pays, by_time = "sharing pays: it does above 100 rows/s", "by time it does at any rate"
    few, many = (explain(stream, optimize(queries), rows_per_second=rate) for rate in (90, 110))
    assert f"by operations sharing pays above 100 rows/s only; {by_time}" in few
    assert pays not in few
    assert pays in many
    assert by_time not in many


def test_no_query_at_all() -> None:
    stream, _ = read("CREATE STREAM s (time TIMESTAMP) USING rate EVENT TIME time")
    assert "0 queries over 0 relations" in explain(stream, optimize([]))
