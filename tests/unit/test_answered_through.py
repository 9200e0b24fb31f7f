"""What a query was answered through decides which windows are due, whatever happens to it in between."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.loop_samples import ALL, EMPTY, LONG, SHORT, Runs
from tests.unit.pipeline_samples import MS, asked
from tests.unit.window_samples import windows

from weft.durability.checkpoint import Checkpoint
from weft.durability.commits import read_commit
from weft.durability.registry import QueryState
from weft.errors import EngineError
from weft.finals.readings import readings
from weft.optimizer.plan import answer, leaf
from weft.state.clock import ALWAYS, Clock
from weft.state.running_query import RunningQuery
from weft.storage import LocalFolder
from weft.storage.container import unpack
from weft.window import Window

moments = st.integers(-200_000, 200_000)
"""Microseconds; windows are up to 100 ms long."""


@settings(max_examples=80)
@given(
    st.lists(st.tuples(windows(), st.just(ALWAYS) | moments, st.none() | moments), min_size=1, max_size=4),
    st.lists(st.tuples(moments, st.booleans()), min_size=1, max_size=5),
)
def test_every_window_after_what_was_answered_is_due_once(
    several: list[tuple[Window, int, int | None]], stops: list[tuple[int, bool]]
) -> None:
    #     answered through   |        |              until |
    #     watermark             |  |        |    |
    lives: dict[str, RunningQuery] = {}
    for window, through, until in several:
        query = replace(asked(f"q{len(lives)}", ALL, (1, 1)).logical(), window=window)
        lives[query.name] = RunningQuery(query=query, answered_through=through, until=until)
    answers = [answer(live.query, leaf(live.query)) for live in lives.values()]
    starts = np.arange(-300_000, 300_000, 1_000)
    given_ends: dict[str, list[int]] = {name: [] for name in lives}
    made = readings(answers, lives)
    marks = sorted(mark for mark, _ in stops)
    for mark, (_, again) in zip(marks, stops, strict=True):
        # Queries that were answered through different times may be laid out together from now on.
        made = readings(answers, lives) if again else made
        for reading in made:
            due = reading.due(Clock(watermark=mark), starts)
            for number, ask in enumerate(reading.asks):
                numbers = range(int(due.first[number]), int(due.last[number]) + 1)
                for reader in ask.readers:
                    slide, offset = int(due.slide_us[number]), int(due.offset_us[number])
                    given_ends[reader.answer.query.name] += [k * slide + offset for k in numbers]
        for live in lives.values():
            live.answered_through = max(live.answered_through, mark)
    for name, (window, through, until) in zip(lives, several, strict=True):
        slide, offset = window.slide_ms * MS, window.offset_ms * MS
        latest = marks[-1] if until is None else min(marks[-1], until)
        begin = max(through, -300_000)
        ends = range((begin - offset) // slide * slide + slide + offset, latest + 1, slide)
        assert given_ends[name] == list(ends)


Step = tuple[str, int]
kinds = st.sampled_from(("batch", "batch", "batch", "join", "join", "leave", "pause"))
steps = st.lists(st.tuples(kinds, st.integers(3, 30)), min_size=6, max_size=14)


def played(script: list[Step], *, empty: bool, restarts: frozenset[int]) -> tuple[list[int], list[str]]:
    """Return the windows that a query gave that joins, pauses and leaves beside a long one, and what it did.

    There is a restart after some of the steps.
    """
    short, did, now = EMPTY if empty else SHORT, list[str](), 1
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        runs = Runs(patch, LocalFolder(Path(place)))
        runs.start(LONG)
        runs.batch(now)
        for number, (step, length) in enumerate(script):
            running, entry = "short" in runs.pipeline.queries, runs.ledger.registry.get("short")
            if step == "batch":
                now += length
                runs.batch(now)
                did.append(f"at {now}")
            elif step == "join" and not running:
                runs.loop.membership.add(short.logical())
                did.append("resumed" if entry is not None else "joined")
            elif step == "pause" and running:
                runs.loop.membership.leave("short", QueryState.PAUSED)
                did.append("paused")
            elif step == "leave" and entry is not None:
                runs.loop.membership.leave("short", None)
                did.append("left")
            if number in restarts:
                runs.start(LONG, live=[short])
        return runs.given("short"), did


@settings(max_examples=40, deadline=None)
@given(steps, st.booleans(), st.frozensets(st.integers(0, 13), min_size=1))
def test_a_restart_after_any_commit_changes_no_window(
    script: list[Step], empty: bool, restarts: frozenset[int]
) -> None:
    straight, did = played(script, empty=empty, restarts=frozenset())
    assert played(script, empty=empty, restarts=restarts) == (straight, did)
    assert len(straight) == len(set(straight)), did
    # What ended while it was paused is not made up for; all that ended while it ran is there.
    now, begun, paused = 1, None, None
    for step in did:
        if step in ("joined", "resumed"):
            if paused is not None:
                assert not [end for end in straight if paused < end <= now], did
            begun, paused = now, None
        elif step in ("paused", "left"):
            paused = now if step == "paused" else None
            begun = None
        else:
            before, now = now, int(step.removeprefix("at "))
            if begun is not None and empty:
                ends = range(before // 5 * 5 + 5, now + 1, 5)
                assert set(ends) <= set(straight), did


def test_a_commit_stores_of_a_query_only_where_it_joined(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        runs = Runs(patch, LocalFolder(tmp_path))
        runs.start(LONG)
        runs.batch(1, 12)
        runs.loop.membership.add(SHORT.logical())
        (changed,) = changes_of(runs, 1)
        runs.batch(23)
        assert changes_of(runs, 2) == []
        assert runs.pipeline.queries["short"].answered_through == 23 * MS
        # Partials from before the first row are retained: windows that begin then are its own.
        assert changed["answered_through"] < 12 * MS
        runs.start(LONG, live=[SHORT])
        assert runs.pipeline.queries["short"].answered_through == 23 * MS
        assert not runs.pipeline.behind


def changes_of(runs: Runs, commit: int) -> list[dict[str, int]]:
    """Return what a commit stores of queries."""
    name = f"{commit:09}"
    stored = unpack(runs.folder.folder("commits").read(name), name=name)
    return read_commit(bytes(stored["commit"]))[1]


def test_a_checkpoint_of_an_older_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    runs = Runs(monkeypatch, LocalFolder(tmp_path))
    runs.start(LONG)
    monkeypatch.setattr("weft.durability.commits.FORMAT", 3)
    runs.batch(1)
    monkeypatch.undo()
    with pytest.raises(
        EngineError, match="written by an older version of Weft: it has format 3, and this version"
    ):
        Checkpoint(LocalFolder(tmp_path)).recover()
