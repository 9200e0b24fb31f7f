"""How each function of the language is evaluated: the counterpart of `BUILDERS` for Spark."""

from collections.abc import Callable
from types import MappingProxyType

from weft.evaluation import arithmetic, comparison, logic, numbers, patterns, strings, times
from weft.evaluation.casts import cast
from weft.evaluation.vector import Vector

Implementation = Callable[..., Vector]
"""Takes the call and its arguments' values."""

IMPLEMENTATIONS: MappingProxyType[str, Implementation] = MappingProxyType(
    {
        "+": arithmetic.add,
        "-": arithmetic.subtract,
        "*": arithmetic.multiply,
        "/": arithmetic.divide,
        "%": arithmetic.remainder,
        "div": arithmetic.whole_divide,
        "floor_div": arithmetic.floor_divide,
        "neg": arithmetic.negate,
        "abs": arithmetic.absolute,
        "&": arithmetic.bit_and,
        "|": arithmetic.bit_or,
        "^": arithmetic.bit_xor,
        "shiftleft": arithmetic.shift_left,
        "shiftright": arithmetic.shift_right,
        "=": comparison.comparison("="),
        "<>": comparison.unequal,
        "<": comparison.comparison("<"),
        "<=": comparison.comparison("<="),
        ">": comparison.comparison(">"),
        ">=": comparison.comparison(">="),
        "<=>": comparison.same,
        "in": comparison.member,
        "greatest": comparison.extreme(">"),
        "least": comparison.extreme("<"),
        "and": logic.conjunction,
        "or": logic.disjunction,
        "not": logic.negation,
        "is_null": logic.is_null,
        "case": logic.case,
        "coalesce": logic.coalesce,
        "cast": cast,
        "round": numbers.rounded,
        "floor": numbers.floor,
        "ceil": numbers.ceiling,
        "sqrt": numbers.square_root,
        "exp": numbers.exponential,
        "ln": numbers.natural_logarithm,
        "log10": numbers.decimal_logarithm,
        "pow": numbers.power,
        "sign": numbers.sign,
        "isnan": numbers.is_nan,
        "upper": strings.upper,
        "lower": strings.lower,
        "length": strings.length,
        "trim": strings.trim,
        "ltrim": strings.trim_left,
        "rtrim": strings.trim_right,
        "substring": strings.substring,
        "concat": strings.concat,
        "replace": strings.replace,
        "left": strings.left,
        "right": strings.right,
        "startswith": strings.starts_with,
        "endswith": strings.ends_with,
        "contains": strings.contains,
        "like": patterns.like,
        "ilike": patterns.ilike,
        "rlike": patterns.rlike,
        "year": times.year,
        "month": times.month,
        "day": times.day,
        "hour": times.hour,
        "minute": times.minute,
        "second": times.second,
        "dayofweek": times.day_of_week,
        "date_trunc": times.date_trunc,
        "to_date": times.to_date,
        "unix_seconds": times.since_epoch(1_000_000),
        "unix_millis": times.since_epoch(1_000),
        "unix_micros": times.since_epoch(1),
    }
)
"""Every function by its canonical name."""

NULL_TOLERANT = frozenset(
    {"and", "or", "is_null", "isnan", "<=>", "in", "case", "coalesce", "greatest", "least"}
)
"""Functions that need not be NULL where an argument is."""
