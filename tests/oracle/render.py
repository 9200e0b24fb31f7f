"""Queries as text: in Weft's language, and as plain Spark SQL that answers the same."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from tests.oracle.expressions import Column, Dialect
from tests.oracle.spec import Spec, WindowSyntax

_BUCKETS_SINCE_MS = 946_857_600_000
"""3 January 2000, a Monday."""
_UNITS = {1_000: "second", 60_000: "minute", 3_600_000: "hour", 86_400_000: "day", 604_800_000: "week"}


def weft_text(spec: Spec, stream: str, time: str, syntax: WindowSyntax) -> str:
    """Write a query in Weft's language."""
    bracket = syntax is WindowSyntax.BRACKET
    groups = [key.text(Dialect.WEFT) for key in spec.keys]
    if not bracket:
        window = _bucket(spec, time) or window_call(spec, time)
        groups = [window, *_sets(spec, groups)] if spec.sets else [*groups, window]
    elif spec.sets:
        groups = _sets(spec, groups)
    return _join(
        "SELECT " + ", ".join(_outputs(spec, Dialect.WEFT)),
        _from(spec, stream, time, bracket=bracket),
        _joins(spec, Dialect.WEFT),
        _where(spec, Dialect.WEFT),
        f"GROUP BY {', '.join(groups)}" if groups else "",
        _having(spec, Dialect.WEFT),
        _limits(spec),
        "EMIT EMPTY" if spec.emit_empty else "",
    )


def spark_text(spec: Spec, view: str, time: str) -> str:
    """Write a query for a Spark session; windows of a late query or empty ones are not expressible."""
    if spec.emit_empty or spec.first_start_us is not None or spec.from_batch or spec.until_batch is not None:
        raise ValueError(f"query {spec.name} has no plain Spark form")
    odd = spec.slide_ms > spec.range_ms or spec.step_ms is not None or bool(spec.sets)
    whole = _hopping(spec, view, time) if odd else _windowed(spec, view, time)
    return _first_rows(spec, whole)


def _sets(spec: Spec, keys: Sequence[str]) -> list[str]:
    """Write grouping sets: as ROLLUP or CUBE, where that is what they are."""
    lengths = range(len(keys), -1, -1)
    if spec.sets == tuple(tuple(range(length)) for length in lengths):
        return [f"ROLLUP({', '.join(keys)})"]
    if set(spec.sets) == {own for length in lengths for own in combinations(range(len(keys)), length)}:
        return [f"CUBE({', '.join(keys)})"]
    sets = (f"({', '.join(keys[place] for place in own)})" for own in spec.sets)
    return [f"GROUPING SETS ({', '.join(sets)})"]


def _from(spec: Spec, stream: str, time: str, *, bracket: bool) -> str:
    if not bracket:
        return f"FROM {stream}"
    if spec.step_ms is not None:
        return f"FROM TABLE(CUMULATE(TABLE {stream}, DESCRIPTOR({time}), {_cumulative(spec)}))"
    return f"FROM {stream} {_bracket(spec)}"


def _cumulative(spec: Spec) -> str:
    lengths = [spec.step_ms, spec.range_ms] + ([spec.offset_ms] if spec.offset_ms else [])
    return ", ".join(f"INTERVAL '{ms} ms'" for ms in lengths)


def _bucket(spec: Spec, time: str) -> str:
    """Write cumulative windows; and adjacent ones as time_bucket or date_trunc, if their origin is that."""
    if spec.step_ms is not None:
        return f"CUMULATE({time}, {_cumulative(spec)})"
    if spec.range_ms != spec.slide_ms or spec.offset_ms != _BUCKETS_SINCE_MS % spec.range_ms:
        return ""
    unit = _UNITS.get(spec.range_ms)
    if unit is not None and len(spec.keys) % 2:
        return f"date_trunc('{unit}', {time})"
    return f"time_bucket('{spec.range_ms} ms', {time})"


def window_call(spec: Spec, time: str) -> str:
    """Write Spark's window(), whose offset is that of window starts."""
    start = (spec.offset_ms - spec.range_ms) % spec.slide_ms
    # One slide earlier is the same window, and every other one is written so.
    start -= spec.slide_ms if start % 2 else 0
    arguments = [spec.range_ms, spec.slide_ms] + ([start] if start else [])
    lengths = [f"'{ms} milliseconds'" for ms in arguments]
    return f"window({', '.join([time, *lengths])})"


def _windowed(spec: Spec, view: str, time: str) -> str:
    bounds = ["window.start AS window_start", "window.end AS window_end"]
    groups = [window_call(spec, time), *(key.text(Dialect.SPARK) for key in spec.keys)]
    return _join(
        "SELECT " + ", ".join([*bounds, *_outputs(spec, Dialect.SPARK), *_ordered_by(spec)]),
        f"FROM {view}",
        _joins(spec, Dialect.SPARK),
        _where(spec, Dialect.SPARK),
        f"GROUP BY {', '.join(groups)}",
        _having(spec, Dialect.SPARK),
    )


def _hopping(spec: Spec, view: str, time: str) -> str:
    """Write windows with gaps between them, or cumulative ones, which window() has not.

    range 3, slide 10    [-3-)       [-3-)       a row belongs to the next end, or to none
    """
    range_us, slide_us, offset_us = spec.range_ms * 1000, spec.slide_ms * 1000, spec.offset_ms * 1000
    at = f"unix_micros({time})"
    end, start = f"{at} + {slide_us} - pmod({at} - {offset_us}, {slide_us})", f"hop_end - {range_us}"
    inside, keys = f"(hop_end - {range_us} <= {at})", [key.text(Dialect.SPARK) for key in spec.keys]
    if spec.step_ms is not None:
        step_us = spec.step_ms * 1000
        first = f"{at} + {step_us} - pmod({at} - {offset_us}, {step_us})"
        end, inside = f"explode(sequence({first}, {end}, {step_us}L))", "TRUE"
        start = f"hop_end - 1 - pmod(hop_end - 1 - {offset_us}, {slide_us})"
    elif spec.slide_ms <= spec.range_ms:
        last = f"{at} + {range_us} - pmod({at} + {range_us} - {offset_us}, {slide_us})"
        end = f"explode(sequence({end}, {last}, {slide_us}L))"
    bounds = [
        f"timestamp_micros({start}) AS window_start",
        "timestamp_micros(hop_end) AS window_end",
    ]
    predicate = inside if spec.predicate is None else f"{inside} AND {spec.predicate.spark_sql()}"
    return _join(
        "SELECT " + ", ".join([*bounds, *_outputs(spec, Dialect.SPARK), *_ordered_by(spec)]),
        f"FROM (SELECT *, {end} AS hop_end FROM {view})",
        _joins(spec, Dialect.SPARK),
        f"WHERE {predicate}",
        "GROUP BY " + ", ".join(["hop_end", *(_sets(spec, keys) if spec.sets else keys)]),
        _having(spec, Dialect.SPARK),
    )


def _ordered_by(spec: Spec) -> list[str]:
    """Write what ORDER BY and LIMIT BY go by as further columns."""
    by = () if spec.limit_by is None else spec.limit_by[1]
    order = [f"{item.of.text(Dialect.SPARK)} AS order{index}" for index, item in enumerate(spec.order)]
    return order + [f"{value.text(Dialect.SPARK)} AS by{index}" for index, value in enumerate(by)]


def _first_rows(spec: Spec, whole: str) -> str:
    """Write a query of the first rows of each window, given all of them."""
    order = [replace(item, of=Column(f"order{n}", item.of.type)) for n, item in enumerate(spec.order)]
    ordering = ", ".join([item.text(Dialect.SPARK) for item in order] + [*spec.identity[2:]])
    limits = [] if spec.limit_by is None else [(spec.limit_by[0], len(spec.limit_by[1]))]
    limits += [] if spec.limit is None else [(spec.limit, 0)]
    for rows, by in limits:
        groups = ", ".join(["window_start", "window_end", *(f"by{number}" for number in range(by))])
        place = f"row_number() OVER (PARTITION BY {groups} ORDER BY {ordering or 1})"
        whole = (
            f"SELECT * EXCEPT (place) FROM (SELECT *, {place} AS place FROM ({whole})) WHERE place <= {rows}"
        )
    return f"SELECT {', '.join(spec.columns)} FROM ({whole})" if limits else whole


def _bracket(spec: Spec) -> str:
    offset = f" OFFSET '{spec.offset_ms} ms'" if spec.offset_ms else ""
    return f"[RANGE '{spec.range_ms} ms' SLIDE '{spec.slide_ms} ms'{offset}]"


def _outputs(spec: Spec, dialect: Dialect) -> list[str]:
    return [f"{item.text(dialect)} AS {item.name}" for item in spec.outputs]


def _joins(spec: Spec, dialect: Dialect) -> str:
    return " ".join(join.text(dialect) for join in spec.joins)


def _where(spec: Spec, dialect: Dialect) -> str:
    return "" if spec.predicate is None else f"WHERE {spec.predicate.text(dialect)}"


def _having(spec: Spec, dialect: Dialect) -> str:
    return "" if spec.having is None else f"HAVING {spec.having.text(dialect)}"


def _limits(spec: Spec) -> str:
    order = ", ".join(item.text(Dialect.WEFT) for item in spec.order)
    by = ""
    if spec.limit_by is not None:
        rows, values = spec.limit_by
        by = f"LIMIT {rows} BY {', '.join(value.text(Dialect.WEFT) for value in values)}"
    return _join(
        f"ORDER BY {order}" if order else "", by, "" if spec.limit is None else f"LIMIT {spec.limit}"
    )


def _join(*clauses: str) -> str:
    return " ".join(clause for clause in clauses if clause)
