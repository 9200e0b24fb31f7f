"""The options of Spark's readers of files, so that a mistyped one is found, which Spark would ignore."""

from difflib import get_close_matches

from weft.errors import UnknownName

_READERS = frozenset({"parquet", "csv", "json", "orc", "text"})
_KNOWN = """
    path paths basePath maxFilesPerTrigger maxBytesPerTrigger maxFileAge maxCachedFiles
    discardCachedInputRatio latestFirst fileNameOnly cleanSource sourceArchiveDir pathGlobFilter
    recursiveFileLookup modifiedBefore modifiedAfter ignoreMissingFiles ignoreCorruptFiles mergeSchema
    datetimeRebaseMode int96RebaseMode compression sep delimiter encoding charset quote escape comment
    header inferSchema samplingRatio preferDate prefersDate enforceSchema ignoreLeadingWhiteSpace
    ignoreTrailingWhiteSpace nullValue nanValue positiveInf negativeInf dateFormat timestampFormat
    timestampNTZFormat timeFormat enableDateTimeParsingFallback maxColumns maxCharsPerColumn mode
    columnNameOfCorruptRecord multiLine charToEscapeQuoteEscaping escapeQuotes quoteAll emptyValue locale
    lineSep lineSeparator unescapedQuoteHandling columnPruning inputBufferSize maxMalformedLogPerPartition
    timeZone primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes
    allowNumericLeadingZeros allowBackslashEscapingAnyCharacter allowUnquotedControlChars
    allowNonNumericNumbers dropFieldIfAllNull ignoreNullFields pretty singleVariantColumn wholetext
""".split()
_BY_FOLD = {option.casefold(): option for option in _KNOWN}
_MISTYPED = 0.8
"""How like a known option an unknown one is to count as mistyped; others may be of newer versions."""


def check_reader_option(format: str, key: str) -> None:
    """Raise UnknownName if an option of a reader of files looks mistyped.

    >>> check_reader_option("csv", "headr")
    Traceback (most recent call last):
    weft.errors.UnknownName: csv files have no option "headr"; did you mean "header"?
    """
    if format not in _READERS or key.casefold() in _BY_FOLD:
        return
    close = get_close_matches(key.casefold(), _BY_FOLD, n=1, cutoff=_MISTYPED)
    if close:
        problem = f'{format} files have no option "{key}"; did you mean "{_BY_FOLD[close[0]]}"?'
        raise UnknownName(problem)
