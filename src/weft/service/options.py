"""The options of a start, the sinks made from them, and the deliveries to these."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from weft.durability.delivered import was_delivered_to
from weft.durability.past import Approve, Past
from weft.durability.places import QUARANTINE
from weft.durability.side_output import Aside, part_of
from weft.errors import EngineError, Fenced, InternalError
from weft.limits import Limits
from weft.notices import Notice, NoticeKind
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.sinks import REFUSED, DeclaredSink, Delivery, Outlet, Sink
from weft.sinks.declared import Surroundings, check_places, check_queries, try_out
from weft.sinks.fence import Fencing, Lineage
from weft.sinks.sink import Placed
from weft.storage import Folder, LocalFolder, is_local, open_folder
from weft.stream.loop import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How streams are answered, and where results go."""

    slicing: Slicing
    sharing: Sharing
    limits: Limits
    checkpoint: str | Path | None
    sinks: tuple[DeclaredSink, ...]
    keep: bool
    """Whether all results are held in memory."""
    quarantine: str | Path | None = None
    late: str | Path | None = None
    """Folders for rows that cannot be used, and for late rows; the former go into a checkpoint by default."""
    trigger: Trigger
    idle_seconds: float | None
    rewind: Approve | None = None
    """Decides whether sinks lose what the checkpoint does not know; None: they are not rewound."""

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


def make_outlets(
    declared: Iterable[DeclaredSink], surroundings: Surroundings, *, taken: Sequence[Sink] = ()
) -> tuple[Outlet, ...]:
    """Return sinks for a stream; refuse one that another stream has taken: it counts that one's commits."""
    made = tuple(sink.outlet(surroundings) for sink in declared)
    for sink in (outlet.sink for outlet in made):
        if any(sink is other for other in taken):
            raise EngineError(
                f"sink {sink.name} serves another stream already, and a sink takes the results of one only; "
                f"give a function that makes one for each stream: sinks=[lambda: {type(sink).__name__}(…)]"
            )
    check_places(made)
    return made


def try_early(
    declared: Iterable[DeclaredSink],
    *,
    queries: Collection[str],
    checkpoint: str | Path | None,
    follow: bool,
) -> None:
    """Find mistakes in declared sinks, as far as that takes no Spark, before it is started.

    `queries` are the names of the workload's queries.
    """
    sinks = [sink for sink in declared if sink.by_kind and not sink.needs_spark]
    outlets = make_outlets(sinks, Surroundings(run="", session=_no_session))
    if checkpoint is None:
        check_queries(declared, queries)
    elif follow and not is_local(checkpoint):
        # Only Spark can tell whether sinks are known there.
        return
    for outlet in outlets:
        if checkpoint is not None and isinstance(outlet.sink, Placed):
            _refuse_checkpoint(outlet.sink, str(checkpoint))
    streams: list[Folder] = []
    if checkpoint is not None and follow:
        root = open_folder(checkpoint, _no_session)
        streams = [root.folder(name) for name in root.names()]
    try_out(outlets, excused=lambda sink, error: was_delivered_to(streams, sink))
    for outlet in outlets:
        outlet.sink.close()


def _refuse_checkpoint(sink: Placed, checkpoint: str) -> None:
    """Raise EngineError if a sink writes to the folder of the checkpoint."""
    place = str(Path(checkpoint).resolve()) if is_local(checkpoint) else checkpoint.rstrip("/")
    if sink.place.rstrip("/") == place:
        raise EngineError(
            f"{checkpoint} is the checkpoint, and a sink writes its results there, too; give each a folder "
            "of its own"
        )


def _no_session() -> SparkSession:
    raise InternalError("a sink needs Spark before it is started")


def deliveries(
    outlets: Sequence[Outlet],
    past: Past,
    *,
    origin: str,
    on_fenced: Callable[[Fenced], None],
    held: Callable[[], None] | None,
    stop: threading.Event,
) -> list[Delivery]:
    """Start to deliver to sinks, each after the last commit that the checkpoint knows it to have.

    Sinks that support it refuse any but the current incarnation of the checkpoint's lineage; `on_fenced` is
    called with that. `held` raises an error if another engine may run on the checkpoint now.
    """
    checkpoint, lineage = past.checkpoint, past.lineage
    if checkpoint is None:
        return [Delivery(outlet.sink, gets=outlet.gets, stop=stop, on_fenced=on_fenced) for outlet in outlets]
    sinks = [outlet.sink for outlet in outlets]
    for name, times in Counter(sink.name for sink in sinks).items():
        if times > 1:
            raise EngineError(
                f"{times} sinks are named {name}, and a checkpoint knows sinks by their names; give each "
                "another: name=…"
            )
    done = {sink.name: checkpoint.delivered(sink.name) for sink in sinks}
    # Before they start: a delivery records its own progress.
    checkpoint.deliver_to(done)
    for sink in sinks:
        if isinstance(sink, Fencing) and lineage is not None:
            sink.set_lineage(lineage)
    return [
        Delivery(
            outlet.sink,
            gets=outlet.gets,
            after=done[outlet.sink.name],
            last=past.last,
            origin=origin,
            outbox=checkpoint.results,
            on_done=checkpoint.set_delivered,
            on_fenced=on_fenced,
            held=held,
            stop=stop,
        )
        for outlet in outlets
    ]


def refusals(delivered: Iterable[Delivery]) -> list[Notice]:
    """Return notices of the rows that sinks have set aside."""
    return [
        Notice(kind=NoticeKind.SINK_SET_ASIDE, subject=status.sink, count=status.refused, about=REFUSED)
        for status in (delivery.status for delivery in delivered)
        if status.refused
    ]
