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
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from weft.expression import Expression
from weft.predicates.codebook import Bits, Packed, distinct_rows, evaluate
from weft.predicates.formula import FALSE, TRUE, Any, Formula, Test, all_of, any_of, negation, tests
from weft.predicates.signatures import Signatures, packed_across, pieces

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
        return self.holds(formula) if self.key == formula else evaluate(formula, self.holds, self.positions)


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

    def signatures(self, words: Words, learnt: Mapping[Hashable, "Learnt"]) -> Signatures:
        """Return the signature of each row of words.

        `learnt` says, by key of an axis, which rows had an unknown answer and what it is.
        """
        packed = [np.zeros((0, -(-len(self.predicates) // 8)), dtype=np.uint8)]
        for rows in pieces(len(words), max(len(self.atoms), len(self.predicates))):
            of_piece = {key: Learnt(values.axis, values.answers[rows]) for key, values in learnt.items()}
            packed.append(self._packed(self._held(words[rows], of_piece)))
        return Signatures(predicates=self.predicates, packed=np.concatenate(packed))

    def _held(self, words: Words, learnt: Mapping[Hashable, "Learnt"]) -> Bits:
        """Return which atoms (rows) hold for which of some rows of words (columns)."""
        held = np.zeros((len(self.atoms), len(words)), dtype=bool)
        for column, fields in enumerate(self.fields):
            for part in fields:
                codes = (words[:, column] >> part.shift) & ((1 << part.bits) - 1)
                held[list(part.atoms)] = np.take(np.ascontiguousarray(part.classes.T), codes, axis=1)
        for column, masks in enumerate(self.masks, len(self.fields)):
            used = {bit: atom for bit, atom in enumerate(masks.atoms) if atom is not None}
            as_bytes = (words[:, column] ^ masks.flips).astype("<i8").view(np.uint8).reshape(len(words), 8)
            bits = np.unpackbits(as_bytes, axis=1, bitorder="little").view(bool)
            held[list(used.values())] = bits.T[list(used)]
        for key, answered in learnt.items():
            rows = np.flatnonzero(answered.answers >= 0)
            for number, parts in enumerate(self.atoms if len(rows) else ()):
                asked = dict(parts).get(key)
                if asked is not None:
                    truth = answered.satisfy(asked, rows)
                    held[number, rows] = truth if len(parts) == 1 else held[number, rows] & truth
        return held

    def _packed(self, held: Bits) -> Packed:
        """Return signatures, given which atoms hold."""
        lone = [(number, atoms[0]) for number, (atoms, _) in enumerate(self.uses) if len(atoms) == 1]
        verdicts = np.zeros((len(self.predicates), held.shape[1]), dtype=bool)
        if lone:
            numbers, own = zip(*lone, strict=True)
            verdicts[list(numbers)] = held[list(own)]
        for number, (atoms, opposite) in enumerate(self.uses):
            if len(atoms) > 1:
                np.logical_or.reduce(held[list(atoms)], axis=0, out=verdicts[number])
            if opposite:
                np.logical_not(verdicts[number], out=verdicts[number])
        return packed_across(verdicts)

    def corrected(self, fragments: Words, learnt: Mapping[Hashable, "Learnt"]) -> Words:
        """Return bytes (see `byte_signatures`), less what unknown answers turned out not to satisfy."""
        numbers, values = fragments >> 8, fragments & 255
        for key, answered in learnt.items():
            for predicate, (atoms, opposite) in enumerate(self.uses):
                part = dict(self.atoms[atoms[0]]).get(key) if atoms else None
                rows = np.flatnonzero((answered.answers >= 0) & (numbers == predicate >> 3))
                if part is None or not len(rows):
                    continue
                fails = rows[~answered.satisfy(part, rows)]
                bit = 1 << (predicate & 7)
                values[fails] = values[fails] | bit if opposite else values[fails] & ~bit
        return (numbers << 8) | values


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What unknown answers of an axis turned out to be."""

    axis: Axis
    answers: Words
    """For each row, the answer; −1 where it was known before."""

    def satisfy(self, part: Formula, rows: npt.NDArray[np.intp]) -> Bits:
        """Return which of some rows, whose answers were unknown, satisfy a formula over the axis."""
        return self.axis.evaluate(part)[self.answers[rows]]


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
        parts, keys = _sides(predicate, self._axis)
        if len(frozenset().union(*keys)) == 1:
            (key,) = keys[0]
            return (self._number({key: predicate}),), False
        if isinstance(predicate, Any) and all(len(own) == 1 for own in keys):
            sides: dict[Hashable, list[Formula]] = {}
            for part, (key,) in zip(parts, keys, strict=True):
                sides.setdefault(key, []).append(part)
            return (self._number({key: negation(any_of(own)) for key, own in sides.items()}),), True
        terms = _conjunctions(predicate, self.most_terms)
        if terms is None:
            axis = self.whole(predicate)
            self.axes[axis.key] = axis
            return (self._number({axis.key: predicate}),), False
        return tuple(dict.fromkeys(map(self._term, terms))), False

    def _term(self, term: tuple[Test, ...]) -> int:
        sides: dict[Hashable, list[Formula]] = {}
        for test in term:
            sides.setdefault(self._axis(test.expression), []).append(test)
        return self._number({key: all_of(own) for key, own in sides.items()})

    def _number(self, parts: Mapping[Hashable, Formula]) -> int:
        # A side that is always true asks nothing.
        kept = tuple(sorted((part for part in parts.items() if part[1] != TRUE), key=str))
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
    gathered = _Atoms(axis_of, whole, 1 if bitwise else _MOST_TERMS)
    uses = tuple(map(gathered.use, predicates))
    axes = {key: gathered.axes[key] for key in sorted(gathered.axes, key=str)}
    atoms = tuple(gathered.numbers)
    flipped = frozenset(atom for own, opposite in uses if opposite for atom in own)
    if bitwise:
        bits: Sequence[int | None] = [own[0] if own else None for own, _ in uses]
    else:
        bits = _across_axes(atoms, axes)
    return WordBook(
        predicates=tuple(predicates),
        axes=tuple(axes.values()),
        atoms=atoms,
        uses=uses,
        fields=() if bitwise else _fields(atoms, axes),
        masks=tuple(_masks(atoms, axes, flipped, bits, 8 * BYTES if bitwise else WORD_BITS)),
    )


def _sides(
    predicate: Formula, key_of: Callable[[Expression], Hashable]
) -> tuple[tuple[Formula, ...], list[frozenset[Hashable]]]:
    """Return the parts of a predicate, and the axes that each of them asks."""
    parts = (predicate,) if isinstance(predicate, Test) else predicate.parts
    return parts, [frozenset(key_of(test.expression) for test in tests(part)) for part in parts]


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
    return np.kron(np.eye(count, dtype=bool), values)[:, :predicates]


def _conjunctions(formula: Formula, most: int) -> list[tuple[Test, ...]] | None:
    """Return a formula as a disjunction of conjunctions of tests; None if there would be too many."""
    if isinstance(formula, Test):
        return [(formula,)]
    parts = [terms for part in formula.parts if (terms := _conjunctions(part, most)) is not None]
    if len(parts) < len(formula.parts):
        return None
    if isinstance(formula, Any):
        conjunctions = [term for terms in parts for term in terms]
        return conjunctions if len(conjunctions) <= most else None
    many = prod(len(terms) for terms in parts) > most
    return None if many else [sum(terms, ()) for terms in product(*parts)]


def _fields(atoms: Sequence[Parts], axes: Mapping[Hashable, Axis]) -> tuple[tuple[Field, ...], ...]:
    """Pack the classes of all axes that have atoms of their own."""
    own: dict[Hashable, list[int]] = {}
    for number, parts in enumerate(atoms):
        if len(parts) == 1:
            own.setdefault(parts[0][0], []).append(number)
    words: list[list[Field]] = []
    alone: list[list[Field]] = []
    used = WORD_BITS
    for key, axis in axes.items():
        numbers = own.get(key, [])
        if not numbers:
            continue
        codes, classes = _classes(axis, [atoms[number][0][1] for number in numbers])
        if axis.alone:
            alone.append([Field(axis, 0, WORD_BITS, codes, tuple(numbers), classes)])
            continue
        bits = _width(axis, len(classes))
        if used + bits > WORD_BITS:
            words.append([])
            used = 0
        words[-1].append(Field(axis, used, bits, codes, tuple(numbers), classes))
        used += bits
    return tuple(map(tuple, (*words, *alone)))


def _width(axis: Axis, classes: int) -> int:
    """Return how many bits numbers of classes take, with room for more where constants come and go."""
    least = 1 if axis.positions <= 3 else _LEAST_ROOM
    return max(1, (max(least, classes) - 1).bit_length())


def _classes(axis: Axis, formulas: Iterable[Formula]) -> tuple[Words, Bits]:
    """Number the answers that formulas tell apart; 0 is for those that satisfy none."""
    truths = np.array([axis.evaluate(formula) for formula in formulas], dtype=bool)
    if axis.unknown is not None:
        truths[:, axis.unknown] = False
    firsts, numbers = distinct_rows(np.ascontiguousarray(np.packbits(truths, axis=0).T))
    satisfied = truths[:, firsts].any(axis=0)
    renamed = np.where(satisfied, np.cumsum(satisfied), 0)
    classes = np.vstack([np.zeros((1, len(truths)), dtype=bool), truths[:, firsts[satisfied]].T])
    return renamed[numbers].astype(np.int64), classes


def _across_axes(atoms: Sequence[Parts], axes: Mapping[Hashable, Axis]) -> list[int]:
    """Return the atoms of several axes, those of the same axes side by side."""
    order = {key: rank for rank, key in enumerate(axes)}
    across = [number for number, parts in enumerate(atoms) if len(parts) != 1]
    return sorted(across, key=lambda number: (sorted(order[key] for key, _ in atoms[number]), number))


def _masks(
    atoms: Sequence[Parts],
    axes: Mapping[Hashable, Axis],
    flipped: frozenset[int],
    bits: Sequence[int | None],
    width: int,
) -> Iterable[Masks]:
    """Give a bit to each of some atoms, in the given order; None is a bit that is never set."""
    for begin in range(0, len(bits), width):
        own = bits[begin : begin + width]
        parts = {bit: dict(atoms[atom]) for bit, atom in enumerate(own) if atom is not None}
        tables = []
        for key, axis in axes.items():
            if any(key in asked for asked in parts.values()):
                table = np.zeros(axis.positions, dtype=np.int64)
                for bit, asked in parts.items():
                    table |= _allowed(axis, asked.get(key)).astype(np.int64) << bit
                tables.append((axis, table))
        flips = sum(1 << bit for bit in parts if own[bit] in flipped)
        yield Masks(tuple(own), tuple(tables), sum(1 << bit for bit in parts), flips)


def _allowed(axis: Axis, part: Formula | None) -> Bits:
    if part is None:
        return np.ones(axis.positions, dtype=bool)
    allowed = axis.evaluate(part).copy()
    if axis.unknown is not None:
        allowed[axis.unknown] = True
    return allowed
