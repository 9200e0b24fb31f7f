"""The names of what is stored: each is pinned, and says all that the object is and nothing of its class.

python -m pytest tests/unit/test_stored_names.py --update-goldens
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.checkpoint_samples import GROUPING, PAUSED, commit
from tests.unit.language_samples import TCP, query
from tests.unit.state_samples import EXACT, SPREAD, Asked, Row, block
from tests.unit.test_predicates import atoms, trees

from weft import expression as expressions
from weft import types
from weft.aggregates import BAG, COMBINES, Primitive
from weft.aggregates.aggregate_functions import AGGREGATES
from weft.durability import format4, stored_names
from weft.durability.checkpoint import Checkpoint
from weft.durability.commits import Commit
from weft.durability.declared import Declared, declared
from weft.durability.delivered import Note
from weft.durability.registry import QueryState, Registered, Registry
from weft.durability.stored_names import (
    SCALARS,
    WRITERS,
    Unknown,
    encoded,
    grouping_name,
    predicate_name,
    primitive_name,
    read_grouping,
    read_predicate,
    read_primitive,
)
from weft.errors import InternalError
from weft.expression import Call, Column, Expression, Literal, Scalar, Slot, SlotKind
from weft.optimizer.plan import Grouping, leaf
from weft.predicates import Cut, Formula, Values, canonical
from weft.predicates import formula as formulas
from weft.query.allowed_functions import FUNCTIONS
from weft.query.logical import Join, JoinKind
from weft.sinks.fence import Claim, Incarnation, Lineage, records_of
from weft.state.clock import Clock, RowCounts
from weft.storage import LocalFolder
from weft.storage.container import unpack
from weft.storage.folder import Mark, put_mark
from weft.storage.mailbox import Mailbox, Reply
from weft.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, DataType, Kind, array_of, struct_of

GOLDENS = Path(__file__).parents[1] / "goldens"
OF_4 = json.loads((GOLDENS / "format4" / "names.json").read_text("utf-8"))
"""Queries, and what format 4 stored of them, by the code of then."""
VOL, MONEY = Column("vol", BIGINT, (3, 6)), DataType(Kind.DECIMAL, 10, 2)
COUNTS = array_of(struct_of(("it's", array_of(STRING)), ('"ü":,>', MONEY)))
BIG = formulas.Test(VOL, Values(cuts=(Cut(5, after=True),)))
CONSTANTS: tuple[Literal, ...] = (
    Literal(None, NULL), Literal(True, BOOLEAN), Literal(7, INT), Literal(0.1, DOUBLE), Literal(-0.0, DOUBLE),
    Literal(float("inf"), DOUBLE), Literal(Decimal("1.50"), MONEY), Literal("it's \"ü\"\ud800\n", STRING),
    Literal(b"\x00\xff", DataType(Kind.BINARY)), Literal(date(2024, 2, 29), types.DATE),
    Literal(datetime(2024, 2, 29, 1, 2, 3, 456, tzinfo=timezone(timedelta(hours=2))), types.TIMESTAMP),
    Literal(datetime(2024, 2, 29, 1, 2, 3), DataType(Kind.TIMESTAMP_NTZ)),
)  # fmt: skip
EXAMPLES: tuple[Any, ...] = (
    VOL, *CONSTANTS, Call("+", (VOL, Literal(7, INT)), BIGINT), Call("midcap", (VOL,), BOOLEAN),
    *(Slot(kind, 1, BIGINT) for kind in SlotKind),
    BIG, formulas.Test(Column("x", DOUBLE), Values(True, (Cut(0.5, after=False),), null=True)),
    formulas.Test(Column("s", STRING), Values(cuts=(Cut(b"A", after=False), Cut(b"A", after=True)))),
    formulas.TRUE, formulas.FALSE, formulas.all_of([BIG, formulas.Test(Column("n", INT), Values(null=True))]),
    formulas.any_of([BIG, formulas.Test(Column("n", INT), Values(null=True))]),
    *(Primitive(("count",), (), combine, (BIGINT,)) for combine in COMBINES.values()), SPREAD,
    Primitive(("bag",), (VOL,), BAG, (BIGINT,)),
    Primitive(("timed_bag",), (VOL, VOL), BAG, (BIGINT,)),
    *(
        one
        for name in ("skewness", "corr", "first", "max_by", "bit_xor", "product")
        for known in AGGREGATES
        if known.name == name
        for one in known.lift((VOL,) * (3 if known.by_time else known.least), (False,))
    ),
    Primitive(("bag",), (VOL, Column("x", DOUBLE)), BAG, (BIGINT,)),
    Primitive(("sum",), (VOL,), COMBINES["add"], (BIGINT,), (True, 7, 0.5, "it")),
    *(Join(table="t", alias="u", kind=kind, on=((VOL, Column("u.vol", INT)),)) for kind in JoinKind),
    *(Column("c", DataType(kind)) for kind in Kind if kind not in (Kind.ARRAY, Kind.STRUCT)),
    Column("c", MONEY), Column("c", COUNTS),
    *(Call(name, (), INT) for name in FUNCTIONS),
)  # fmt: skip
"""Each class that can be stored, and each choice of those that have some."""
FIELDS = {
    Column: "name type", Literal: "value type", Call: "function args type", Slot: "kind index type",
    DataType: "kind precision scale fields", formulas.Test: "expression values", formulas.All: "parts",
    formulas.Any: "parts", Cut: "value after", Values: "lowest cuts null",
    Primitive: "lifts arguments combine types parameters", Join: "table alias kind on",
}  # fmt: skip
"""What tells objects of a class apart: a name has to say all of it."""
STORED: tuple[Any, ...] = (
    *FIELDS, Claim, Clock, Commit, Declared, Incarnation, Lineage, Mark, Note, Registered, Reply, RowCounts,
)  # fmt: skip
"""The classes that files are made of."""


def described() -> Iterator[str]:
    """Yield each example with its name, and what queries are known by."""
    yield from (json.dumps(encoded(one)) for one in EXAMPLES)
    for known in OF_4:
        needed = leaf(query(known["text"]))
        yield f"\n{known['text']}"
        yield grouping_name((needed.joins, needed.keys))
        yield predicate_name(needed.predicate)
        yield from map(primitive_name, needed.primitives)


BLOCK = block([Row(0, "a", 1, "x", None)], EXACT, predicates=("all", "even"))


def stored(folder: LocalFolder) -> Iterator[str]:
    """Yield what files hold after a commit, a snapshot, and all else that an engine keeps."""
    checkpoint, blocks = Checkpoint(folder), {(GROUPING, 0): BLOCK}
    running = Registered(name="q", text="SELECT", reads={"n": "int"}, partials="digest")
    registry = Registry([PAUSED, running])
    registry.put(PAUSED)
    registry.forget("gone", answered_through=7)
    head = commit(0)
    checkpoint.write(head, registry.records(), blocks, {})
    checkpoint.snapshot(head, registry, blocks)
    checkpoint.deliver_to({"out": 0})
    put_mark(folder, Mark(checkpoint="c", stream="s"))
    begun = Incarnation(token="t", number=1, after=-1, begun="then", by="one")
    lineage = Lineage(incarnations=(begun,))
    yield json.dumps([records_of(lineage), Claim(through=3, lineage=lineage).as_json()])
    yield json.dumps(declared(TCP).as_record())
    mailbox = Mailbox(folder)
    first, second = mailbox.ask_all("add", [{"name": "a"}, {"name": "b"}])
    for file in _files(folder.path):
        where = file.relative_to(folder.path).as_posix()
        yield f"\n{'requests' if where.startswith('requests') else where}"
        data = file.read_bytes()
        if not data.startswith(b"WEFT"):
            yield data.decode()
            continue
        for name, section in unpack(data, name=where).items():
            yield f"{name.replace(checkpoint._codebook_name(blocks[GROUPING, 0].signatures), 'book')}:"
            yield json.dumps(json.loads(bytes(section)), indent=1) if name == "commit" else _columns(section)
    mailbox.answer_all([first, second], [Reply(ok=True, said="", found={"x": 1})] * 2)
    (answer,) = (folder.path / "answers").iterdir()
    yield "\nanswers"
    yield str(sorted(json.loads(answer.read_bytes()))) + json.dumps(
        json.loads(answer.read_bytes())["replies"]
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _columns(section: memoryview) -> str:
    schema = pa.ipc.open_file(pa.py_buffer(section)).schema
    notes = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    notes = {key: value if key != "weft.codebook" else "book" for key, value in notes.items()}
    return "\n".join([*(f"  {field.name} {field.type}" for field in schema), json.dumps(notes)])


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return what gives classes and their fields other names, and texts that say nothing."""
    names: dict[type, str] = {}

    def rename() -> None:
        stored_names._PREDICATE_NAMES.clear()
        for cached in (primitive_name, grouping_name):
            cached.cache_clear()
        for each in STORED:
            others = {f"renamed_{name}": one for name, one in each.__dataclass_fields__.items()}
            monkeypatch.setattr(each, "__dataclass_fields__", others)
            for text in ("__repr__", "__str__"):
                monkeypatch.setattr(each, text, lambda self: "?")
            names[each] = each.__name__
            each.__name__ = each.__qualname__ = "Renamed"

    yield rename
    for each, name in names.items():
        each.__name__ = each.__qualname__ = name


def matches(found: str, golden: str, update: bool) -> bool:
    """Return whether a text is as it was; if it is to be updated, it is."""
    path = GOLDENS / golden
    if update:
        path.write_text(found, "utf-8")
    return found == path.read_text("utf-8")


@pytest.mark.parametrize("rename", [False, True])
def test_names_are_as_they_were(rename: bool, renamed: Callable[[], None], update_goldens: bool) -> None:
    needed = list(described())
    if rename:
        renamed()
        needed[: len(EXAMPLES)] = [json.dumps(encoded(one)) for one in EXAMPLES]
    assert matches("\n".join(needed) + "\n", "stored_names.txt", update_goldens and not rename)


@pytest.mark.parametrize("rename", [False, True])
def test_a_checkpoint_is_laid_out_as_it_was(
    tmp_path: Path, rename: bool, renamed: Callable[[], None], update_goldens: bool
) -> None:
    if rename:
        renamed()
    found = "\n".join(stored(LocalFolder(tmp_path))) + "\n"
    assert matches(found, "stored_checkpoint.txt", update_goldens and not rename)


def test_names_of_states_and_units_are_as_they_were() -> None:
    assert [state.value for state in QueryState] == ["running", "paused", "failed", "ended", "dropped"]
    assert declared(TCP).unit == "s"


def test_every_class_has_a_name() -> None:
    written = set(WRITERS) - {Asked}
    assert written == {*get_args(Expression), *get_args(Formula), Primitive, Join}
    assert {one.__name__ for one in formulas._Parts.__subclasses__()} <= {one.__name__ for one in written}
    assert set(SCALARS) == {one or NoneType for one in get_args(Scalar)}
    assert {type(one) for one in EXAMPLES} == written
    for each, names in FIELDS.items():
        assert " ".join(one.name for one in fields(each) if one.compare) == names, each
    lifts = {
        lift.partition(".")[0]
        for known in AGGREGATES
        for one in known.lift((VOL,) * (3 if known.by_time else max(known.least, 1)), (1, 1))
        for lift in one.lifts
    }
    assert lifts == stored_names._LIFTS


@pytest.mark.parametrize("value", [object(), "text", 5, None, Literal(object(), INT), Literal(1j, DOUBLE)])  # type: ignore[arg-type]
def test_what_has_no_name_is_not_stored(value: Any) -> None:
    with pytest.raises(InternalError, match="has no stored name"):
        encoded(value)


def as_read(one: Any) -> Any:
    """Return what is read under the name of an object."""
    if isinstance(one, Primitive):
        return read_primitive(primitive_name(one))
    if isinstance(one, Join):
        return read_grouping(grouping_name(((one,), ())))[0][0]
    if isinstance(one, get_args(Formula)):
        return read_predicate(predicate_name(one))
    return read_grouping(grouping_name(((), (one,))))[1][0]


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda one: json.dumps(encoded(one))[:40])
def test_an_object_is_read_under_its_name(one: Any) -> None:
    assert as_read(one) == one


def test_examples_have_different_names() -> None:
    distinct = list(dict.fromkeys(EXAMPLES))
    assert len({json.dumps(encoded(one)) for one in distinct}) == len(distinct)


def _has_nan(expression: Expression) -> bool:
    return any(isinstance(one, Literal) and one.value != one.value for one in expressions.walk(expression))


predicates = trees(atoms()).filter(lambda one: not _has_nan(one))
awkward = st.sampled_from(["a", "b", '"', ",", '["a"]', 'a","b', "column", "", "\\", "1"])
columns_ = st.builds(
    Column,
    awkward,
    st.recursive(
        st.sampled_from([INT, BIGINT, STRING, MONEY, DataType(Kind.DECIMAL, 10)]),
        lambda part: (
            part.map(array_of)
            | st.lists(st.tuples(awkward, part), min_size=1, max_size=3).map(lambda some: struct_of(*some))
        ),
        max_leaves=3,
    ),
)
constants = st.one_of(
    awkward.map(lambda text: Literal(text, STRING)),
    st.integers(-3, 3).map(lambda number: Literal(number, INT)),
    st.integers(-3, 3).map(lambda number: Literal(number, BIGINT)),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 1e300]).map(lambda number: Literal(number, DOUBLE)),
    st.sampled_from(["1.5", "1.50", "15"]).map(lambda text: Literal(Decimal(text), MONEY)),
    awkward.map(lambda text: Literal(text.encode(), DataType(Kind.BINARY))),
)
nested = st.recursive(
    columns_ | constants,
    lambda part: st.builds(
        Call, st.sampled_from(["+", "concat", "mine"]), st.lists(part, max_size=2).map(tuple), st.just(INT)
    ),
    max_leaves=4,
)
primitives = st.builds(
    Primitive, st.sampled_from([("sum",), ("min",), ("count", "sum")]),
    st.lists(nested, max_size=2).map(tuple),
    st.sampled_from(list(COMBINES.values())), st.lists(st.sampled_from([INT, MONEY]), max_size=2).map(tuple),
    st.lists(st.sampled_from([1, 2, 0.5, "", "1"]), max_size=2).map(tuple),
)  # fmt: skip
joins = st.builds(
    Join, table=awkward, alias=awkward, kind=st.sampled_from(JoinKind),
    on=st.lists(st.tuples(nested, nested), max_size=2).map(tuple),
)  # fmt: skip
groupings = st.tuples(st.lists(joins, max_size=2).map(tuple), st.lists(nested, max_size=2).map(tuple))


@settings(max_examples=150)
@given(st.tuples(predicates.map(canonical), predicates.map(canonical)))
def test_predicates_have_one_name_if_and_only_if_they_are_equal(two: tuple[Formula, Formula]) -> None:
    one, other = two
    assert (one == other) == (predicate_name(one) == predicate_name(other))
    assert read_predicate(predicate_name(one)) == one
    turned = formulas.negation(one)
    assert (one == turned) == (predicate_name(one) == predicate_name(turned))


@settings(max_examples=150)
@given(st.tuples(nested, nested), st.tuples(primitives, primitives), st.tuples(groupings, groupings))
def test_objects_have_one_name_if_and_only_if_they_are_equal(
    pair: tuple[Expression, Expression], two: tuple[Primitive, Primitive], both: tuple[Grouping, Grouping]
) -> None:
    assert (pair[0] == pair[1]) == (encoded(pair[0]) == encoded(pair[1]))
    assert (two[0] == two[1]) == (primitive_name(two[0]) == primitive_name(two[1]))
    assert (both[0] == both[1]) == (grouping_name(both[0]) == grouping_name(both[1]))
    assert as_read(pair[0]) == pair[0]
    assert read_primitive(primitive_name(two[0])) == two[0]
    assert read_grouping(grouping_name(both[0])) == both[0]


def test_the_order_in_which_parts_are_shown_does_not_matter() -> None:
    parts = [formulas.Test(Column(name, INT), Values(null=True)) for name in "ba"]
    assert predicate_name(formulas.All(tuple(parts))) == predicate_name(formulas.All(tuple(parts[::-1])))


@pytest.mark.parametrize(
    ("read", "name", "unknown"),
    [
        (read_predicate, '["xor",["all"]]', 'operator "xor"'),
        (read_predicate, '["test",["call","soundex","string"],[true,false]]', 'function "soundex"'),
        (read_predicate, '["test",["column","x","interval"],[true,false]]', 'type "interval"'),
        (read_predicate, '["test",["column","x","array"],[true,false]]', 'type "array"'),
        (read_predicate, '["test",["column","x","array<int>"],[true,false]]', "predicate"),
        (read_predicate, '["test",["column","x","int<"],[true,false]]', 'type "int<"'),
        (read_predicate, '["test",["column","x"],[true,false]]', r'predicate \["test"'),
        (read_predicate, '["test",["column","x","int"],[true,false,[["uuid","1"],true]]]', 'constant "uuid"'),
        (read_predicate, '["column","x","int"]', 'operator "column"'),
        (read_predicate, "1eac7e722b9eb760", "predicate 1eac7e"),
        (read_predicate, "[]", r"predicate \[\]"),
        (read_primitive, '["primitive",["median"],null,"add",["int"]]', 'aggregate "median"'),
        (read_primitive, '["primitive",["sum"],null,"subtract",["int"]]', 'way to merge "subtract"'),
        (read_primitive, '["all"]', 'operator "all"'),
        (read_grouping, '["grouping",[["join","t","t","anti",[]]],[]]', 'join "anti"'),
        (read_grouping, '["grouping",[],[["slot","session",0,"int"]]]', 'slot "session"'),
        (read_grouping, '["rollup",[],[]]', 'grouping "rollup"'),
    ],
)
def test_what_is_unknown_is_named(read: Callable[[str], Any], name: str, unknown: str) -> None:
    with pytest.raises(Unknown, match=unknown):
        read(name)


@pytest.mark.parametrize("known", OF_4, ids=lambda known: known["text"][:30])
def test_format_4_is_named_as_it_was(known: dict[str, Any], renamed: Callable[[], None]) -> None:
    needed = leaf(query(known["text"]))
    renamed()
    assert format4.grouping_name((needed.joins, needed.keys)) == known["grouping"]
    assert format4.predicate_name(needed.predicate) == known["predicate"]
    found = [sha256(format4.primitive_name(one).encode()).hexdigest()[:32] for one in needed.primitives]
    assert found == known["primitives"]
