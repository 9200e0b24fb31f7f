"""Checkpoints of other versions: the format before is read; what this version does not know is refused."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.checkpoint_samples import BIG, GROUPING, commit, one_row, recovered
from tests.unit.churn_samples import above, between, both, either, marked
from tests.unit.language_samples import CATALOG, TCP, TRADES, columns
from tests.unit.loop_samples import Runs
from tests.unit.pipeline_samples import MS, Row, asked, expected, process, results

from weft.durability.checkpoint import Checkpoint, Recovered
from weft.durability.commits import Commit
from weft.durability.declared import declared
from weft.durability.encoding import arrow_bytes, arrow_table
from weft.durability.ledger import registered
from weft.durability.registry import QueryState, Registry
from weft.durability.rejoining import check, check_meaning
from weft.errors import EngineError
from weft.query import bind, parse_select
from weft.query.logical import ColumnDef, LogicalQuery, StreamDef, TimeUnit
from weft.state.clock import RowCounts
from weft.state.report import BatchReport
from weft.state.running_query import RunningQuery
from weft.storage import LocalFolder
from weft.storage.container import pack, unpack
from weft.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType

FORMAT4 = Path(__file__).parents[1] / "goldens" / "format4" / "checkpoint"
"""Made by the last commit that wrote format 4: a snapshot, a query that joins late, and a batch."""
WORKLOAD = (
    asked("high", above(5), (60, 30), keyed=True),
    asked("low", above(3), (60, 30), keyed=True),
    asked("either", either(between(1, 5), marked(2)), (40, 20), aggregate="max(vol)"),
    asked("resting", both(above(1), marked(1)), (20, 10), aggregate="count(*)"),
)
LATE = asked("late", between(3, 5), (60, 30), keyed=True)
"""Answered by what "high" and "low" kept of the rows before it joined."""
REACHED = 72 * MS
"""Its watermark: windows that end by then were answered before."""
NOTHING = BatchReport(counts=RowCounts(), results={})
Sections = dict[str, bytes]


def batches() -> list[list[Row]]:
    """Return all rows; those of the first three batches are in the checkpoint."""
    chance = Random(4)
    return [
        [
            Row(
                (30 * batch + chance.randrange(30)) * MS, chance.choice("ab"),
                chance.choice((None, *range(9))), chance.choice((None, 0, 1, 2)),
            )
            for _ in range(12)
        ]
        for batch in range(7)
    ]  # fmt: skip


@pytest.mark.parametrize("restarts", [1, 3])
@pytest.mark.parametrize("snapshot", [True, False])
def test_a_checkpoint_of_format_4_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int, snapshot: bool
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    shutil.copytree(FORMAT4, tmp_path / "checkpoint")
    runs, given = Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint")), batches()
    for number, rows in enumerate(given[3:]):
        if number < restarts:
            runs.start(*WORKLOAD, live=[LATE], delay_ms=10)
        report = process(runs.pipeline, rows)
        runs.ledger.commit(runs.pipeline.outcome(report), batch=runs.ledger.batch + 1)
        if number == 0 and snapshot:
            wrote_snapshot(runs)
    for one in (*WORKLOAD[:3], LATE):
        live = RunningQuery(query=one.logical(), answered_through=REACHED)
        found = results(runs.sink.reports, one.name)
        wanted = expected(one, live, [row for rows in given for row in rows], runs.pipeline.clock.watermark)
        assert (len(found), dict(found)) == (len(wanted), wanted), one.text
        assert wanted
    assert results(runs.sink.reports, "resting") == []
    again = recovered(runs.folder)
    assert again.formats == ({5} if snapshot else {4, 5})
    assert all(entry.reads and entry.partials for entry in again.registry)


def wrote_snapshot(runs: Runs) -> None:
    """Write a snapshot of a run."""
    checkpoint, outcome = Checkpoint(runs.folder), runs.pipeline.outcome(NOTHING)
    head = Commit(
        number=runs.ledger.number,
        batch=runs.ledger.batch,
        stream=declared(outcome.stream),
        clock=outcome.clock,
    )
    checkpoint.snapshot(head, runs.ledger.registry, outcome.retained())


def test_a_stream_of_format_4_is_declared_as_before() -> None:
    found, several = recovered(LocalFolder(FORMAT4)), [one.logical() for one in WORKLOAD]
    check(TRADES, found, several, "there")
    more = (*TRADES.columns, ColumnDef(name="more", type=BIGINT))
    for stream in (replace(TRADES, columns=more), replace(TRADES, time="ntz")):
        with pytest.raises(
            EngineError, match=r"is not that of checkpoint there: it was declared as .* as before"
        ):
            check(stream, found, several, "there")


# Of newer versions.


def changed(folder: LocalFolder, kind: str, change: Callable[[Sections], None]) -> None:
    """Change the sections of a commit or snapshot."""
    place = folder.folder(kind)
    sections = {name: bytes(data) for name, data in unpack(place.read("000000000"), name="0").items()}
    change(sections)
    place.write("000000000", pack(sections), replace=True)


def head(**values: Any) -> Callable[[Sections], None]:
    """Return what gives a head other values."""

    def change(sections: Sections) -> None:
        sections["commit"] = json.dumps(json.loads(sections["commit"]) | values).encode()

    return change


def of(part: str, **values: Any) -> Callable[[Sections], None]:
    """Return what gives a part of a head, or the first query, other values."""

    def change(sections: Sections) -> None:
        record = json.loads(sections["commit"])
        found = record["queries"][0] if part == "query" else record[part]
        head(**{part: found | values} if part != "query" else {"queries": [found | values]})(sections)

    return change


def noted(section: str, key: str, value: object) -> Callable[[Sections], None]:
    """Return what gives a block another note."""

    def change(sections: Sections) -> None:
        table = arrow_table(sections[section])
        notes = {**table.schema.metadata, key.encode(): json.dumps(value).encode()}
        sections[section] = arrow_bytes(table.replace_schema_metadata(notes))

    return change


def told(name: str) -> Callable[[Sections], None]:
    """Return what gives a codebook another predicate."""

    def change(sections: Sections) -> None:
        (book,) = (section for section in sections if section.startswith("codebook/"))
        table = arrow_table(sections[book])
        (names,) = table["predicates"].to_pylist()
        table = table.set_column(0, "predicates", pa.array([[name] * len(names)]))
        sections[book] = arrow_bytes(table)

    return change


@pytest.mark.parametrize("kind", ["commits", "snapshots"])
@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        (head(region="x"), 'field "region" of a commit'),
        (of("clock", lag=1), 'field "lag" of a clock'),
        (of("stream", partitions=1), 'field "partitions" of a stream'),
        (of("query", priority=1), 'field "priority" of a query'),
        (of("query", state="sleeping"), 'state "sleeping" of a query'),
        (of("query", derivation={"predicate": "p", "sources": [], "patterns": [], "x": 1}), 'field "x"'),
        (head(queries=[{"name": "free", "since": 1}]), 'field "since" of a name that is free'),
        (lambda sections: sections.update({"index/0": b""}), 'section "index/0"'),
        (noted("block/0", "weft.grouping", ["cube", [], []]), 'grouping "cube"'),
        (noted("block/0", "weft.primitives", ['["primitive",["mode"],null,"add",[]]']), 'aggregate "mode"'),
        (told('["near",["all"]]'), 'operator "near"'),
        (told("b88f4df0773477eca75b4f1969d608b2"), "predicate b88f"),
    ],
)
def test_what_is_unknown_is_refused(
    tmp_path: Path, kind: str, change: Callable[[Sections], None], unknown: str
) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint = Checkpoint(folder)
    checkpoint.write(commit(0), [BIG.as_record()], {(GROUPING, 0): one_row()}, {})
    checkpoint.snapshot(commit(0), Registry([BIG]), {(GROUPING, 0): one_row()})
    if kind == "commits":
        folder.folder("snapshots").delete("000000000")
    changed(folder, kind, lambda sections: None)
    assert recovered(folder).last == commit(0)
    changed(folder, kind, change)
    said = f"{kind[:-1]} 000000000 has a name that this version of Weft does not know: {unknown}.*; use the"
    with pytest.raises(EngineError, match=said):
        recovered(folder)


# Declarations that change.


COLUMNS = {"time": TIMESTAMP, "symbol": STRING, "vol": BIGINT, "n": INT, "price": DOUBLE, "day": DATE}
TYPES = (BIGINT, INT, STRING, DOUBLE)
CONDITIONS = {
    "vol > 5": {"vol"},
    "n = 1": {"n"},
    "price < 5 OR vol > 1": {"price", "vol"},
    "TRUE": set[str](),
}


def stream_of(columns: Mapping[str, DataType]) -> StreamDef:
    """Return a declaration."""
    return replace(
        TRADES, columns=tuple(ColumnDef(name=name, type=type) for name, type in columns.items()), time="time"
    )


def bound(name: str, text: str, stream: StreamDef) -> LogicalQuery:
    """Return a query of a stream."""
    return bind(parse_select(text, name=name), replace(CATALOG, streams=(stream,)))


@st.composite
def evolutions(draw: st.DrawFn) -> dict[str, DataType]:
    """Return columns that are added, removed, of another type, and in another order."""
    columns = dict(draw(st.permutations(list(COLUMNS.items()))))
    for name in draw(st.lists(st.sampled_from(list(COLUMNS)[1:]), max_size=2)):
        columns.pop(name, None)
    for name in draw(st.lists(st.sampled_from(list(columns)), max_size=1)):
        columns[name] = draw(st.sampled_from(TYPES))
    for name in draw(st.lists(st.sampled_from(["more", "still_more"]), max_size=2)):
        columns[name] = draw(st.sampled_from(TYPES))
    return columns


@settings(max_examples=150)
@given(
    columns=evolutions(),
    asked=st.lists(st.tuples(st.sampled_from(list(CONDITIONS)), st.booleans(), st.sampled_from(QueryState))),
)
def test_a_declaration_may_change_as_far_as_no_query_notices(
    columns: dict[str, DataType], asked: list[tuple[str, bool, QueryState]]
) -> None:
    before, now = stream_of(COLUMNS), stream_of(columns)
    entries, read = [], {"time"}
    for number, (condition, live, state) in enumerate(asked):
        text = f"SELECT count(*) AS c FROM trades [RANGE '5 s'] WHERE {condition}"
        query = bound(f"q{number}", text, before)
        joined = registered(RunningQuery(query=query), commit=0, added_live=live)
        entries.append(replace(joined, state=state))
        if live and not state.is_over:
            read |= CONDITIONS[condition]
    last = replace(commit(0), stream=declared(before))
    found = Recovered(last=last, registry=Registry(entries))
    noticed = sorted(name for name in read if columns.get(name) != COLUMNS[name])
    if not noticed:
        check(now, found, [], "there")
        running = {
            entry.name: bound(entry.name, entry.text, now)
            for entry in entries
            if entry.live and entry.state is QueryState.RUNNING
        }
        check_meaning(running, found.registry, "there")
        return
    with pytest.raises(EngineError, match=r"declare it as before, or start a new checkpoint") as raised:
        check(now, found, [], "there")
    assert any(f'"{name}"' in str(raised.value) or name == "time" for name in noticed)


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (replace(TCP, time="len"), "the event time was ts, and is len now"),
        (replace(TCP, time_unit=TimeUnit.MILLISECONDS), "the unit of its event time was s, and is ms now"),
        (replace(TCP, time_unit=None), "the unit of its event time was s, and is not given now"),
    ],
)
def test_another_event_time_is_refused(stream: StreamDef, said: str) -> None:
    found = Recovered(last=replace(commit(0), stream=declared(TCP)), registry=Registry())
    check(TCP, found, [], "there")
    with pytest.raises(EngineError, match=f"stream tcp is not that of checkpoint there: {said}; declare it"):
        check(stream, found, [], "there")


def test_a_query_that_means_something_else_is_refused() -> None:
    source = "trades [RANGE '5 s'] JOIN close ON trades.symbol = close.symbol"
    text = f"SELECT count(*) AS c FROM {source} WHERE cp > 1"
    query = bound("q", text, TRADES)
    registry = Registry([registered(RunningQuery(query=query), commit=0, added_live=True)])
    check_meaning({"q": query}, registry, "there")
    # The stream has a column of that name now, or the table's has another type.
    tables = (replace(CATALOG.tables[0], columns=columns(symbol=STRING, cp=INT)),)
    other = bind(parse_select(text, name="q"), replace(CATALOG, tables=tables))
    with pytest.raises(EngineError, match=r'column "close.cp" was double for it, and is int now; declare'):
        check_meaning({"q": other}, registry, "there")
    own = bound("q", "SELECT count(*) AS c FROM trades [RANGE '5 s'] WHERE price > 1", TRADES)
    with pytest.raises(EngineError, match=r'column "close.cp" was double for it, and is not read now'):
        check_meaning({"q": own}, registry, "there")
    entry = replace(next(iter(registry)), partials="of an older version")
    with pytest.raises(EngineError, match="this version of Weft aggregates it in another way"):
        check_meaning({"q": query}, Registry([entry]), "there")
