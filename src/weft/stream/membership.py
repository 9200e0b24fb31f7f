"""Queries of a stream join and leave between batches; all that change at once become one commit."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from weft.durability.ledger import Ledger, registered
from weft.durability.registry import QueryState, Registered
from weft.errors import EngineError
from weft.faultpoints import reach
from weft.query.logical import LogicalQuery
from weft.spark.session.causes import root
from weft.spark.session.troubles import sentence
from weft.state.clock import RowCounts
from weft.state.report import BatchReport
from weft.state.running_query import RunningQuery
from weft.stream.pipeline import Pipeline

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


class Membership:
    """The queries of a stream, as they join and leave."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: Ledger,
        *,
        lock: AbstractContextManager[object],
        session: Callable[[], SparkSession],
        error: Callable[[], BaseException | None],
        on_doubt: Callable[[OSError], None],
    ) -> None:
        """Change queries while `lock` is held, unless there is an `error`.

        `on_doubt` is called after a commit that may be durable though it failed.
        """
        self._pipeline, self._ledger = pipeline, ledger
        self._lock, self._session = lock, session
        self._error, self._on_doubt = error, on_doubt
        self._changes: Changes | None = None
        """The changes that the next commit makes durable."""
        self._joined: list[str] = []
        self._closed = False
        self.unreported: list[BatchReport] = []
        """Past windows of queries that joined, to be reported with the next batch."""

    @contextmanager
    def together(self) -> Iterator[Changes]:
        """Make all changes inside durable by one commit at the end; if that fails, none is made.

        When nested, an error undoes only the inner changes, and the outermost end commits.
        """
        with self._lock:
            if self._changes is not None:
                with self._changes.attempt():
                    yield self._changes
                return
            changes = self._changes = Changes()
            self._joined = []
            try:
                with changes.attempt():
                    yield changes
                self._make_durable(changes)
            finally:
                self._changes = None
            changed = bool(changes.problems)
            changes.finish()
            if changed:
                reach("registry.visible")

    def close(self) -> None:
        """Refuse all further changes: the stream stops."""
        with self._lock:
            self._closed = True

    def add(self, query: LogicalQuery) -> RunningQuery:
        """Let a query join at the next batch boundary; it is durable when the outermost `together` ends."""
        name, problem = query.name, f"query {query.name} cannot be added"
        with self.together() as changes:
            self._check_sound(problem)
            if name in self._pipeline.queries:
                # Lost a race with another request.
                raise EngineError(f"query {name} is running already")
            registry = self._ledger.registry
            known, before = registry.get(name), registry.answered_through(name)
            changes.note(name, problem=problem, undo=partial(self._take_out, name, known, before))
            # What ended while it was paused or over is not made up for, and no window is repeated.
            through = before if known is None else self._pipeline.clock.reached
            joined = self._pipeline.add(query, answered_through=through)
            registry.put(self._entered(joined, known))
            self._joined.append(name)
            return joined

    def replace(self, query: LogicalQuery) -> RunningQuery:
        """Let a query take the place of the one of its name; no window that has ended is answered again.

        Of the windows that are still open, it answers those that retained partials answer exactly.
        """
        name, problem = query.name, f"query {query.name} cannot be replaced"
        with self.together() as changes:
            self._check_sound(problem)
            registry, known = self._ledger.registry, self._ledger.registry.get(query.name)
            if known is None:
                # Lost a race with another change.
                raise EngineError(f"{problem}: it is gone; add it")
            former = self._pipeline.queries.get(name)
            changes.note(name, problem=problem, undo=partial(self._put_back, known, former))
            joined = self._pipeline.replace(query)
            registry.put(self._entered(joined, known))
            self._joined.append(name)
            return joined

    def _entered(self, joined: RunningQuery, known: Registered | None) -> Registered:
        """Return the entry of a query that joins, where one of its name is known."""
        # A query that a workload names remains one when it is resumed or replaced.
        live, instead_of = known is None or known.live, None
        if known is not None and not known.live:
            instead_of = known.instead_of or known.text
            instead_of = None if instead_of == joined.query.text else instead_of
        return registered(joined, commit=self._ledger.number + 1, added_live=live, instead_of=instead_of)

    def leave(self, name: str, state: QueryState | None) -> None:
        """Let a query leave at the next batch boundary; None for the state has it forgotten."""
        problem = f"query {name} cannot leave"
        with self.together() as changes:
            self._check_sound(problem)
            registry = self._ledger.registry
            known = registry.get(name)
            if state is QueryState.PAUSED and (known is None or known.state is not QueryState.RUNNING):
                # It failed, ended or was dropped in the batch that this call waited for.
                now = "gone" if known is None else known.state
                raise EngineError(f"query {name} is {now}: there is nothing to pause")
            undo = None if known is None else partial(registry.put, known)
            running = self._pipeline.queries.get(name)
            changes.note(name, problem=problem, undo=undo, after=partial(self._gone, name, running))
            if state is None:
                registry.forget(name, answered_through=self._pipeline.clock.reached)
            else:
                registry.change(name, state=state)

    def commit(self, problem: str) -> None:
        """Make what the registry holds durable; an EngineError begins with the problem."""
        try:
            self._commit_report(None)
        except OSError as error:
            raise EngineError(f"{problem}: {self._why_not(error)}") from error
        reach("registry.visible")

    def _make_durable(self, changes: Changes) -> None:
        """Answer the past windows of queries that joined, and commit; raise an error if nothing was done."""
        try:
            report = self._answered(changes) if self._joined and changes.problems else None
            if changes.problems:
                self._write(changes, report)
        except BaseException as error:
            cause = error if isinstance(error, Exception) else EngineError("the engine was interrupted")
            changes.refuse_all(lambda _: cause)
            raise
        if changes.refused and not changes.problems:
            raise next(iter(changes.refused.values()))
        if report is not None and report.results:
            self.unreported.append(report)

    def _answered(self, changes: Changes) -> BatchReport:
        """Answer the past windows of queries that joined; a query that fails at that is refused alone."""
        try:
            report = self._pipeline.answer_warm(self._session())
        except Exception as error:
            # No query's fault: queries at fault are in the report.
            subject = f"query {self._joined[0]}" if len(self._joined) == 1 else "queries"
            raise EngineError(f"{subject} cannot be added: {sentence(error)}") from error
        for name in [name for name in self._joined if name in report.broken]:
            changes.refuse(name, EngineError(f"query {name} cannot be added: {report.broken[name].text}"))
            report = without(report, name)
        return report

    def _write(self, changes: Changes, report: BatchReport | None) -> None:
        """Commit the changes; if the disk is at fault, each is refused."""
        try:
            self._commit_report(report)
        except OSError as error:
            why, cause = self._why_not(error), error

            def refusal(problem: str) -> EngineError:
                refused = EngineError(f"{problem}: {why}")
                refused.__cause__ = cause
                return refused

            changes.refuse_all(refusal)

    def _commit_report(self, report: BatchReport | None) -> None:
        reach("registry.before")
        report = report or BatchReport(counts=RowCounts(), results={})
        self._ledger.commit_change(self._pipeline.outcome(report))

    def _why_not(self, error: OSError) -> str:
        """Return why a commit failed and what to do."""
        reason = error.strerror or error
        text = f"the checkpoint cannot be written ({reason}); free space, or mend what keeps "
        if self._ledger.may_be_ahead():
            # The state in memory may differ from what is durable.
            self._on_doubt(error)
            return (
                f"{text}it from being written, and start the stream again: it stops, for only then it will "
                "show whether anything has changed"
            )
        return f"{text}it from being written, and try again; nothing has changed"

    def _take_out(self, name: str, known: Registered | None, before: int) -> None:
        """Remove a query that could not be made durable."""
        if name in self._pipeline.queries:
            self._pipeline.remove(name)
        if known is None:
            self._ledger.registry.forget(name, answered_through=before)
        else:
            self._ledger.registry.put(known)

    def _put_back(self, known: Registered, former: RunningQuery | None) -> None:
        """Restore a query whose replacement could not be made durable."""
        if known.name in self._pipeline.queries:
            self._pipeline.remove(known.name)
        if former is not None:
            self._pipeline.put_back(former)
        self._ledger.registry.put(known)

    def _gone(self, name: str, running: RunningQuery | None) -> None:
        """Answer a query no longer, now that its leaving is durable."""
        if running is not None and self._pipeline.queries.get(name) is running:
            self._pipeline.remove(name)
        # Another query may have the name when they are reported.
        self.unreported = [without(report, name) for report in self.unreported]

    def _check_sound(self, problem: str) -> None:
        """Refuse a change after an error, as uncommitted effects of a batch must not become durable."""
        if self._closed:
            raise EngineError(f"{problem}: the engine stops; try again when it has stopped")
        error = self._error()
        if error is not None:
            raise EngineError(f"{problem}: the stream has stopped ({root(error)}); start it again")


def without(report: BatchReport, query: str) -> BatchReport:
    """Return a report without a query."""
    return replace(
        report,
        results={name: rows for name, rows in report.results.items() if name != query},
        failures={name: count for name, count in report.failures.items() if name != query},
        broken={name: failure for name, failure in report.broken.items() if name != query},
    )
