"""Every point of the protocol gets its turn, and what is done meanwhile is not lost sight of."""

import json
import random
import threading
from collections import Counter

import pytest

from tests.faults.deck import KILLS, Deck
from tests.faults.findings import Soak, figures, note_missed, report
from tests.faults.mishap import Came, Outcome
from tests.faults.mishaps import MISHAPS
from tests.faults.trial import End, Life, again_and_again
from weft.faultpoints import POINTS


def killing(deck: Deck, ends: int) -> list[End]:
    """Return those of the next ends that kill at a point."""
    drawn = [deck.draw() for _ in range(ends)]
    return [end for end in drawn if end.fault is not None and end.fault.what in KILLS]


def killed_at(ends: list[End]) -> Counter[str]:
    return Counter(end.fault.point for end in ends if end.fault is not None)


def lives(ends: list[End]) -> list[Life]:
    return [Life(end=end, killed=True, reached=True, seconds=1.0) for end in ends]


@pytest.mark.parametrize("seed", range(5))
def test_two_rounds_kill_python_and_java_at_every_point(seed: int) -> None:
    deck = Deck(random.Random(seed), requests=True, uri=True)
    one, other = killing(deck, deck.round), killing(deck, deck.round)
    assert killed_at(one) == killed_at(other) == Counter(POINTS.keys())
    assert {str(end.fault)[-4:] for end in one} == {"kill", "-jvm"}
    by_point = {(end.fault.point, end.fault.what) for end in [*one, *other] if end.fault is not None}
    assert len(by_point) == len(POINTS) * len(KILLS)


def test_without_requests_their_points_are_left_out() -> None:
    deck = Deck(random.Random(1), requests=False)
    seen = killed_at(killing(deck, deck.round))
    assert set(seen) == set(deck.points) < set(POINTS)
    assert not any(point.startswith(("request.", "registry.")) for point in seen)


def test_a_point_that_did_not_come_by_comes_first_in_the_next_round() -> None:
    deck = Deck(random.Random(2), requests=True, uri=True)
    missed = next(end for end in killing(deck, deck.round) if end.fault is not None and end.fault.nth > 1)
    deck.put_back(missed)
    again = deck.draw()
    assert again.fault is not None
    assert missed.fault is not None
    assert (again.fault.point, again.fault.what, again.fault.nth) == (
        missed.fault.point, missed.fault.what, 1,
    )  # fmt: skip
    assert killed_at(killing(deck, deck.round)) == Counter(POINTS.keys())


def test_a_point_where_nothing_died_is_a_problem_once_there_were_kills_enough() -> None:
    deck = Deck(random.Random(3), requests=True, uri=True)
    ends = killing(deck, deck.round)
    left_out = [end for end in ends if "commit.visible" not in str(end)]
    few = Soak(kills=len(ends), points=deck.points, lives=lives(left_out))
    note_missed(few)
    assert not few.problems
    many = Soak(kills=2 * len(ends), points=deck.points, lives=lives(left_out))
    note_missed(many)
    assert many.problems == ["nothing was ever killed at commit.visible"]
    all_of_them = Soak(kills=2 * len(ends), points=deck.points, lives=lives(ends))
    note_missed(all_of_them)
    assert not all_of_them.problems


def test_only_lives_after_a_kill_are_recoveries() -> None:
    ended = [
        Life(end=End(), killed=True, seconds=9.0),
        Life(end=End(), killed=True, seconds=2.0),
        Life(end=End(), killed=False, seconds=4.0),
        Life(end=End(), killed=True, seconds=50.0),
        Life(end=End(), killed=True, seconds=None),
    ]
    found = Soak(lives=ended, clean=[2.0])
    assert found.recoveries == [2.0, 4.0]
    assert found.ratio == 1.5
    assert Soak(lives=ended[:1], clean=[2.0]).ratio is None


def test_the_figures_can_be_told_and_kept_after_any_number_of_kills() -> None:
    deck = Deck(random.Random(4), requests=True, uri=True)
    for ends in (killing(deck, 1), killing(deck, deck.round)):
        found = Soak(kills=len(ends), points=deck.points, lives=lives(ends), clean=[2.0])
        kept = json.loads(json.dumps(figures(found, seed=4)))
        assert sum(kept["killed_at"].values()) == kept["kills"] == len(ends)
        assert set(kept["killed_at"]) == set(POINTS)
        assert report(found).row_count > 0


def test_every_kind_of_mishap_comes_before_any_comes_again() -> None:
    deck = Deck(random.Random(5), requests=False)
    for _ in range(2):
        assert sorted(deck.draw_mishap() for _ in MISHAPS) == sorted(MISHAPS)


def test_mishaps_are_counted_by_kind_and_by_outcome() -> None:
    outcomes = {"full disk: output": Outcome.WAITED, "copy beside": Outcome.STOPPED}
    mishaps = [Came(kind=kind, outcome=outcome) for kind, outcome in outcomes.items()] * 2
    found = Soak(mishaps=mishaps, clean=[1.0])
    assert figures(found, seed=1)["mishaps"] == {
        "copy beside": {"stopped": 2},
        "full disk: output": {"waited": 2},
    }
    assert report(found).row_count > report(Soak(clean=[1.0])).row_count


def test_what_is_done_meanwhile_is_done_until_the_end_and_its_error_is_told() -> None:
    often, failed = threading.Event(), threading.Event()
    times: list[int] = []

    def count() -> None:
        times.append(len(times))
        if len(times) == 3:
            often.set()

    with again_and_again(count) as problems:
        assert often.wait(30)
    assert not problems

    def fail() -> None:
        failed.set()
        raise ValueError("not this one")

    with again_and_again(fail) as problems:
        assert failed.wait(30)
    (problem,) = problems
    assert "not this one" in problem
