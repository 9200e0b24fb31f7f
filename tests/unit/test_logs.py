"""Logs: one event a line, fields apart, and no secrets."""

import io
import json
import logging
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UnknownName
from weft.logs import MASK, MaskSecrets, configure, mask, restore
from weft.query.logical import Source

LOG = logging.getLogger("weft.tests")
SECRET = "hunter2-S3cr/t+x"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    restore()


def as_json(*args: object, level: int = logging.INFO, **options: Any) -> dict[str, Any]:
    """Log one event and return its line, read."""
    stream = io.StringIO()
    configure("debug", json=True, stream=stream)
    LOG.log(level, *args, **options)
    [line] = stream.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def as_text(*args: object, level: int = logging.INFO, **options: Any) -> str:
    stream = io.StringIO()
    configure("debug", stream=stream)
    LOG.log(level, *args, **options)
    return stream.getvalue()


# Lines


def test_an_event_is_one_json_object() -> None:
    line = as_json("batch %d committed", 12, extra={"stream": "trades", "rows": 4_000, "ratio": 0.5})
    told = datetime.fromisoformat(line.pop("time"))
    assert told.tzinfo == UTC
    assert abs(told.timestamp() - time.time()) < 60
    assert line == {
        "level": "info", "logger": "weft.tests", "event": "batch 12 committed",
        "stream": "trades", "rows": 4_000, "ratio": 0.5,
    }  # fmt: skip


def test_times_are_utc_and_sort_as_text() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", as_json("x")["time"])


def test_an_event_of_several_lines_is_one_line_of_json() -> None:
    assert as_json("one\ntwo\u2028three")["event"] == "one\ntwo\u2028three"


def test_errors_come_with_their_traceback() -> None:
    try:
        raise ValueError("no such file")
    except ValueError:
        line = as_json("query failed", level=logging.ERROR, exc_info=True)
    assert line["level"] == "error"
    assert line["error"].startswith("Traceback")
    assert line["error"].endswith("ValueError: no such file")


def test_fields_named_like_the_frame_do_not_replace_it() -> None:
    line = as_json("x", extra={"time": 1, "level": 2, "event": 3, "logger": 4, "error": 5})
    assert [line[name + "_"] for name in ("time", "level", "event", "logger", "error")] == [1, 2, 3, 4, 5]
    assert (line["event"], line["level"]) == ("x", "info")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None), (True, True), (float("nan"), "nan"), (float("inf"), "inf"), ("a", "a"),
        (Path("results/q"), "results/q"), (datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00+00:00"),
        ({"a": (1, {2})}, {"a": [1, [2]]}), (ValueError("x"), "x"), (b"x", "b'x'"),
    ],
)  # fmt: skip
def test_fields_of_every_type_are_json(value: object, shown: object) -> None:
    assert as_json("x", extra={"field": value})["field"] == shown


def test_text_is_short() -> None:
    text = as_text("batch committed", extra={"batch": 12, "query": "big one", "stream": "trades"})
    told = r"\d\d:\d\d:\d\dZ info    batch committed  batch=12  query=\"big one\"  stream=trades\n"
    assert re.fullmatch(told, text)


def test_text_of_others_cannot_forge_a_line_or_colour_the_screen() -> None:
    text = as_text("bad name \x1b[31mred\r\n12:00:00Z error   all is lost")
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\\x1b[31mred" in text
    assert text.splitlines()[1].startswith("  ")


# What is set up


def test_only_weft_is_set_up() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("py4j").level)
    stream = io.StringIO()
    configure("info", stream=stream)
    assert (root.level, list(root.handlers), logging.getLogger("py4j").level) == before
    logging.getLogger("other").error("not ours")
    assert stream.getvalue() == ""


def test_the_last_call_counts() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("debug", json=True, stream=first)
    configure("WARNING", stream=second)
    LOG.info("quiet")
    LOG.warning("loud")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_an_event_is_not_told_twice(caplog: pytest.LogCaptureFixture) -> None:
    as_text("once")
    assert caplog.records == []


def test_restore_leaves_the_handlers_of_others() -> None:
    log, others = logging.getLogger("weft"), logging.NullHandler()
    log.addHandler(others)
    try:
        before = (log.level, log.propagate, list(log.handlers))
        configure("debug", stream=io.StringIO())
        assert (log.level, log.propagate) == (logging.DEBUG, False)
        restore()
        assert (log.level, log.propagate, log.handlers) == before
    finally:
        log.removeHandler(others)


def test_an_unknown_level_is_told() -> None:
    with pytest.raises(UnknownName, match=r'unknown log level "warn"; did you mean "warning"\?'):
        configure("warn")


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("args", "extra"),
    [(("%d rows", "many"), {}), (("%s", Unspeakable()), {}), (("x",), {"a": Unspeakable()})],
)
def test_an_event_that_cannot_be_shown_harms_nobody(
    args: tuple[object, ...], extra: dict[str, object]
) -> None:
    line = as_json(*args, extra=extra)
    assert re.fullmatch(r"an event could not be shown: \w+ at test_logs.py:\d+", line["event"])


# Secrets


LEAKS = {
    "an option": f"password={SECRET}",
    "an option with spaces": f"password = {SECRET}",
    "capitals": f"PASSWORD={SECRET}",
    "a part of an address": f"jdbc:postgresql://db:5432/weft?user=ada&password={SECRET}&ssl=true",
    "user and password": f"postgresql://ada:{SECRET}@db:5432/weft",
    "a password with an at-sign": f"postgresql://ada:p@{SECRET}@db/weft",
    "no user": f"redis://:{SECRET}@cache/0",
    "an access key and its secret": f"s3a://AKEY:{SECRET}@bucket/trades",
    "a token as user": "https://hunter2-S3cr_t+x@example.org/trades",
    "a quoted value": f"password='two words {SECRET}'",
    "a quoted value that was cut off": f"password='two words {SECRET}",
    "a quote in a value": f"password='it''s {SECRET}'",
    "an escaped quote in a value": f"password=\"a \\\" {SECRET}\"",
    "a setting of Spark": f"spark.hadoop.fs.s3a.secret.key={SECRET}",
    "an access key": f"fs.s3a.access.key: {SECRET}",
    "an account key": f"fs.azure.account.key.acme.dfs.core.windows.net = {SECRET}",
    "JSON": json.dumps({"sasl.password": f"two words {SECRET}", "user": "ada"}),
    "Python": repr({"api_key": f"two words {SECRET}", "user": "ada"}),
    "pairs": repr((("path", "x"), ("token", f"two words {SECRET}"))),
    "a source": repr(Source(format="jdbc", options=(("password", SECRET),))),
    "SQL": f"CREATE STREAM s USING jdbc OPTIONS (url 'x', password 'two words {SECRET}')",
    "SQL with quoted names": f"OPTIONS ('client.secret' = '{SECRET}')",
    "a header": f"Authorization: Bearer {SECRET}",
    "a basic header": f"authorization: Basic {SECRET}",
    "a bearer": f"sent Bearer {SECRET}",
    "a signed address": f"https://acme.example.org/x?sv=1&sig={SECRET}&se=2",
    "jaas": f'PlainLoginModule required username="ada" password="{SECRET}";',
    "a private key": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
}  # fmt: skip


@pytest.mark.parametrize("text", LEAKS.values(), ids=LEAKS.keys())
def test_no_secret_is_shown(text: str) -> None:
    shown = mask(f"reading failed: {text}")
    assert shown.startswith("reading failed: ")
    assert "hunter2" not in shown
    assert "S3cr" not in shown
    assert MASK in shown
    assert mask(shown) == shown


@pytest.mark.parametrize("text", LEAKS.values(), ids=LEAKS.keys())
def test_no_secret_is_logged_in_any_part_of_an_event(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        options: dict[str, Any] = {"exc_info": True, "extra": {"found": text, "deep": [{"x": (text,)}]}}
        lines = [
            as_text("trouble with %s", text, **options),
            str(as_json("trouble with %s", text, **options)),
        ]
    for line in lines:
        assert "hunter2" not in line
        assert "S3cr" not in line


HARMLESS = [
    "table close keeps its old contents: no such file trades/close.csv",
    "http://localhost:4040/jobs?id=3",
    "see http://localhost:4040, or mail ada@example.org",
    "hdfs://namenode:8020/checkpoints/a@b",
    "abfss://container@account.dfs.core.windows.net/trades",
    "signatures=12 fragments=40 keys=3",
    "GROUP BY key: symbol, primary key = 4",
    'password authentication failed for user "weft"',
    "one pass over the data, 3 passes left",
    "SELECT sum(price) FROM trades [RANGE '5 min'] WHERE symbol = 'A'",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    "name",
    ["password", "dbPassword", "fs.s3a.secret.key", "access_key", "accessKeyId", "token", "apikey", "pass"],
)
def test_fields_are_masked_by_their_names(name: str) -> None:
    assert as_json("x", extra={name: SECRET})[name] == MASK
    assert as_json("x", extra={"options": {name: [SECRET]}})["options"] == {name: MASK}
    assert as_json("x", extra={"options": ((name, SECRET), ("path", "x"))})["options"] == [
        [name, MASK],
        ["path", "x"],
    ]


def test_handlers_of_others_can_mask_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(masking := MaskSecrets())
    try:
        LOG.warning("password=%s", SECRET, extra={"token": SECRET})
    finally:
        caplog.handler.removeFilter(masking)
    [record] = caplog.records
    assert record.getMessage() == f"password={MASK}"
    assert vars(record)["token"] == MASK


words = st.text(
    st.characters(exclude_categories=("Z", "C"), exclude_characters="&\"'@/<>"), min_size=4, max_size=40
)


@given(
    words, st.sampled_from(["password={}", "://u:{}@host/x", "'token': '{}'", "x?secret={}&y=1", "pwd: {}"])
)
def test_any_word_is_masked_where_a_secret_stands(word: str, place: str) -> None:
    found = f"({word})"
    assert found not in mask(f"before {place.format(found)} after")


@given(st.text(max_size=300))
def test_any_text_is_masked_once(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "piece",
    [
        "://a:",
        "password",
        "password=",
        "'",
        "token '",
        "eyJaaaaaaaa.",
        "a" * 50,
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_long_texts_are_masked_in_time(piece: str) -> None:
    begin = time.perf_counter()
    mask(piece * (100_000 // len(piece)))
    assert time.perf_counter() - begin < 5  # a busy machine
