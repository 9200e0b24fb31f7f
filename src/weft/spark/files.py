"""The files that a batch reads, wherever they are, and what they say of their columns."""

import json
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from weft.query.logical import ColumnDef
from weft.spark.gateway import java_class
from weft.spark.schemas import column_defs

_FORMATS = "org.apache.spark.sql.execution.datasources"


def batch_files(batch: DataFrame) -> list[str]:
    """Return the files that a batch of a stream reads, in order; none if it reads something else."""
    partitions = _file_partitions(batch)
    if partitions is None:
        return [unquote(url) for url in batch.inputFiles()]
    each = (partitions.apply(place).files() for place in range(partitions.size()))
    # Large files are read in several parts.
    return list(dict.fromkeys(_path(file) for files in each for file in files))


def _path(file: Any) -> str:
    return unquote(str(file.filePath().urlEncoded()))


def _file_partitions(batch: DataFrame) -> Any:
    """Return which files each task reads; None for a static DataFrame, or one that reads something else.

    Spark hands a batch over as steps already planned, the first of which reads the files.
    """
    plan = batch._jdf.queryExecution().logical()
    if plan.getClass().getSimpleName() != "LogicalRDD":
        return None
    step = plan.rdd()
    while step.getClass().getSimpleName() != "FileScanRDD":
        inputs = step.dependencies()
        if inputs.size() != 1:
            return None
        step = inputs.apply(0).rdd()
    return step.filePartitions()


def two_files(batch: DataFrame) -> list[str]:
    """Return two of a batch's files, or the only one."""
    partitions = _file_partitions(batch)
    if partitions is None or partitions.size() == 0:
        return batch_files(batch)[:2]
    first, last = partitions.apply(0).files(), partitions.apply(partitions.size() - 1).files()
    return list(dict.fromkeys((_path(first[0]), _path(last[len(last) - 1]))))


def stored_columns(spark: SparkSession, format: str, path: str) -> tuple[ColumnDef, ...]:
    """Return the columns that a Parquet or ORC file says it has; only its footer is read."""
    place = java_class("org.apache.hadoop.fs.Path")(path)
    schema = _parquet_schema(spark, place) if format == "parquet" else _orc_schema(spark, place)
    return column_defs(StructType.fromJson(json.loads(schema.json())))


def _parquet_schema(spark: SparkSession, place: Any) -> Any:
    file = java_class("org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(place, _hadoop(spark))
    reader = java_class("org.apache.parquet.hadoop.ParquetFileReader").open(file)
    try:
        stored = reader.getFooter().getFileMetaData().getSchema()
    finally:
        reader.close()
    converter = java_class(f"{_FORMATS}.parquet.ParquetToSparkSchemaConverter")
    return converter(spark._jsparkSession.sessionState().conf()).convert(stored)


def _orc_schema(spark: SparkSession, place: Any) -> Any:
    orc = java_class("org.apache.orc.OrcFile")
    reader = orc.createReader(place, orc.readerOptions(_hadoop(spark)))
    try:
        stored = reader.getSchema()
    finally:
        reader.close()
    return java_class(f"{_FORMATS}.orc.OrcUtils").toCatalystSchema(stored)


def first_line(spark: SparkSession, path: str) -> str:
    """Return the first line of a text file, compressed or not."""
    files, place = _opened(spark, path)
    stream = files.open(place)
    try:
        codecs = java_class("org.apache.hadoop.io.compress.CompressionCodecFactory")(_hadoop(spark))
        codec = codecs.getCodec(place)
        text = stream if codec is None else codec.createInputStream(stream)
        characters = java_class("java.io.InputStreamReader")(text, "UTF-8")
        return str(java_class("java.io.BufferedReader")(characters).readLine() or "")
    finally:
        stream.close()


def length(spark: SparkSession, path: str) -> tuple[int, int]:
    """Return how many bytes of a file can be read, and how many there are."""
    files, place = _opened(spark, path)
    stream = files.open(place)
    try:
        read = java_class("org.apache.commons.io.IOUtils").consume(stream)
    finally:
        stream.close()
    return int(read), int(files.getFileStatus(place).getLen())


def _opened(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system that a path is on, and the path."""
    place = java_class("org.apache.hadoop.fs.Path")(path)
    return place.getFileSystem(_hadoop(spark)), place


def _hadoop(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()
