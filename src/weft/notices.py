"""What users are told of besides results: notices, as values, and the words for each kind.

What may hold values of rows is in one field only, `detail`. A screen shows it; logs, and lines that a service
retains, have the words without it.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from weft.errors import InternalError


class NoticeKind(StrEnum):
    """What a notice tells."""

    QUERY_FAILED = "query_failed"
    QUERY_ENDED = "query_ended"
    QUERY_UNBOUND = "query_unbound"
    QUERY_REPLACED = "query_replaced"
    QUERY_STAYS_REPLACED = "query_stays_replaced"
    QUERY_IS_ANOTHER = "query_is_another"
    QUERY_LEFT_WORKLOAD = "query_left_workload"
    QUERY_STAYS = "query_stays"
    REQUEST_REFUSED = "request_refused"
    OBSERVER_FAILED = "observer_failed"
    OBSERVER_FAILED_AGAIN = "observer_failed_again"
    OBSERVER_LEFT_OUT = "observer_left_out"
    TABLE_NOT_REFRESHED = "table_not_refreshed"
    SINK_FAILS = "sink_fails"
    SINK_RAISES = "sink_raises"
    SINK_SET_ASIDE = "sink_set_aside"
    FILE_VANISHED = "file_vanished"
    FILE_CHANGED = "file_changed"
    FILES_MISSING = "files_missing"
    FILE_SET_ASIDE = "file_set_aside"
    COLUMNS_DIFFER = "columns_differ"
    COLUMNS_LEFT_OUT = "columns_left_out"
    COLUMNS_UNSEEN = "columns_unseen"
    COLUMNS_KEEP_CHANGING = "columns_keep_changing"


_WORDS: dict[NoticeKind, str] = {
    NoticeKind.QUERY_FAILED: "query {subject} failed: {detail}",
    NoticeKind.QUERY_ENDED: "query {subject} has ended",
    NoticeKind.QUERY_UNBOUND: "query {subject} cannot run on: {about}",
    NoticeKind.QUERY_REPLACED: "query {subject} has another text than before: it is replaced",
    NoticeKind.QUERY_STAYS_REPLACED: (
        "query {subject} was replaced while the engine ran, and stays so; to go back, replace it again"
    ),
    NoticeKind.QUERY_IS_ANOTHER: "query {subject} is another one than that which was {about}: it joins",
    NoticeKind.QUERY_LEFT_WORKLOAD: "query {subject} is not in the workload any more: dropped",
    NoticeKind.QUERY_STAYS: "query {subject} stays {about}; weft resume brings it back",
    NoticeKind.REQUEST_REFUSED: "{subject} was refused: {detail}",
    NoticeKind.OBSERVER_FAILED: "{subject} failed ({error_kind}); it is called again with what comes next",
    NoticeKind.OBSERVER_FAILED_AGAIN: (
        "{subject} failed ({error_kind}), {count:,} times so far; it is called again with what comes next"
    ),
    NoticeKind.OBSERVER_LEFT_OUT: (
        "{subject} was not called {count:,} times: {about}; sinks get all results"
    ),
    NoticeKind.TABLE_NOT_REFRESHED: "table {subject} keeps its old contents: {detail}",
    NoticeKind.SINK_FAILS: "sink {subject} fails: {about}",
    NoticeKind.SINK_RAISES: "sink {subject} fails: {detail}",
    NoticeKind.SINK_SET_ASIDE: (
        "sink {subject}: {count:,} rows are set aside in its table {about}, for it cannot take them"
    ),
    NoticeKind.FILE_VANISHED: "stream {stream}: file {subject} {about}; its rows are missing",
    NoticeKind.FILE_CHANGED: (
        "stream {stream}: file {subject} {about}; rows may be missing, or read in part"
    ),
    NoticeKind.FILES_MISSING: (
        "stream {subject}: and {count:,} more files vanished or were changed after they were listed; "
        "the quarantine names them, if one is kept"
    ),
    NoticeKind.FILE_SET_ASIDE: (
        "stream {stream}: file {subject} {about}; its rows ({count:,}) are set aside"
    ),
    NoticeKind.COLUMNS_DIFFER: "stream {stream}: file {subject} {about}",
    NoticeKind.COLUMNS_LEFT_OUT: (
        "stream {subject}: files come faster than their columns can be compared, and no more than {count:,} "
        "wait: older ones are left out from now on, and what changed in those alone is not told"
    ),
    NoticeKind.COLUMNS_UNSEEN: (
        "stream {subject}: there was no time to compare the columns of {count:,} files from {about} on"
    ),
    NoticeKind.COLUMNS_KEEP_CHANGING: (
        "stream {subject}: its columns have changed in more than {count:,} ways: no more are told"
    ),
}
"""The words for each kind."""
_SCREEN = "the screen of a terminal shows why"
_WITHOUT_DETAIL: dict[NoticeKind, str] = {
    NoticeKind.QUERY_FAILED: (
        "query {subject} failed ({error_kind}); weft show and the screen of a terminal show why"
    ),
    NoticeKind.REQUEST_REFUSED: (
        f"{{subject}} was refused ({{error_kind}}); {_SCREEN}, and so does a repeated request"
    ),
    NoticeKind.TABLE_NOT_REFRESHED: f"table {{subject}} keeps its old contents ({{error_kind}}); {_SCREEN}",
    NoticeKind.SINK_RAISES: f"sink {{subject}} fails: {{error_kind}}; {_SCREEN}",
}
"""The words without the detail, for each kind that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is known of an error, as values."""

    kind: str
    """Its class, or Spark's name for its condition."""
    text: str = field(repr=False)
    """The error as shown to people; it may hold values of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that the user should know.

    >>> notice = Notice(
    ...     kind=NoticeKind.QUERY_FAILED, subject="big", error_kind="ValueError", detail="ValueError: 13"
    ... )
    >>> notice.words
    'query big failed: ValueError: 13'
    >>> print(notice)
    query big failed (ValueError); weft show and the screen of a terminal show why
    """

    kind: NoticeKind
    """What it tells."""
    subject: str
    """What it is about: the name of a query, table, sink or stream, the path of a file, or what a function
    or a request is called."""
    stream: str = ""
    """The stream of a file."""
    about: str = ""
    """What else the words name, such as a state or a difference; it holds no value of a row."""
    count: int | None = None
    """How many rows, files or times it is about."""
    error_kind: str | None = None
    """The class of the error, or Spark's name for its condition."""
    detail: str | None = field(default=None, repr=False)
    """The text of an error, which may hold values of rows."""

    def __post_init__(self) -> None:
        needs_detail = self.kind in _WITHOUT_DETAIL
        if (self.detail is not None) != needs_detail:
            raise InternalError(
                f"a notice of kind {self.kind} {'needs' if needs_detail else 'has no'} detail"
            )
        if self.error_kind is None and "{error_kind}" in self._template:
            raise InternalError(f"a notice of kind {self.kind} needs the kind of its error")

    def __str__(self) -> str:
        return self.words_without_detail

    @property
    def words(self) -> str:
        """The notice as a sentence with its detail, for those who may see values of rows."""
        return self._filled(_WORDS[self.kind], detail=self.detail)

    @property
    def words_without_detail(self) -> str:
        """The notice as a sentence that holds no value of a row, for logs and what services retain."""
        return self._filled(self._template)

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of an event in the log; none has the detail."""
        fields = {"kind": str(self.kind), "subject": self.subject, "notice": self.words_without_detail}
        return fields if self.error_kind is None else {**fields, "error_kind": self.error_kind}

    @property
    def _template(self) -> str:
        return _WITHOUT_DETAIL.get(self.kind, _WORDS[self.kind])

    def _filled(self, words: str, **detail: str | None) -> str:
        return words.format(
            subject=self.subject, stream=self.stream, about=self.about, count=self.count,
            error_kind=self.error_kind, **detail,
        )  # fmt: skip
