"""Whether a query or the machine causes an error, and what to say of it; and which queries are to blame.

A query can cause a few kinds of errors. All others are the machine's, and so is every error in a chain with
one of the machine's: a full disk, memory, a process that is gone, a timeout. A failure is a query's only if
its kind is one that a query can cause, it occurs again with that query alone, and it does not occur without.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum

from py4j.protocol import Py4JError

from weft.errors import EngineError, UserError
from weft.notices import Failure
from weft.query.logical import LogicalQuery
from weft.spark.session.causes import Cause, all_before, causes, is_pythons, root
from weft.spark.session.gateway import java_has_ended


class Trouble(StrEnum):
    """Kinds of problems of the machine; of several in one chain, the first of these is reported."""

    JAVA = "java"
    DISK = "disk"
    MEMORY = "memory"
    WORKER = "worker"
    STOPPED = "stopped"
    CONNECTION = "connection"
    OTHER = "other"


_OF_QUERIES = frozenset(
    "AnalysisException ExtendedAnalysisException ParseException StackOverflowError "
    "ArithmeticException NumberFormatException DateTimeException DateTimeParseException "
    "IllegalArgumentException PatternSyntaxException "
    "SparkArithmeticException SparkNumberFormatException SparkDateTimeException "
    "SparkIllegalArgumentException SparkUnsupportedOperationException SparkArrayIndexOutOfBoundsException "
    "SparkNoSuchElementException SparkRuntimeException SparkUpgradeException PythonException".split()
)
"""Java's exceptions that a query can cause, and superclasses of them: analysis, arithmetic, functions."""
_COMPILER = "org.codehaus."
"""The package of the compiler of Spark's generated code."""
_QUERYS_WORDS = re.compile(r"\s*(?:\[FAILED_EXECUTE_UDF\]|\[INTERNAL_ERROR\] The Spark SQL phase)")
"""The beginning of a plain SparkException that a query can cause."""

_MACHINES = {
    Trouble.MEMORY: frozenset("OutOfMemoryError OutOfMemoryException MemoryError".split()),
    Trouble.WORKER: frozenset("ExecutorLostFailure FetchFailedException".split()),
    Trouble.CONNECTION: frozenset(
        "TimeoutException SocketException SocketTimeoutException ConnectException UnknownHostException "
        "RpcTimeoutException TimeoutError ConnectionError Py4JError".split()
    ),
    Trouble.OTHER: frozenset(
        "IOException UncheckedIOException EOFException FileNotFoundException InterruptedException "
        "OSError EOFError".split()
    ),
}
"""Classes of errors that only the machine causes, or superclasses of them."""
_MACHINES_WORDS = {
    Trouble.DISK: re.compile(r"No space left on device|Disk quota exceeded|not enough space on the disk"),
    Trouble.WORKER: re.compile(r"Python worker (?:exited unexpectedly|failed to connect)"),
    Trouble.STOPPED: re.compile(r"SparkContext was shut down|stopped SparkContext|\[SPARK_JOB_CANCELLED\]"),
}
_PLAIN_SPEAKERS = frozenset("SparkException IllegalStateException IOException OSError".split())
"""Classes whose messages are about the machine; those of others may contain values of rows."""


JAVA_ENDED = (
    "Spark's Java process has ended (was it killed, or out of memory?); start again: nothing that was "
    "committed to a checkpoint is lost"
)
"""The message when Java is gone, wherever that is noticed."""
_WORDS: dict[Trouble, tuple[str, str]] = {
    Trouble.DISK: (
        "a disk is full", "free space (Spark's scratch folders, SPARK_LOCAL_DIRS, need some too)"
    ),
    Trouble.MEMORY: (
        "memory ran out", "give Spark more of it (--memory), or take smaller batches (maxFilesPerTrigger)"
    ),
    Trouble.WORKER: (
        "a process that works for Spark was lost", "see whether it was killed, or out of memory"
    ),
    Trouble.STOPPED: ("Spark was stopped, or its job cancelled", "see who did so"),
    Trouble.CONNECTION: (
        "something did not answer, or not in time", "see that it is there and can be reached"
    ),
    Trouble.OTHER: ("something failed, and no query is shown to be at fault", "mend what is wrong"),
}  # fmt: skip
"""What is wrong, and the remedy."""


def is_a_querys(error: BaseException) -> bool:
    """Say whether an error is of a kind that a query can cause; everything else is the machine's."""
    if not isinstance(error, Exception) or _troubles(error):
        return False
    # A registered function that is given columns may raise anything.
    return is_pythons(error) or any(
        not cause.families.isdisjoint(_OF_QUERIES)
        or cause.kind.startswith(_COMPILER)
        or ("SparkException" in cause.families and _QUERYS_WORDS.match(cause.message) is not None)
        for cause in causes(error)
    )


def is_machines(error: BaseException) -> bool:
    """Say whether an error is the machine's, or comes from Spark: then it is no bug of Weft's."""
    if not isinstance(error, Exception) or type(error) is Py4JError:  # A call that Java does not know.
        return False
    return bool(_troubles(error)) or not is_pythons(error)


def trouble_of(error: BaseException) -> Trouble:
    """Return the kind of the machine's problem."""
    if java_has_ended(error):
        return Trouble.JAVA
    return min(_troubles(error), key=list(Trouble).index, default=Trouble.OTHER)


def sentence(error: BaseException, *, fate: str = "", again: str = "try again") -> str:
    """Say what is wrong with the machine, with the root of the error, what became of the work, what to do."""
    trouble = trouble_of(error)
    if trouble is Trouble.JAVA:
        return JAVA_ENDED
    what, remedy = _WORDS[trouble]
    return f"{what} ({root(error)}); {fate and fate + ': '}{remedy}, and {again}"


def _troubles(error: BaseException) -> set[Trouble]:
    troubles = map(_trouble, all_before(error))
    return {trouble for trouble in troubles if trouble is not None}


def _trouble(cause: Cause) -> Trouble | None:
    """Return the problem of the machine that an error is about; None if it is about none."""
    first = cause.message.strip().partition("\n")[0]
    # The message of a job repeats that of its task, which is in the chain, too.
    if not cause.families.isdisjoint(_PLAIN_SPEAKERS) and not first.startswith("Job aborted"):
        for trouble, words in _MACHINES_WORDS.items():
            if words.search(first):
                return trouble
    return next(
        (trouble for trouble, names in _MACHINES.items() if not cause.families.isdisjoint(names)), None
    )


Trial = Callable[[Sequence[LogicalQuery]], object]
"""Tries with some queries what failed with all of them."""


class _NotAQuerys(Exception):
    """A trial failed in a way that no query can cause."""


def culprits(queries: Sequence[LogicalQuery], trial: Trial, error: Exception) -> dict[str, Failure]:
    """Return the queries that are shown to cause an error, each with its own; none if it is the machine's.

    Halves of the queries are tried until each culprit stands alone: a few dozen small plans, not thousands.
    """
    if not queries or not is_a_querys(error) or _error(trial, ()) is not None:
        return {}
    try:
        at_fault = _among(queries, trial)
    except _NotAQuerys:
        return {}
    others = [query for query in queries if query.name not in at_fault]
    return at_fault if at_fault and _error(trial, others) is None else {}


def reason(error: Exception) -> str:
    """Return a query's failure in a line: the class and the message of the root cause.

    >>> reason(KeyError("NYSE")), reason(ValueError())
    ("KeyError: 'NYSE'", 'ValueError')
    """
    return str(root(error))


def failure(error: Exception) -> Failure:
    """Return a query's failure as values.

    >>> failure(KeyError("NYSE")).kind
    'KeyError'
    """
    return Failure(kind=root(error).short_kind, text=reason(error))


def refusal(query: LogicalQuery, error: Exception) -> EngineError:
    """Return why a query cannot join: it cannot be run, or there is a problem with the machine."""
    if is_a_querys(error):
        return EngineError(f"query {query.name} cannot be run: {reason(error)}")
    return EngineError(f"query {query.name} cannot be tried out: {sentence(error)}")


def _among(queries: Sequence[LogicalQuery], trial: Trial) -> dict[str, Failure]:
    error = _error(trial, queries)
    if error is None:
        return {}
    if not is_a_querys(error):
        raise _NotAQuerys
    if len(queries) == 1:
        return {queries[0].name: failure(error)}
    half = len(queries) // 2
    return _among(queries[:half], trial) | _among(queries[half:], trial)


def _error(trial: Trial, queries: Sequence[LogicalQuery]) -> Exception | None:
    try:
        trial(queries)
    except UserError:
        # A table that cannot be read, for example: that is reported as it is.
        raise
    except Exception as error:
        # A registered function that is given columns may raise anything.
        return error
    return None
