"""Bugs in what keeps a fault from doing harm, and the trials that bring them to light.

An engine without the bug fails in these trials, and says why; only one with it goes on and does the harm.
"""

import shutil
from collections.abc import Callable
from typing import Any

from tests.faults.conditions import CONDITIONS, FULL_IN_A_BATCH
from tests.faults.events import Events, path_of, write_files
from tests.faults.ground import put_in_place
from tests.faults.patches import Undo, put, wrap
from tests.faults.site import Site
from weft.notices import Failure

Run = Callable[[Site, str | None, bool], str]
"""Runs an engine with a bug (or None) over all input, closes windows if told; says what it failed with."""
_FILES = 10
_STRANGER = "a-stranger"
_LAST_BATCH = "batch=999999999"


def blame_anyone() -> list[Undo]:
    """Have some query be blamed when a disk is full."""

    def blame(find: Callable[..., Any], pipeline: Any, batch: Any, error: Exception) -> dict[str, Failure]:
        return {sorted(pipeline.queries)[0]: Failure(kind=type(error).__name__, text=str(error))}

    return [*CONDITIONS[FULL_IN_A_BATCH](), wrap("weft.stream.loop", "find_culprits", blame)]


def give_way() -> list[Undo]:
    """Have a sink take whatever incarnation for one that it knows."""
    modules = ("weft.sinks.parquet", "weft.sinks.postgres")
    return [put(module, "judge", lambda *given, **named: None) for module in modules]


def delete_unchecked() -> list[Undo]:
    """Have folders be removed whoever made them."""
    modules = ("weft.storage.local", "weft.storage.hadoop")
    return [put(module, "check_made_by", lambda *given: None) for module in modules]


def older_copy(site: Site, run: Run, mutant: str | None) -> str:
    """Put an older copy of the checkpoint back, and run without the input that came later."""
    events, copy, later = Events(seed=11), site.root / "copy", site.root / "later"
    write_files(site.input, events, _FILES)
    failure = run(site, mutant, False)
    shutil.copytree(site.checkpoint, copy)
    write_files(site.input, events, _FILES, first=_FILES)
    failure = failure or run(site, mutant, False)
    put_in_place(site.checkpoint, copy)
    later.mkdir()
    numbers = range(_FILES, 2 * _FILES)
    for number in numbers:
        path_of(site.input, number).rename(path_of(later, number))
    failure = failure or run(site, mutant, True)
    for number in numbers:
        path_of(later, number).rename(path_of(site.input, number))
    return failure


def strange_folder(site: Site, run: Run, mutant: str | None) -> str:
    """Have another checkpoint's late rows be where an engine removes those of batches not committed."""
    from weft.storage import LocalFolder
    from weft.storage.folder import MARK, Mark, put_mark

    write_files(site.input, Events(seed=11, late=0.2), 2 * _FILES)
    failure = run(site, mutant, False)
    folder = next(site.late.glob("origin=*/stream=*"))
    sorted(folder.glob("batch=*"))[-1].rename(folder / _LAST_BATCH)
    (folder / MARK).unlink()
    put_mark(LocalFolder(folder), Mark(checkpoint=_STRANGER, stream="events"))
    return failure or run(site, mutant, True)
