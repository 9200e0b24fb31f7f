"""Which exact aggregates hold so many values that a sketch is worth proposing."""

from collections.abc import Iterable

from weft.aggregates import aggregate
from weft.optimizer.plan import Answer
from weft.query.logical import AggregateCall
from weft.window import duration

MOST_VALUES = 1_000_000
"""Expected number of values above which a sketch is proposed: about 12 MB of them."""


def proposals(answers: Iterable[Answer], rows_per_second: float) -> list[str]:
    """Return, for each aggregate that is expected to hold too many values, the sketch to use in its place.

    A store keeps each value of the longest window once for each slice and group at most: so no more than
    there are rows.
    """
    ranges: dict[tuple[str, str, str], int] = {}
    for answer in answers:
        for call in answer.query.aggregates:
            sketch = _sketch(call)
            if sketch is not None:
                key = call.function, sketch, str(call.arguments[0])
                ranges[key] = max(ranges.get(key, 0), answer.query.window.range_ms)
    return [
        f"{function} of {of} holds up to {rows:,.0f} values over {duration(range_ms)}; "
        f"{sketch}({of}{_REST[sketch]}) has a bounded size"
        for (function, sketch, of), range_ms in ranges.items()
        if (rows := rows_per_second * range_ms / 1000) > MOST_VALUES
    ]


_REST = {"approx_count_distinct": "", "approx_percentile": ", p", "approx_top_k": ", k"}
"""What follows the expression in calls of sketches."""


def _sketch(call: AggregateCall) -> str | None:
    function = aggregate(call.function)
    return function.sketch if function is not None and len(call.arguments) == 1 else None
