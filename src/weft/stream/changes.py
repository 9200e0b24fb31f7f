"""Changes of queries that one commit makes durable: how to undo each, and what follows it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

Call = Callable[[], object]
"""An action for later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A part of a query's change."""

    query: str
    undo: Call | None
    after: Call | None


class Changes:
    """What was changed since the last commit, in order.

    Each level of the engine adds its own part of a change: what undoes it if it does not become durable, and
    what follows once it is.
    """

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._problems: dict[str, str] = {}
        self.refused: dict[str, Exception] = {}
        """By query, why its change was undone."""

    @property
    def problems(self) -> Mapping[str, str]:
        """By query that was changed, the beginning of the error message if that fails."""
        changed = {step.query for step in self._steps}
        return {name: problem for name, problem in self._problems.items() if name in changed}

    def note(
        self, query: str, *, problem: str | None = None, undo: Call | None = None, after: Call | None = None
    ) -> None:
        """Add a part of a query's change."""
        self._steps.append(_Step(query=query, undo=undo, after=after))
        if problem is not None:
            self._problems[query] = problem

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo the changes made inside if an error is raised; earlier ones stay."""
        begun = len(self._steps)
        try:
            yield
        except BaseException:
            self._undo(self._steps[begun:])
            del self._steps[begun:]
            raise

    @classmethod
    @contextmanager
    def at_once(cls) -> Iterator["Changes"]:
        """Collect changes that need no commit: what follows them is done at the end."""
        changes = cls()
        with changes.attempt():
            yield changes
        changes.finish()

    def refuse(self, query: str, error: Exception) -> None:
        """Undo the change of one query."""
        self.refused[query] = error
        self._undo([step for step in self._steps if step.query == query])
        self._steps = [step for step in self._steps if step.query != query]

    def refuse_all(self, why: Callable[[str], Exception]) -> None:
        """Undo all changes; `why` makes an error from the problem of each."""
        for query, problem in self.problems.items():
            self.refused[query] = why(problem)
        self._undo(self._steps)
        self._steps = []

    def finish(self) -> None:
        """Do what follows, now that the changes are durable."""
        steps, self._steps = self._steps, []
        for step in steps:
            if step.after is not None:
                step.after()

    @staticmethod
    def _undo(steps: list[_Step]) -> None:
        for step in reversed(steps):
            if step.undo is not None:
                step.undo()
