"""The functions and operators of the language: all that a `Call` can have, with its typing rule.

To add one, add its line to the tables below, its translation to `spark/builders.py`, and its implementation
in the driver to `evaluation/implementations.py`, or its name to `SPARK_ONLY` there. docs/functions.md is made
from these tables.

`subscript(x, i)` is written x[i], and `field(x, constant name)` is written (x).name. Two are
internal, so that no text spells them: `floor_div(bigint, bigint)`, the quotient rounded down, and
`coupon(x, constant)`, what a value leaves in a sketch of distinct values. Every other call is of a function
registered from Python, by its registered name.
"""

from dataclasses import dataclass
from types import MappingProxyType

from weft.query import typing_rules as of
from weft.query.typing_rules import TRUNC_UNITS, Rule
from weft.types import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP

_ANY = 1_000_000
_ALIKE = "two values of one type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function or operator of the language."""

    name: str
    """The canonical name: `Call.function`."""
    takes: str
    """Its arguments, in words."""
    least: int
    most: int
    result: Rule
    does: str = ""
    """Its value, in words; of operators the page of the language says it."""
    spellings: tuple[str, ...] = ()
    """The names by which text can call it."""
    compares: bool = False
    """Whether string constants compared with times are read as times."""


def _operator(
    name: str, takes: str, least: int, most: int, result: Rule, *spellings: str, compares: bool = False
) -> Function:
    return Function(
        name=name, takes=takes, least=least, most=most, result=result, spellings=spellings, compares=compares
    )


def _function(
    name: str, takes: str, count: int | tuple[int, int], result: Rule, does: str, *others: str
) -> Function:
    least, most = (count, count) if isinstance(count, int) else count
    return Function(
        name=name, takes=takes, least=least, most=most, result=result, does=does, spellings=(name, *others)
    )


_OPERATORS = (
    *(_operator(name, "two numbers", 2, 2, of.of_operator(name)) for name in ("+", "-", "*", "/")),
    _operator("%", "two numbers", 2, 2, of.of_operator("%"), "mod"),
    _operator("div", "two whole numbers or decimals", 2, 2, of.of_operator("div")),
    _operator("neg", "a number", 1, 1, of.same_number),
    *(
        _operator(name, _ALIKE, 2, 2, of.comparable, compares=True)
        for name in ("=", "<>", "<", "<=", ">", ">=", "<=>")
    ),
    *(_operator(name, "conditions", 2, _ANY, of.given(BOOLEAN, of.condition)) for name in ("and", "or")),
    _operator("not", "a condition", 1, 1, of.given(BOOLEAN, of.condition)),
    _operator("is_null", "anything", 1, 1, of.of_anything),
    _operator("in", "values of one type", 2, _ANY, of.comparable, compares=True),
    _operator("case", "conditions, and values of one type", 3, _ANY, of.case),
    _operator("cast", "a value", 1, 1, of.as_cast),
    *(_operator(name, "two whole numbers", 2, 2, of.bits) for name in ("&", "|", "^")),
    _operator("subscript", "an array and a whole number", 2, 2, of.element),
    _operator("field", "a struct and the name of a field", 2, 2, of.field),
    _operator("floor_div", "two whole numbers", 2, 2, of.given(BIGINT, of.whole)),
    _operator("coupon", "a value and a constant number", 2, 2, of.given(INT, of.plain, of.constant_whole)),
)
_TRIGONOMETRY = {
    "sin": "the sine, of radians", "cos": "the cosine, of radians", "tan": "the tangent, of radians",
    "asin": "the inverse sine, in radians", "acos": "the inverse cosine, in radians",
    "atan": "the inverse tangent, in radians", "sinh": "the hyperbolic sine", "cosh": "the hyperbolic cosine",
    "tanh": "the hyperbolic tangent", "degrees": "degrees of radians", "radians": "radians of degrees",
}  # fmt: skip
_NUMBERS = (
    _function("abs", "a number", 1, of.same_number, "the magnitude"),
    _function("round", "a number and, if wanted, a constant number of digits", (1, 2), of.rounding,
              "rounded, halves away from zero; to tens, hundreds, … if digits are negative"),
    _function("bround", "a number and, if wanted, a constant number of digits", (1, 2), of.rounding,
              "rounded, halves to the even digit"),
    _function("floor", "a number", 1, of.rounding_up_or_down, "the nearest whole number below"),
    _function("ceil", "a number", 1, of.rounding_up_or_down, "the nearest whole number above", "ceiling"),
    _function("rint", "a number", 1, of.of_doubles, "the nearest whole number, of two the even one"),
    _function("sign", "a number", 1, of.of_doubles, "-1, 0 or 1", "signum"),
    _function("pmod", "two whole numbers or doubles", 2, of.positive_remainder,
              "the remainder; not negative unless the divisor is"),
    _function("width_bucket", "a number, two bounds and a whole number of buckets", 4,
              of.given(BIGINT, of.number, of.number, of.number, of.whole),
              "the bucket, of so many of one width between the bounds; 0 is below, one more than there are "
              "is above; NULL for no buckets, equal or infinite bounds, NaN"),
    _function("sqrt", "a number", 1, of.of_doubles, "the square root"),
    _function("cbrt", "a number", 1, of.of_doubles, "the cube root"),
    _function("exp", "a number", 1, of.of_doubles, "e to that power"),
    _function("expm1", "a number", 1, of.of_doubles, "exp(x) - 1, exact near 0"),
    _function("ln", "a number", 1, of.of_doubles, "the natural logarithm; NULL for 0 and below", "log"),
    _function("log10", "a number", 1, of.of_doubles, "the logarithm to base 10; NULL for 0 and below"),
    _function("log2", "a number", 1, of.of_doubles, "the logarithm to base 2; NULL for 0 and below"),
    _function("log1p", "a number", 1, of.of_doubles, "ln(1 + x), exact near 0; NULL for -1 and below"),
    _function("pow", "two numbers", 2, of.of_doubles, "the first to the power of the second", "power"),
    *(_function(name, "a number", 1, of.of_doubles, does) for name, does in _TRIGONOMETRY.items()),
    _function("atan2", "two numbers", 2, of.of_doubles, "the angle of the point (second, first), in radians"),
    _function("hypot", "two numbers", 2, of.of_doubles, "the root of the sum of their squares"),
    _function("isnan", "a number", 1, of.given(BOOLEAN, of.number), "whether it is NaN; false for NULL"),
    _function("shiftleft", "two whole numbers", 2, of.shift, "bits moved left, by a constant"),
    _function("shiftright", "two whole numbers", 2, of.shift,
              "bits moved right, by a constant; keeps the sign"),
)  # fmt: skip
_CHOICES = (
    _function("coalesce", "values of one type", (1, _ANY), of.common, "the first that is not NULL", "nvl",
              "ifnull"),
    _function("greatest", "values of one type", (2, _ANY), of.common, "the greatest that is not NULL"),
    _function("least", "values of one type", (2, _ANY), of.common, "the least that is not NULL"),
)  # fmt: skip
_STRINGS = (
    _function("upper", "a string", 1, of.given(STRING, of.string), "in capitals", "ucase"),
    _function("lower", "a string", 1, of.given(STRING, of.string), "in small letters", "lcase"),
    _function("initcap", "a string", 1, of.given(STRING, of.string),
              "the first letter of each word a capital"),
    _function("length", "a string", 1, of.given(INT, of.string), "the number of characters",
              "char_length", "character_length", "len"),
    _function("octet_length", "a string or binary", 1, of.given(INT, of.bytes_), "the number of bytes"),
    _function("trim", "a string", 1, of.given(STRING, of.string), "without spaces at both ends"),
    _function("ltrim", "a string", 1, of.given(STRING, of.string), "without spaces at the start"),
    _function("rtrim", "a string", 1, of.given(STRING, of.string), "without spaces at the end"),
    _function("lpad", "a string, a constant length from 0 to 65,536 and, if wanted, what to pad with", (2, 3),
              of.given(STRING, of.string, of.constant_whole, of.string),
              "padded at the start, or cut, to that length; with spaces by default"),
    _function("rpad", "a string, a constant length from 0 to 65,536 and, if wanted, what to pad with", (2, 3),
              of.given(STRING, of.string, of.constant_whole, of.string),
              "padded at the end, or cut, to that length; with spaces by default"),
    _function("substring", "a string, a start and, if wanted, a length", (2, 3), of.part,
              "the characters from the start on; it counts from 1, or from the end if negative", "substr"),
    _function("left", "a string and a length", 2, of.part, "the first characters"),
    _function("right", "a string and a length", 2, of.part, "the last characters"),
    _function("split_part", "a string, a delimiter and a constant whole number other than 0", 3,
              of.given(STRING, of.string, of.string, of.constant_whole),
              "the part of that number between delimiters, from the end if negative; '' if there are fewer"),
    _function("substring_index", "a string, a delimiter and a whole number", 3,
              of.given(STRING, of.string, of.string, of.small_whole),
              "what is before the delimiter of that number, or after it, counted from the end, if negative"),
    _function("concat", "strings", (1, _ANY), of.given(STRING, of.string), "joined; NULL if any is"),
    _function("concat_ws", "a separator and strings", (1, _ANY), of.given(STRING, of.string),
              "those that are not NULL joined, with the separator between"),
    _function("repeat", "a string and a constant number from 0 to 1,000", 2,
              of.given(STRING, of.string, of.constant_whole), "the string so many times"),
    _function("reverse", "a string", 1, of.given(STRING, of.string), "with the characters in opposite order"),
    _function("replace", "three strings", 3, of.given(STRING, of.string),
              "every second string replaced by the third"),
    _function("translate", "three strings", 3, of.given(STRING, of.string),
              "each character of the second string replaced by that of the third, or removed without one"),
    _function("instr", "two strings", 2, of.given(INT, of.string),
              "where the second begins in the first; 0 if nowhere"),
    _function("locate", "two strings and, if wanted, a constant start", (2, 3),
              of.given(INT, of.string, of.string, of.constant_whole),
              "where the first begins in the second, from the start on; 0 if nowhere",
              "position"),
    _function("ascii", "a string", 1, of.given(INT, of.string), "the code of the first character; 0 for ''"),
    _function("startswith", "two strings", 2, of.given(BOOLEAN, of.string),
              "whether the first begins with the second",
              "starts_with"),
    _function("endswith", "two strings", 2, of.given(BOOLEAN, of.string),
              "whether the first ends with the second",
              "ends_with"),
    _function("contains", "two strings", 2, of.given(BOOLEAN, of.string),
              "whether the second is in the first"),
    _function("like", "a string and a constant pattern", 2, of.given(BOOLEAN, of.string, of.constant_string),
              "whether it matches; % is any characters, _ is one"),
    _function("ilike", "a string and a constant pattern", 2, of.given(BOOLEAN, of.string, of.constant_string),
              "as like, whatever the case"),
    _function("rlike", "a string and a constant pattern", 2, of.given(BOOLEAN, of.string, of.constant_string),
              "whether a part matches the regular expression", "regexp", "regexp_like"),
    _function("regexp_extract", "a string, a constant pattern and, if wanted, a constant group", (2, 3),
              of.given(STRING, of.string, of.constant_string, of.constant_whole),
              "what the group matches, by default the first, 0 for the whole; '' if nothing does"),
    _function("regexp_replace", "a string, a constant pattern and a constant replacement", 3,
              of.given(STRING, of.string, of.constant_string, of.constant_string),
              "every match replaced; $1 in the replacement is the first group"),
    _function("get_json_object", "a string and a constant path", 2,
              of.given(STRING, of.string, of.constant_string),
              "what is at the path in JSON, as in '$.a.b[0]'; NULL if nothing is, or if it is not JSON"),
    _function("parse_url", "a string, a constant part and, if wanted, a constant key of the query", (2, 3),
              of.given(STRING, of.string, of.constant_string, of.constant_string),
              "a part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO; "
              "NULL if it has none"),
)  # fmt: skip
_HASHES = (
    _function("xxhash64", "anything but arrays and structs", (1, _ANY), of.given(BIGINT, of.plain),
              "a hash of all arguments, XXH64; NULL changes nothing"),
    _function("hash", "anything but arrays and structs", (1, _ANY), of.given(INT, of.plain),
              "a hash of all arguments, Murmur3; NULL changes nothing"),
    _function("crc32", "a string or binary", 1, of.given(BIGINT, of.bytes_), "the checksum"),
    _function("md5", "a string or binary", 1, of.given(STRING, of.bytes_), "the digest in hexadecimal"),
    _function("sha1", "a string or binary", 1, of.given(STRING, of.bytes_),
              "the digest in hexadecimal", "sha"),
    _function("sha2", "a string or binary and a constant 224, 256, 384 or 512", 2,
              of.given(STRING, of.bytes_, of.constant_whole), "the digest in hexadecimal"),
    _function("hex", "a whole number, string or binary", 1, of.given(STRING, of.bytes_or_whole),
              "in hexadecimal; negative numbers as 64 bits"),
)  # fmt: skip
_TIMES = (
    *(_function(name, "a date or timestamp", 1, of.given(INT, of.time), does) for name, does in {
        "year": "the year", "quarter": "the quarter, 1 to 4", "month": "the month, 1 to 12",
        "weekofyear": "the week, 1 to 53, as ISO counts: the first has a Thursday",
        "dayofyear": "the day of the year, from 1", "dayofweek": "1 for Sunday to 7 for Saturday",
        "weekday": "0 for Monday to 6 for Sunday",
        "hour": "the hour, 0 to 23", "minute": "the minute", "second": "the whole second",
    }.items()),
    _function("day", "a date or timestamp", 1, of.given(INT, of.time), "the day of the month", "dayofmonth"),
    _function("date_trunc", f"one of {', '.join(sorted(TRUNC_UNITS))} and a timestamp", 2, of.trunc,
              "the start of the unit that contains it"),
    _function("date_format", "a date or timestamp and a constant pattern", 2,
              of.given(STRING, of.time, of.constant_string), "as text, as in 'yyyy-MM-dd HH:mm:ss'"),
    _function("from_utc_timestamp", "a timestamp and a constant time zone", 2,
              of.given(TIMESTAMP, of.instant, of.constant_string), "what clocks in the zone show then"),
    _function("to_utc_timestamp", "a timestamp and a constant time zone", 2,
              of.given(TIMESTAMP, of.instant, of.constant_string), "when clocks in the zone show it"),
    _function("to_date", "a timestamp or string", 1, of.given(DATE, of.time_or_string), "the day", "date"),
    _function("date_add", "a date or timestamp and a whole number of days", 2,
              of.given(DATE, of.time, of.small_whole), "so many days later", "dateadd"),
    _function("date_sub", "a date or timestamp and a whole number of days", 2,
              of.given(DATE, of.time, of.small_whole), "so many days earlier"),
    _function("datediff", "two dates or timestamps", 2, of.given(INT, of.time),
              "the days from the second to the first",
              "date_diff"),
    _function("add_months", "a date or timestamp and a whole number of months", 2,
              of.given(DATE, of.time, of.small_whole),
              "so many months later; the last day of shorter months"),
    _function("last_day", "a date or timestamp", 1, of.given(DATE, of.time), "the last day of its month"),
    _function("unix_date", "a date", 1, of.given(INT, of.day), "days since 1970"),
    _function("unix_seconds", "a timestamp", 1, of.given(BIGINT, of.instant), "whole seconds since 1970"),
    _function("unix_timestamp", "a date or timestamp", 1, of.given(BIGINT, of.time),
              "seconds since 1970, without their fraction, before 1970 too", "to_unix_timestamp"),
    _function("unix_millis", "a timestamp", 1, of.given(BIGINT, of.instant), "whole milliseconds since 1970"),
    _function("unix_micros", "a timestamp", 1, of.given(BIGINT, of.instant), "microseconds since 1970"),
    _function("timestamp_seconds", "a whole number", 1, of.given(TIMESTAMP, of.whole),
              "so many seconds after 1970"),
    _function("timestamp_millis", "a whole number", 1, of.given(TIMESTAMP, of.whole),
              "so many milliseconds after 1970"),
    _function("timestamp_micros", "a whole number", 1, of.given(TIMESTAMP, of.whole),
              "so many microseconds after 1970"),
)  # fmt: skip
_ARRAYS = (
    _function("get", "an array and a whole number", 2, of.element,
              "the element at that place, counted from 0; NULL where there is none, which x[i] counts as a "
              "failure"),
    _function("element_at", "an array and a whole number", 2, of.element,
              "the element at that place, counted from 1, or from the end if negative; a failure where "
              "there is none"),
    _function("size", "an array", 1, of.size, "the number of elements", "cardinality"),
)  # fmt: skip

GROUPS = MappingProxyType(
    {
        "Choices": _CHOICES, "Numbers": _NUMBERS, "Strings": _STRINGS, "Hashes": _HASHES,
        "Dates and timestamps": _TIMES, "Arrays": _ARRAYS,
    }
)  # fmt: skip
"""The functions by subject, as they are listed in docs/functions.md."""

FUNCTIONS = MappingProxyType(
    {function.name: function for group in (_OPERATORS, *GROUPS.values()) for function in group}
)
"""Every function and operator by its canonical name."""

SPELLINGS = MappingProxyType(
    {spelling: function for function in FUNCTIONS.values() for spelling in function.spellings}
)
"""Every function by the names that text can call it."""
