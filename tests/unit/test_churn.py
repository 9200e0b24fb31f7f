"""Queries that come and go are exact from their first window, after a restart too, and leave nothing."""

import gc
from dataclasses import replace
from importlib import import_module
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.churn_samples import Script, above, between, random_run
from tests.unit.pipeline_samples import Row, asked, plain_pipeline, results

from weft.durability.stored_names import predicate_name
from weft.expression import Expression
from weft.optimizer.plan import Grouping
from weft.optimizer.slices import Slicing
from weft.predicates import tests as every_test
from weft.predicates.signatures import Signatures, signatures_of
from weft.state import driver_store as state_module
from weft.state.running_query import derivation_from
from weft.stream.pipeline import Pipeline


@settings(max_examples=60)
@example(seed=31983)  # A predicate that was dropped, and then follows from others that are younger.
@given(seed=st.integers(0, 2**32))
def test_queries_that_come_and_go_are_exact_from_their_first_window(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        script = random_run(seed, patch, steps=12)
        script.note(script.pipeline.finish(None))  # type: ignore[arg-type]
        script.check()


def test_lifetimes_are_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    #     rows      100 … 119   120 … 139   140 … 159   160 … 179
    #     first     [100 ──────────────────> 150)
    #     late                           [139 ──────> 169)
    script = Script(plain_pipeline(monkeypatch), Random(1))
    script.add(asked("first", above(1), (10, 10), suffix="LIFETIME '50 ms'"))
    script.add(asked("stays", above(1), (10, 10)))
    assert script.pipeline.queries["first"].until is None
    for begin in (100, 120, 140, 160):
        report = script.batch([Row(1000 * time, "a", 5, None) for time in range(begin, begin + 20)])
        assert report.ended == {140: ("first",), 160: ("late",)}.get(begin, ())
        if begin == 120:
            late = script.add(asked("late", above(2), (10, 10), suffix="LIFETIME '30 ms'"))
            assert (late.first_start, late.until) == (139_001, 169_000)
    script.note(script.pipeline.finish(None))  # type: ignore[arg-type]
    script.check()
    assert [end for (end, _), _ in results(script.reports, "first")] == [
        110_000,
        120_000,
        130_000,
        140_000,
        150_000,
    ]
    assert [end for (end, _), _ in results(script.reports, "late")] == [150_000, 160_000]
    assert list(script.pipeline.queries) == ["stays"]


# After a restart.


def restarted(script: Script, slicing: Slicing) -> Script:
    """Return the run as a new pipeline takes it up from clock, queries and blocks of each batch."""
    former = script.pipeline
    with pytest.MonkeyPatch.context() as patch:
        pipeline = plain_pipeline(patch, delay_ms=former.stream.delay_ms, slicing=slicing)
        for live in former.queries.values():
            pipeline.add(live.query)
        pipeline.restore(former.clock, former.queries)
        for report in script.reports:
            for (grouping, _), block in report.blocks.items():
                if grouping in pipeline.stores:
                    pipeline.stores[grouping].add(
                        replace(block, signatures=as_stored(block.signatures, pipeline, grouping))
                    )
    script.pipeline = pipeline
    return script


def as_stored(signatures: Signatures, pipeline: Pipeline, grouping: Grouping) -> Signatures:
    """Return what a block's fragments mean to the pipeline's predicates, as a checkpoint would."""
    names, bits = [predicate_name(one) for one in signatures.predicates], signatures.bits
    for live in pipeline.queries.values():
        stored = live.derivation and derivation_from(live.derivation.as_record())
        if stored and stored.predicate not in names:
            bits = np.column_stack([bits, stored.column(names, bits)])
            names.append(stored.predicate)
    relations = [relation for relation in pipeline.plan.relations if relation.grouping == grouping]
    asked_for = {predicate_name(one): one for relation in relations for one in relation.predicates}
    known = [place for place, name in enumerate(names) if name in asked_for]
    return signatures_of(tuple(asked_for[names[place]] for place in known), bits[:, known])


@settings(max_examples=40)
@example(seed=44578, slicing=Slicing.PAIRED)  # What old partials know is derived in another grouping.
@example(seed=44578, slicing=Slicing.PANED)
@given(seed=st.integers(0, 2**32), slicing=st.sampled_from(Slicing))
def test_a_restart_changes_no_window(seed: int, slicing: Slicing) -> None:
    with pytest.MonkeyPatch.context() as patch:
        script = random_run(seed, patch, steps=8)
        script.note(script.pipeline.answer_warm(None))  # type: ignore[arg-type]
        for name in script.pipeline.behind:
            script.remove(name)
        restarted(script, slicing)
        for _ in range(4):
            script.add(script.random_query())
            script.batch(script.random_rows())
        script.note(script.pipeline.finish(None))  # type: ignore[arg-type]
        script.check()


# What is let go of.


def sizes(pipeline: Pipeline) -> dict[str, Any]:
    """Return how large all that queries leave behind is."""
    relations = pipeline.plan.relations
    by_grouping: dict[Any, Any] = {}
    for one in relations:
        cuts = {(test.expression, test.values) for each in one.predicates for test in every_test(each)}
        held = by_grouping.setdefault(one.grouping, (set(), set(), set(), set()))
        for known, more in zip(held, (one.predicates, one.windows, one.primitives, cuts), strict=True):
            known.update(more)
    return by_grouping | {
        str(grouping): (
            8 * len(state.fragments._bytes),
            len(state.fragments.predicates),
            len(state.groups),
        )
        for grouping, state in pipeline.stores.items()
    }


def test_a_thousand_queries_that_came_and_went_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "_FORGET_GROUPS_FROM", 0)
    script = Script(plain_pipeline(monkeypatch), Random(7))
    chance = script.chance
    operations = 0
    while operations < 1000:
        for _ in range(40):
            low, high = sorted(chance.sample(range(200), 2))
            one = replace(script.random_query(), name=f"q{operations}")
            script.add(asked(one.name, between(low, high), (one.range_ms, one.slide_ms), keyed=one.keyed))
            operations += 1
        for name in chance.sample(list(script.pipeline.queries), len(script.pipeline.queries) - 5):
            script.remove(name)
            operations += 1
        script.batch(
            [Row(script.now + 1000 * time, str(chance.randrange(50)), time, None) for time in range(20)]
        )
        script.now += 20_000
    fresh = Script(plain_pipeline(monkeypatch), Random(7), now=script.now)
    for name in script.pipeline.queries:
        fresh.add(script.asked[name])
    for _ in range(24):
        several = [Row(script.now + 1000 * time, "a", 10 * time, None) for time in range(20)]
        script.batch(several)
        fresh.batch(several)
        script.now += 20_000
    assert sizes(script.pipeline) == sizes(fresh.pipeline)
    assert len(script.pipeline._history) <= len(fresh.pipeline._history) + 1
    script.note(script.pipeline.finish(None))  # type: ignore[arg-type]
    script.check()


def test_nothing_is_remembered_of_predicates_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(plain_pipeline(monkeypatch), Random(1))
    for number in range(40):
        script.add(asked(f"q{number}", above(7654300 + number), (20, 10)))
        if number >= 3:
            script.remove(f"q{number - 3}")
        script.now += 10_000
        script.batch([Row(script.now + place, "a", 7654300 + place, 1) for place in range(40)])
    script.asked.clear()
    script.lives = dict(script.pipeline.queries)
    script.reports.clear()
    gc.collect()
    kept = [number for number in range(40) for one in formulas() if f"{7654300 + number}" in str(one)]
    # What was computed last is computed on for some batches.
    assert set(kept) >= {37, 38, 39}
    assert min(kept) > 20


def formulas() -> list[Expression]:
    """Return the predicates whose formulas are still in use."""
    return list(import_module("weft.predicates.canonical")._formulas)
