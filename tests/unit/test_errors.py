"""Errors say what is wrong, where, and how to mend it."""

import pytest
from tests.unit.language_samples import failure

from weft import errors
from weft.errors import (
    BadWindow,
    EngineError,
    InternalError,
    QueryError,
    SourceError,
    UnknownName,
    UserError,
    WeftError,
    caret,
    suggestion,
)


def test_an_error_reads_as_the_style_guide_has_it() -> None:
    text = "SELECT sum(prise * vol) AS v FROM trades [RANGE '12 min' SLIDE '5 min']"
    assert str(failure(text).named("big")).splitlines() == [
        'query q: unknown column "prise" in stream trades; did you mean "price"?',
        f"  {text}",
        "             ^^^^^",
    ]


def test_carets_stand_under_the_span() -> None:
    assert caret("SELECT prise", (7, 12)) == "\n  SELECT prise\n         ^^^^^"
    assert caret("ab", (0, 1)) == "\n  ab\n  ^"


def test_only_the_line_of_the_span_is_shown() -> None:
    text = "SELECT a,\n  prise,\n  b"
    assert caret(text, (12, 17)) == "\n    prise,\n    ^^^^^"
    # A span that goes on to the next line is marked up to the end of its first.
    assert caret(text, (12, 21)) == "\n    prise,\n    ^^^^^^"
    assert caret(text, (21, 22)) == "\n    b\n    ^"


def test_tabs_are_as_wide_as_they_are_marked() -> None:
    assert caret("\tx\tprise", (3, 8)) == "\n   x prise\n     ^^^^^"


def test_the_end_of_the_text_can_be_marked() -> None:
    assert caret("SELECT", (6, 6)) == "\n  SELECT\n        ^"
    assert caret("SELECT\n", (7, 7)) == "\n  \n  ^"


def test_nothing_is_shown_without_a_place() -> None:
    assert caret("SELECT", None) == ""
    assert caret("", (0, 1)) == ""


@pytest.mark.parametrize("at", [0, 59, 60, 61, 5_000, 9_990])
def test_of_a_long_line_the_part_around_the_caret_is_shown(at: int) -> None:
    text = "".join(f"{number % 10}" for number in range(10_000))
    _, shown, marks = caret(text, (at, at + 5)).split("\n")
    assert len(shown) <= 2 + 140
    place = marks.index("^")
    assert marks.count("^") == 5
    assert shown[place : place + 5] == text[at : at + 5]


def test_a_caret_is_never_wider_than_a_screen() -> None:
    assert caret("x" * 1000, (0, 1000)).count("^") <= 80
    assert max(map(len, caret("x" * 1000, (500, 1000)).split("\n"))) <= 2 + 140


def test_an_error_keeps_the_first_name_it_is_given() -> None:
    error = BadWindow("slide is 0", text="SLIDE 0", span=(6, 7))
    assert str(error) == "slide is 0\n  SLIDE 0\n        ^"
    assert str(error.named("big").named("other")) == "query big: slide is 0\n  SLIDE 0\n        ^"


@pytest.mark.parametrize(
    ("name", "known", "wanted"),
    [
        ("prise", ["price", "vol"], '; did you mean "price"?'),
        ("PRISE", ["Price", "vol"], '; did you mean "Price"?'),
        ("zzz", ["price", "vol", "price"], "; known are price, vol"),
        ("zzz", [], ""),
        ("x", [f"column{number}" for number in range(100)], None),
    ],
)
def test_suggestions(name: str, known: list[str], wanted: str | None) -> None:
    found = suggestion(name, known)
    if wanted is None:
        assert found.count("column") == 20
    else:
        assert found == wanted


def test_user_mistakes_and_our_own_are_separate_branches() -> None:
    assert issubclass(UserError, WeftError)
    for kind in (QueryError, SourceError, EngineError):
        assert issubclass(kind, UserError)
    assert not issubclass(InternalError, UserError)
    assert issubclass(UnknownName, QueryError)


def test_the_tree_at_the_top_of_the_file_is_the_tree() -> None:
    doc = errors.__doc__ or ""
    drawn = {line.strip("│├└─ ").split(" ")[0] for line in doc.splitlines() if "─" in line}
    real = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, WeftError)
    }
    assert drawn | {"WeftError"} == real
