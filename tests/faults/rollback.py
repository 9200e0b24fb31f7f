"""An older copy of a checkpoint put back, with the input that came later or without it.

Its sinks have results that it knows nothing of. So a start is refused and changes nothing; then the operator
puts the newer checkpoint back, or has the sinks taken back to the older one.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import psycopg
from psycopg import sql

from tests.faults.events import path_of, wanted
from tests.faults.ground import Copy, Ground, put_in_place
from tests.faults.mishap import Befall, Came, Outcome, bad, stopped
from tests.faults.site import Site, Spoilt
from tests.faults.trial import finish

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


def rollback(*, rewind: bool, input_gone: bool) -> Befall:
    """Return the mishap of a checkpoint that is put back to an earlier state."""

    def befall(ground: Ground, chance: random.Random) -> Came:
        kind = _kind(rewind=rewind, input_gone=input_gone)
        older, problem = _older(ground, chance)
        if problem:
            return bad(kind, problem)
        newest, before = ground.keep_copy(beside=older), contents(ground.site)
        put_in_place(ground.site.checkpoint, older.folder)
        with _without_later(ground, older, gone=input_gone):
            code, said = finish(ground.site, flush=False)
            came = stopped(kind, code, said, outcome=Outcome.REFUSED)
            if not came.problem and (changed := _changed(before, contents(ground.site))):
                came = bad(kind, f"a refused start has changed {changed}", said)
            if came.problem or not rewind:
                put_in_place(ground.site.checkpoint, newest.folder)
                return came
            return _rewound(ground, older, kind)

    return befall


def _older(ground: Ground, chance: random.Random) -> tuple[Copy, str]:
    """Return a copy of a checkpoint that has come further since, and what went wrong if it has not."""
    if not ground.copies:
        if problem := ground.live():
            return ground.keep_copy(), problem
        ground.keep_copy()
    older = chance.choice(ground.copies)
    if older.batch < ground.site.newest_batch():
        return older, ""
    return older, ground.live()


def _rewound(ground: Ground, older: Copy, kind: str) -> Came:
    """Take the sinks back, and see that rows are those of the input there is."""
    site = ground.site
    # Files that are whole when they are listed again are no longer spoilt; those cut off are.
    cut_off = {name: how for name, how in site.spoilt().items() if how is Spoilt.CUT_OFF}
    site.set_spoilt({**older.spoilt, **cut_off})
    # Copies of what is given up are no earlier state of what follows.
    ground.copies = [copy for copy in ground.copies if copy.batch <= older.batch]
    code, said = finish(site, "--rewind", "--yes", flush=False)
    if code != 0:
        return bad(kind, f"a rewind ended with {code}", said)
    verdict = site.judged()
    if not verdict.sound:
        return bad(kind, f"after a rewind: {verdict}", said)
    return Came(kind=kind, outcome=Outcome.REWOUND)


@contextmanager
def _without_later(ground: Ground, older: Copy, *, gone: bool) -> Iterator[None]:
    """Have the input that came after a copy be gone for as long as the block runs, if it is to be."""
    site, aside = ground.site, ground.site.root / "later"
    aside.mkdir(exist_ok=True)
    numbers = range(older.files, wanted(site.input)) if gone else ()
    later = [path for path in (path_of(site.input, number) for number in numbers) if path.exists()]
    for path in later:
        path.rename(aside / path.name)
    try:
        yield
    finally:
        for path in later:
            (aside / path.name).rename(path)


def contents(site: Site) -> dict[str, str]:
    """Return what the sinks of a site hold, by file and by table."""
    folders = (site.out, site.late)
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {str(path.relative_to(site.root)): _digest(path.read_bytes()) for path in files}
    if site.postgres is not None:
        with psycopg.connect(site.postgres, autocommit=True) as connection:
            for (table,) in connection.execute(_TABLES).fetchall():
                rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
                found[table] = _digest("\n".join(sorted(map(repr, rows))).encode())
    return found


def _changed(before: dict[str, str], after: dict[str, str]) -> str:
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return f"{len(changed)} files or tables, {', '.join(changed[:3])}" if changed else ""


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _kind(*, rewind: bool, input_gone: bool) -> str:
    return f"rollback{' and rewind' if rewind else ''}{', input gone' if input_gone else ''}"


ROLLBACKS: dict[str, Befall] = {
    _kind(rewind=rewind, input_gone=gone): rollback(rewind=rewind, input_gone=gone)
    for rewind in (False, True)
    for gone in (False, True)
}
"""Every way to go back, and to go on from there."""
