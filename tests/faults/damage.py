"""Files of a checkpoint cut off, changed, emptied or removed, and what an engine may make of it."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.faults.oracle import Verdict
from tests.faults.site import Site

_NOT_KEPT = {"spark", "quarantine", "requests", "answers", "lock.json"}
"""What is Spark's, is written for people, or does not outlast an engine."""
_OF_SPARK = ("commits", "offsets", "metadata")
"""Files of Spark's, or folders of them, that a start reads."""
_TELLING = 9
"""A name of so many characters tells a file from others."""


def cut(path: Path) -> None:
    """Leave the first half of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def change(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def empty(path: Path) -> None:
    """Leave a file without bytes."""
    path.write_bytes(b"")


def remove(path: Path) -> None:
    """Remove a file."""
    path.unlink()


def garble(path: Path) -> None:
    """Have a file be no JSON any more."""
    path.write_bytes(path.read_bytes().replace(b"{", b"["))


DAMAGES: dict[str, Callable[[Path], None]] = {"cut": cut, "change": change, "empty": empty, "remove": remove}
"""What is done to Weft's files, which have checksums."""
TO_SPARK: dict[str, Callable[[Path], None]] = {"cut": cut, "garble": garble, "empty": empty, "remove": remove}
"""What is done to Spark's files, where one bit may mean nothing."""


class Outcome(StrEnum):
    """What an engine made of a damaged checkpoint."""

    RECOVERED = "recovered"
    """All rows are right: there was another way to them."""
    REFUSED = "refused"
    """The file was named, and no row is wrong."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A damage, and what came of it."""

    file: str
    how: str
    outcome: Outcome
    why: str = ""


def files(site: Site) -> list[Path]:
    """Return the files that an engine relies on."""
    found = [path for path in sorted(site.checkpoint.rglob("*")) if path.is_file() and path.name[0] != "."]
    return [path for path in found if not _NOT_KEPT & set(path.relative_to(site.checkpoint).parts)]


def newest(site: Site) -> list[Path]:
    """Return the newest file of each kind."""
    return [paths[-1] for paths in _by_folder(site)]


def chosen(site: Site, chance: random.Random) -> list[Path]:
    """Return the newest file of each kind, and some older one."""
    return newest(site) + [chance.choice(paths[:-1]) for paths in _by_folder(site) if len(paths) > 1]


def of_spark(site: Site) -> list[Path]:
    """Return the newest of Spark's own files of each kind."""
    found = []
    for spark in site.checkpoint.glob("*/spark"):
        for name in _OF_SPARK:
            several = [path for path in (spark / name).glob("*") if path.name.isdecimal()]
            found += sorted(several, key=lambda path: int(path.name))[-1:] or [spark / name]
    return found


def cases(site: Site, chance: random.Random) -> list[tuple[Path, str]]:
    """Return files, and what is to be done to them."""
    own = [(path, how) for path in chosen(site, chance) for how in DAMAGES]
    return own + [(path, how) for path in of_spark(site) for how in TO_SPARK]


def do(how: str, path: Path) -> None:
    """Damage a file."""
    {**DAMAGES, **TO_SPARK}[how](path)


def _by_folder(site: Site) -> list[list[Path]]:
    by_folder: dict[Path, list[Path]] = {}
    for path in files(site):
        by_folder.setdefault(path.parent, []).append(path)
    return list(by_folder.values())


def outcome(file: str, how: str, *, refused: bool, said: str, verdict: Verdict) -> Damaged:
    """Judge what an engine made of a damaged file."""
    if not refused and verdict.exact:
        return Damaged(file=file, how=how, outcome=Outcome.RECOVERED)
    named = _named(file, said) and "Traceback" not in said
    if refused and named and verdict.sound:
        return Damaged(file=file, how=how, outcome=Outcome.REFUSED)
    why = f"refused {refused}, named {named}, {verdict}\n{said[-1500:]}"
    return Damaged(file=file, how=how, outcome=Outcome.BAD, why=why)


def _named(file: str, said: str) -> bool:
    """Say whether a text names a file by its path, or, if that tells it from others, by its name.

    Of Spark's files, the folder is enough.
    """
    folder, of_spark, _ = file.partition("/spark/")
    paths = [file, *([f"{folder}/spark"] if of_spark else [])]
    name = Path(file).name
    by_name = len(name) >= _TELLING and name in said
    return by_name or any(re.search(rf"/{re.escape(path)}(?!\w)", said) for path in paths)
