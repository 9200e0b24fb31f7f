"""Signatures without a grid: what predicates say of a row, packed into a few 64-bit words.

A grid of codes has a cell for each combination, so it doubles with every boolean. Words grow by a few bits
instead. An *axis* is whatever is asked of a row once: the position of an attribute, a boolean, or one of the
known values of a column. Predicates are taken apart into *atoms*, conjunctions of one part for each axis:

- Atoms of one axis: positions that none of them tells apart are one class, and its number is a field of a
  word. However many predicates test the axis, a row costs one look-up.
- Atoms of several axes have a bit each. Every axis has a table of masks, and a word is the AND of what its
  axes' tables hold.

A disjunction of axes is kept as the negation of a conjunction, and what has too many conjunctions is an axis
of its own. Words are 0 for F0. The driver reads signatures off the distinct words of a batch.

Where rows are aggregated once for each predicate, every predicate has a bit, and a row is copied for each
byte of its words that is not 0. So a copy tells of up to eight predicates, and its fragment is the byte.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from weft.expression import Expression
from weft.predicates.codebook import Bits, distinct_rows
from weft.predicates.formula import FALSE, TRUE, All, Any, Formula, Test, all_of, any_of, negation, tests

Words = npt.NDArray[np.int64]
WORD_BITS = 63
"""Bits of a word in use: the sign is left alone."""
_MOST_TERMS = 8
"""Predicates with more conjunctions than these are evaluated as they stand."""
_LEAST_ROOM = 64
BYTES = 7
"""Whole bytes of a word, where each is a fragment."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """What is asked of a row once, and what tests say of each answer."""

    key: Hashable
    positions: int
    """How many answers there are."""
    holds: Callable[[Formula], Bits]
    """For each answer, whether a test, or a predicate that is an axis of its own, is true of it."""
    unknown: int | None = None
    """The answer of which nothing is known yet."""
    alone: bool = False
    """Whether its classes are a word of their own, because nobody knows how many they will be."""

    def evaluate(self, formula: Formula) -> Bits:
        """Return, for each answer, whether a formula over this axis is true of it."""
        if isinstance(formula, Test) or self.key == formula:
            return self.holds(formula)
        join = np.logical_and if isinstance(formula, All) else np.logical_or
        start = np.full(self.positions, isinstance(formula, All))
        return reduce(join, map(self.evaluate, formula.parts), start)


Parts = tuple[tuple[Hashable, Formula], ...]
"""An atom: for each axis that it asks, by key, what must hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """The classes of an axis, as some bits of a word."""

    axis: Axis
    shift: int
    bits: int
    codes: Words
    """For each answer, the number of its class; 0 where no atom holds."""
    atoms: tuple[int, ...]
    classes: Bits
    """For each class and atom, whether the one satisfies the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """A word with a bit for each of some atoms."""

    atoms: tuple[int | None, ...]
    """For each bit its atom; None for one that is never set."""
    tables: tuple[tuple[Axis, Words], ...]
    """For each axis and answer, the bits of atoms that it does not rule out."""
    used: int
    """The bits that have an atom."""
    flips: int
    """The bits that are to be turned round, so that they tell of disjunctions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordBook:
    """How the predicates of a relation become words, and words signatures."""

    predicates: tuple[Formula, ...]
    axes: tuple[Axis, ...]
    atoms: tuple[Parts, ...]
    uses: tuple[tuple[tuple[int, ...], bool], ...]
    """For each predicate, the atoms of which one must hold, and whether the opposite is meant."""
    fields: tuple[tuple[Field, ...], ...]
    """The words of classes."""
    masks: tuple[Masks, ...]
    """The words of bits, which follow them."""

    @property
    def width(self) -> int:
        """How many words there are."""
        return len(self.fields) + len(self.masks)

    @property
    def parts(self) -> int:
        """How many look-ups the words of a row take."""
        return sum(map(len, self.fields)) + sum(len(mask.tables) for mask in self.masks)

    @property
    def bytes(self) -> int:
        """How many bytes of bitwise words tell of predicates."""
        return -(-len(self.predicates) // 8)

    def signatures(self, words: Words, learnt: Mapping[Hashable, "Learnt"]) -> Bits:
        """Return, for each row of words and predicate, whether the one satisfies the other.

        `learnt` says, by key of an axis, which rows had an unknown answer and what it is.
        """
        held = np.zeros((len(words), len(self.atoms)), dtype=bool)
        for column, some in enumerate(self.fields):
            for one in some:
                codes = (words[:, column] >> one.shift) & ((1 << one.bits) - 1)
                held[:, list(one.atoms)] = one.classes[codes]
        for column, mask in enumerate(self.masks, len(self.fields)):
            for place, atom in enumerate(mask.atoms):
                if atom is not None:
                    held[:, atom] = ((words[:, column] ^ mask.flips) >> place) & 1
        self._learn(held, learnt)
        found = np.zeros((len(words), len(self.predicates)), dtype=bool)
        for number, (atoms, opposite) in enumerate(self.uses):
            found[:, number] = held[:, list(atoms)].any(axis=1) ^ opposite
        return found

    def _learn(self, held: Bits, learnt: Mapping[Hashable, "Learnt"]) -> None:
        """Take in what unknown answers turned out to be."""
        for key, found in learnt.items():
            rows = np.flatnonzero(found.answers >= 0)
            if not len(rows):
                continue
            for number, parts in enumerate(self.atoms):
                part = dict(parts).get(key)
                if part is not None:
                    truth = found.axis.evaluate(part)[found.answers[rows]]
                    held[rows, number] = truth if len(parts) == 1 else held[rows, number] & truth

    def corrected(self, fragments: Words, learnt: Mapping[Hashable, "Learnt"]) -> Words:
        """Return bytes (see `byte_signatures`), less what unknown answers turned out not to satisfy."""
        numbers, values = fragments >> 8, fragments & 255
        for key, found in learnt.items():
            for place, (atoms, opposite) in enumerate(self.uses):
                part = dict(self.atoms[atoms[0]]).get(key) if atoms else None
                rows = np.flatnonzero((found.answers >= 0) & (numbers == place >> 3))
                if part is None or not len(rows):
                    continue
                fails = rows[~found.axis.evaluate(part)[found.answers[rows]]]
                bit = 1 << (place & 7)
                values[fails] = values[fails] | bit if opposite else values[fails] & ~bit
        return (numbers << 8) | values


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What unknown answers of an axis turned out to be."""

    axis: Axis
    answers: Words
    """For each row, the answer; −1 where it was known before."""


@dataclass(slots=True)
class _Atoms:
    """Atoms of some predicates, each once."""

    axis_of: Callable[[Expression], Axis]
    whole: Callable[[Formula], Axis]
    most_terms: int
    numbers: dict[Parts, int] = field(default_factory=dict)
    axes: dict[Hashable, Axis] = field(default_factory=dict)

    def use(self, predicate: Formula) -> tuple[tuple[int, ...], bool]:
        """Return the atoms of a predicate, and whether their opposite is meant."""
        if predicate in (TRUE, FALSE):
            return ((self._number({}),) if predicate == TRUE else ()), False
        apart, keys = _sides(predicate, self._axis)
        if len(frozenset().union(*keys)) == 1:
            (key,) = keys[0]
            return (self._number({key: predicate}),), False
        if isinstance(predicate, Any) and all(len(some) == 1 for some in keys):
            sides: dict[Hashable, list[Formula]] = {}
            for part, (key,) in zip(apart, keys, strict=True):
                sides.setdefault(key, []).append(part)
            return (self._number({key: negation(any_of(some)) for key, some in sides.items()}),), True
        terms = _conjunctions(predicate, self.most_terms)
        if terms is None:
            axis = self.whole(predicate)
            self.axes[axis.key] = axis
            return (self._number({axis.key: predicate}),), False
        return tuple(dict.fromkeys(map(self._term, terms))), False

    def _term(self, term: tuple[Test, ...]) -> int:
        sides: dict[Hashable, list[Formula]] = {}
        for one in term:
            sides.setdefault(self._axis(one.expression), []).append(one)
        return self._number({key: all_of(some) for key, some in sides.items()})

    def _number(self, parts: Mapping[Hashable, Formula]) -> int:
        # A side that is always true asks nothing.
        kept = tuple(sorted(((key, one) for key, one in parts.items() if one != TRUE), key=str))
        return self.numbers.setdefault(kept, len(self.numbers))

    def _axis(self, expression: Expression) -> Hashable:
        axis = self.axis_of(expression)
        return self.axes.setdefault(axis.key, axis).key


def word_book(
    predicates: Sequence[Formula],
    axis_of: Callable[[Expression], Axis],
    whole: Callable[[Formula], Axis],
    *,
    bitwise: bool = False,
) -> WordBook:
    """Return how predicates become words, given the axis of each expression that they test.

    If it is to be `bitwise`, every predicate has a bit, in their order, and words have whole bytes.
    """
    atoms = _Atoms(axis_of, whole, 1 if bitwise else _MOST_TERMS)
    uses = tuple(map(atoms.use, predicates))
    axes = {key: atoms.axes[key] for key in sorted(atoms.axes, key=str)}
    several = tuple(atoms.numbers)
    flipped = frozenset(one for some, opposite in uses if opposite for one in some)
    if bitwise:
        places = [some[0] if some else None for some, _ in uses]
        return WordBook(
            predicates=tuple(predicates),
            axes=tuple(axes.values()),
            atoms=several,
            uses=uses,
            fields=(),
            masks=tuple(_masks(several, axes, flipped, places, 8 * BYTES)),
        )
    return WordBook(
        predicates=tuple(predicates),
        axes=tuple(axes.values()),
        atoms=several,
        uses=uses,
        fields=_fields(several, axes),
        masks=tuple(_masks(several, axes, flipped, _alike(several, axes), WORD_BITS)),
    )


def _sides(
    predicate: Formula, key_of: Callable[[Expression], Hashable]
) -> tuple[tuple[Formula, ...], list[frozenset[Hashable]]]:
    """Return the parts of a predicate, and the axes that each of them asks."""
    apart = predicate.parts if isinstance(predicate, All | Any) else (predicate,)
    return apart, [frozenset(key_of(one.expression) for one in tests(part)) for part in apart]


def stands_whole(
    predicate: Formula, key_of: Callable[[Expression], Hashable], *, bitwise: bool = False
) -> bool:
    """Say whether a predicate has too many conjunctions, so that it is evaluated as it stands."""
    _, keys = _sides(predicate, key_of)
    if len(frozenset().union(*keys)) < 2 or (isinstance(predicate, Any) and max(map(len, keys)) == 1):
        return False
    return _conjunctions(predicate, 1 if bitwise else _MOST_TERMS) is None


def byte_signatures(predicates: int) -> Bits:
    """Return, for each byte of bitwise words and each value of it, which predicates are satisfied.

    >>> byte_signatures(9)[[0, 5, 256 + 1]].astype(int).tolist()
    [[0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 1]]
    """
    count = -(-predicates // 8)
    values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(bool)
    found = np.zeros((count, 256, 8 * count), dtype=bool)
    for number in range(count):
        found[number, :, 8 * number : 8 * number + 8] = values
    return found.reshape(256 * count, 8 * count)[:, :predicates]


def _conjunctions(formula: Formula, most: int) -> list[tuple[Test, ...]] | None:
    """Return a formula as a disjunction of conjunctions of tests; None if there would be too many."""
    if isinstance(formula, Test):
        return [(formula,)]
    several = [_conjunctions(part, most) for part in formula.parts]
    known = [one for one in several if one is not None]
    if len(known) < len(several):
        return None
    if isinstance(formula, Any):
        found = [term for terms in known for term in terms]
    else:
        if prod(len(terms) for terms in known) > most:
            return None
        found = [sum(terms, ()) for terms in product(*known)]
    return found if len(found) <= most else None


def _fields(atoms: Sequence[Parts], axes: Mapping[Hashable, Axis]) -> tuple[tuple[Field, ...], ...]:
    """Pack the classes of all axes that have atoms of their own."""
    own: dict[Hashable, list[int]] = {}
    for number, parts in enumerate(atoms):
        if len(parts) == 1:
            own.setdefault(parts[0][0], []).append(number)
    words: list[list[Field]] = []
    lonely: list[list[Field]] = []
    used = WORD_BITS
    for key in axes:
        if key not in own:
            continue
        axis, numbers = axes[key], own[key]
        codes, classes = _classes(axis, [atoms[number][0][1] for number in numbers])
        bits = WORD_BITS if axis.alone else _width(axis, len(classes))
        if axis.alone:
            lonely.append([Field(axis, 0, bits, codes, tuple(numbers), classes)])
            continue
        if used + bits > WORD_BITS:
            words.append([])
            used = 0
        words[-1].append(Field(axis, used, bits, codes, tuple(numbers), classes))
        used += bits
    return tuple(map(tuple, (*words, *lonely)))


def _width(axis: Axis, classes: int) -> int:
    """Return how many bits numbers of classes take, with room for more where constants come and go."""
    least = 1 if axis.positions <= 3 else _LEAST_ROOM
    return max(1, (max(least, classes) - 1).bit_length())


def _classes(axis: Axis, formulas: Iterable[Formula]) -> tuple[Words, Bits]:
    """Number the answers that formulas tell apart; 0 is for those that satisfy none."""
    truths = np.array([axis.evaluate(one) for one in formulas], dtype=bool)
    if axis.unknown is not None:
        truths[:, axis.unknown] = False
    firsts, numbers = distinct_rows(np.ascontiguousarray(np.packbits(truths, axis=0).T))
    some = truths[:, firsts].any(axis=0)
    renamed = np.where(some, np.cumsum(some), 0)
    classes = np.vstack([np.zeros((1, len(truths)), dtype=bool), truths[:, firsts[some]].T])
    return renamed[numbers].astype(np.int64), classes


def _alike(atoms: Sequence[Parts], axes: Mapping[Hashable, Axis]) -> list[int | None]:
    """Return the atoms of several axes, those of the same axes side by side."""
    order = {key: place for place, key in enumerate(axes)}
    several = [number for number, parts in enumerate(atoms) if len(parts) != 1]
    several.sort(key=lambda number: (sorted(order[key] for key, _ in atoms[number]), number))
    return [*several]


def _masks(
    atoms: Sequence[Parts],
    axes: Mapping[Hashable, Axis],
    flipped: frozenset[int],
    places: Sequence[int | None],
    width: int,
) -> Iterable[Masks]:
    """Give a bit to each of some atoms, in the given order; None is a bit that is never set."""
    for begin in range(0, len(places), width):
        some = places[begin : begin + width]
        parts = [dict[Hashable, Formula]() if one is None else dict(atoms[one]) for one in some]
        tables = []
        for key, axis in axes.items():
            if not any(key in one for one in parts):
                continue
            table = np.zeros(axis.positions, dtype=np.int64)
            for place, one in enumerate(parts):
                if some[place] is not None:
                    table |= _allowed(axis, one.get(key)).astype(np.int64) << place
            tables.append((axis, table))
        flips = sum(1 << place for place, number in enumerate(some) if number in flipped)
        used = sum(1 << place for place, number in enumerate(some) if number is not None)
        yield Masks(tuple(some), tuple(tables), used, flips)


def _allowed(axis: Axis, part: Formula | None) -> Bits:
    if part is None:
        return np.ones(axis.positions, dtype=bool)
    found = axis.evaluate(part).copy()
    if axis.unknown is not None:
        found[axis.unknown] = True
    return found
