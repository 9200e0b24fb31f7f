"""A Spark session for one machine, for those who do not bring their own."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from weft.errors import EngineError
from weft.spark.session.java import find_java, quiet_home

_TOO_LITTLE = re.compile(r"System memory \d+ must be at least (\d+)")
"""Spark's message about a heap that is too small to start."""
_PACKAGE = "org.apache.spark.sql.execution.streaming"
if not pyspark.__version__.startswith("4.0"):
    _PACKAGE += ".checkpointing"
CHECKPOINT_FILES = (
    "spark.sql.streaming.checkpointFileManagerClass",
    f"{_PACKAGE}.FileSystemBasedCheckpointFileManager",
)
"""The setting for the writer of Spark's checkpoints, and its value in a session of Weft's own."""
DEFAULT_MEMORY = "2g"
"""Heap of the one process that is driver and executor at once."""


def local_session(*, cores: int | None = None, memory: str | None = None, app: str = "weft") -> SparkSession:
    """Return the active session, or start one on this machine with `cores` threads and `memory` of heap.

    If the user has set where Spark runs (spark-submit, MASTER, SPARK_MASTER, PYSPARK_SUBMIT_ARGS,
    spark-defaults.conf), that is kept, and only what Weft's results depend on is set.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    if SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        # Started in another thread, or by spark-submit: its settings are its owner's.
        return SparkSession.builder.appName(app).getOrCreate()
    builder = SparkSession.builder.appName(app)
    for key, value in _settings(cores=cores, memory=memory, environ=os.environ).items():
        builder = builder.config(key, value)
    home = str(quiet_home(find_java()))
    with _environment(JAVA_HOME=home, PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable)):
        try:
            return builder.getOrCreate()
        except Exception as error:
            least = _TOO_LITTLE.search(str(error))
            if least is None:
                raise
            raise EngineError(
                f"Spark needs {-(-int(least[1]) // (1 << 20))} MB of heap to start, and has less; give it "
                "more: --memory 512m"
            ) from error


def _settings(*, cores: int | None, memory: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new session."""
    common = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": Path(_scratch().name, "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark retains 1,000 jobs, stages and plans by default, for a user interface that is off.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "50",
        # Files that a batch has read are not listed again; Spark would cache up to 250 MB of them.
        "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
        # Each broadcast starts a thread with buffers of its own, up to 128.
        "spark.sql.broadcastExchange.maxThreadThreshold": "16",
        # Spark's default is 100; code that is evicted is compiled and warmed up again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Java compiles no larger method: code with one would be interpreted, and Spark's evaluation without
        # generated code is faster than that.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Recording the line of Python that made each column costs more than making it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if memory or "SPARK_DRIVER_MEMORY" not in environ:
        common["spark.driver.memory"] = memory or DEFAULT_MEMORY
    if master := environ.get("SPARK_MASTER"):
        return {**common, "spark.master": master}
    if environ.get("MASTER") or _is_chosen("spark.master", environ, option="--master"):
        return common
    threads = cores or os.cpu_count() or 1
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    local = {
        "spark.master": f"local[{threads}]",
        "spark.sql.shuffle.partitions": str(threads),
        # There are few partitions already: replanning a job after each stage gains nothing, and costs every
        # batch 40 ms. Describing plans to a user interface that is off costs 5 ms.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ui.explainMode": "simple",
        # Needs no host name that resolves, and opens no port to the network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # From the first line on: setLogLevel would be too late for what Spark logs at its start.
        # Out of memory, a thread of Spark's may end, and a stream would wait for it for ever.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j} -XX:+ExitOnOutOfMemoryError",
    }
    name, value = CHECKPOINT_FILES
    if not _is_chosen(name, environ):
        # Spark's default starts 30 processes a batch on a local disk, to look for links: 150 ms.
        local[name] = value
    return {**common, **local}


def _is_chosen(setting: str, environ: Mapping[str, str], *, option: str | None = None) -> bool:
    """Say whether the user has chosen a setting, which may have an option of its own."""
    arguments = environ.get("PYSPARK_SUBMIT_ARGS", "")
    if setting in arguments or (option is not None and option in arguments):
        return True
    configured = environ.get("SPARK_CONF_DIR") or os.path.join(environ.get("SPARK_HOME", ""), "conf")
    defaults = Path(configured, "spark-defaults.conf")
    return defaults.is_file() and any(
        line.lstrip().startswith(setting) for line in defaults.read_text().splitlines()
    )


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a directory that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="weft-")


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for as long as the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def utc(session: SparkSession) -> AbstractContextManager[None]:
    """Have Spark resolve times as UTC temporarily, whatever the session's time zone."""
    return setting(session, "spark.sql.session.timeZone", "UTC")


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of a session temporarily."""
    before = session.conf.get(name)
    if before == value:
        yield
        return
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.set(name, str(before))


def hush(spark: SparkSession) -> None:
    """Turn a session's log off: what a stop interrupts in Spark is no error."""
    with suppress(Exception):
        spark.sparkContext.setLogLevel("OFF")


def is_alive(spark: SparkSession) -> bool:
    """Say whether a session can be used: it is not stopped, and its Java process exists."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False
