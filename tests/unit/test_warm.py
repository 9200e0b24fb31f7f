"""What partials at hand answer of a query that joins late, and from when on."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.churn_samples import EVERYTHING, Script, above, between, marked, random_condition
from tests.unit.language_samples import predicate
from tests.unit.loop_samples import ALL, Runs, rows
from tests.unit.pipeline_samples import (
    MS,
    Asked,
    Matches,
    PlainJob,
    Row,
    asked,
    expected,
    plain_pipeline,
    results,
    satisfies,
)
from tests.unit.window_samples import edges_between, windows

from weft.optimizer.plan import Leaf, RelationId, SharedPlan, leaf, union
from weft.optimizer.rules import Sharing, optimize
from weft.optimizer.slices import EdgeClass, Slicing, edge_classes
from weft.predicates import canonical, codebook
from weft.predicates.signatures import signatures_of
from weft.state.clock import ALWAYS, Clock
from weft.state.running_query import RunningQuery, first_window, through_start
from weft.state.signatures import Fragments
from weft.storage import LocalFolder
from weft.stream.warm_start import Held, History, cut_at
from weft.window import Window

# Where fragments tell.


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_fragments_tell_a_predicate_exactly_or_not_at_all(seed: int, size: int) -> None:
    chance = Random(seed)
    several = {canonical(predicate(random_condition(chance)[0])) for _ in range(size)}
    book = codebook(tuple(several))
    wanted = canonical(predicate(random_condition(chance)[0]))
    rows = [Row(0, "a", vol, n) for vol in (None, *range(10)) for n in (None, 0, 1, 2)]
    signatures = [tuple(satisfies(row, one) for one in book.predicates) for row in rows]
    truth = {signature: {satisfies(rows[at], wanted) for at, own in enumerate(signatures) if own == signature}
             for signature in signatures}  # fmt: skip
    nothing = (False,) * len(book.predicates)
    decided = all(len(found) == 1 for found in truth.values()) and True not in truth.get(nothing, set())
    verdict = book.verdict(wanted)
    if verdict is not None:
        assert decided
        told = dict(zip(map(tuple, book.signatures.tolist()), verdict.tolist(), strict=True))
        assert all(told.get(signature, False) in found for signature, found in truth.items())
    held = Held(predicates=tuple(several), shared=True, primitives=frozenset(), edges=frozenset())
    derived = held.derive(wanted)
    if derived is not None:
        for row in rows:
            code = sum(satisfies(row, one) << place for place, one in enumerate(derived.sources))
            assert (code in derived.patterns) == satisfies(row, wanted)
    assert verdict is None or len(several) < 2 or derived is not None or not verdict.any()


def test_what_follows_from_others_is_found() -> None:
    held = Held(
        predicates=tuple(canonical(predicate(one[0])) for one in (above(1), above(3), above(7))),
        shared=True, primitives=frozenset(), edges=frozenset(),
    )  # fmt: skip
    for follows in (between(1, 3), between(1, 7), between(3, 7), above(3)):
        assert held.derive(canonical(predicate(follows[0]))) is not None
    # Another cut; rows that nobody asked for; another column.
    for unknown in (between(1, 5), ("vol <= 3", above(3)[1]), EVERYTHING, marked(1)):
        assert held.derive(canonical(predicate(unknown[0]))) is None
    copied = Held(
        predicates=held.predicates, shared=False, primitives=frozenset(), edges=frozenset()
    )  # fmt: skip
    assert copied.derive(canonical(predicate(between(1, 3)[0]))) is None


@settings(max_examples=150)
@given(st.lists(windows(), min_size=1, max_size=4), windows())
def test_time_is_cut_where_a_window_needs_it(several: list[Window], joining: Window) -> None:
    edges = edge_classes(several)
    period = 1800
    wanted = set(edges_between([joining], 0, period))
    there = set(edges_between(several, 0, period))
    found = all(cut_at(edges, one) for one in edge_classes([joining]))
    assert found == (wanted <= there)


@settings(max_examples=150)
@given(st.lists(windows(), min_size=1, max_size=4))
def test_panes_are_cut_wherever_pairs_are(several: list[Window]) -> None:
    panes = edge_classes(several, Slicing.PANED)
    assert all(cut_at(panes, one) for one in edge_classes(several))
    there = set(edges_between(several, 0, 1800, Slicing.PANED))
    assert set(edges_between(several, 0, 1800)) <= there


def test_edges_of_several_classes_make_up_one() -> None:
    assert cut_at(frozenset([EdgeClass(10, 0), EdgeClass(20, 5), EdgeClass(20, 15)]), EdgeClass(5, 0))
    assert not cut_at(frozenset([EdgeClass(10, 0), EdgeClass(20, 5)]), EdgeClass(5, 0))
    assert not cut_at(frozenset(), EdgeClass(5, 0))


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_a_derived_bit_is_that_of_the_rows(seed: int) -> None:
    chance = Random(seed)
    fragments = Fragments()
    names: list[Any] = [f"p{number}" for number in range(chance.randint(2, 40))]
    bits = np.array([[chance.random() < 0.4 for _ in names] for _ in range(30)], dtype=bool)
    before = fragments.ids(signatures_of(tuple(names), bits)).astype(np.intp)
    sources = chance.sample(names, 2)
    new: Any = "new"
    fragments.derive(new, sources, [1, 3])
    wanted = bits[:, names.index(sources[0])]
    assert (fragments.bits([new], before)[0] == wanted).all()
    again = signatures_of((*names, new), np.column_stack([bits, wanted]))
    assert fragments.ids(again).tolist() == before.tolist()
    kept = [one for one in names if chance.random() < 0.2]
    fragments.keep([*kept, new])
    assert set(fragments.predicates) <= {*kept, new}
    assert 8 * len(fragments._bytes) <= max(8 * 8, 16 * (len(kept) + 1) + 8)
    for place, one in enumerate(names):
        if one in kept:
            assert (fragments.bits([one], before)[0] == bits[:, place]).all()
    assert (fragments.bits([new], before)[0] == wanted).all()


def test_what_is_derived_anew_means_one_thing() -> None:
    several = [canonical(asked("q", above(least), (10, 10)).logical().predicate) for least in (1, 3, 5)]
    fragments = Fragments()
    bits = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 0], [0, 1, 0]], dtype=bool)
    numbers = fragments.ids(signatures_of(tuple(several), bits)).astype(np.intp)
    fragments.derive(several[2], several[:1], (1,))
    assert fragments.bits(several[2:], numbers)[0].tolist() == bits[:, 0].tolist()
    classes = fragments.classes(several[2:])
    assert (classes.of[numbers] >= 0).tolist() == bits[:, 0].tolist()
    assert fragments.satisfied(several[2:], numbers[[0, 3]]).tolist() == [False]


def test_a_predicate_that_one_relation_tells_is_not_derived_in_another() -> None:
    def needed(condition: tuple[str, Matches], aggregate: str) -> Leaf:
        return leaf(asked("q", condition, (20, 10), aggregate=aggregate).logical())

    parts = [needed(between(1, 3), "sum(vol)"), needed(above(3), "sum(vol)")]
    told, shared = needed(above(1), "count(*)"), union(part.relation() for part in parts)
    both = (replace(shared, id=RelationId(1)), told.relation())
    joining = needed(above(1), "sum(vol)")
    history = History(Slicing.PAIRED)
    history.adopt(SharedPlan(relations=(shared,), answers=(), slicing=Slicing.PAIRED), since=0)
    assert history.find(joining) is not None
    # A row would count twice for who asks for what both relations keep.
    history.adopt(SharedPlan(relations=both, answers=(), slicing=Slicing.PAIRED), since=1)
    assert history.find(joining) is None
    assert history.find(told) is not None


def test_predicates_must_have_been_told_together() -> None:
    several = [asked(f"q{least}", above(least), (20, 10)).logical() for least in (1, 3)]
    joining = leaf(asked("new", between(1, 3), (20, 10)).logical())
    history = History(Slicing.PAIRED)
    for since, sharing in enumerate((Sharing.JOINT, Sharing.SEPARATE, Sharing.JOINT, Sharing.JOINT)):
        history.adopt(optimize(several, sharing=sharing), since=since)
    found = history.find(joining)
    assert found is not None
    assert found.since == 2
    # One of them alone was told all the time.
    alone = history.find(leaf(several[0]))
    assert alone is not None
    assert alone.since == 0
    history.evict(1)
    assert len(history) == 3
    for sharing in (Sharing.SEPARATE, Sharing.UNSHARED):
        history.adopt(optimize(several, sharing=sharing), since=4)
        assert history.find(joining) is None


# What is told.


@settings(max_examples=100)
@given(
    windows(), st.none() | st.integers(-200_000, 200_000), st.none() | st.integers(-200_000, 200_000),
    st.none() | st.integers(-200_000, 400_000),
)  # fmt: skip
def test_the_first_window_is_the_first(
    window: Window, first: int | None, oldest: int | None, until: int | None
) -> None:
    query = replace(asked("q", EVERYTHING, (10, 10)).logical(), window=window)
    through = ALWAYS if first is None else through_start(first, window)
    live = RunningQuery(query=query, answered_through=through, until=until)
    found = first_window(live, Clock(oldest=oldest, newest=oldest, watermark=oldest))
    if first is None and oldest is None:
        assert found is None
        return
    length, slide, offset = 1000 * window.range_ms, 1000 * window.slide_ms, 1000 * window.offset_ms
    ends = range(offset - 400 * slide - slide * (400_000 // slide), 1_000_000, slide)
    fitting = [
        end for end in ends if (first is None or end - length >= first) and (oldest is None or end > oldest)
    ]
    wanted = min(fitting)
    assert found == (None if until is not None and wanted > until else (wanted - length, wanted))


# Examples of warm starts.


def warmed(monkeypatch: pytest.MonkeyPatch, *there: Asked) -> Script:
    """Return a run of three batches, of 20 ms each, whose slices are kept for a while."""
    script = Script(plain_pipeline(monkeypatch), Random(1))
    for one in (*there, asked("long", marked(99), (300, 10))):
        script.add(one)
    for begin in (0, 20, 40):
        script.batch([Row(1000 * time, "ab"[time % 2], time % 10, None) for time in range(begin, begin + 20)])
    return script


def finished(script: Script) -> None:
    """Go on for a while, and compare."""
    for begin in (60, 80):
        script.batch([Row(1000 * time, "ab"[time % 2], time % 10, None) for time in range(begin, begin + 20)])
    script.note(script.pipeline.finish(None))  # type: ignore[arg-type]
    script.check()


# The first row is at 0 ms, and nothing was let go of: a window of 300 ms holds all three batches.
@pytest.mark.parametrize(
    ("joining", "derived", "first"),
    [
        (asked("new", above(3), (20, 10)), False, (-10_000, 10_000)),
        (asked("new", above(3), (50, 30)), False, (-20_000, 30_000)),
        (asked("new", between(3, 7), (20, 20)), True, (0, 20_000)),
        (asked("new", between(3, 7), (10, 10), aggregate="max(vol)"), True, (0, 10_000)),
    ],
    ids=["identical", "other window on its edges", "follows", "follows, other primitive"],
)
def test_slices_at_hand_answer_at_once(
    monkeypatch: pytest.MonkeyPatch, joining: Asked, derived: bool, first: tuple[int, int]
) -> None:
    script = warmed(
        monkeypatch, asked("a", above(3), (20, 10)), asked("b", above(7), (20, 10), aggregate="max(vol)")
    )
    jobs = PlainJob.made
    live = script.add(joining)
    assert (live.derivation is not None) is derived
    assert list(script.pipeline.behind) == ["new"]
    report = script.note(script.pipeline.answer_warm(None))  # type: ignore[arg-type]
    assert list(report.results) == ["new"]
    always = replace(live, answered_through=ALWAYS)
    assert dict(results([report], "new")) == expected(joining, always, script.rows, 59_000)
    assert not script.pipeline.behind
    assert first_window(live, script.pipeline.clock) == first
    assert script.pipeline.queries["new"].answered_through == 59_000
    finished(script)
    assert dict(results(script.reports, "new")) == expected(joining, always, script.rows, None)
    # No other job was needed, and no sample.
    assert PlainJob.made == jobs


@pytest.mark.parametrize(
    "joining",
    [
        asked("new", above(4), (20, 10)),
        asked("new", above(3), (25, 10)),
        asked("new", above(3), (20, 10), keyed=True),
        asked("new", above(3), (20, 10), aggregate="count(*)"),
        asked("new", ("vol <= 3", lambda row: row.vol is not None and row.vol <= 3), (20, 10)),
    ],
    ids=["another cut", "another edge", "another grouping", "another primitive", "rows nobody kept"],
)
def test_what_slices_do_not_tell_begins_after_them(monkeypatch: pytest.MonkeyPatch, joining: Asked) -> None:
    script = warmed(monkeypatch, asked("a", above(3), (20, 10)))
    live = script.add(joining)
    assert live.first_start == 59_001
    assert not script.pipeline.behind
    finished(script)


def test_a_warm_start_reaches_back_to_what_was_kept_last(monkeypatch: pytest.MonkeyPatch) -> None:
    script = warmed(monkeypatch, asked("a", above(3), (20, 10)))
    script.remove("a")
    script.batch([Row(70_000, "a", 5, None)])
    # The plan has let go of its partials.
    assert script.add(asked("again", above(3), (20, 10))).first_start == 70_001
    script.batch([Row(90_000, "a", 5, None)])
    assert script.add(asked("twice", above(3), (20, 10))).first_start == 70_001
    finished(script)


def test_an_answer_in_waiting_comes_with_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    script = warmed(monkeypatch, asked("a", above(3), (20, 10)))
    script.add(asked("new", above(3), (20, 10)))
    # A query that needs another plan joins, too.
    script.add(asked("other", above(5), (20, 10)))
    report = script.batch([Row(61_000, "a", 9, None)])
    assert results([report], "new")[0][0][0] == 10_000
    finished(script)


@pytest.mark.parametrize("then", Slicing)
@pytest.mark.parametrize("now", Slicing)
def test_slices_of_an_earlier_run_are_as_that_run_has_cut_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, then: Slicing, now: Slicing
) -> None:
    """Windows of 12 every 5 are cut at 3, 5, 8, 10, … if paired, and at each moment if paned."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    runs, long = Runs(monkeypatch, LocalFolder(tmp_path)), asked("long", ALL, (12, 5))
    tiny, lone = asked("tiny", ALL, (1, 1)), asked("lone", ALL, (2, 5))
    runs.start(long, slicing=then)
    runs.batch(*range(20))
    runs.start(long, slicing=now)
    for one in (tiny, lone):
        runs.loop.membership.add(one.logical())
    # Pairs are enough for windows [3, 5), [8, 10), …; they are among the panes of a run that had some.
    # What the window of 12 that ends at 20 holds is at hand.
    firsts = {"tiny": 19 * MS + 1, "lone": 8 * MS}
    for name, first in firsts.items():
        entry = runs.ledger.registry.get(name)
        assert entry is not None
        assert entry.answered_through == through_start(first, runs.pipeline.queries[name].query.window)
    runs.batch(*range(20, 40))
    for one in (tiny, lone):
        found = results(runs.sink.reports, one.name)
        query = one.logical()
        through = through_start(firsts[one.name], query.window)
        since = RunningQuery(query=query, answered_through=through)
        assert dict(found) == expected(one, since, rows(*range(40)), 39 * MS)
        assert len(found) == len(dict(found))
