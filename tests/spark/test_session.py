"""The session that Weft starts when the user brings none."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weft.spark.session import local as session
from weft.spark.session.local import local_session


def test_the_running_session_is_reused(spark: SparkSession) -> None:
    before = dict(spark.sparkContext.getConf().getAll())
    assert local_session(cores=1, app="another") is spark
    assert dict(spark.sparkContext.getConf().getAll()) == before
    assert spark.sparkContext.defaultParallelism == 2


def test_another_thread_gets_the_running_session_as_it_is(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = Thread(target=lambda: found.append(local_session(cores=1)))
    thread.start()
    thread.join()
    assert found[0].sparkContext is spark.sparkContext
    assert found[0].conf.get("spark.sql.shuffle.partitions") == "2"


def test_settings_that_answers_depend_on(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None


def test_checkpoints_are_written_without_processes(spark: SparkSession, tmp_path: Path) -> None:
    streaming = spark._jvm.org.apache.spark.sql.execution.streaming
    files = getattr(streaming, "checkpointing", streaming).CheckpointFileManager
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    manager = files.create(spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path)), conf)
    assert manager.getClass().getName() == session.CHECKPOINT_FILES[1]


def test_workers_run_this_python(spark: SparkSession) -> None:
    def executable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    frame = spark.range(1, numPartitions=1).mapInArrow(executable, "python string")
    assert [row.python for row in frame.collect()] == [sys.executable]


@pytest.mark.spark
def test_a_session_prints_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "from weft.spark.session.local import local_session\n"
        "spark = local_session(cores=1, memory='512m')\n"
        "spark.sql('CREATE TABLE t USING parquet AS SELECT id FROM range(3)')\n"
        "print(spark.table('t').count(), spark.sparkContext.master)\n"
    )
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    # Spark is told nothing from outside, so that the session is Weft's own.
    kept = {name: value for name, value in os.environ.items() if "SPARK" not in name and name != "MASTER"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=work,
        env={**kept, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3 local[1]\n", "", 0)
    assert os.listdir(work) == []
    assert os.listdir(temporary) == []


def settings(**environ: str) -> dict[str, str]:
    return session._settings(cores=3, memory=None, environ=environ)


def test_nothing_chosen_means_this_machine() -> None:
    chosen = settings()
    assert chosen["spark.master"] == "local[3]"
    assert chosen["spark.sql.shuffle.partitions"] == "3"
    assert chosen["spark.driver.memory"] == "2g"
    assert "spark.sql.ansi.enabled" not in chosen


@pytest.mark.parametrize(
    "environ",
    [
        {"MASTER": "spark://host:7077"},
        {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"},
    ],
    ids=["variable", "argument", "setting"],
)
def test_a_chosen_master_holds(environ: dict[str, str]) -> None:
    of_this_machine = {"spark.master"} | settings().keys() - settings(SPARK_MASTER="yarn").keys()
    assert "spark.driver.host" in of_this_machine
    assert settings(**environ).keys().isdisjoint(of_this_machine)


def test_a_master_in_spark_defaults_holds(tmp_path: Path) -> None:
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text("# spark.master yarn\nspark.executor.cores 2\n")
    assert settings(SPARK_HOME=str(tmp_path))["spark.master"] == "local[3]"
    defaults.write_text("spark.executor.cores 2\nspark.master yarn\n")
    assert "spark.master" not in settings(SPARK_HOME=str(tmp_path))
    assert "spark.master" not in settings(SPARK_CONF_DIR=str(defaults.parent))


def test_a_chosen_writer_of_checkpoints_holds(tmp_path: Path) -> None:
    setting, own = session.CHECKPOINT_FILES
    (tmp_path / "spark-defaults.conf").write_text(f"{setting} its.Own\n")
    assert settings()[setting] == own
    assert setting not in settings(SPARK_CONF_DIR=str(tmp_path))
    assert setting not in settings(PYSPARK_SUBMIT_ARGS=f"--conf {setting}=its.Own pyspark-shell")


def test_spark_master_is_passed_on() -> None:
    chosen = settings(SPARK_MASTER="spark://host:7077")
    assert chosen["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in chosen


def test_memory_given_by_variable_holds_unless_asked_for() -> None:
    assert "spark.driver.memory" not in settings(SPARK_DRIVER_MEMORY="9g")
    asked = session._settings(cores=1, memory="1g", environ={"SPARK_DRIVER_MEMORY": "9g"})
    assert asked["spark.driver.memory"] == "1g"
