"""How each function of the language is evaluated, and which expressions can be; Spark evaluates the others.

The table is the counterpart of `BUILDERS` for Spark.
"""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation import (
    conditions,
    doubles,
    nested,
    numbers,
    patterns,
    strings,
    text_functions,
    times,
    wall_clock,
)
from weft.evaluation.casts import cast
from weft.evaluation.doubles import of_double, of_doubles
from weft.evaluation.numbers import places_of
from weft.evaluation.patterns import is_known_pattern, java_regex
from weft.evaluation.text_functions import of_rows
from weft.evaluation.vector import Vector
from weft.expression import Call, Expression, Literal, walk
from weft.query.zones import fixed_offset
from weft.types import Kind

Implementation = Callable[..., Vector]
"""Takes the call and its arguments' values."""

_OF_DOUBLES: dict[str, Callable[..., Any]] = {
    "rint": np.rint, "cbrt": np.cbrt, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "degrees": np.degrees, "radians": np.radians,
}  # fmt: skip
_OF_ROWS: dict[str, Callable[..., Any]] = {
    "split_part": text_functions.split_part, "substring_index": text_functions.substring_index,
    "lpad": text_functions.lpad, "rpad": text_functions.rpad, "repeat": text_functions.repeat,
    "reverse": text_functions.reverse, "translate": text_functions.translate,
    "md5": text_functions.digest("md5"), "sha1": text_functions.digest("sha1"), "sha2": text_functions.sha2,
    "hex": text_functions.hexadecimal,
}  # fmt: skip
"""Functions that are evaluated row by row, and give strings."""

IMPLEMENTATIONS: MappingProxyType[str, Implementation] = MappingProxyType({
    "+": numbers.add, "-": partial(numbers.add, sign=-1), "*": numbers.multiply, "/": numbers.divide,
    "%": numbers.remainder, "div": numbers.whole_divide, "floor_div": numbers.floor_divide,
    "neg": numbers.negate, "abs": numbers.absolute,
    "&": numbers.bitwise(np.bitwise_and), "|": numbers.bitwise(np.bitwise_or),
    "^": numbers.bitwise(np.bitwise_xor),
    "shiftleft": numbers.shift(np.left_shift), "shiftright": numbers.shift(np.right_shift),
    **{operator: conditions.comparison(operator) for operator in ("=", "<", "<=", ">", ">=")},
    "<>": conditions.comparison("=", negated=True), "<=>": conditions.same, "in": conditions.member,
    "greatest": conditions.extreme(">"), "least": conditions.extreme("<"),
    "and": conditions.connective(decisive=False), "or": conditions.connective(decisive=True),
    "not": conditions.negation, "is_null": conditions.is_null,
    "case": conditions.case, "coalesce": conditions.coalesce, "cast": cast,
    "round": numbers.rounded,
    "floor": partial(numbers.whole, up=False), "ceil": partial(numbers.whole, up=True),
    "sqrt": of_double(np.sqrt), "exp": of_double(np.exp),
    "ln": doubles.logarithm(np.log), "log10": doubles.logarithm(np.log10), "pow": doubles.power,
    "sign": of_double(doubles.signs), "isnan": doubles.is_nan,
    "upper": strings.cased(pc.ascii_upper, strings.uppered),
    "lower": strings.cased(pc.ascii_lower, strings.lowered), "length": strings.length,
    "trim": strings.trimmed(pc.ascii_trim), "ltrim": strings.trimmed(pc.ascii_ltrim),
    "rtrim": strings.trimmed(pc.ascii_rtrim),
    "substring": strings.substring, "left": strings.left, "right": strings.right,
    "concat": strings.concat, "replace": strings.replace,
    "startswith": strings.test(pc.starts_with, bytes.startswith),
    "endswith": strings.test(pc.ends_with, bytes.endswith),
    "contains": strings.test(pc.match_substring, bytes.__contains__),
    "like": patterns.like, "ilike": patterns.like, "rlike": patterns.rlike,
    "year": times.year, "month": times.month, "day": times.day, "dayofweek": times.day_of_week,
    "hour": times.hour, "minute": times.minute, "second": times.second,
    "date_trunc": times.date_trunc, "to_date": times.to_date,
    "unix_seconds": times.since_epoch(1_000_000), "unix_millis": times.since_epoch(1_000),
    "unix_micros": times.since_epoch(1),
    **{name: of_double(function) for name, function in _OF_DOUBLES.items()},
    "log2": doubles.logarithm(np.log2), "log1p": doubles.log1p,
    "atan2": of_doubles(doubles.angle), "hypot": of_doubles(np.hypot),
    "pmod": numbers.positive_remainder, "width_bucket": doubles.width_bucket,
    **{name: of_rows(function, pa.binary()) for name, function in _OF_ROWS.items()},
    "instr": of_rows(text_functions.instr, pa.int32()), "locate": of_rows(text_functions.locate, pa.int32()),
    "ascii": of_rows(text_functions.ascii_code, pa.int32()),
    "crc32": of_rows(text_functions.checksum, pa.int64()), "octet_length": text_functions.octet_length,
    "concat_ws": text_functions.concat_ws,
    "regexp_extract": patterns.extract, "regexp_replace": patterns.substituted,
    "quarter": times.quarter, "dayofyear": times.day_of_year, "weekofyear": times.week_of_year,
    "weekday": times.weekday, "date_add": times.moved(1), "date_sub": times.moved(-1),
    "datediff": times.days_between, "add_months": times.add_months, "last_day": times.last_day,
    "unix_date": times.unix_date, "unix_timestamp": times.truncated_seconds,
    "timestamp_seconds": times.from_epoch(1_000_000),
    "timestamp_millis": times.from_epoch(1_000), "timestamp_micros": times.from_epoch(1),
    "date_format": wall_clock.date_format, "from_utc_timestamp": wall_clock.shifted(1),
    "to_utc_timestamp": wall_clock.shifted(-1),
    **dict.fromkeys(("subscript", "get", "element_at"), nested.element),
    "size": nested.size, "field": nested.field,
})  # fmt: skip
"""Every function that is evaluated here, by its canonical name."""

SPARK_ONLY = frozenset({"bround", "initcap", "get_json_object", "parse_url", "xxhash64", "hash", "coupon"})
"""Functions that only Spark evaluates."""

NULL_TOLERANT = frozenset(
    {"and", "or", "is_null", "isnan", "<=>", "in", "case", "coalesce", "greatest", "least", "concat_ws"}
)
"""Functions that need not be NULL where an argument is."""


_CASES = ("upper", "lower")
_SAFE_DIGITS = 15
"""How Java prints doubles of more whole digits depends on its version."""
_SCALA_DIGITS = 28
"""Seconds with more digits become different microseconds when Spark compiles than when it interprets."""


def can_evaluate(expression: Expression) -> bool:
    """Say whether an expression over given columns can be evaluated here with exactly Spark's results."""
    return all(_is_known(node) for node in walk(expression))


def _is_known(node: Expression) -> bool:
    if node.type.kind is Kind.OTHER:
        return False
    if not isinstance(node, Call):
        return True
    if node.function not in IMPLEMENTATIONS or any(map(_is_cast_to_float, node.args)):
        return False
    if node.function == "rlike":
        pattern = node.args[1]
        return isinstance(pattern, Literal) and java_regex(str(pattern.value)) is not None
    if node.function in ("regexp_extract", "regexp_replace"):
        return is_known_pattern(node)
    if node.function in ("from_utc_timestamp", "to_utc_timestamp"):
        zone = node.args[1]
        return isinstance(zone, Literal) and fixed_offset(str(zone.value)) is not None
    if node.function in _CASES:
        # Spark omits the inner function of upper(lower(x)), though that changes the result for İ and ß.
        return not (isinstance(node.args[0], Call) and node.args[0].function in _CASES)
    if node.function == "round":
        return not node.type.is_fractional or places_of(node) >= 0
    return node.function != "cast" or _is_known_cast(node)


def _is_cast_to_float(argument: Expression) -> bool:
    """Say whether Spark may omit a cast, as it does where FLOAT becomes DOUBLE, though digits are lost."""
    if not isinstance(argument, Call) or argument.function != "cast":
        return False
    return argument.type.kind is Kind.FLOAT and not argument.args[0].type.is_fractional


def _is_known_cast(call: Call) -> bool:
    """Say whether a cast is known; doubles become text, and by way of it decimals, as Java prints them."""
    source, target = call.args[0].type, call.type
    if source.is_fractional and target.is_text:
        return False
    if source.is_fractional and target.kind is Kind.DECIMAL:
        return target.precision - target.scale <= _SAFE_DIGITS
    if source.kind is Kind.DECIMAL and target.kind is Kind.TIMESTAMP:
        return source.precision <= _SCALA_DIGITS
    # 'now' and other constant words have a meaning for Spark.
    return not (isinstance(call.args[0], Literal) and isinstance(call.args[0].value, str) and target.is_time)
