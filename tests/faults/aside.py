"""What is not aggregated: each late event in one dataset, each unusable one in the other, once.

Files that could not be read as they were listed have rows in the quarantine, too, which tell of no event.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.oracle import Verdict

Event = tuple[str | None, int | None]
"""Producer and number."""
_SHOWN = 3


def _rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield source and record of every row of a dataset; Spark's unfinished files are no part of it."""
    for path in sorted(folder.rglob("*.parquet")):
        if not any(part[0] in "._" for part in path.relative_to(folder).parts):
            columns = pq.ParquetFile(path).read()
            sources = columns["source"].to_pylist() if "source" in columns.column_names else None
            for number, row in enumerate(columns["row"].to_pylist()):
                yield "" if sources is None else str(sources[number]), json.loads(row or "{}")


def kept(folder: Path) -> list[Event]:
    """Return the events that a dataset holds, every row of it."""
    return [(row["producer"], row["seq"]) for _, row in _rows(folder) if "seq" in row]


def files_named(folder: Path) -> Counter[str]:
    """Return the names of files that a dataset names as a whole, and how often it does."""
    return Counter(Path(source).name for source, row in _rows(folder) if "seq" not in row)


def judge_files(must: Collection[str], folder: Path) -> Verdict:
    """Compare the files that a quarantine names with those that it must."""
    times = files_named(folder)
    lost, extra = sorted(set(must) - set(times)), sorted(set(times) - set(must))
    examples = [f"file {name} is not named" for name in lost[:_SHOWN]]
    examples += [f"file {name} is named, and was as it should be" for name in extra[:_SHOWN]]
    return Verdict(lost=len(lost), extra=len(extra), examples=examples)


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
