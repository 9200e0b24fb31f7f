"""The grammar of GROUP BY: expressions, ROLLUP, CUBE and GROUPING SETS, alone or together."""

from collections.abc import Callable, Sequence
from itertools import combinations

from weft.errors import SyntaxMistake, TooLarge
from weft.query.cursor import Cursor
from weft.query.syntax import ItemSyntax, SetsSyntax

Set = tuple[int, ...]
"""The items of a grouping set, by their index."""
MOST_SETS = 256
"""Maximum number of grouping sets of a query; each is computed for every window."""


def groups(
    cursor: Cursor, item: Callable[[Cursor], ItemSyntax]
) -> tuple[tuple[ItemSyntax, ...], SetsSyntax | None]:
    """Read what follows GROUP BY: all items that occur, and how they are combined, if in several ways."""
    start, reader = cursor.index, _Reader(item)
    sets: list[Set] = [()]
    for own in cursor.listed(reader.element):
        sets = _product(cursor, start, sets, own)
    if cursor.accept("WITH"):
        word = cursor.token.key
        if word not in _SETS:
            raise cursor.mistake("expected ROLLUP or CUBE")
        cursor.advance()
        if reader.several:
            problem = f"WITH {word} is for a list of expressions; write {word}(…) beside the other instead"
            raise SyntaxMistake(problem, span=cursor.span_from(start))
        sets, reader.several = _combined(cursor, start, word, [(index,) for index in sets[0]]), True
    syntax = SetsSyntax(sets=tuple(sets), span=cursor.span_from(start)) if reader.several else None
    return tuple(reader.items), syntax


class _Reader:
    """Reads the elements of GROUP BY, and keeps the items that occur in them."""

    def __init__(self, item: Callable[[Cursor], ItemSyntax]) -> None:
        self._item = item
        self.items: list[ItemSyntax] = []
        self.several = False
        """Whether there is more than a list of expressions."""

    def element(self, cursor: Cursor) -> list[Set]:
        """Read an expression, or one of the forms that stand for several sets."""
        if cursor.at("ALL"):
            raise cursor.refusal("GROUP BY ALL is not in the language; name the columns")
        return self._form(cursor) or [(self._index(cursor),)]

    def _form(self, cursor: Cursor) -> list[Set]:
        start, word = cursor.index, cursor.token.key
        if not (word in _SETS and cursor.peek().key == "(") and not cursor.at("GROUPING", "SETS"):
            return []
        self.several = True
        cursor.advance()
        if word == "GROUPING":
            cursor.expect("SETS")
        cursor.expect("(")
        if word == "GROUPING":
            sets = [own for several in cursor.listed(self._member) for own in several]
        else:
            sets = _combined(cursor, start, word, cursor.listed(self._unit))
        cursor.expect(")")
        return sets

    def _member(self, cursor: Cursor) -> list[Set]:
        """Read a set of GROUPING SETS, or a form nested in it."""
        return self._form(cursor) or [self._unit(cursor)]

    def _unit(self, cursor: Cursor) -> Set:
        """Read `a`, `(a, b)` or `()`."""
        start, count = cursor.index, len(self.items)
        if cursor.accept("(", ")"):
            return ()
        if cursor.accept("("):
            unit = tuple(cursor.listed(self._index))
            if cursor.accept(")") and (cursor.at(",") or cursor.at(")")):
                return unit
            # It was an expression that begins with brackets.
            cursor.index = start
            del self.items[count:]
        return (self._index(cursor),)

    def _index(self, cursor: Cursor) -> int:
        self.items.append(self._item(cursor))
        return len(self.items) - 1


def _rolled_up(units: Sequence[Set]) -> list[Set]:
    """Return all beginnings of a list, the longest first."""
    return [sum(units[:length], ()) for length in range(len(units), -1, -1)]


def _cubed(units: Sequence[Set]) -> list[Set]:
    """Return all parts of a list, the longest first."""
    lengths = range(len(units), -1, -1)
    return [sum(chosen, ()) for length in lengths for chosen in combinations(units, length)]


_SETS = {"ROLLUP": _rolled_up, "CUBE": _cubed}


def _combined(cursor: Cursor, start: int, word: str, units: Sequence[Set]) -> list[Set]:
    _enforce(cursor, start, len(units) + 1 if word == "ROLLUP" else 2 ** len(units))
    return _SETS[word](units)


def _product(cursor: Cursor, start: int, left: Sequence[Set], right: Sequence[Set]) -> list[Set]:
    _enforce(cursor, start, len(left) * len(right))
    return [one + other for one in left for other in right]


def _enforce(cursor: Cursor, start: int, count: int) -> None:
    if count > MOST_SETS:
        problem = f"GROUP BY has {count:,} grouping sets, and the most is {MOST_SETS}"
        raise TooLarge(f"{problem}; name those that you need in GROUPING SETS", span=cursor.span_from(start))
