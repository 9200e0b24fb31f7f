"""Notices: the words of every kind, and where the texts of errors do not go."""

import logging
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from weft import logs
from weft.durability.registry import QueryState, Registered, Registry
from weft.durability.rejoining import rejoin
from weft.errors import InternalError, SourceError, UnknownName
from weft.notices import Failure, Notice, NoticeKind
from weft.query.logical import LogicalQuery
from weft.sinks import Delivery, MemorySink
from weft.spark.session.causes import kind_of
from weft.spark.session.troubles import failure

SECRET = "4711"
SHOWS = "the screen of a terminal shows why"
WORDS: dict[NoticeKind, tuple[str, str]] = {
    NoticeKind.QUERY_FAILED: (
        "query S failed: D",
        "query S failed (E); weft show and the screen of a terminal show why",
    ),
    NoticeKind.REQUEST_REFUSED: (
        "S was refused: D",
        f"S was refused (E); {SHOWS}, and so does a repeated request",
    ),
    NoticeKind.TABLE_NOT_REFRESHED: (
        "table S keeps its old contents: D",
        f"table S keeps its old contents (E); {SHOWS}",
    ),
    NoticeKind.SINK_RAISES: ("sink S fails: D", f"sink S fails: E; {SHOWS}"),
}
"""The words of the kinds that have a detail, with it and without."""
PLAIN: dict[NoticeKind, str] = {
    NoticeKind.QUERY_ENDED: "query S has ended",
    NoticeKind.QUERY_UNBOUND: "query S cannot run on: A",
    NoticeKind.QUERY_REPLACED: "query S has another text than before: it is replaced",
    NoticeKind.QUERY_STAYS_REPLACED: (
        "query S was replaced while the engine ran, and stays so; to go back, replace it again"
    ),
    NoticeKind.QUERY_IS_ANOTHER: "query S is another one than that which was A: it joins",
    NoticeKind.QUERY_LEFT_WORKLOAD: "query S is not in the workload any more: dropped",
    NoticeKind.QUERY_STAYS: "query S stays A; weft resume brings it back",
    NoticeKind.OBSERVER_FAILED: "S failed (E); it is called again with what comes next",
    NoticeKind.OBSERVER_FAILED_AGAIN: (
        "S failed (E), 1,234 times so far; it is called again with what comes next"
    ),
    NoticeKind.OBSERVER_LEFT_OUT: "S was not called 1,234 times: A; sinks get all results",
    NoticeKind.SINK_FAILS: "sink S fails: A",
    NoticeKind.SINK_SET_ASIDE: ("sink S: 1,234 rows are set aside in its table A, for it cannot take them"),
    NoticeKind.FILE_VANISHED: "stream T: file S A; its rows are missing",
    NoticeKind.FILE_CHANGED: "stream T: file S A; rows may be missing, or read in part",
    NoticeKind.FILES_MISSING: (
        "stream S: and 1,234 more files vanished or were changed after they were listed; the quarantine "
        "names them, if one is kept"
    ),
    NoticeKind.FILE_SET_ASIDE: "stream T: file S A; its rows (1,234) are set aside",
    NoticeKind.COLUMNS_DIFFER: "stream T: file S A",
    NoticeKind.COLUMNS_LEFT_OUT: (
        "stream S: files come faster than their columns can be compared, and no more than 1,234 wait: older "
        "ones are left out from now on, and what changed in those alone is not told"
    ),
    NoticeKind.COLUMNS_UNSEEN: (
        "stream S: there was no time to compare the columns of 1,234 files from A on"
    ),
    NoticeKind.COLUMNS_KEEP_CHANGING: (
        "stream S: its columns have changed in more than 1,234 ways: no more are told"
    ),
}
"""The words of all others, which are the same without a detail."""


NAMES_ERROR = {*WORDS, NoticeKind.OBSERVER_FAILED, NoticeKind.OBSERVER_FAILED_AGAIN}
"""Kinds whose words without a detail name the kind of an error."""


def notice(kind: NoticeKind, *, subject: str = "S", about: str = "A", detail: str = "D") -> Notice:
    """Return a notice of a kind with all that it may have."""
    return Notice(
        kind=kind, subject=subject, stream="T", about=about, count=1234, error_kind="E",
        detail=detail if kind in WORDS else None,
    )  # fmt: skip


def test_every_kind_has_words() -> None:
    assert {*WORDS, *PLAIN} == set(NoticeKind)
    assert not WORDS.keys() & PLAIN.keys()
    for kind, (words, without) in WORDS.items():
        assert (notice(kind).words, notice(kind).words_without_detail) == (words, without)
        assert str(notice(kind)) == without
    for kind, words in PLAIN.items():
        assert (notice(kind).words, str(notice(kind))) == (words, words)


@given(kind=st.sampled_from(NoticeKind), others=st.text(alphabet="abc{}% ", max_size=9))
def test_a_detail_is_in_no_words_but_the_ones_for_it(kind: NoticeKind, others: str) -> None:
    told = notice(kind, subject=others, about=others, detail=SECRET)
    assert (SECRET in told.words) is (kind in WORDS)
    for text in (told.words_without_detail, str(told), repr(told), str(told.log_fields), f"{told}"):
        assert SECRET not in text


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("kind", NoticeKind)
def test_a_detail_is_in_no_line_of_a_log(kind: NoticeKind, as_json: bool) -> None:
    file, told = StringIO(), notice(kind, detail=SECRET)
    logs.configure("debug", json=as_json, stream=file)
    try:
        logging.getLogger("weft.test").info("notice", extra=told.log_fields)
        # Nor where one is shown by mistake.
        logging.getLogger("weft.test").info("%s", told, extra={"whole": told, "parts": [told]})
    finally:
        logs.restore()
    assert str(kind) in file.getvalue()
    assert SECRET not in file.getvalue()


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_notice_has_what_its_kind_needs_and_no_other_detail(kind: NoticeKind) -> None:
    with pytest.raises(InternalError, match="detail"):
        Notice(kind=kind, subject="S", error_kind="E", detail=None if kind in WORDS else "D")
    if kind in NAMES_ERROR:
        with pytest.raises(InternalError, match="kind of its error"):
            Notice(kind=kind, subject="S", count=1, detail="D" if kind in WORDS else None)


def test_the_notices_of_a_start_are_in_the_log_by_kind(caplog: pytest.LogCaptureFixture) -> None:
    def unable(name: str, text: str) -> LogicalQuery:
        raise UnknownName('unknown column "prise"')

    entry = Registered(name="b", text="SELECT 1", state=QueryState.PAUSED, live=True)
    with caplog.at_level(logging.INFO, "weft"):
        rejoin([], Registry([entry]), unable, watermark=0)
    fields = [vars(record) for record in caplog.records if record.getMessage() == "notice"]
    assert [(record["kind"], record["subject"], record["error_kind"]) for record in fields] == [
        ("query_unbound", "b", "UnknownName")
    ]


# The kinds of errors


class OwnError(Exception):
    """An error of a function that a user has registered."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(SECRET), "ValueError"),
        (OwnError(f"[{SECRET}]"), "OwnError"),
        # What looks like a condition of Spark's is one only in an error of Spark's.
        (OwnError("[NYSE] is closed"), "OwnError"),
        (SourceError(f"column {SECRET} is gone"), "SourceError"),
    ],
)
def test_the_kind_of_an_error_holds_no_value(error: Exception, kind: str) -> None:
    told = failure(error)
    assert (told.kind, kind_of(error)) == (kind, kind)
    assert SECRET not in repr(Failure(kind=kind, text=SECRET))


@pytest.mark.parametrize(
    ("trace", "kind"),
    [
        (
            "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value '4711' is no number",
            "CAST_INVALID_INPUT",
        ),
        ("java.time.DateTimeException: 4711", "DateTimeException"),
        ("com.example.Secret4711: NYSE", "other"),
    ],
)
def test_the_kind_of_an_error_of_which_only_the_text_is_left(trace: str, kind: str) -> None:
    class Gone(Py4JJavaError):  # type: ignore[misc]
        def __init__(self) -> None: ...

        def __str__(self) -> str:
            return f"An error occurred while calling o1.\n: {trace}\n\tat org.example"

    assert failure(Gone()).kind == kind


# Sinks


class Failing(MemorySink):
    """A sink that takes nothing."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._raises = error

    def resume(self, after: int, *, origin: str = "") -> None:
        raise self._raises


class OperationalError(Exception):
    """An error of a database driver about its connection."""


@pytest.mark.parametrize(
    ("error", "words", "without"),
    [
        (
            ValueError(SECRET),
            "sink memory fails: ValueError: 4711",
            f"sink memory fails: ValueError; {SHOWS}",
        ),
        (ConnectionResetError("by peer"), "sink memory fails: ConnectionResetError: by peer", None),
        (
            OperationalError("no route to db\nhint"),
            "sink memory fails: OperationalError: no route to db",
            None,
        ),
        (SourceError("no folder"), "sink memory fails: no folder", None),
    ],
)
def test_only_errors_about_connections_are_told_in_full(
    error: Exception, words: str, without: str | None
) -> None:
    delivery = Delivery(Failing(error))
    try:
        delivery.await_begun(20)
        told = delivery.status.notice
    finally:
        delivery.close()
    assert told is not None
    assert (told.words, told.words_without_detail) == (words, without or words)
    assert told.error_kind == type(error).__name__
