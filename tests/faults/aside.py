"""The events that are not aggregated: each late one in one dataset, each unusable one in the other, once."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.oracle import Verdict

Event = tuple[str | None, int | None]
"""Producer and number."""
_SHOWN = 3


def kept(folder: Path) -> list[Event]:
    """Return the events that a dataset holds, every row of it; Spark's unfinished files are no part of it."""
    found: list[Event] = []
    for path in sorted(folder.rglob("*.parquet")):
        if not any(part[0] in "._" for part in path.relative_to(folder).parts):
            rows = pq.ParquetFile(path).read(columns=["row"])["row"].to_pylist()
            found += [(row.get("producer"), row.get("seq")) for row in map(json.loads, rows)]
    return found


def judge(name: str, must: pa.Table, folder: Path) -> Verdict:
    """Compare a dataset with the events that must be in it."""
    known = set(zip(must["producer"].to_pylist(), must["seq"].to_pylist(), strict=True))
    times = Counter(kept(folder))
    lost = sorted(known.difference(times))
    twice = [event for event, count in times.items() if count > 1]
    extra = [event for event in times if event not in known]
    examples = [f"{name}: event {event} is lost" for event in lost[:_SHOWN]]
    examples += [f"{name}: event {event} is there {times[event]} times" for event in twice[:_SHOWN]]
    examples += [f"{name}: event {event} does not belong there" for event in extra[:_SHOWN]]
    return Verdict(lost=len(lost), twice=len(twice), extra=len(extra), examples=examples)
