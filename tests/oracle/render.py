"""Queries as text: in Weft's language, and as plain Spark SQL that answers the same."""

from tests.oracle.expressions import Dialect
from tests.oracle.spec import Spec, WindowSyntax


def weft_text(spec: Spec, stream: str, time: str, syntax: WindowSyntax) -> str:
    """Write a query in Weft's language."""
    bracket = syntax is WindowSyntax.BRACKET
    groups = [key.text(Dialect.WEFT) for key in spec.keys]
    if not bracket:
        groups.append(window_call(spec, time))
    return _join(
        "SELECT " + ", ".join(_outputs(spec, Dialect.WEFT)),
        f"FROM {stream}" + (f" {_bracket(spec)}" if bracket else ""),
        _joins(spec, Dialect.WEFT),
        _where(spec, Dialect.WEFT),
        f"GROUP BY {', '.join(groups)}" if groups else "",
        _having(spec, Dialect.WEFT),
        "EMIT EMPTY" if spec.emit_empty else "",
    )


def spark_text(spec: Spec, view: str, time: str) -> str:
    """Write a query for a Spark session; windows of a late query or empty ones are not expressible."""
    if spec.emit_empty or spec.first_start_us is not None or spec.from_batch or spec.until_batch is not None:
        raise ValueError(f"query {spec.name} has no plain Spark form")
    return _hopping(spec, view, time) if spec.slide_ms > spec.range_ms else _windowed(spec, view, time)


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
        "SELECT " + ", ".join([*bounds, *_outputs(spec, Dialect.SPARK)]),
        f"FROM {view}",
        _joins(spec, Dialect.SPARK),
        _where(spec, Dialect.SPARK),
        f"GROUP BY {', '.join(groups)}",
        _having(spec, Dialect.SPARK),
    )


def _hopping(spec: Spec, view: str, time: str) -> str:
    """Write windows with gaps between them, which window() refuses.

    range 3, slide 10    [-3-)       [-3-)       a row belongs to the next end, or to none
    """
    range_us, slide_us, offset_us = spec.range_ms * 1000, spec.slide_ms * 1000, spec.offset_ms * 1000
    at = f"unix_micros({time})"
    end = f"{at} + {slide_us} - pmod({at} - {offset_us}, {slide_us})"
    bounds = [
        f"timestamp_micros(hop_end - {range_us}) AS window_start",
        "timestamp_micros(hop_end) AS window_end",
    ]
    inside = f"(hop_end - {range_us} <= {at})"
    predicate = inside if spec.predicate is None else f"{inside} AND {spec.predicate.spark_sql()}"
    return _join(
        "SELECT " + ", ".join([*bounds, *_outputs(spec, Dialect.SPARK)]),
        f"FROM (SELECT *, {end} AS hop_end FROM {view})",
        _joins(spec, Dialect.SPARK),
        f"WHERE {predicate}",
        "GROUP BY " + ", ".join(["hop_end", *(key.text(Dialect.SPARK) for key in spec.keys)]),
        _having(spec, Dialect.SPARK),
    )


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


def _join(*clauses: str) -> str:
    return " ".join(clause for clause in clauses if clause)
