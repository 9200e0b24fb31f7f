"""Limits: each has a name, a default, and a refusal that says how to change it."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG, query
from tests.unit.pipeline_samples import MS, Row, asked, plain_pipeline, process, results

from weft.errors import TooLarge, UnknownName, UserError
from weft.limits import DEFAULTS, NAMES, LimitName, Limits, over_limit
from weft.notices import Failure
from weft.optimizer.rules import Sharing
from weft.query import bind, parse, parse_select
from weft.query.lexer import lex, split

PAGE = (Path(__file__).parents[2] / "docs" / "query-language.md").read_text(encoding="utf-8")
COUNT = "SELECT count(*) AS n FROM trades [RANGE '5 min']"


def refusal(text: str, limits: Limits) -> TooLarge:
    with pytest.raises(TooLarge) as caught:
        bind(parse_select(text, name="big", limits=limits), CATALOG, limits=limits)
    return caught.value


def test_every_limit_has_its_name() -> None:
    assert tuple(field.name for field in fields(Limits)) == NAMES == get_args(LimitName)


def test_the_reference_tells_every_limit_and_its_default() -> None:
    told = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE)
    assert told == [(name, f"{getattr(DEFAULTS, name):,}") for name in NAMES]


def test_a_refusal_reads_as_promised() -> None:
    error = refusal(
        "SELECT count(*) AS n FROM trades [RANGE '2 min' SLIDE '10 ms']", Limits(windows_per_row=10_000)
    )
    assert str(error).splitlines() == [
        "query big: 12,000 windows per row, more than the limit windows_per_row = 10,000; "
        "raise it with --limit windows_per_row=… or Engine(limits=Limits(windows_per_row=…))",
        "  SELECT count(*) AS n FROM trades [RANGE '2 min' SLIDE '10 ms']",
        "                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_refusal_names_its_limit_what_was_found_and_the_remedy(name: LimitName) -> None:
    limits = Limits.parse([f"{name}=7"])
    limits.enforce(name, 7)
    with pytest.raises(TooLarge) as caught:
        limits.enforce(name, 1_234, query="big")
    assert str(caught.value) == f"query big: {over_limit(name, 1_234, limits)}"
    assert str(caught.value).startswith("query big: 1,234 ")
    assert f"more than the limit {name} = 7;" in str(caught.value)
    assert f"--limit {name}=…" in str(caught.value)
    assert f"Engine(limits=Limits({name}=…))" in str(caught.value)


# Settings


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 10**18 - 1)), st.sampled_from(["", "_", ","]))
def test_settings_are_read_as_written(values: dict[LimitName, int], separator: str) -> None:
    settings = [
        f"{name} = {value:{separator or 'd'}}" if separator != "," else f"{name}={value:,}"
        for name, value in values.items()
    ]
    assert Limits.parse(settings) == Limits(**values)


def test_no_settings_are_the_defaults() -> None:
    assert Limits.parse([]) == DEFAULTS == Limits()


@pytest.mark.parametrize(
    ("settings", "kind", "problem"),
    [
        (["querys=5"], UnknownName, 'unknown limit "querys"; did you mean "queries"?'),
        (["zzz=5"], UnknownName, f'unknown limit "zzz"; known are {", ".join(NAMES)}'),
        (["=5"], UnknownName, f'unknown limit ""; known are {", ".join(NAMES)}'),
        (["queries"], UserError, 'a limit is given as name=value, as in queries=500; found "queries"'),
        (["queries=5", "queries=6"], UserError, "limit queries is given twice; remove one"),
        *(
            (
                [f"queries={value}"],
                UserError,
                f'limit queries must be a whole number from 1, found "{value}"; write e.g. queries=500',
            )
            for value in ("", "many", "-1", "1.5", "1e3", "1,00", "__", "٣", "1" * 30)
        ),
        (
            ["queries=0"],
            UserError,
            "limit queries must be a whole number from 1, found 0; write e.g. queries=500",
        ),
    ],
)
def test_wrong_settings_are_told(settings: list[str], kind: type[UserError], problem: str) -> None:
    with pytest.raises(UserError) as caught:
        Limits.parse(settings)
    assert type(caught.value) is kind
    assert str(caught.value) == problem


@pytest.mark.parametrize("value", [0, -5, True, 1.5, "9", None])
def test_limits_made_in_python_are_checked_likewise(value: int) -> None:
    with pytest.raises(UserError, match=r"limit result_rows must be a whole number from 1, found"):
        Limits(result_rows=value)


# Queries and windows


def test_one_query_too_many_is_refused_by_name() -> None:
    limits = Limits(queries=3)
    limits.enforce("queries", 3, query="q")
    with pytest.raises(
        TooLarge, match=r"query q: 4 queries at once, more than the limit queries = 3; raise it"
    ):
        limits.enforce("queries", 4, query="q")


@given(st.integers(1, 5_000), st.integers(1, 5_000))
def test_windows_per_row_are_counted_as_rows_meet_them(range_ms: int, slide_ms: int) -> None:
    # A row lies in the windows that end after it: at most so many for any row, and for some row just so many.
    met = max(
        len(range(time + slide_ms - time % slide_ms, time + range_ms + 1, slide_ms))
        for time in range(slide_ms)
    )
    text = f"SELECT count(*) AS n FROM trades [RANGE '{range_ms} ms' SLIDE '{slide_ms} ms']"
    written = parse_select(text, name="big")
    bind(written, CATALOG, limits=Limits(windows_per_row=met))
    if met > 1:
        with pytest.raises(TooLarge, match=f"{met:,} windows per row"):
            bind(written, CATALOG, limits=Limits(windows_per_row=met - 1))


@pytest.mark.parametrize(
    "window", ["window(time, '2 s', '1 ms')", "HOP(time, '1 ms', '2 s')"], ids=["window", "HOP"]
)
def test_windows_of_every_spelling_are_counted(window: str) -> None:
    error = refusal(f"SELECT count(*) AS n FROM trades GROUP BY {window}", Limits(windows_per_row=100))
    assert error.span is not None
    assert error.text[slice(*error.span)] == window


# Expressions


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (COUNT, 2),
        (f"{COUNT} WHERE vol > 5", 5),
        (f"{COUNT} WHERE vol > 5 HAVING n > 1", 9),  # n > 1 is count(*) > 1
        (f"{COUNT} WHERE vol BETWEEN 1 AND 5", 9),  # vol >= 1 AND vol <= 5
        (f"{COUNT} WHERE vol IN (1, 2, 3)", 7),
        ("SELECT count(*) FILTER (WHERE vol > 5) AS n FROM trades [RANGE '5 min']", 5),
        ("SELECT upper(symbol) AS u FROM trades [RANGE '5 min'] GROUP BY u", 4),
        ("SELECT upper(symbol) AS u FROM trades [RANGE '5 min'] GROUP BY 1", 3),
        ("SELECT count(*) AS n FROM trades T [RANGE '5 min'] JOIN close C ON T.symbol = C.symbol", 5),
    ],
)
def test_nodes_are_counted_over_the_whole_query(text: str, nodes: int) -> None:
    parse_select(text, name="big", limits=Limits(expression_nodes=nodes))
    error = refusal(text, Limits(expression_nodes=nodes - 1))
    assert error.problem == over_limit("expression_nodes", nodes, Limits(expression_nodes=nodes - 1))


def test_the_largest_expression_is_shown() -> None:
    error = refusal(f"{COUNT} WHERE vol > 5 AND price > 1", Limits(expression_nodes=4))
    assert error.span is not None
    assert error.text[slice(*error.span)] == "vol > 5 AND price > 1"


def test_many_small_expressions_are_refused_like_a_large_one() -> None:
    items = ", ".join(f"max(vol + {i}) AS m{i}" for i in range(3_000))
    error = refusal(f"SELECT {items} FROM trades [RANGE '5 min']", DEFAULTS)
    assert error.problem == over_limit("expression_nodes", 12_000, DEFAULTS)


def test_aliases_repeated_in_having_count_in_full() -> None:
    total = " + ".join(["count(*)"] * 90)
    text = f"SELECT {total} AS n FROM trades [RANGE '5 min'] HAVING {' AND '.join(['n > 1'] * 300)}"
    assert "nodes in its expressions" in refusal(text, DEFAULTS).problem


def test_a_limit_raised_lets_more_through() -> None:
    text = f"{COUNT} WHERE vol IN ({', '.join(map(str, range(11_000)))})"
    assert "expression_nodes = 10,000" in refusal(text, DEFAULTS).problem
    limits = Limits(expression_nodes=20_000)
    assert bind(parse_select(text, name="big", limits=limits), CATALOG, limits=limits).predicate is not None


# Texts


def test_long_texts_are_refused_with_their_limits() -> None:
    limits = Limits(query_text=100, workload_text=300)
    short = "DROP QUERY q;\n"
    assert len(parse(short * 20, limits=limits)) == 20
    with pytest.raises(
        TooLarge, match=r"308 characters in the workload, more than the limit workload_text = 300"
    ):
        parse(short * 22, limits=limits)
    with pytest.raises(
        TooLarge, match=r"113 characters in one statement, more than the limit query_text = 100"
    ):
        parse(f"DROP QUERY q -- {'x' * 97}", limits=limits)
    error = refusal(f"{COUNT} -- {'x' * 100}", limits)
    assert str(error).startswith("query big: 152 characters in one statement")
    assert "\n  SELECT count(*)" in str(error)


WORDS = [
    "a",
    "T.b",
    "12",
    "2.5",
    "'not one; -- word'",
    '"x /* y"',
    "`a b`",
    "(",
    "<=>",
    "<=",
    "||",
    "::",
    "-",
    "*",
]
COMMENTS = ["/* a 'comment' */", "-- to the end\n", "/* one /* in */ another */"]


@given(st.lists(st.sampled_from(WORDS + COMMENTS), min_size=1, max_size=30))
def test_words_are_counted_as_the_lexer_finds_them(parts: list[str]) -> None:
    text = " ".join(parts)
    if not text.strip():
        return
    tokens = len(lex(text)) - 1
    # A text no longer than the limit is not even counted.
    if tokens and len(text) > tokens:
        list(split(text, Limits(query_words=tokens)))
    if tokens > 1:
        with pytest.raises(TooLarge, match=rf"{tokens} words and symbols in one statement"):
            list(split(text, Limits(query_words=tokens - 1)))


def test_long_strings_and_comments_are_few_words() -> None:
    text = f"{COUNT} WHERE symbol = '{'x ' * 40_000}' /* {'y ' * 1_000} */"
    assert query(text).predicate is not None


# Groups


def keyed_rows(time_ms: int, **volumes: int) -> list[Row]:
    """Return a row of each symbol at a time."""
    return [Row(time_ms * MS, symbol, vol, 1) for symbol, vol in volumes.items()]


@pytest.mark.parametrize("sharing", list(Sharing))
@pytest.mark.parametrize("aggregate", ["sum(vol)", "max(vol)"])
def test_one_querys_groups_are_not_anothers(
    monkeypatch: pytest.MonkeyPatch, sharing: Sharing, aggregate: str
) -> None:
    big = asked("big", ("vol > 0", lambda row: True), (20, 5), keyed=True, aggregate=aggregate)
    small = asked("small", ("vol > 100", lambda row: True), (20, 5), keyed=True, aggregate=aggregate)
    limits = Limits(groups_per_query=3)
    pipeline = plain_pipeline(monkeypatch, limits=limits, sharing=sharing)
    for one in (big, small):
        pipeline.add(one.logical())
    reports = [process(pipeline, keyed_rows(1, a=200, b=1, c=1, d=1, e=1, f=1, g=1, h=1))]
    reports.append(process(pipeline, keyed_rows(12, a=300)))
    assert [report.broken for report in reports if report.broken] == [
        {"big": Failure(kind="TooLarge", text=over_limit("groups_per_query", 8, limits))}
    ]
    assert list(pipeline.queries) == ["small"]
    assert results(reports, "small") == [((5 * MS, "a"), 200), ((10 * MS, "a"), 200)]
    assert results(reports, "big") == []
    # It goes on, though the other's groups are still known.
    last = process(pipeline, keyed_rows(21, b=400))
    assert not last.broken
    assert [value for _, value in results([last], "small")] == [500 if aggregate == "sum(vol)" else 300] * 2


@pytest.mark.parametrize(
    ("window", "most"),
    [((60, 5), 18), ((10, 5), 8), ((3, 30), 2)],
    ids=["long", "short", "hopping"],
)
def test_only_groups_of_windows_open_or_due_count(
    monkeypatch: pytest.MonkeyPatch, window: tuple[int, int], most: int
) -> None:
    """Two new symbols at 0, 4, 8, … 32 ms; another query holds them all.

    When the watermark goes from 24 to 28 ms, the window [15, 25) is due, and it and those after it hold the
    symbols of four moments. Of windows [27, 30), [57, 60), … the first holds those of 28 ms.
    """
    everything = ("vol > 0", lambda row: True)
    for limit in (most, most - 1):
        pipeline = plain_pipeline(monkeypatch, limits=Limits(groups_per_query=limit))
        pipeline.add(asked("one", everything, window, keyed=True).logical())
        pipeline.add(asked("other", everything, (200, 5), keyed=True).logical())
        broken: dict[str, Failure] = {}
        for time in range(0, 36, 4):
            broken |= process(pipeline, keyed_rows(time, **{f"a{time}": 1, f"b{time}": 1})).broken
        assert ("one" in broken) is (limit < most), broken
        assert ("other" in broken) is (limit < 18), broken
