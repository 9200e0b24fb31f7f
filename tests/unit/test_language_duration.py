"""Durations."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import BadWindow
from weft.query import parse_duration
from weft.query.duration import MAX_DURATION_MS
from weft.window import duration

MINUTE = 60_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("12 min", 12 * MINUTE), ("90s", 90_000), ("1 hour 30 minutes", 90 * MINUTE), ("250 ms", 250),
        ("1 day", 24 * 60 * MINUTE), ("1 week", 7 * 24 * 60 * MINUTE), ("1.5 hours", 90 * MINUTE),
        ("  2   HOURS ", 120 * MINUTE), ("1h30m", 90 * MINUTE), ("interval 5 minutes", 5 * MINUTE),
        ("1 hour, 5 minutes", 65 * MINUTE), ("2000 us", 2), ("3000 µs", 3), ("5000000 ns", 5), ("0 s", 0),
        ("+5 s", 5_000), ("3653 days", MAX_DURATION_MS),
    ],
)  # fmt: skip
def test_a_duration_is_read(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("-5 min", -5 * MINUTE), ("- 5 min", -5 * MINUTE), ("-1 hour 30 minutes", -30 * MINUTE), ("-0 s", 0),
        ("-1 hour -30 minutes", -90 * MINUTE), ("1 minute -2 minutes", -MINUTE), ("12 min", 12 * MINUTE),
        ("interval -5 minutes", -5 * MINUTE), ("-3653 days", -MAX_DURATION_MS),
    ],
)  # fmt: skip
def test_an_offset_may_be_negative(text: str, milliseconds: int) -> None:
    assert parse_duration(text, signed=True) == milliseconds


def test_an_offset_has_bounds_on_either_side() -> None:
    with pytest.raises(BadWindow, match='"-3654 days" is longer than ten years'):
        parse_duration("-3654 days", signed=True)


EXAMPLE = "write a number and a unit, as in '12 min' or '1 hour 30 minutes'"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"a duration is empty; {EXAMPLE}"),
        ("   ", f"a duration is empty; {EXAMPLE}"),
        ("5", f'"5" is not a duration; {EXAMPLE}'),
        ("min", f'"min" is not a duration; {EXAMPLE}'),
        ("5 min later 3", f'"5 min later 3" is not a duration; {EXAMPLE}'),
        ("5 fortnights", f'unknown unit of time "fortnights" in "5 fortnights"; {EXAMPLE}'),
        ("-5 min", f'duration "-5 min" is negative; {EXAMPLE}'),
        ("6 min -5 min", f'duration "6 min -5 min" is negative; {EXAMPLE}'),
        ("1 month", "duration \"1 month\" has no fixed length; count days instead, as in '30 days'"),
        ("2 years", "duration \"2 years\" has no fixed length; count days instead, as in '30 days'"),
        ("0.5 ms", "duration \"0.5 ms\" is not a whole number of milliseconds; the finest is '1 ms'"),
        ("10 us", "duration \"10 us\" is not a whole number of milliseconds; the finest is '1 ms'"),
        ("3654 days", 'duration "3654 days" is longer than ten years; check its unit'),
        ("9" * 18 + " weeks", 'duration "999999999999999999 weeks" is longer than ten years; check its unit'),
    ],
)
def test_a_bad_duration_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(BadWindow) as caught:
        parse_duration(text)
    assert str(caught.value) == problem


def test_an_endless_number_is_refused_and_shown_in_part() -> None:
    with pytest.raises(BadWindow, match="…"):
        parse_duration("9" * 100_000 + " s")


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=MAX_DURATION_MS))
def test_what_is_written_is_read_back(milliseconds: int) -> None:
    assert parse_duration(duration(milliseconds)) == milliseconds


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_duration_or_a_bad_window(text: str) -> None:
    with contextlib.suppress(BadWindow):
        assert parse_duration(text) >= 0
