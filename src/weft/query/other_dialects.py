"""Functions that are not in the language: what to write instead, where that means the same."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "average": "avg(x)", "stdev": "stddev(x)", "var": "variance(x)",
        "countif": "count_if(condition)", "iif": "if(condition, a, b)", "is_nan": "isnan(x)",
        "strpos": "instr(s, part)", "charindex": "locate(part, s)", "mid": "substring(s, start, length)",
        "regexp_matches": "regexp_like(s, pattern)", "regexp_contains": "regexp_like(s, pattern)",
        "sha256": "sha2(s, 256)", "sha512": "sha2(s, 512)",
        "epoch_ms": "unix_millis(t)", "epoch_us": "unix_micros(t)", "day_of_month": "day(t)",
        "day_of_year": "dayofyear(t)", "week_of_year": "weekofyear(t)",
    }
)  # fmt: skip
"""What means the same as functions of Spark and other dialects."""
DIFFERENT = frozenset("acosh asinh atanh bin btrim cot expr lag lead logb now positive sinc".split())
"""Functions of Spark and other dialects whose names are like those of functions that mean something else."""
_LONG = 7
"""From so many letters on, a name may have two mistakes."""


def instead(name: str, known: Iterable[str]) -> str:
    """Return what to write instead of a function that is not in the language, for its error.

    >>> instead("stdev", ["stddev"]), instead("roudn", ["round"]), instead("sumif", ["sum"])
    ('; write stddev(x)', '; did you mean "round"?', '; docs/functions.md lists the functions')
    """
    folded = name.casefold()
    if folded in INSTEAD:
        return f"; write {INSTEAD[folded]}"
    if folded not in DIFFERENT:
        near = [(_mistakes(folded, one), one) for one in dict.fromkeys(known) if _is_near(folded, one)]
        if near:
            return f'; did you mean "{min(near)[1]}"?'
    return "; docs/functions.md lists the functions"


def _is_near(name: str, known: str) -> bool:
    """Say whether a name may be a known one mistyped; one with another digit, as log3, is another."""
    most = 2 if min(len(name), len(known)) >= _LONG else 1
    digits = [sign for sign in name if sign.isdigit()] == [sign for sign in known if sign.isdigit()]
    return digits and abs(len(name) - len(known)) <= most and _mistakes(name, known) <= most


def _mistakes(one: str, other: str) -> int:
    """Return how many letters are missing, too many, wrong, or in the place of their neighbour.

    >>> _mistakes("summ", "sum"), _mistakes("sbustr", "substr"), _mistakes("count_if", "count")
    (1, 1, 3)
    """
    above: list[int] = []
    row = list(range(len(other) + 1))
    for at, sign in enumerate(one):
        before, above, row = above, row, [at + 1]
        for place, wanted in enumerate(other):
            best = min(row[place] + 1, above[place + 1] + 1, above[place] + (sign != wanted))
            if at and place and sign == other[place - 1] and one[at - 1] == wanted:
                best = min(best, before[place - 1] + 1)
            row.append(best)
    return row[-1]
