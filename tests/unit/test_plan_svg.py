"""The picture of a shared plan."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from weft.cli.app import app
from weft.errors import EngineError
from weft.optimizer.plan import SharedPlan
from weft.optimizer.plan_svg import plan_svg
from weft.optimizer.rules import Sharing, optimize
from weft.query import CreateQuery, CreateStream, CreateTable, bind, parse
from weft.query.logical import Catalog, StreamDef

SVG = "{http://www.w3.org/2000/svg}"
TRADES = "CREATE STREAM trades (time TIMESTAMP, symbol STRING, vol BIGINT) USING rate EVENT TIME time;"


def plans(text: str, sharing: Sharing = Sharing.AUTO) -> list[tuple[StreamDef, SharedPlan]]:
    """Plan a workload, without Spark."""
    statements = parse(text)
    streams = tuple(one.definition for one in statements if isinstance(one, CreateStream))
    tables = tuple(one.definition for one in statements if isinstance(one, CreateTable))
    catalog = Catalog(streams=streams, tables=tables)
    queries = [bind(one, catalog) for one in statements if isinstance(one, CreateQuery)]
    return [
        (stream, optimize([query for query in queries if query.stream == stream.name], sharing=sharing))
        for stream in streams
    ]


def drawn(text: str, sharing: Sharing = Sharing.AUTO) -> ElementTree.Element:
    """Draw a workload and read the picture as XML."""
    return ElementTree.fromstring(plan_svg(plans(text, sharing)))


def texts(picture: ElementTree.Element) -> list[str]:
    """Return the lines that are shown, in their order."""
    return [found.text or "" for found in picture.iter(f"{SVG}text")]


def tooltips(picture: ElementTree.Element) -> list[str]:
    """Return the texts that were cut."""
    return [found.text or "" for found in picture.findall(f"{SVG}g/{SVG}title")]


def test_a_line_says_what_is_shared() -> None:
    shown = texts(
        drawn(
            f"{TRADES} CREATE TABLE close (symbol STRING, cp DOUBLE) USING csv;"
            "CREATE QUERY a AS SELECT max(vol) AS v FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE vol > 7;"
            "CREATE QUERY b AS SELECT symbol, max(cp) AS v FROM trades JOIN close USING (symbol)"
            "  GROUP BY symbol, window(time, '1 week');"
        )
    )
    assert shown == [
        "where vol > 7", "[RANGE 12 min SLIDE 5 min]", "a", "relation 1", "24 paired slices an hour",
        "max(vol)", "all rows", "by symbol", "[RANGE 7 d SLIDE 7 d]", "b", "relation 2", "joined with close",
        "0.14 paired slices a day", "max(close.cp)",
        "trades", "event time time", "delay 0 s", "read once a batch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sharing", "said"),
    [(Sharing.JOINT, "each row aggregated once"), (Sharing.UNSHARED, "once per row and predicate")],
)
def test_predicates_stand_at_the_queries_of_a_relation_that_has_several(sharing: Sharing, said: str) -> None:
    queries = "".join(
        f"CREATE QUERY q{n} AS SELECT count(*) AS c FROM trades [RANGE '1 s'] WHERE vol > {n};"
        for n in (1, 2)
    )
    shown = texts(drawn(TRADES + queries, sharing))
    assert shown[0] == "2 predicates on vol"
    assert shown[1:7] == [
        "[RANGE 1 s SLIDE 1 s]",
        "where vol > 1",
        "q1",
        "[RANGE 1 s SLIDE 1 s]",
        "where vol > 2",
        "q2",
    ]
    assert said in shown


def test_names_with_signs_of_xml_are_shown_as_they_are() -> None:
    stream = """<a & "b" 'c'>]]>"""
    written = plan_svg(
        plans(
            f"CREATE STREAM `{stream}` (time TIMESTAMP, `<&>` STRING) USING rate EVENT TIME time;"
            f"CREATE QUERY q AS SELECT count(*) AS c FROM `{stream}` [RANGE '1 s'] WHERE `<&>` = '\"&lt;';"
        )
    )
    shown = texts(ElementTree.fromstring(written))
    assert stream in shown
    assert """where <&> = '"&lt;'""" in shown
    assert "<a" not in written


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    stream = "a\x00b\x1bc\ufffe"
    shown = texts(
        drawn(
            f"CREATE STREAM `{stream}` (time TIMESTAMP) USING rate EVENT TIME time;"
            f"CREATE QUERY q AS SELECT count(*) AS c FROM `{stream}` [RANGE '1 s'];"
        )
    )
    assert "a\ufffdb\ufffdc\ufffd" in shown


@pytest.mark.parametrize(
    "name", ["largest_turnover_of_the_hour_before_noon" * 3, "時間ごとの取引高の合計と最大値" * 3]
)
def test_a_name_that_is_too_long_is_cut_and_has_a_tooltip(name: str) -> None:
    picture = drawn(f"{TRADES} CREATE QUERY {name} AS SELECT count(*) AS c FROM trades [RANGE '1 s'];")
    (shown,) = (text for text in texts(picture) if text[:3] == name[:3])
    assert shown.endswith("…")
    assert name.startswith(shown[:-1])
    assert 10 <= len(shown) <= 20
    assert tooltips(picture) == [name]


def test_no_text_leaves_its_room() -> None:
    long = " OR ".join(f"symbol LIKE '%{n}%' AND vol > {n}" for n in range(100))
    picture = drawn(
        f"{TRADES} CREATE QUERY q AS SELECT sum(CASE WHEN {long} THEN 1 ELSE 0 END) AS c "
        f"FROM trades [RANGE '1 s'] WHERE {long};"
    )
    assert max(map(len, texts(picture))) <= 30
    assert all(len(text) <= 400 for text in tooltips(picture))


def test_of_300_queries_the_first_are_listed_and_the_others_are_counted() -> None:
    queries = "".join(
        f"CREATE QUERY q{n} AS SELECT count(*) AS c FROM trades [RANGE '{n % 50 + 1} s'] "
        f"WHERE vol > {n % 30};"
        for n in range(300)
    )
    picture = drawn(TRADES + queries, Sharing.JOINT)
    shown = texts(picture)
    assert "q7" in shown
    assert "q8" not in shown
    assert "… and 292 more" in shown
    assert {"50 windows in all", "30 predicates in all"} <= set(shown)
    assert int(picture.get("height", "0")) < 600


def test_of_many_relations_the_first_are_drawn_and_the_others_are_counted() -> None:
    queries = "".join(
        f"CREATE QUERY q{n} AS SELECT vol % {n} AS k, max(vol) AS c FROM trades [RANGE '1 s'] "
        f"GROUP BY vol % {n};"
        for n in range(1, 101)
    )
    shown = texts(drawn(TRADES + queries))
    assert "relation 40" in shown
    assert "relation 41" not in shown
    assert shown[shown.index("… and 60 more") + 1] == "for 60 queries"


def test_streams_stand_one_below_the_other() -> None:
    quotes = TRADES.replace("trades", "quotes")
    queries = "".join(
        f"CREATE QUERY of_{name} AS SELECT count(*) AS c FROM {name} [RANGE '1 s'];"
        for name in ("trades", "quotes")
    )
    both = drawn(TRADES + quotes + queries)
    places = {text.text: float(text.get("y", "0")) for text in both.iter(f"{SVG}text")}
    assert places["trades"] < places["quotes"]
    assert places["of_trades"] < places["of_quotes"]


def test_a_plan_without_queries() -> None:
    assert texts(ElementTree.fromstring(plan_svg([]))) == ["no queries"]
    assert "trades" in texts(drawn(TRADES))


def workload(folder: Path) -> Path:
    path = folder / "workload.sql"
    path.write_text(f"{TRADES} CREATE QUERY q AS SELECT count(*) AS c FROM trades [RANGE '1 s'];")
    return path


def test_explain_writes_the_picture_beside_the_text(tmp_path: Path) -> None:
    plain = CliRunner().invoke(app, ["explain", str(workload(tmp_path))])
    done = CliRunner().invoke(app, ["explain", str(workload(tmp_path)), "--svg", str(tmp_path / "plan.svg")])
    assert (done.exit_code, done.output) == (0, plain.output)
    assert "q" in texts(ElementTree.fromstring((tmp_path / "plan.svg").read_text("utf-8")))


def test_a_picture_that_cannot_be_written_is_a_message(tmp_path: Path) -> None:
    failed = CliRunner().invoke(
        app, ["explain", str(workload(tmp_path)), "--svg", str(tmp_path / "no" / "plan.svg")]
    )
    assert isinstance(failed.exception, EngineError)
    assert "plan.svg: No such file or directory; choose another --svg" in str(failed.exception)
