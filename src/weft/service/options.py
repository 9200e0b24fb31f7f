"""The options of a start."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.durability.places import QUARANTINE
from weft.durability.rewinding import Approve
from weft.durability.side_output import Aside, part_of
from weft.errors import EngineError
from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.sinks import ParquetSink, Sink
from weft.sinks.fence import Lineage
from weft.storage import Folder, LocalFolder, open_folder
from weft.stream.loop import Trigger

MakeSink = Callable[[], Sink]
"""Makes a sink; each stream has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How streams are answered, and where results go."""

    slicing: Slicing
    sharing: Sharing
    limits: Limits
    out: str | Path | None
    checkpoint: str | Path | None
    sinks: tuple[Sink | MakeSink, ...]
    keep: bool
    """Whether all results are held in memory."""
    quarantine: str | Path | None = None
    late: str | Path | None = None
    """Folders for rows that cannot be used, and for late rows; the former go into a checkpoint by default."""
    trigger: Trigger
    idle_seconds: float | None
    rewind: Approve | None = None
    """Decides whether sinks lose what the checkpoint does not know; None: they are not rewound."""

    def parquet(
        self, schemas: Mapping[str, pa.Schema], *, run: str, session: Callable[[], SparkSession]
    ) -> ParquetSink | None:
        """Return the sink for `out`, if that is given; `schemas` are the columns of queries' results."""
        if self.out is None:
            return None
        return ParquetSink(_folder_for("out", self.out, session), queries=schemas, run=run)

    def aside(
        self,
        stream: str,
        root: Folder | None,
        origin: str,
        *,
        lineage: Lineage | None,
        held: Callable[[], None] | None,
        session: Callable[[], SparkSession],
    ) -> Aside:
        """Return where a stream's rows go that are not aggregated; `origin` is the checkpoint's own name."""
        quarantine = inside = None if root is None else root.folder(QUARANTINE)
        if self.quarantine is not None:
            quarantine = part_of(_folder_for("quarantine", self.quarantine, session), origin)
        late = None if self.late is None else part_of(_folder_for("late", self.late, session), origin)
        return Aside(
            stream=stream, origin=origin, quarantine=quarantine, late=late, lineage=lineage, inside=inside,
            held=held,
        )  # fmt: skip


def _folder_for(option: str, path: str | Path, session: Callable[[], SparkSession]) -> Folder:
    """Return the folder of an option; raise EngineError if it is a file: trying again would not help."""
    folder = open_folder(path, session)
    if isinstance(folder, LocalFolder) and folder.path.exists() and not folder.path.is_dir():
        raise EngineError(f"{path} is a file, and no folder; give another --{option}")
    return folder
