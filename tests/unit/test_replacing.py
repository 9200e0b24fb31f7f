"""A query that takes the place of another repeats no window, and answers all that it can, exactly.

Whether the engine runs or starts anew, in whatever state the other is, and wherever it is interrupted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG
from tests.unit.loop_samples import ALL, Runs, rows
from tests.unit.pipeline_samples import MS, Asked, Row, asked, results

from weft import faultpoints
from weft.durability.registry import QueryState
from weft.errors import EngineError
from weft.query import bind, parse_select
from weft.query.logical import LogicalQuery
from weft.storage import LocalFolder

LARGE = ("vol > 1", lambda row: row.vol is not None and row.vol > 1)
TEXTS = tuple(
    replace(text, text=text.text.strip())
    for text in (
        asked("q", ALL, (20, 5)),
        asked("q", ALL, (20, 10), aggregate="count(*)"),
        asked("q", LARGE, (15, 5)),
        asked("q", ALL, (10, 10), aggregate="max(vol)"),
    )
)
"""Texts of one query, in turn."""
TOTAL = asked("total", ALL, (60, 5))
"""Another query, of which partials remain that answer some of them."""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Return a checkpoint to run on."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    yield Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint"))
    faultpoints.arm(None)


def state(runs: Runs, name: str = "q") -> tuple[str, str]:
    entry = runs.ledger.registry.get(name)
    assert entry is not None
    return str(entry.state), entry.text


def test_a_query_is_replaced_by_one_commit(runs: Runs) -> None:
    runs.start(TOTAL, TEXTS[0])
    runs.offer(1, 12, 14)
    before = len(runs.folder.folder("commits").names())
    wider = asked("q", ALL, (10, 10))
    joined = runs.loop.membership.replace(wider.logical())
    assert len(runs.folder.folder("commits").names()) == before + 1
    # What ended by 14 was answered; the window to 20 has rows from before, which are retained.
    assert joined.answered_through == 14 * MS
    runs.offer(23)
    # Windows of 20 ms first, then of 10.
    assert results(runs.sink.reports, "q") == [
        ((5 * MS, None), 1), ((10 * MS, None), 1), ((20 * MS, None), 2),
    ]  # fmt: skip
    assert state(runs) == ("running", wider.text.strip())
    runs.start(TOTAL, wider)
    assert list(runs.pipeline.queries) == ["total", "q"]


@pytest.mark.parametrize("point", ["registry.before", "commit.before", "commit.written"])
def test_where_the_commit_fails_the_former_goes_on(runs: Runs, point: str) -> None:
    runs.start(TOTAL, TEXTS[0])
    runs.offer(1, 12)
    faultpoints.arm(f"{point}:1:error")
    with pytest.raises(EngineError, match=r"query q cannot be replaced: .*nothing has changed"):
        runs.loop.membership.replace(TEXTS[2].logical())
    assert state(runs) == ("running", TEXTS[0].text)
    runs.offer(14, 23)
    ends = [end // MS for (end, _), _ in results(runs.sink.reports, "q")]
    assert ends == [5, 10, 15, 20]
    assert runs.loop.membership.replace(TEXTS[2].logical()).answered_through >= 23 * MS


def test_one_that_has_gone_is_not_replaced(runs: Runs) -> None:
    runs.start(TOTAL)
    with pytest.raises(EngineError, match="query q cannot be replaced: it is gone; add it"):
        runs.loop.membership.replace(TEXTS[0].logical())


def test_a_workload_with_another_text_replaces_at_the_next_start(runs: Runs) -> None:
    runs.start(TOTAL, TEXTS[0])
    runs.offer(1, 12)
    runs.start(TOTAL, TEXTS[2], live=TEXTS[:1])
    assert runs.notices == ["query q has another text than before: it is replaced"]
    runs.loop.stop()
    # Until a commit makes it durable, every start does it again.
    runs.start(TOTAL, TEXTS[2], live=TEXTS[:1])
    runs.offer(23)
    assert state(runs) == ("running", TEXTS[2].text)
    runs.start(TOTAL, TEXTS[2])
    assert runs.notices == []


def test_what_was_replaced_while_the_engine_ran_stays_so_until_the_workload_changes(runs: Runs) -> None:
    runs.start(TOTAL, TEXTS[0])
    runs.offer(1, 12)
    runs.loop.membership.replace(TEXTS[1].logical())
    runs.loop.membership.leave("q", QueryState.PAUSED)
    runs.loop.membership.add(TEXTS[1].logical())
    runs.start(TOTAL, TEXTS[0], live=TEXTS[1:2])
    assert runs.notices[0].startswith("query q was replaced while the engine ran, and stays so")
    assert state(runs) == ("running", TEXTS[1].text)
    # The workload catches up, and from then on decides.
    runs.start(TOTAL, TEXTS[1])
    runs.offer(23)
    runs.start(TOTAL, TEXTS[0], live=TEXTS[1:2])
    runs.offer(24)
    assert state(runs) == ("running", TEXTS[0].text)
    assert runs.ledger.registry.get("q").instead_of is None  # type: ignore[union-attr]


# Any history.


@dataclass
class History:
    """What happened to a query, and what it has to have given."""

    runs: Runs
    now: int = 1
    seen: list[Row] = field(default_factory=list)
    text: Asked | None = None
    """What runs."""
    since: int = 0
    """When the first window begins that it has to answer."""
    watermark: int = 0
    must: dict[int, object] = field(default_factory=dict)
    """What has to be given, by the window's end."""

    def offer(self, length: int) -> None:
        self.now += length
        moments = (self.now - 2, self.now) if length > 2 else (self.now,)
        new = [replace_volume(row) for row in rows(*moments)]
        self.runs.offer_rows(new)
        self.seen += new
        before, self.watermark = self.watermark, self.now
        if self.text is not None:
            exact = by_definition(self.text, self.seen)
            for end, value in exact.items():
                if before < end <= self.watermark and end - self.text.range_ms >= self.since:
                    self.must[end] = value

    def joined(self, text: Asked) -> None:
        """Note that a text answers from now on."""
        self.text, live = text, self.runs.pipeline.queries["q"]
        self.since = -(-live.first_start // MS)


def replace_volume(row: Row) -> Row:
    """Return a row with a volume that depends on its time."""
    return row._replace(vol=row.time // MS % 3)


def by_definition(text: Asked, seen: list[Row]) -> dict[int, object]:
    """Return what a text answers for each window that holds a matching row."""
    found: dict[int, list[int]] = {}
    for row in seen:
        end = (row.time // MS // text.slide_ms + 1) * text.slide_ms
        while end - text.range_ms <= row.time // MS:
            if text.matches(row):
                found.setdefault(end, []).append(row.vol or 0)
            end += text.slide_ms
    fold = {"count(*)": len, "max(vol)": max, "sum(vol)": sum}[text.aggregate]
    return {end: fold(several) for end, several in found.items()}


KINDS = ("batch", "batch", "batch", "replace", "replace", "pause", "resume", "drop", "restart")
step = st.tuples(st.sampled_from(KINDS), st.integers(1, 12), st.integers(0, 3))


@settings(max_examples=60, deadline=None)
@given(st.lists(step, min_size=6, max_size=16), st.sampled_from((None, "commit.written", "registry.before")))
def test_no_window_comes_twice_and_all_that_can_be_answered_are(
    script: list[tuple[str, int, int]], fault: str | None
) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        runs = Runs(patch, LocalFolder(Path(place)))
        runs.start(TOTAL, TEXTS[0])
        history = History(runs)
        history.joined(TEXTS[0])
        # Each of a text that ran: what it gave, by the position of its first report.
        stays: list[tuple[int, Asked]] = [(0, TEXTS[0])]
        for kind, length, number in script:
            entry, text = runs.ledger.registry.get("q"), TEXTS[number]
            running = "q" in runs.pipeline.queries
            if kind == "batch":
                history.offer(length)
            elif kind == "replace" and entry is not None:
                if fault is not None:
                    # The first time the disk is full; then it is not.
                    faultpoints.arm(f"{fault}:1:error")
                    with pytest.raises(EngineError, match="nothing has changed"):
                        runs.loop.membership.replace(text.logical())
                    faultpoints.arm(None)
                stays.append((len(runs.sink.reports), text))
                runs.loop.membership.replace(text.logical())
                history.joined(text)
            elif kind == "pause" and running:
                runs.loop.membership.leave("q", QueryState.PAUSED)
                history.text = None
            elif kind == "resume" and entry is not None and not running:
                runs.loop.membership.add(bound("q", entry.text))
                history.joined(next(one for one in TEXTS if one.text == entry.text))
            elif kind == "drop" and entry is not None:
                runs.loop.membership.leave("q", None)
                history.text = None
            elif kind == "restart":
                # The workload has another text, or the same; it names the query in any case.
                former = None if entry is None else entry.text
                runs.start(TOTAL, text, bind=bound)
                kept = runs.ledger.registry.get("q")
                assert kept is not None
                if kept.text != former or not running:
                    stays.append((len(runs.sink.reports), next(o for o in TEXTS if o.text == kept.text)))
                if "q" in runs.pipeline.queries and (kept.text != former or not running):
                    history.joined(next(one for one in TEXTS if one.text == kept.text))
        faultpoints.arm(None)
        check(runs, history, stays)


def bound(name: str, text: str) -> LogicalQuery:
    """Return what a text means."""
    return bind(parse_select(text, name=name), CATALOG)


def check(runs: Runs, history: History, stays: list[tuple[int, Asked]]) -> None:
    """Compare what the query gave under each of its texts with what it should have given."""
    given: dict[int, object] = {}
    for number, (begin, text) in enumerate(stays):
        end = stays[number + 1][0] if number + 1 < len(stays) else None
        exact = by_definition(text, history.seen)
        for (micros, _), value in results(runs.sink.reports[begin:end], "q"):
            window = micros // MS
            assert window not in given, "a window came twice"
            assert exact[window] == value, "a window is not exact"
            given[window] = value
    missing = {end: value for end, value in history.must.items() if given.get(end) != value}
    assert not missing
