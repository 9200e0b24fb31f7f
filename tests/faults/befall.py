"""One mishap after another, each on a ground that others have befallen before, until it is used up."""

import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from traceback import format_exc

import psycopg

from tests.faults.ground import Ground, broken_ground
from tests.faults.mishap import Came, Outcome, bad
from tests.faults.mishaps import MISHAPS
from tests.faults.oracle import Verdict
from tests.faults.trial import finish

_ON_ONE_GROUND = 10
"""How many mishaps befall one site before its rows are compared and another begins."""


class Grounds:
    """Sites for mishaps, one at a time; some commit to a URI, some deliver to PostgreSQL as well."""

    def __init__(self, root: Path, *, seed: int, server: str | None, first: int = 1, step: int = 1) -> None:
        """Take a folder, and the connection string of a server that databases may be made in.

        Sites are numbered from the first on, in steps: others may have those between.
        """
        self.verdict = Verdict()
        """How rows differ on all grounds that are used up."""
        self.problems: list[str] = []
        self._root, self._seed, self._server = root, seed, server
        self._number, self._step, self._befallen = first - step, step, 0
        self._stack = ExitStack()
        self._ground: Ground | None = None

    def befall(self, kind: str, chance: random.Random) -> Came:
        """Have a mishap take place, and return what came of it."""
        try:
            ground = self._ground or self._begin()
            came = MISHAPS[kind](ground, chance)
            verdict = ground.site.judged()
            if not came.problem and not verdict.sound:
                came = bad(kind, str(verdict))
        except Exception:
            # The trouble of one does not keep the others from taking place.
            came = bad(kind, format_exc())
        if came.outcome is Outcome.BAD:
            self._leave()  # Nobody knows what state it is in.
            return came
        ground.keep_copy()
        self._befallen += 1
        if self._befallen == _ON_ONE_GROUND:
            self.finish()
        return came

    def finish(self) -> None:
        """Use up the input of the present ground, and compare all rows."""
        ground = self._ground
        if ground is None:
            return
        code, said = finish(ground.site)
        if code != 0:
            self.problems.append(f"the last run after mishaps ended with {code}\n{said[-2000:]}")
        self.verdict.add(ground.site.judged())
        self._leave()

    def _begin(self) -> Ground:
        self._number, self._befallen = self._number + self._step, 0
        begun = broken_ground(
            self._root / f"ground-{self._number}",
            seed=self._seed + self._number,
            uri=self._number % 3 == 0,
            postgres=self._database() if self._number % 4 in (1, 2) else None,
        )
        self._ground = self._stack.enter_context(begun)
        # Some mishaps befall a site beside this one, whose rows are compared all the same.
        self._ground.more_events(1)
        return self._ground

    def _database(self) -> str | None:
        """Make a database for the present ground alone."""
        if self._server is None:
            return None
        name = f"ground_{self._number}"
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._server.replace("@/postgres?", f"@/{name}?")

    def _leave(self) -> None:
        self._stack.close()
        self._stack, self._ground = ExitStack(), None
        shutil.rmtree(self._root / f"ground-{self._number}", ignore_errors=True)
