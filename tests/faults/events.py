"""Events that can be told apart, written as Parquet files while an engine reads them.

Each event has a producer and a number of its own (`seq`). Twelve numbers in a row are a `block`, and `mark`
is 32 to the power of the event's place in it: a sum of marks tells how often each event of a block counted.

    python -m tests.faults.events FOLDER --seed 7 --every 0.1
"""

import argparse
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.leash import die_with_parent

Numbers = npt.NDArray[np.int64]

BLOCK = 12
"""How many events share a block."""
BASE = 32
"""The base of marks: an event that is counted up to 31 times does not run into its neighbour."""
DELAY_MS = 5_000
"""The delay that the stream declares."""
_DISORDER_MS = 2_500
"""How far an event may be behind the newest of its file: files may also be read in another order."""
_FILE_MS = 1_000
_MS = 1_000
_LATE_MS = 20_000, 60_000
"""How far late events are behind their file's own second: late, however few batches the files come in."""
_TIMELY_FILES = 10
"""So many files come before one with late events: in a first batch none is late."""
_AHEAD_MS = 50 * 365 * 86_400_000
_START_MS = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
_TAGS = np.array(["a", "b", "c", None], dtype=object)

SCHEMA = pa.schema(
    {
        "time": pa.timestamp("us", "UTC"),
        "producer": pa.string(),
        "seq": pa.int64(),
        "block": pa.int64(),
        "mark": pa.int64(),
        "vol": pa.int64(),
        "price": pa.float64(),
        "amount": pa.decimal128(12, 2),
        "tag": pa.string(),
    }
)
COLUMNS = (
    "time TIMESTAMP, producer STRING, seq BIGINT, block BIGINT, mark BIGINT, vol BIGINT, "
    "price DOUBLE, amount DECIMAL(12, 2), tag STRING"
)
"""The same for a workload."""


@dataclass(kw_only=True)
class Events:
    """An endless row of files, the same for the same seed."""

    seed: int
    rows: int = 60
    """In a file, over all producers."""
    producers: int = 3
    late: float = 0.0
    """The share of rows that are far behind, in all files but the first."""
    unusable: float = 0.0
    """The share of rows without a time, or with one years ahead."""
    _random: np.random.Generator = field(init=False)
    _next: dict[int, int] = field(init=False, default_factory=dict)
    _file: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def skip(self, files: int) -> None:
        """Have no event happen for as long as so many files would last."""
        self._file += files

    def next_file(self) -> pa.Table:
        """Return the rows of the next file."""
        random, rows = self._random, self.rows
        producer = np.sort(random.integers(0, self.producers, rows))
        seq = np.concatenate(
            [self._numbers(one, int((producer == one).sum())) for one in range(self.producers)]
        )
        vol = random.integers(0, 1_000, rows)
        cents = random.integers(-10_000, 1_000_000, rows)
        table = pa.table(
            {
                "time": pa.array(self._times()),
                "producer": [f"p{one}" for one in producer],
                "seq": seq,
                "block": seq // BLOCK,
                "mark": BASE ** (seq % BLOCK),
                "vol": pa.array(vol, mask=random.random(rows) < 0.02),
                "price": random.normal(100, 10, rows),
                "amount": _cents(cents),
                "tag": pa.array(random.choice(_TAGS, rows), pa.string()),
            }
        )
        self._file += 1
        return table.take(pa.array(random.permutation(rows))).cast(SCHEMA)

    def _numbers(self, producer: int, count: int) -> Numbers:
        first = self._next.get(producer, 0)
        self._next[producer] = first + count
        return np.arange(first, first + count, dtype=np.int64)

    def _times(self) -> pa.Array:
        """Return times of the file's own second, some of them behind, some exactly where windows end."""
        random, rows = self._random, self.rows
        begin = _begin_us(self._file)
        times = begin + random.integers(0, _FILE_MS * _MS, rows)
        behind = random.random(rows) < 0.3
        times[behind] -= random.integers(0, _DISORDER_MS * _MS, int(behind.sum()))
        whole = random.random(rows) < 0.15
        times[whole] = times[whole] // 1_000_000 * 1_000_000
        late = random.random(rows) < (self.late if self._file >= _TIMELY_FILES else 0.0)
        least, most = (_MS * behind for behind in _LATE_MS)
        times[late] = begin - random.integers(least, most, int(late.sum()))
        unusable = random.random(rows) < self.unusable
        times[unusable] += _AHEAD_MS * _MS
        no_time = unusable & (random.random(rows) < 0.5)
        return pa.array(times, pa.timestamp("us", "UTC"), mask=no_time)


def _cents(values: Numbers) -> pa.Array:
    """Return whole cents as amounts."""
    return pa.array([f"{value / 100:.2f}" for value in values.tolist()]).cast(pa.decimal128(12, 2))


def _begin_us(file: int) -> int:
    return (_START_MS + file * _FILE_MS) * _MS


def own_second(path: Path) -> int:
    """Return where the second begins that a file's events are of, in microseconds."""
    return _begin_us(int(path.stem.rpartition("-")[2]))


def path_of(folder: Path, number: int) -> Path:
    """Return where a file of events is."""
    return folder / f"events-{number:06d}.parquet"


def write(folder: Path, number: int, rows: pa.Table) -> Path:
    """Write a file of events whole: it is there with all its rows, or not at all."""
    path = path_of(folder, number)
    unfinished = folder / f".{path.name}"
    pq.write_table(rows, unfinished)
    # Spark reads files in order of their times: no two have the same.
    before = path_of(folder, number - 1)
    if not before.exists():  # Nothing happened for a while.
        before = max(folder.glob("events-*.parquet"), default=before)
    moment = max(time.time_ns(), before.stat().st_mtime_ns + 2_000_000 if before.exists() else 0)
    os.utime(unfinished, ns=(moment, moment))
    unfinished.rename(path)
    return path


def write_files(folder: Path, events: Events, count: int, *, first: int = 0) -> None:
    """Write some files at once."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        write(folder, number, events.next_file())


WANTED = ".wanted"
"""The file that tells how many files are to be there."""


def want(folder: Path, count: int) -> None:
    """Have the process that writes events go on until there are so many files."""
    unfinished = folder / f"{WANTED}.new"
    unfinished.write_text(str(count))
    unfinished.rename(folder / WANTED)


def wanted(folder: Path) -> int:
    """Return how many files are to be there."""
    path = folder / WANTED
    return int(path.read_text()) if path.exists() else 0


def main() -> None:
    """Write a file every so often while more are wanted, until SIGTERM comes."""
    die_with_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--unusable", type=float, default=0.0)
    given = parser.parse_args()
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    events = Events(seed=given.seed, rows=given.rows, late=given.late, unusable=given.unusable)
    number = 0
    while not stopped.is_set():
        if number < wanted(given.folder):
            write_files(given.folder, events, 1, first=number)
            number += 1
        stopped.wait(given.every)


if __name__ == "__main__":
    main()
