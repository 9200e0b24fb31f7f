"""Explain, word for word.

Each `tests/goldens/NAME.sql` is a workload and `NAME.txt` what explain says of it. To write the texts anew:

    python -m pytest tests/unit/test_explain.py --update-goldens
"""

from dataclasses import replace
from pathlib import Path

import pytest

from weft.optimizer.cost import Fragmentation
from weft.optimizer.explain import explain
from weft.optimizer.rules import Sharing, optimize
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
    assert WORKLOADS == ["apart", "figure3", "fragments", "shared", "split", "unshared"]


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
    pays, anyway = "sharing pays: it does above 100 rows/s", "slices are shared at any rate"
    few, many = (explain(stream, optimize(queries), rows_per_second=rate) for rate in (90, 110))
    assert f"by operations sharing pays above 100 rows/s only; {anyway}" in few
    assert pays not in few
    assert pays in many
    assert anyway not in many


def test_no_query_at_all() -> None:
    stream, _ = read("CREATE STREAM s (time TIMESTAMP) USING rate EVENT TIME time")
    assert "0 queries over 0 relations" in explain(stream, optimize([]))


def told(name: str, sharing: Sharing) -> str:
    """Return what is said of a workload whose predicates were asked to share in one way."""
    stream, queries = read((FOLDER / f"{name}.sql").read_text("utf-8"))
    return explain(stream, optimize(queries, sharing=sharing), sharing=sharing)


def test_a_relation_is_shown_with_the_one_that_it_is_computed_from() -> None:
    stream, queries = read((FOLDER / "fragments.sql").read_text("utf-8"))
    plan = optimize(queries)
    first, second = plan.relations
    alone, forest = (replace(plan, relations=(first, other)) for other in (second, replace(second, source=0)))
    assert "source" not in explain(stream, alone)
    before, after = explain(stream, forest).split("relation 2: ")
    assert "source" not in before
    assert after.splitlines()[1] == "  source   relation 1"
    # What it would cost to compute it from the stream is beside the point.
    assert "splits" in before
    assert "splits" not in after


def test_what_was_asked_for_is_not_said_to_cost_less() -> None:
    joint, unshared = told("split", Sharing.JOINT), told("fragments", Sharing.UNSHARED)
    assert "a row is aggregated once, into its fragment, as asked" in joint
    assert "not shared: a row is aggregated once for each predicate that it satisfies, as asked" in unshared
    assert "costs less" not in joint + unshared


def test_separate_relations_are_apart_as_asked() -> None:
    separate = told("fragments", Sharing.SEPARATE)
    assert separate.count("apart    from 3 relations: as asked") == 4
    assert "apart    from relation 6: as asked" in separate
    assert "nothing to share yet" not in separate
    # No time is told, so none is explained.
    assert "times are for" not in separate


def test_predicates_that_no_grid_holds_are_one_relation() -> None:
    boxes = "; ".join(
        f"CREATE QUERY q{n} AS SELECT count(*) AS c FROM s [RANGE '1 s'] WHERE a > {n} AND b > {n}"
        for n in range(300)
    )
    stream, queries = read(
        f"CREATE STREAM s (time TIMESTAMP, a INT, b INT) USING rate EVENT TIME time; {boxes}"
    )
    plan = optimize(queries, sharing=Sharing.JOINT)
    assert len(plan.relations) == 1
    assert "relation 1: rows split by 300 predicates" in explain(stream, plan, sharing=Sharing.JOINT)


def test_predicates_that_are_evaluated_by_value_are_told_with_their_jobs() -> None:
    stream, queries = read(
        "CREATE STREAM s (time TIMESTAMP, name STRING) USING rate EVENT TIME time; "
        "CREATE QUERY q AS SELECT count(*) AS c FROM s [RANGE '1 s'] WHERE name LIKE 'a%'"
    )
    plan = replace(optimize(queries), by_value=("name",))
    assert "predicates on name are evaluated once a value: another Spark job" in explain(stream, plan)
    assert "another Spark job" not in explain(stream, optimize(queries))


def test_a_plan_that_no_longer_pays_is_said_to_be_kept() -> None:
    stream, queries = read((FOLDER / "split.sql").read_text("utf-8"))
    found = explain(stream, optimize(queries, sharing=Sharing.UNSHARED))
    assert "as first chosen; by what is known now sharing costs less time" in found
    found = explain(stream, optimize(queries[:2] + queries[-2:], sharing=Sharing.SEPARATE))
    assert "; apart as first chosen" in found


def test_counts_of_the_last_batch_go_with_their_relation() -> None:
    stream, queries = read((FOLDER / "fragments.sql").read_text("utf-8"))
    plan = optimize(queries)
    counted = Fragmentation(rows=1_000, fragments=7, alpha=1.5, beta=2.5)
    found = explain(stream, plan, measured=[(plan.relations[1], counted)], rows_per_second=10)
    first, second = found.split("relation 2:")
    assert "k = 7 fragments in 1,000 rows of the last batch" in second
    assert "rows of the last batch" not in first
    # Counts of another plan are nobody's.
    other = optimize(queries, sharing=Sharing.UNSHARED)
    assert "last batch" not in explain(stream, other, measured=[(plan.relations[1], counted)])


def test_a_rate_gives_a_window_its_rows() -> None:
    stream, queries = read((FOLDER / "unshared.sql").read_text("utf-8"))
    found = explain(stream, optimize(queries), rows_per_second=1_000_000)
    assert "in 20,000 rows spread evenly, a mean window of 0.02 s at 1e+06 rows/s" in found
