"""Records of text that cannot be read as declared.

Spark's JSON and CSV readers give NULL for a value that does not fit its column, and keep the record's text in
a separate column if the schema has one. A record is corrupt where that column is not NULL: its text is not
JSON, has too few or too many values, or has a value of another type in a declared column.

A stream given as a DataFrame has corrupt records only if it has such a column: `_corrupt_record`, a STRING.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.query.logical import StreamDef
from weft.spark.columns import named
from weft.spark.input.schemas import ddl
from weft.types import Kind

CORRUPT_TEXT = "__weft_corrupt"
"""The column that Weft adds to streams of text."""
TEXT_FORMATS = frozenset({"json", "csv"})
_SPARKS_NAME = "_corrupt_record"
_OPTION = "columnNameOfCorruptRecord"


def corrupt_column(stream: StreamDef) -> str | None:
    """Return the column that holds the text of corrupt records; None if there can be none.

    With `mode 'FAILFAST'` or `mode 'DROPMALFORMED'` among a stream's options there are none: Spark drops
    them, or cannot read their file, which is then set aside as a whole (`damaged.py`).
    """
    if stream.source is None:
        return _SPARKS_NAME if _declares(stream, _SPARKS_NAME) else None
    if stream.source.format not in TEXT_FORMATS:
        return None
    options = {key.casefold(): value for key, value in stream.source.options}
    if options.get("mode", "permissive").casefold() != "permissive":
        return None
    own = options.get(_OPTION.casefold(), _SPARKS_NAME)
    return own if _declares(stream, own) else CORRUPT_TEXT


def _declares(stream: StreamDef, name: str) -> bool:
    return any(column.name == name and column.type.kind is Kind.STRING for column in stream.columns)


def reader_schema(stream: StreamDef) -> str:
    """Return the schema that a stream's files are read with."""
    added = f", `{CORRUPT_TEXT}` string" if corrupt_column(stream) == CORRUPT_TEXT else ""
    return ddl(stream.columns) + added


def reader_options(stream: StreamDef) -> dict[str, str]:
    """Return the options that a stream's files are read with."""
    options = dict(stream.source.options) if stream.source is not None else {}
    corrupt = corrupt_column(stream)
    if corrupt is None or stream.source is None:
        return options
    others = {key: value for key, value in options.items() if key.casefold() != _OPTION.casefold()}
    return {**others, _OPTION: corrupt}


def is_corrupt(column: str, stream: StreamDef) -> Column:
    """Return whether a record is corrupt, by the column that holds the text of corrupt ones.

    Spark notices a mistyped value only in columns that it reads. So all are named here: the result must not
    depend on what queries read. They are evaluated for corrupt records only.
    """
    are_null = [named(other.name).isNull() for other in stream.columns if other.name != column]
    always = F.xxhash64(*are_null) >= F.lit(-(2**63)).cast("bigint")
    return named(column).isNotNull() & always


def why_corrupt(column: str, stream: StreamDef) -> Column:
    """Return 'mistyped value in column vol', or 'corrupt record' if the column is unknown."""
    plain = F.lit("corrupt record")
    if stream.source is None:
        return plain
    data = [other for other in stream.columns if other.name != column]
    schema = ", ".join(f"`{field.name.replace('`', '``')}` string" for field in data)
    schema += f", `{CORRUPT_TEXT}` string"
    options = {**reader_options(stream), _OPTION: CORRUPT_TEXT, "header": "false"}
    parse = F.from_json if stream.source.format == "json" else F.from_csv
    text = parse(named(column), schema, options)
    # A value that is not NULL as text, but is NULL as the declared type, is mistyped.
    names = [
        F.when(text.getField(field.name).isNotNull() & named(field.name).isNull(), F.lit(field.name))
        for field in data
        if field.type.kind is not Kind.STRING
    ]
    mistyped = F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
    whole = text.getField(CORRUPT_TEXT).isNull() & (F.size(mistyped) > 0)
    prefix = F.when(F.size(mistyped) > 1, F.lit("mistyped values in columns ")).otherwise(
        F.lit("mistyped value in column ")
    )
    return F.when(whole, F.concat(prefix, F.array_join(mistyped, ", "))).otherwise(plain)
