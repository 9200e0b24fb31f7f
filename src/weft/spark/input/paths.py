"""Where the files of a source are, and what they look like: without Spark, so that mistakes show early."""

from collections.abc import Iterator
from dataclasses import replace
from glob import escape, iglob
from itertools import islice
from pathlib import Path

from weft.errors import SourceError
from weft.query.logical import Source, StreamDef, TableDef

FILE_FORMATS = frozenset({"parquet", "csv", "json", "orc", "text"})
"""Formats of files in a folder."""
SELF_DESCRIBING = frozenset({"parquet", "orc", "csv", "json"})
"""Those whose files tell their columns."""
_MARKS = {"parquet": (b"PAR1", b"PARE"), "orc": (b"ORC",)}
"""What files of a format begin with; PARE: Parquet with an encrypted footer."""
_FILES_TRIED = 100
"""Number of files that may be of another format before a folder counts as one of that format."""
_HEAD_BYTES = 64


def resolved(source: Source, base: Path | None, what: str) -> Source:
    """Return the source with a relative path taken from the workload file's folder, or else from here."""
    options = dict(source.options)
    path = options.get("path")
    if path is None or "://" in path:
        return source
    found = path
    if not Path(path).is_absolute():
        beside = (base or Path()) / path
        found = str(beside if is_pattern(str(beside)) or beside.exists() else Path(path))
    if source.format in FILE_FORMATS and not (is_pattern(found) or Path(found).exists()):
        raise SourceError(
            f'{what}: no files at "{path}"; a relative path starts at the workload file\'s folder'
        )
    return replace(source, options=tuple({**options, "path": found}.items()))


def is_pattern(path: str) -> bool:
    """Say whether a path stands for all that it matches."""
    return any(wild in path for wild in "*?[{")


def check_files(definition: StreamDef | TableDef, base: Path | None, *, may_come: bool) -> None:
    """Raise SourceError if the files of a stream or table on this machine cannot be read as declared.

    A stream's folder may be empty, unless its files have to tell the columns; that no file matches a pattern
    is a mistake, unless files `may_come`.
    """
    source = definition.source
    what = f"{'stream' if isinstance(definition, StreamDef) else 'table'} {definition.name}"
    if source is None or source.format not in FILE_FORMATS:
        return
    written = dict(source.options).get("path")
    if not written:
        raise SourceError(f"{what} has no path; add OPTIONS (path 'folder/')")
    if isinstance(definition, StreamDef) and not definition.columns and source.format not in SELF_DESCRIBING:
        raise undeclared(what, source.format)
    path = dict(resolved(source, base, what).options).get("path", "")
    if "://" in path or "{" in path or "\\" in path:
        # Elsewhere, or a pattern that only Hadoop understands.
        return
    files = list(islice(_files(path), _FILES_TRIED))
    if not files and not definition.columns:
        raise SourceError(
            f'{what}: there are no files at "{written}" to tell the columns; declare them, as in '
            f"({'time TIMESTAMP, ' if isinstance(definition, StreamDef) else ''}vol BIGINT)"
        )
    if not files and is_pattern(path) and not (may_come and isinstance(definition, StreamDef)):
        raise SourceError(
            f'{what}: no file matches "{written}"; a relative path starts at the workload file\'s folder'
        )
    _check_format(files, source.format, what)


def undeclared(what: str, format: str) -> SourceError:
    """Return the error of a stream without columns whose files do not tell them."""
    return SourceError(f"{what} must declare its columns: {format} files do not tell them")


def _files(path: str) -> Iterator[Path]:
    """Yield the files that Spark would read, in no order: also those below folders like `day=1`."""
    for place in map(Path, iglob(path)) if is_pattern(path) else [Path(path)]:
        if place.is_file():
            yield place
        for inside in place.iterdir() if place.is_dir() else ():
            if not inside.name.startswith(("_", ".")):
                if inside.is_file():
                    yield inside
                elif "=" in inside.name:
                    yield from _files(escape(str(inside)))


def _check_format(files: list[Path], format: str, what: str) -> None:
    """Raise SourceError if no file that has a byte can be of the format."""
    other: tuple[Path, bytes] | None = None
    for file in files:
        try:
            with file.open("rb") as opened:
                head = opened.read(_HEAD_BYTES)
        except OSError:
            return
        if head and _may_be(format, head):
            return
        if head:
            other = other or (file, head)
    if other is not None:
        file, head = other
        raise SourceError(
            f"{what} cannot be read as {format}: {file} is no {format} file{_looks_like(head)}; "
            "name the format of its files after USING"
        )


def _may_be(format: str, head: bytes) -> bool:
    """Say whether a file that begins so may be of a format: others than text have marks."""
    if format in _MARKS:
        return head.startswith(_MARKS[format])
    return not any(head.startswith(marks) for marks in _MARKS.values())


def _looks_like(head: bytes) -> str:
    """Return what a file seems to be instead: of another format by its mark, or text."""
    for format, marks in _MARKS.items():
        if head.startswith(marks):
            return f", but one of {format}"
    if head.startswith((b"{", b"[")):
        return ", but looks like json"
    line = head.partition(b"\n")[0]
    return ", but looks like csv" if b"," in line and line.isascii() else ""
