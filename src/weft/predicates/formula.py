"""When a predicate is true, as a value: tests of expressions, joined by AND and OR.

A row passes a WHERE clause only if the clause is TRUE: FALSE and NULL are alike. So three-valued logic is
needed inside a predicate only where it says NOT, and there the canonical form has moved it into the tests
(see weft.predicates.canonical). What is left has two values: an AND is true where all its parts are.

Formulas made by `all_of` and `any_of` are in one form: no part twice, one test for each expression, parts in
a fixed order. So predicates written differently compare equal. Planning looks thousands of them up again and
again, so each works out its hash once, when it is made.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from weft.expression import Expression
from weft.predicates.values import Cut, Values, joined, point_text
from weft.types import Kind


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Test:
    """Whether an expression's value is in a set."""

    expression: Expression
    values: Values
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.expression, self.values)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return _text(self.expression, self.values)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Parts:
    parts: "tuple[Formula, ...]"
    size: int = field(init=False, compare=False, repr=False)
    """How many tests there are in all."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((type(self), self.parts)))
        object.__setattr__(self, "size", sum(map(size, self.parts)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class All(_Parts):
    """True where all parts are; with none, always."""

    __hash__ = _Parts.__hash__

    def __str__(self) -> str:
        return " and ".join(map(_bracketed, self.parts)) or "true"


@dataclass(frozen=True, slots=True)
class Any(_Parts):
    """True where one of the parts is; with none, never."""

    __hash__ = _Parts.__hash__

    def __str__(self) -> str:
        return " or ".join(map(_bracketed, self.parts)) or "false"


Formula = Test | All | Any


def size(formula: Formula) -> int:
    """Return how many tests a formula makes."""
    return 1 if isinstance(formula, Test) else formula.size


TRUE, FALSE = All(()), Any(())


def test(expression: Expression, values: Values) -> Formula:
    """Return a test, or a constant where the set leaves no choice."""
    if values.is_empty:
        return FALSE
    return TRUE if values.is_everything else Test(expression, values)


def all_of(parts: Iterable[Formula]) -> Formula:
    """Return the AND of formulas."""
    return _joined(parts, All, Values.__and__, neutral=TRUE, decisive=FALSE)


def any_of(parts: Iterable[Formula]) -> Formula:
    """Return the OR of formulas."""
    return _joined(parts, Any, Values.__or__, neutral=FALSE, decisive=TRUE)


def _joined(
    parts: Iterable[Formula],
    kind: type[All] | type[Any],
    join: Callable[[Values, Values], Values],
    *,
    neutral: Formula,
    decisive: Formula,
) -> Formula:
    sets: dict[Expression, list[Values]] = {}
    others: dict[Formula, None] = {}
    for part in parts:
        for inner in part.parts if isinstance(part, kind) else (part,):
            if isinstance(inner, Test):
                sets.setdefault(inner.expression, []).append(inner.values)
            else:
                others[inner] = None
    distinct = [*(test(expression, joined(values, join)) for expression, values in sets.items()), *others]
    if decisive in distinct:
        return decisive
    kept = sorted((part for part in distinct if part != neutral), key=str)
    return kept[0] if len(kept) == 1 else kind(tuple(kept))


def negation(formula: Formula) -> Formula:
    """Return the formula that is true exactly where this one is not (De Morgan; both have two values)."""
    if isinstance(formula, Test):
        return test(formula.expression, ~formula.values)
    opposite = any_of if isinstance(formula, All) else all_of
    return opposite(map(negation, formula.parts))


def tests(formula: Formula) -> Iterator[Test]:
    """Yield every test of a formula."""
    if isinstance(formula, Test):
        yield formula
    else:
        for part in formula.parts:
            yield from tests(part)


def cuts_of(formulas: Iterable[Formula]) -> dict[Expression, set[Cut]]:
    """Return where formulas cut the values of each expression that they test."""
    cuts: dict[Expression, set[Cut]] = {}
    for formula in formulas:
        for part in tests(formula):
            cuts.setdefault(part.expression, set()).update(part.values.cuts)
    return cuts


def _bracketed(formula: Formula) -> str:
    text = str(formula)
    return text if isinstance(formula, Test) and " or " not in text else f"({text})"


def _text(expression: Expression, values: Values) -> str:
    """Return a test as a user would write it."""
    if expression.type.kind is Kind.BOOLEAN and values.has(False) + values.has(True) + values.null == 1:
        return f"{expression} is null" if values.null else f"{'' if values.has(True) else 'not '}{expression}"
    if values.null:
        rest = values.without_null()
        return f"{expression} is null" + ("" if rest.is_empty else f" or {_text(expression, rest)}")
    if values.lowest and not values.cuts:
        return f"{expression} is not null"
    if values.cuts_out_points:
        points = [point_text(expression.type, cut.value) for cut in values.cuts[::2]]
        equal, among = ("<>", "not in") if values.lowest else ("=", "in")
        if len(points) == 1:
            return f"{expression} {equal} {points[0]}"
        return f"{expression} {among} ({', '.join(points)})"
    return " or ".join(_stretch_text(expression, *bounds) for bounds in values.stretches())


def _stretch_text(expression: Expression, low: Cut | None, high: Cut | None) -> str:
    sides = []
    if low is not None:
        sides.append(f"{expression} {'>' if low.after else '>='} {point_text(expression.type, low.value)}")
    if high is not None:
        sides.append(f"{expression} {'<=' if high.after else '<'} {point_text(expression.type, high.value)}")
    return " and ".join(sides)
