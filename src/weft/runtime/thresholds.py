"""HAVING with parameters: which rows pass for each of many readers of the same finals.

What holds no parameter is evaluated once. A comparison with one parameter is then a search in the sorted
values, however many alerts ask; any other condition is evaluated reader by reader, for all asks at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import arrow_type
from weft.evaluation import Evaluator
from weft.expression import Call, Expression, Literal, Slot, SlotKind, walk
from weft.runtime.readings import Reader
from weft.runtime.repeating import spelled_out
from weft.types import BOOLEAN

Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
Readers = Sequence[Sequence[Reader]]
_FEW_READERS = 4
"""Up to this number of readers of an ask, conditions are evaluated reader by reader."""
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """Which rows pass, reader after reader."""

    rows: Rows
    counts: Rows
    """How many of them are each reader's."""
    readers: Sequence[Reader]


def passing(having: Expression, evaluator: Evaluator, bounds: Rows, readers: Readers) -> Passing:
    """Return the rows that pass HAVING; `bounds` tells which rows are those of each ask, and so whose."""
    if not _has_parameter(having):
        return passing_alike(evaluator.holds(having), bounds, readers)
    if max(map(len, readers)) > _FEW_READERS and (threshold := _threshold(having)) is not None:
        passed = threshold.passing(evaluator, bounds, readers)
        if passed is not None:
            return passed
    return _passing_each(having, evaluator, bounds, readers)


def constant_parts(condition: Expression) -> list[Expression]:
    """Return the largest parts of a condition that hold no parameter."""
    if not _has_parameter(condition):
        return [condition]
    return (
        [part for argument in condition.args for part in constant_parts(argument)]
        if isinstance(condition, Call)
        else []
    )


def _has_parameter(expression: Expression) -> bool:
    return any(isinstance(node, Slot) and node.kind is SlotKind.PARAMETER for node in walk(expression))


def passing_alike(holds: Bools, bounds: Rows, readers: Readers) -> Passing:
    """Return rows that pass for every reader of their ask."""
    rows = np.flatnonzero(holds)
    cuts = np.searchsorted(rows, bounds)
    everyone = [reader for several in readers for reader in several]
    if len(everyone) == len(readers):
        return Passing(rows=rows, counts=np.diff(cuts), readers=everyone)
    times = [len(several) for several in readers]
    begin, count = np.repeat(cuts[:-1], times), np.repeat(np.diff(cuts), times)
    return Passing(rows=rows[spelled_out(begin, count)], counts=count, readers=everyone)


def _passing_each(having: Expression, evaluator: Evaluator, bounds: Rows, readers: Readers) -> Passing:
    """Evaluate the condition for the first reader of every ask, then for the second, and so on."""
    given: dict[Slot, pa.Array] = {}
    rest = _with_given(having, evaluator, given)
    found: list[tuple[Reader, Rows]] = []
    lengths = np.diff(bounds)
    for turn in range(max(map(len, readers))):
        asks = np.array([ask for ask, several in enumerate(readers) if len(several) > turn], dtype=np.intp)
        rows = spelled_out(bounds[asks], lengths[asks])
        whole = len(asks) == len(readers)
        columns = {slot: values if whole else values.take(pa.array(rows)) for slot, values in given.items()}
        mine = [readers[ask][turn] for ask in asks.tolist()]
        columns |= _parameters(mine, lengths[asks])
        kept = rows[np.flatnonzero(Evaluator(columns, len(rows)).holds(rest))]
        cuts = np.searchsorted(kept, bounds)
        found += [(reader, kept[cuts[ask] : cuts[ask + 1]]) for ask, reader in zip(asks, mine, strict=True)]
    return _joined(found)


def _joined(found: Sequence[tuple[Reader, Rows]]) -> Passing:
    return Passing(
        rows=np.concatenate([rows for _, rows in found]),
        counts=np.array([len(rows) for _, rows in found], dtype=np.intp),
        readers=[reader for reader, _ in found],
    )


def _with_given(expression: Expression, evaluator: Evaluator, given: dict[Slot, pa.Array]) -> Expression:
    """Evaluate the parts without a parameter, and put slots in their place."""
    if isinstance(expression, Literal):
        return expression
    if not _has_parameter(expression):
        # Numbers of parameters begin with 0.
        slot = Slot(SlotKind.PARAMETER, -1 - len(given), expression.type)
        given[slot] = evaluator.values(expression)
        return slot
    if isinstance(expression, Call):
        parts = tuple(_with_given(part, evaluator, given) for part in expression.args)
        return Call(expression.function, parts, expression.type)
    return expression


def _parameters(readers: Sequence[Reader], lengths: Rows) -> dict[Slot, pa.Array]:
    """Return each reader's parameters, repeated for its rows."""
    reader = pa.array(np.repeat(np.arange(len(readers)), lengths))
    return {
        Slot(SlotKind.PARAMETER, index, constant.type): pa.array(
            [one.parameters[index].value for one in readers], arrow_type(constant.type)
        ).take(reader)
        for index, constant in enumerate(readers[0].parameters)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Threshold:
    """A comparison of a value with a parameter, and conditions without one that hold as well."""

    value: Expression
    comparison: str
    parameter: int
    others: Sequence[Expression]

    def passing(self, evaluator: Evaluator, bounds: Rows, readers: Readers) -> Passing | None:
        """Return the rows that pass; None where types want more care than sorting numbers."""
        constants = [[reader.parameters[self.parameter] for reader in several] for several in readers]
        limits = [_numbers(several, self.value) for several in constants]
        values = evaluator.values(self.value)
        if any(limit is None for limit in limits):
            return None
        usable = np.asarray(values.is_valid())
        for other in self.others:
            usable = usable & evaluator.holds(other)
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        found = []
        for ask, (several, limit) in enumerate(zip(readers, limits, strict=True)):
            assert limit is not None
            rows = bounds[ask] + np.flatnonzero(usable[bounds[ask] : bounds[ask + 1]])
            rows = rows[np.argsort(numbers[rows], kind="stable")]
            for reader, (begin, end) in zip(several, self._cuts(numbers[rows], limit), strict=True):
                found.append((reader, np.sort(rows[begin:end])))
        return _joined(found)

    def _cuts(
        self, ordered: npt.NDArray[np.generic], limits: npt.NDArray[np.generic]
    ) -> list[tuple[int, int]]:
        side = "right" if self.comparison in (">", "<=") else "left"
        cuts = np.searchsorted(ordered, limits, side=side).tolist()  # type: ignore[call-overload]
        if self.comparison in ("<", "<="):
            return [(0, cut) for cut in cuts]
        return [(cut, len(ordered)) for cut in cuts]


def _threshold(having: Expression) -> _Threshold | None:
    """Read a condition as one comparison with one parameter, beside conditions without any."""
    parts = having.args if isinstance(having, Call) and having.function == "and" else (having,)
    compared = [part for part in parts if _has_parameter(part)]
    if len(compared) != 1 or not isinstance(compared[0], Call) or compared[0].function not in _MIRRORED:
        return None
    comparison, (left, right) = compared[0].function, compared[0].args
    if _has_parameter(left):
        comparison, left, right = _MIRRORED[comparison], right, left
    if _has_parameter(left) or not isinstance(right, Slot):
        return None
    others = [part for part in parts if part is not compared[0]]
    assert having.type == BOOLEAN
    return _Threshold(value=left, comparison=comparison, parameter=right.index, others=others)


def _numbers(constants: Sequence[Literal], value: Expression) -> npt.NDArray[np.generic] | None:
    """Return constants in the type in which Spark compares the value with them, if that is a plain number."""
    if value.type.is_fractional and all(isinstance(one.value, int | float | Decimal) for one in constants):
        return np.array([float(one.value) for one in constants])  # type: ignore[arg-type]
    if value.type.is_integer and all(one.type.is_integer for one in constants):
        return np.array([one.value for one in constants], dtype=np.int64)
    return None
