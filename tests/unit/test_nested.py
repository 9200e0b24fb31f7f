"""Results of more than one number: their types, elements, and how they are stored and shown."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.unit.language_samples import CATALOG
from tests.unit.nested_samples import COUNTS, MOMENT, as_array, columns, result, same, scalars

from weft.aggregates import arrow_type
from weft.cli.figures import _newest
from weft.durability.commits import read_results, results_bytes
from weft.errors import NotAllowed, QueryError, TypeMismatch, UnknownName
from weft.evaluation import Evaluator, can_evaluate
from weft.expression import Call, Expression, Literal, Slot, SlotKind
from weft.query import parse_select
from weft.query.coercion import castable, common_of, common_type
from weft.query.expressions import Context, typed
from weft.query.scope import Input, Scope
from weft.query.syntax import Name, Node
from weft.sinks import ConsoleSink, MemorySink, ParquetSink
from weft.sinks.dataset import Dataset, History
from weft.sinks.immediate import brief
from weft.sinks.postgres_own import as_json
from weft.sinks.postgres_tables import table_shape
from weft.storage import LocalFolder
from weft.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, DataType, Kind, array_of, struct_of

NUMBERS, PAIR = array_of(DOUBLE), COUNTS.element
SLOTS = {
    "top": Slot(SlotKind.AGGREGATE, 0, COUNTS),
    "shares": Slot(SlotKind.AGGREGATE, 1, NUMBERS),
    "pair": Slot(SlotKind.AGGREGATE, 2, PAIR),
    "n": Slot(SlotKind.AGGREGATE, 3, INT),
    "most": Slot(SlotKind.AGGREGATE, 4, BIGINT),
}


def bound(text: str) -> Expression:
    """Return an expression over values of nested types."""

    def intercept(node: Node) -> Expression | None:
        return SLOTS.get(node.parts[0]) if isinstance(node, Name) else None

    [item] = parse_select(f"SELECT {text} FROM trades", name="q").syntax.items
    stream = Input.of(CATALOG.streams[0], "stream", None, "")
    return typed(item.node, Context(scope=Scope((stream,)), functions={}, intercept=intercept))


@pytest.mark.parametrize(
    ("text", "shown", "type"),
    [
        ("top[0]", "aggregate0[0]", "struct<value:string,count:bigint>"),
        ("top[n + 1].VALUE", "aggregate0[(aggregate3 + 1)].value", "string"),
        ("(top[0]).count + 1", "(aggregate0[0].count + 1)", "bigint"),
        ("-shares[0] * 2", "(neg(aggregate1[0]) * 2)", "double"),
        ("shares[0]::int", "cast(aggregate1[0] as int)", "int"),
        ("element_at(top, -1).`count`", "element_at(aggregate0, -1).count", "bigint"),
        ("Get(shares, most)", "get(aggregate1, aggregate4)", "double"),
        ("cardinality(top)", "size(aggregate0)", "int"),
        ("(pair).value", "aggregate2.value", "string"),
        ("top IS NULL", "is_null(aggregate0)", "boolean"),
        ("top[0].value IN ('a', 'b')", "in(aggregate0[0].value, 'a', 'b')", "boolean"),
    ],
)
def test_elements_and_fields_have_a_form_and_a_type(text: str, shown: str, type: str) -> None:
    assert (str(bound(text)), str(bound(text).type)) == (shown, type)
    assert can_evaluate(bound(text))


SUBSCRIPT = "x[i] takes an array and a whole number"
ONE_ELEMENT = "; take one element of the array, as in x[0]"
ONE_FIELD = "; take one field of the struct, as in (x).value"


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("shares > 5", TypeMismatch,
         f"> takes two values of one type, found array<double> and int{ONE_ELEMENT}"),
        ("shares = shares", TypeMismatch,
         f"= takes two values of one type, found array<double> and array<double>{ONE_ELEMENT}"),
        ("shares <=> NULL", TypeMismatch,
         f"<=> takes two values of one type, found array<double> and void{ONE_ELEMENT}"),
        ("pair + 1", TypeMismatch,
         f"+ takes two numbers, found struct<value:string,count:bigint> and int{ONE_FIELD}"),
        ("abs(shares)", TypeMismatch, f"abs takes a number, found array<double>{ONE_ELEMENT}"),
        ("coalesce(shares)", TypeMismatch,
         f"coalesce takes values of one type, found array<double>{ONE_ELEMENT}"),
        ("IF(n = 1, pair, pair)", TypeMismatch,
         f"CASE takes conditions, and values of one type, found boolean, {PAIR}{ONE_FIELD}"),
        ("upper(top)", TypeMismatch, f"upper takes a string, found {COUNTS}{ONE_ELEMENT}"),
        ("CAST(shares AS STRING)", TypeMismatch,
         f"CAST cannot turn array<double> into string{ONE_ELEMENT}"),
        ("n[0]", TypeMismatch, f"{SUBSCRIPT}, found int and int"),
        ("shares['a']", TypeMismatch, f"{SUBSCRIPT}, found array<double> and string"),
        ("shares[NULL]", TypeMismatch, f"{SUBSCRIPT}, found array<double> and void"),
        ("pair[0]", TypeMismatch,
         f"{SUBSCRIPT}, found struct<value:string,count:bigint> and int"),
        ("size(n)", TypeMismatch, "size takes an array, found int"),
        ("size(NULL)", TypeMismatch, "size takes an array, found void"),
        ("(top).value", TypeMismatch, f".value takes a struct, found {COUNTS}{ONE_ELEMENT}"),
        ("shares[0].value", TypeMismatch, ".value takes a struct, found double"),
        ("top[0].valeu", UnknownName,
         'struct<value:string,count:bigint> has no field "valeu"; did you mean "value"?'),
        ("top[0", QueryError, "expected ], found FROM"),
        ("top[0].1", QueryError, "expected the name of a field, found 1"),
        ("array(0.5, 0.95)", NotAllowed,
         "array(…) only lists the parameters of an aggregate, as in percentile(x, array(0.5, 0.95))"),
    ],
)  # fmt: skip
def test_misuse_is_refused(text: str, error: type[QueryError], problem: str) -> None:
    with pytest.raises(error) as refused:
        bound(text)
    assert refused.value.problem == problem


def test_nested_values_are_compared_with_nothing_and_cast_to_nothing() -> None:
    for type in (COUNTS, PAIR):
        for other in (type, NULL, STRING, BIGINT):
            assert common_type(type, other) is common_type(other, type) is None
            assert not castable(type, other)
            assert not castable(other, type)
        assert common_of([type]) is None


def test_types_are_written_as_spark_writes_them() -> None:
    odd = struct_of(("a b", DataType(Kind.DECIMAL, 10, 2)), ("`", array_of(BOOLEAN)))
    assert str(odd) == "struct<`a b`:decimal(10,2),````:array<boolean>>"
    assert arrow_type(COUNTS) == pa.list_(
        pa.field("element", pa.struct([("value", pa.string()), ("count", pa.int64())]))
    )


def wanted(function: str, array: list[Any] | None, index: int | None) -> tuple[Any, bool]:
    """Return an element as it should be, and whether it is missing."""
    if array is None or index is None:
        return None, False
    place = index if function != "element_at" else index - 1 if index > 0 else len(array) + index
    if not 0 <= place < len(array) or (function == "element_at" and index == 0):
        return None, function != "get"
    return array[place], False


@settings(max_examples=150)
@given(
    st.sampled_from(["subscript", "get", "element_at"]),
    columns(scalars.map(array_of) | st.just(COUNTS) | st.just(array_of(COUNTS))),
    st.data(),
)
def test_elements_are_those_of_lists(
    function: str, column: tuple[DataType, list[Any]], data: st.DataObject
) -> None:
    type, rows = column
    array, index = Slot(SlotKind.AGGREGATE, 0, type), Slot(SlotKind.AGGREGATE, 1, BIGINT)
    numbers = st.none() | st.integers(-4, 4) | st.sampled_from([2**32, -(2**63), 2**63 - 1])
    indices = data.draw(st.lists(numbers, min_size=len(rows), max_size=len(rows)))
    constant = data.draw(st.booleans())
    if constant:
        indices = [data.draw(st.integers(-4, 4))] * len(rows)
    second = Literal(indices[0], BIGINT) if constant else index
    evaluator = Evaluator({array: as_array(type, rows), index: pa.array(indices, pa.int64())}, len(rows))
    call = Call(function, (array, second), type.element)
    expected = [wanted(function, *pair) for pair in zip(rows, indices, strict=True)]
    assert same(evaluator.values(call).to_pylist(), [value for value, _ in expected])
    assert evaluator.values(call).type == arrow_type(type.element)
    failed = evaluator.failed(call)
    missing = [is_missing for _, is_missing in expected]
    assert (failed is None and not any(missing)) or (failed is not None and failed.tolist() == missing)
    sizes = evaluator.values(Call("size", (array,), INT)).to_pylist()
    assert sizes == [None if row is None else len(row) for row in rows]
    if type == COUNTS:
        value = Call("field", (call, Literal("value", STRING)), STRING)
        found = [None if one is None else one["value"] for one, _ in expected]
        assert evaluator.values(value).to_pylist() == found


@given(columns())
def test_a_slot_passes_through_as_it_is(column: tuple[DataType, list[Any]]) -> None:
    type, rows = column
    slot, array = Slot(SlotKind.AGGREGATE, 0, type), as_array(type, rows)
    evaluator = Evaluator({slot: array}, len(rows))
    assert evaluator.values(slot) is array
    assert evaluator.values(Call("is_null", (slot,), BOOLEAN)).to_pylist() == [row is None for row in rows]
    chunked = Evaluator({slot: pa.chunked_array([array, array])}, 2 * len(rows))
    assert same(chunked.values(slot).to_pylist(), rows * 2)


def test_conditions_may_read_elements() -> None:
    top = SLOTS["top"]
    rows: list[Any] = [[{"value": "a", "count": 3}], [], None, [{"value": None, "count": 9}]]
    evaluator = Evaluator({top: as_array(COUNTS, rows)}, 4)
    assert np.flatnonzero(evaluator.holds(bound("top[0].count > 2"))).tolist() == [0, 3]
    assert np.flatnonzero(
        evaluator.holds(bound("CASE WHEN size(top) > 0 THEN top[0].value IS NULL END"))
    ).tolist() == [3]
    guarded = evaluator.failed(bound("CASE WHEN size(top) > 0 THEN top[0].count END"))
    assert guarded is None or not guarded.any()
    failed = evaluator.failed(bound("top[0].count + 1"))
    assert failed is not None
    assert failed.tolist() == [False, True, False, False]


@settings(max_examples=50)
@given(column=columns())
def test_results_are_stored_in_commits_as_they_are(column: tuple[DataType, list[Any]]) -> None:
    table = result(*column)
    other = result(COUNTS, [[{"value": "x", "count": 1}]])
    pieces = results_bytes({"a": table, "b": other, "c": table.slice(1)})
    found = {name: rows for piece in pieces for name, rows in read_results(piece).items()}
    assert same(found["a"].to_pylist(), table.to_pylist())
    assert same(found["b"].to_pylist(), other.to_pylist())
    assert found["a"].schema.equals(table.schema)


@settings(max_examples=30)
@given(column=columns())
def test_parquet_files_are_merged_without_a_change(
    tmp_path_factory: pytest.TempPathFactory, column: tuple[DataType, list[Any]]
) -> None:
    folder = LocalFolder(tmp_path_factory.mktemp("out"))
    table = result(*column)
    dataset = Dataset(folder, after=-1, history=History.of("c trades"))
    for number in range(3):
        dataset.write(number, number, table)
    dataset.merge()
    [name] = dataset.files
    read = pq.read_table(pa.BufferReader(folder.read(name)))
    assert read.schema.equals(table.schema)
    assert same(read.to_pylist(), table.to_pylist() * 3)


def test_parquet_and_memory_take_nested_results(tmp_path: Path) -> None:
    table = result(COUNTS, [[{"value": 'it\'s "ü"\n', "count": 1}, None], [], None])
    parquet, memory = ParquetSink(LocalFolder(tmp_path)), MemorySink()
    for sink in (parquet, memory):
        sink.resume(-1)
        for commit in range(3):
            sink.deliver(commit, {"q": table})
        sink.flush()
    assert memory.results("q") == pa.concat_tables([table] * 3)
    assert pq.read_table(tmp_path / "q").to_pylist() == table.to_pylist() * 3


def test_the_console_shows_the_first_elements() -> None:
    out = StringIO()
    rows = [[{"value": "[bold]", "count": 2}], [], None, [{"value": None, "count": 1}] * 7]
    sink = ConsoleSink(Console(file=out, width=300))
    sink.deliver(0, {"q": result(COUNTS, rows), "p": result(NUMBERS, [[0.5, None, 1e6]])})
    shown = out.getvalue()
    assert "[{value: [bold], count: 2}]" in shown
    assert "│ []" in shown
    assert "│ NULL" in shown
    assert ", ".join(["{value: NULL, count: 1}"] * 5) + ", … 2 more]" in shown
    assert "[0.5000, NULL, 1,000,000.0000]" in shown


def test_the_live_view_shows_the_first_elements() -> None:
    newest = _newest("q", result(COUNTS, [None, [{"value": "/a", "count": 12345}] * 6]))
    pair = "{value: /a, count: 12,345}"
    assert newest.values == f"n 1  x [{', '.join([pair] * 5)}, … 1 more]"


@given(columns())
def test_every_value_has_a_short_text(column: tuple[DataType, list[Any]]) -> None:
    for value in column[1]:
        text = brief(value)
        assert text == "NULL" if value is None else text[0] in "[{"


@pytest.mark.parametrize(
    ("type", "column"),
    [
        (NUMBERS, "double precision[]"), (array_of(STRING), "text[]"), (array_of(NULL), "text[]"),
        (array_of(DataType(Kind.DECIMAL, 10, 2)), "numeric(10,2)[]"),
        (array_of(DataType(Kind.TIMESTAMP)), "timestamp with time zone[]"),
        (COUNTS, "jsonb"), (PAIR, "jsonb"), (array_of(NUMBERS), "jsonb"),
    ],
)  # fmt: skip
def test_postgresql_has_a_column_for_each_type(type: DataType, column: str) -> None:
    schema = pa.schema([("window_start", MOMENT), ("window_end", MOMENT), ("x", arrow_type(type))])
    assert table_shape("q", schema).columns[-1] == ("x", column)


def test_a_refused_row_is_shown_even_if_it_has_no_text() -> None:
    bad = pa.array([b"\xff\0"], pa.binary()).view(pa.string())
    far = pa.array([2**62], pa.int64()).cast(MOMENT)
    structs = pa.StructArray.from_arrays([bad, far], ["text", "time"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), structs)
    row = json.loads(as_json(pa.table({"x": lists, "none": pa.array([None], lists.type)})))
    assert row["none"] is None
    assert json.loads(row["x"]) == [{"text": "\\xff\0", "time": str(2**62)}]
