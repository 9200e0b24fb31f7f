"""Means, variances, covariances and higher moments, merged around their means (Chan et al., Pébay).

Sums of powers would lose the digits that matter where values are large and close together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.aggregate import Aggregate, Arguments, Constants, Partials, Types
from weft.aggregates.combine import expanded
from weft.aggregates.partial import Combine, Field, Partial, Primitive, Rows, to_arrow
from weft.aggregates.sums import cast_to
from weft.expression import Call, Expression, Literal
from weft.types import BIGINT, BOOLEAN, DOUBLE, NULL, DataType

Doubles = npt.NDArray[Any]


class Moments(Combine):
    """Count, means and central moments: merged as one.

    The moments are products of deviations from the means, as means themselves: of (count, x, var) the squares
    of deviations of x. `powers` says for each moment how often each variable is in it.
    """

    rounds, in_pieces = True, True

    def __init__(self, name: str, variables: int, powers: tuple[tuple[int, ...], ...]) -> None:
        self.name, self._variables, self._powers = name, variables, powers

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return count, means and moments of each range."""
        count, *rest = partial.fields
        through = np.concatenate(([0], np.cumsum(count)))
        counts = through[hi] - through[lo]
        merged = [np.empty(len(lo)) for _ in rest]
        # The first row of each range that has a count (any row, where none has).
        counted = np.where(count > 0, np.arange(len(count)), len(count) - 1)
        first = np.minimum.accumulate(counted[::-1])[::-1][lo]
        with np.errstate(all="ignore"):
            for part, rows, starts in expanded(lo, hi):
                weights = _Weights(count[rows], starts, counts[part])
                means = [
                    _mean(weights, rest[own][rows], rest[own][first[part]]) for own in range(self._variables)
                ]
                columns = [column[rows] for column in rest]
                for own, column in enumerate((*means, *self._moments(weights, columns, means))):
                    merged[own][part] = column
        return counts, *merged

    def _moments(self, weights: "_Weights", columns: list[Doubles], means: list[Doubles]) -> list[Doubles]:
        distances = [
            column - np.repeat(mean, weights.lengths)
            for column, mean in zip(columns[: self._variables], means, strict=True)
        ]
        slips = [weights.mean(distance) for distance in distances]
        known = dict(zip(self._powers, columns[self._variables :], strict=True))
        merged = []
        for powers in self._powers:
            moment = weights.mean(_shifted(known, powers, distances))
            if sum(powers) == 2:
                # The error that remains in the means is removed from the squares.
                axes = [axis for axis, power in enumerate(powers) for _ in range(power)]
                moment = moment - slips[axes[0]] * slips[axes[1]]
                moment = np.maximum(moment, 0.0) if axes[0] == axes[1] else moment
            merged.append(moment)
        return merged


class _Weights:
    """The counts of the rows of some ranges."""

    def __init__(self, count: Doubles, starts: Rows, total: Doubles) -> None:
        self.lengths = np.diff(np.append(starts, len(count)))
        self._count, self._starts, self._total = count, starts, np.where(total == 0, 1, total)

    def mean(self, values: Doubles) -> Doubles:
        """Return the weighted mean of each range."""
        added: Doubles = np.add.reduceat(np.where(self._count > 0, self._count * values, 0.0), self._starts)
        mean: Doubles = added / self._total
        return mean


def _mean(weights: _Weights, means: Doubles, pivot: Doubles) -> Doubles:
    """Return means, added up as distances from one of them: so a constant has no variance at all."""
    return pivot + weights.mean(means - np.repeat(pivot, weights.lengths))


def _shifted(
    known: dict[tuple[int, ...], Doubles], powers: tuple[int, ...], distances: list[Doubles]
) -> Doubles:
    """Return a moment of each row around the mean of its range, given moments around its own mean.

    By the binomial theorem, of one variable: m4 + 4 m3 d + 6 m2 d² + d⁴.
    """
    if len(powers) == 2:
        left, right = (distances[axis] for axis, power in enumerate(powers) for _ in range(power))
        shifted: Doubles = known[powers] + left * right
        return shifted
    (power,), (distance,) = powers, distances
    total = distance**power
    binomial = {2: ((2, 1),), 3: ((3, 1), (2, 3)), 4: ((4, 1), (3, 4), (2, 6))}[power]
    for lower, times in binomial:
        total = total + times * known[(lower,)] * distance ** (power - lower)
    return total


class Shape(Moments):
    """Count, mean, variance, skewness and kurtosis, as Spark returns them for each slice.

    Of equal values, for which Spark has neither of the last two, they are 0 and -3.
    """

    def __init__(self) -> None:
        super().__init__("shape", 1, ((2,), (3,), (4,)))

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return these of each range, by way of the central moments."""
        count, mean, variance, skewness, kurtosis = partial.fields
        with np.errstate(all="ignore"):
            third, fourth = skewness * variance**1.5, (kurtosis + 3) * variance**2
            whole = Partial((count, mean, variance, third, fourth), None, partial.types)
            counts, means, squares, cubes, fourths = super().merge(whole, lo, hi)
            divisor = np.where(squares == 0, 1.0, squares)
            return counts, means, squares, cubes / divisor**1.5, fourths / divisor**2 - 3


MOMENTS = Moments("moments", 1, ((2,),))
SHAPE = Shape()
COMOMENTS = Moments("comoments", 2, ((2, 0), (0, 2), (1, 1)))


def _lift_moments(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    lifts = ("count", "avg", "var_pop")
    return (Primitive(lifts, (cast_to(arguments[0], DOUBLE),), MOMENTS, (BIGINT, DOUBLE, DOUBLE)),)


def _lift_shape(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    lifts = ("count", "mean", "var_pop", "skewness", "kurtosis")
    return (Primitive(lifts, (cast_to(arguments[0], DOUBLE),), SHAPE, (BIGINT, *(DOUBLE,) * 4)),)


def _lift_pairs(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    """Lift rows in which neither value is NULL."""
    first, second = (cast_to(argument, DOUBLE) for argument in arguments)
    lifts = ("count.0", "mean.0", "mean.1", "var_pop.0", "var_pop.1", "covar_pop")
    pair = _where_known(first, second), _where_known(second, first)
    return (Primitive(lifts, pair, COMOMENTS, (BIGINT, *(DOUBLE,) * 5)),)


def _where_known(value: Expression, other: Expression) -> Expression:
    unknown = Call("is_null", (other,), BOOLEAN)
    return Call("case", (unknown, Literal(None, NULL), value), value.type)


def _spread(name: str, *, sample: bool, root: bool) -> Aggregate:
    def lower(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
        count, _, variance = partials[0].fields
        divisor = count - 1 if sample else count
        with np.errstate(all="ignore"):
            value = variance * (count / np.where(divisor == 0, 1, divisor))
            value = np.sqrt(value) if root else value
        return to_arrow(value, divisor > 0, type)

    return Aggregate(name=name, result=_double, lift=_lift_moments, lower=lower, takes="a number")


def _double(types: Types, constants: Constants) -> DataType | None:
    return DOUBLE if all(type.is_numeric for type in types) else None


def _shape(name: str, field: int) -> Aggregate:
    def lower(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
        fields = partials[0].fields
        return to_arrow(fields[field], (fields[0] > 0) & (fields[2] != 0), type)

    return Aggregate(name=name, result=_double, lift=_lift_shape, lower=lower, takes="a number")


Pairs = Callable[..., tuple[Doubles, Doubles]]
"""From count, means, variances and covariance to values, and which are not NULL."""


def _pairs(name: str, value: Pairs) -> Aggregate:
    def lower(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
        with np.errstate(all="ignore"):
            values, valid = value(*partials[0].fields)
        return to_arrow(values, valid & (partials[0].fields[0] > 0), type)

    return Aggregate(
        name=name, result=_double, lift=_lift_pairs, lower=lower, takes="two numbers", least=2, most=2
    )


def _r_squared(
    n: Doubles, y: Doubles, x: Doubles, vy: Doubles, vx: Doubles, c: Doubles
) -> tuple[Doubles, Doubles]:
    return np.where(vy == 0, 1.0, c * c / np.where((vy == 0) | (vx == 0), 1.0, vy * vx)), vx != 0


MOMENT_AGGREGATES: tuple[Aggregate, ...] = (
    _spread("var_pop", sample=False, root=False),
    _spread("var_samp", sample=True, root=False),
    _spread("stddev_pop", sample=False, root=True),
    _spread("stddev_samp", sample=True, root=True),
    _shape("skewness", 3),
    _shape("kurtosis", 4),
    _pairs("covar_pop", lambda n, x, y, vx, vy, c: (c, n > 0)),
    _pairs("covar_samp", lambda n, x, y, vx, vy, c: (c * (n / np.where(n < 2, 1, n - 1)), n > 1)),
    _pairs("corr", lambda n, x, y, vx, vy, c: (c / np.sqrt(vx * vy), (n > 1) & (vx * vy != 0))),
    _pairs("regr_slope", lambda n, y, x, vy, vx, c: (c / np.where(vx == 0, 1, vx), (vx != 0) & (n > 1))),
    _pairs(
        "regr_intercept",
        lambda n, y, x, vy, vx, c: (y - c / np.where(vx == 0, 1, vx) * x, (vx != 0) & (n > 1)),
    ),
    _pairs("regr_r2", _r_squared),
)
"""Aggregates over moments."""
