"""Ten thousand names for streams, queries and sinks: all are found again, and nothing around is touched."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.checkpoint_samples import commit
from tests.unit.odd_names import listing, odd_names, surroundings

from weft.durability.checkpoint import Checkpoint
from weft.durability.places import claim_folder, find_folder, identity, remove_folder, stream_of
from weft.durability.side_output import Aside, stream_folder
from weft.sinks import ParquetSink
from weft.storage import LocalFolder
from weft.storage.names import file_name

NAMES = odd_names(10_000)
SOME = NAMES[:3000]
"""Where each name takes many files."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return folders for a checkpoint and for results; nothing waits for the disk, for that takes minutes."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return surroundings(tmp_path)


def test_results_are_found_again_whatever_a_query_is_called(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    before = listing(tmp_path, but=places)
    out = LocalFolder(places[1])
    for number in range(2):
        sink = ParquetSink(out)
        sink.resume(number - 1, origin="checkpoint stream")
        rows = {name: pa.table({"x": [place]}) for place, name in enumerate(NAMES)}
        sink.deliver(number, rows)
        sink.flush()
    assert len(out.names()) == len(NAMES)
    assert listing(tmp_path, but=places) == before
    for place, name in enumerate(NAMES[::10]):
        folder = out.folder(file_name(name))
        (first, second) = folder.names()
        assert folder.read(first) == folder.read(second)
        table = pq.read_table(pa.BufferReader(folder.read(first)))
        assert table["x"].to_pylist() == [place * 10]


def test_a_stream_finds_its_commits_again_whatever_it_is_called(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    before = listing(tmp_path, but=places)
    root = LocalFolder(places[0])
    origin = identity(root)
    for number, name in enumerate(SOME):
        checkpoint = Checkpoint(find_folder(root, name))
        claim_folder(checkpoint.folder, name, checkpoint=origin)
        assert checkpoint.recover() is None
        checkpoint.write(commit(0), (), {}, {})
        if number % 2:
            # Half of them did not start.
            remove_folder(root, name, checkpoint=origin)
    assert listing(tmp_path, but=places) == before
    assert identity(root) == origin
    found = {stream_of(root.folder(name), name) for name in root.names() if name != "id"}
    # JSON joins the halves of a pair, and nothing else.
    assert found == {
        name.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") for name in SOME[::2]
    }
    for number, name in enumerate(SOME):
        recovered = Checkpoint(find_folder(root, name)).recover()
        assert (recovered is None) == bool(number % 2)


def test_a_sink_is_known_again_whatever_it_is_called(places: tuple[Path, Path], tmp_path: Path) -> None:
    before = listing(tmp_path, but=places)
    folder = LocalFolder(places[0]).folder("trades")
    checkpoint = Checkpoint(folder)
    for number in range(3):
        checkpoint.write(commit(number), (), {}, {})
    checkpoint.deliver_to(dict.fromkeys(NAMES, -1))
    for place, name in enumerate(NAMES):
        checkpoint.set_delivered(name, place % 3)
    again = Checkpoint(folder)
    assert [again.delivered(name) for name in NAMES] == [place % 3 for place in range(len(NAMES))]
    # Half of them are left out from now on.
    again.deliver_to(dict.fromkeys(NAMES[::2], 2))
    notes = [again._notes.read(name) for name in NAMES]
    assert [note is not None and note.away for note in notes] == [
        bool(place % 2) for place in range(len(NAMES))
    ]
    assert listing(tmp_path, but=places) == before


def test_rows_set_aside_are_forgotten_whatever_their_stream_is_called(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    before = listing(tmp_path, but=places)
    late = LocalFolder(places[1])
    for name in SOME:
        own = late.folder(stream_folder(name))
        for batch in (0, 1):
            own.folder(f"batch={batch:09d}").write("part", name.encode(errors="surrogatepass"))
    for name in SOME[::2]:
        Aside(stream=name, origin="me", quarantine=None, late=late).forget_after(0)
    for place, name in enumerate(SOME):
        own = late.folder(stream_folder(name))
        assert own.has("batch=000000001") == bool(place % 2)
        assert own.folder("batch=000000000").read("part") == name.encode(errors="surrogatepass")
    assert listing(tmp_path, but=places) == before
