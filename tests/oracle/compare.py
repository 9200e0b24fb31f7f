"""Expected against actual rows, as multisets: nothing is ever deduplicated.

Rows are paired by window and keys, which identify a result row; what a pair disagrees about is wrong, what
has no partner is missing, extra or, when its identity did occur, repeated.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.oracle.results import Expected
from tests.oracle.spec import Spec
from tests.oracle.types import Row, Value

TOLERANCE = 1e-9
SHOWN = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What two multisets of rows disagree about."""

    query: str
    missing: list[Row] = field(default_factory=list)
    extra: list[Row] = field(default_factory=list)
    repeated: list[Row] = field(default_factory=list)
    wrong: list[tuple[Row, Row, tuple[str, ...]]] = field(default_factory=list)
    """Expected row, actual row, and the columns that differ."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.repeated or self.wrong)

    def __str__(self) -> str:
        if not self:
            return f"query {self.query}: equal"
        lines = [
            f"query {self.query}: {len(self.missing)} missing, {len(self.extra)} extra, "
            f"{len(self.repeated)} repeated, {len(self.wrong)} wrong"
        ]
        for word, rows in (("missing", self.missing), ("extra", self.extra), ("repeated", self.repeated)):
            lines += [f"  {word}: {_show(row)}" for row in rows[:SHOWN]]
        for expected, actual, columns in self.wrong[:SHOWN]:
            lines.append(f"  wrong: {_show(expected)}")
            lines += [f"    {c}: expected {expected[c]!r}, got {actual.get(c)!r}" for c in columns]
        return "\n".join(lines)


def difference(
    spec: Spec, expected: Sequence[Expected], actual: Any, *, allow_overflow_null: bool = False
) -> Difference:
    """Compare a query's expected rows with a pyarrow table or with dicts.

    `allow_overflow_null` accepts NULL for a total that fits while a running one may not (as plain Spark's
    decimals do).
    """
    found: dict[Any, list[Row]] = defaultdict(list)
    wanted: dict[Any, list[Expected]] = defaultdict(list)
    identity = spec.identity
    for row in actual_rows(actual):
        found[_identity(row, identity)].append(row)
    for item in expected:
        wanted[_identity(item.values, identity)].append(item)
    report = Difference(query=spec.name)
    for key in dict.fromkeys([*wanted, *found]):
        _pair(wanted.get(key, []), found.get(key, []), spec, report, allow_overflow_null)
    return report


def assert_same(
    spec: Spec, expected: Sequence[Expected], actual: Any, *, allow_overflow_null: bool = False
) -> None:
    """Fail with the first few differences unless both hold the same rows."""
    report = difference(spec, expected, actual, allow_overflow_null=allow_overflow_null)
    assert not report, str(report)


def assert_equal_runs(spec: Spec, expected: Sequence[Expected], one: Any, other: Any) -> None:
    """Fail unless two runs gave the same rows; what doubles may differ by is the reference's to say."""
    identity = spec.identity
    scales = {_identity(item.values, identity): item.scales for item in expected}
    rows = [Expected(values=row, scales=scales.get(_identity(row, identity), {})) for row in actual_rows(one)]
    assert_same(spec, rows, other)


def _pair(
    wanted: list[Expected], found: list[Row], spec: Spec, report: Difference, allow_overflow_null: bool
) -> None:
    """Match equal rows first, then judge what is left over."""
    left = list(found)
    unmatched = []
    for item in wanted:
        hits = (i for i, row in enumerate(left) if not _differing(item, row, spec, allow_overflow_null))
        hit = next(hits, None)
        if hit is None:
            unmatched.append(item)
        else:
            del left[hit]
    for item in unmatched:
        if left:
            row = left.pop(0)
            report.wrong.append((item.values, row, _differing(item, row, spec, allow_overflow_null)))
        else:
            report.missing.append(item.values)
    (report.repeated if wanted else report.extra).extend(left)


def _differing(item: Expected, row: Row, spec: Spec, allow_overflow_null: bool) -> tuple[str, ...]:
    forgiven = item.order_sensitive if allow_overflow_null else frozenset()
    if set(row) != set(spec.columns):
        return tuple(sorted(set(row) ^ set(spec.columns)))
    return tuple(
        name
        for name in spec.columns
        if not same(item.values[name], row[name], item.scales.get(name, 0.0))
        and not (name in forgiven and row[name] is None)
    )


def same(expected: Value, actual: Value, scale: float = 0.0) -> bool:
    """Tell whether two values agree: exactly, or for doubles to 1e-9 of the larger or of the scale.

    >>> same(1.0, 1.0 + 1e-12), same(1, 1.0), same(float("nan"), float("nan"))
    (True, False, True)
    """
    if isinstance(expected, float) and isinstance(actual, float):
        if math.isnan(expected) or math.isnan(actual) or math.isinf(expected) or math.isinf(actual):
            return expected == actual or (math.isnan(expected) and math.isnan(actual))
        size = max(abs(expected), abs(actual), scale if math.isfinite(scale) else 0.0)
        return abs(expected - actual) <= TOLERANCE * size
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        pairs = zip(expected, actual, strict=False)
        return len(expected) == len(actual) and all(same(one, other, scale) for one, other in pairs)
    return type(expected) is type(actual) and expected == actual


def actual_rows(actual: Any) -> list[Row]:
    """Return rows as dicts of the oracle's values, from a pyarrow table or from dicts."""
    if hasattr(actual, "schema"):
        return [_table_row(actual, index) for index in range(actual.num_rows)]
    return [{name: plain(value) for name, value in row.items()} for row in actual]


def _table_row(table: Any, index: int) -> Row:
    return {name: _scalar(table.column(name)[index]) for name in table.column_names}


def _scalar(scalar: Any) -> Value:
    # Beyond year 9999, and at nanoseconds, as_py() fails where the number is still good.
    if scalar.is_valid and str(scalar.type).startswith("timestamp[us"):
        return int(scalar.value)
    return plain(scalar.as_py())


def plain(value: Any) -> Value:
    """Turn a datetime into microseconds, lists and dicts into tuples, leave the rest."""
    if isinstance(value, datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (at - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple((name, plain(own)) for name, own in value.items())
    if value is not None and not isinstance(value, bool | int | float | Decimal | str | date):
        raise TypeError(f"unexpected value {value!r} of {type(value).__name__}")
    return value


def _identity(row: Mapping[str, Value], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(_hashable(row.get(name)) for name in names)


def _hashable(value: Value) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else ("double", value + 0.0)
    return (type(value).__name__, value)


def _show(row: Row) -> str:
    bounds = f"[{_time_text(row.get('window_start'))}, {_time_text(row.get('window_end'))})"
    return " ".join([bounds, *(f"{name}={row[name]!r}" for name in row if not name.startswith("window_"))])


def _time_text(at: Value) -> str:
    if not isinstance(at, int):
        return repr(at)
    try:
        return (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return repr(at)
