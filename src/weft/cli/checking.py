"""Reads a workload file, and reports all its mistakes at once, before Spark is imported or started."""

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

from weft.errors import BadWorkload, EngineError, QueryError, SourceError
from weft.limits import Limits
from weft.query import CreateQuery, CreateStream, CreateTable, DropQuery, Statement, check
from weft.query.checking import Checked, mistake, place
from weft.spark.input.paths import check_files

_SHOWN = 20
"""Maximum number of mistakes that are shown; the others are counted."""


class Files(Enum):
    """What is known of the files of streams."""

    THERE = "there"
    """They are read, once."""
    MAY_COME = "may come"
    """They are read as they come, or in a later run."""
    NOT_READ = "not read"
    """Only a stream that declares no columns is looked at."""


def read_workload(
    path: Path, *, limits: Limits, files: Files = Files.NOT_READ, queries_known: bool = False
) -> tuple[Statement, ...]:
    """Return the statements of a workload that is run alone; raise BadWorkload for its mistakes.

    `files` are those of its streams. With `queries_known`, sinks are FOR its queries only.
    """
    text = read_text(path)
    found = check(text, limits=limits, queries_known=queries_known)
    return _statements(found, path, text, more=_wrong_sources(found, path.parent, files))


def read_changes(path: Path, text: str, *, limits: Limits) -> tuple[Statement, ...]:
    """Return the statements of a workload for an engine that runs already; raise BadWorkload for mistakes.

    The engine may have streams, tables and functions that the workload does not declare.
    """
    return _statements(check(text, limits=limits, alone=False, queries_known=False), path, text)


def queries_of(statements: Iterable[Statement]) -> dict[str, CreateQuery]:
    """Return the queries that a workload leaves, by name."""
    queries: dict[str, CreateQuery] = {}
    for statement in statements:
        if isinstance(statement, CreateQuery):
            queries[statement.name] = statement
        elif isinstance(statement, DropQuery):
            queries.pop(statement.name, None)
    return queries


def check_folder(option: str, path: str | None) -> None:
    """Raise EngineError if an option's folder on this machine is a file, or lies below one."""
    if path is None or "://" in path:
        return
    found = next((part for part in (Path(path), *Path(path).parents) if part.exists()), None)
    if found is not None and not found.is_dir():
        raise EngineError(f"{option} {path}: {found} is a file, and no folder; give another folder")


def read_text(path: Path) -> str:
    """Return the text of a file of statements."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SourceError(f"no workload file {path}") from None
    except IsADirectoryError:
        raise SourceError(
            f"{path} is a folder; name a workload file, such as {path / 'workload.sql'}"
        ) from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def _wrong_sources(found: Checked, base: Path, files: Files) -> Iterable[QueryError]:
    """Yield streams and tables whose files are not there, or are not as declared."""
    for written in found.written:
        statement = written.statement
        if isinstance(statement, CreateTable) or (
            isinstance(statement, CreateStream)
            and (files is not Files.NOT_READ or not statement.definition.columns)
        ):
            try:
                check_files(statement.definition, base, may_come=files is not Files.THERE)
            except SourceError as error:
                yield mistake(written, statement.definition.name, str(error))


def _statements(
    found: Checked, path: Path, text: str, *, more: Iterable[QueryError] = ()
) -> tuple[Statement, ...]:
    """Return the statements of a workload; raise BadWorkload if there are mistakes."""
    if mistakes := [*found.mistakes, *more]:
        raise BadWorkload(report(str(path), text, mistakes))
    return found.statements


def report(name: str, text: str, mistakes: Sequence[QueryError]) -> str:
    """Return the mistakes of a file in the order of its text, each with its line and column.

    >>> print(report("a.sql", "DROP QUERY a", check("DROP QUERY a").mistakes))
    a.sql:1:12: unknown query "a"
      DROP QUERY a
                 ^
    """
    shown = sorted(mistakes, key=lambda error: error.position)[:_SHOWN]
    lines = []
    for error in shown:
        line, column = place(text, error)
        lines.append(f"{name}:{line}:{column}: {error}")
    if len(mistakes) > 1:
        more = f", of which {_SHOWN} are shown" if len(mistakes) > _SHOWN else ""
        lines.append(f"{len(mistakes):,} mistakes in {name}{more}")
    return "\n".join(lines)
