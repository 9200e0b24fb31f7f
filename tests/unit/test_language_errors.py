"""Each mistake has its own message, and a caret under the very words."""

import pytest
from pyspark.sql.functions import builtin
from tests.unit.language_samples import failure

from weft.aggregates.aggregate_functions import AGGREGATES, SYNONYMS, aggregate
from weft.errors import (
    AmbiguousName,
    BadWindow,
    GroupingMistake,
    NotAllowed,
    QueryError,
    SyntaxMistake,
    TypeMismatch,
    UnknownName,
    caret,
)
from weft.query.allowed_functions import SPELLINGS
from weft.query.expression_grammar import SUGAR
from weft.query.other_dialects import DIFFERENT, INSTEAD, instead

W = "[RANGE '5 min']"
KNOWN = "time, symbol, price, vol, n, fee, day, ok, ntz, ratio, raw, tags, tiny"
EXAMPLE = "write a number and a unit, as in '12 min' or '1 hour 30 minutes'"
CAST = "convert one, as in CAST(x AS DOUBLE) or CAST(x AS STRING)"
SUBQUERY = "subqueries are not in the language; join a static table instead"

Case = tuple[str, type[QueryError], str]
"""The SELECT with «marks» around what the carets show; the kind of error; its whole message."""

NAMES: list[Case] = [
    (f"SELECT sum(«prise» * vol) FROM trades {W}", UnknownName,
     'unknown column "prise" in stream trades; did you mean "price"?'),
    (f"SELECT sum(«zzz») FROM trades {W}", UnknownName,
     f'unknown column "zzz" in stream trades; known are {KNOWN}'),
    (f"SELECT sum(«T.prise») FROM trades T {W}", UnknownName,
     'unknown column "prise" in stream trades; did you mean "price"?'),
    (f"SELECT sum(«cpp») FROM trades {W} JOIN close USING (symbol)", UnknownName,
     'unknown column "cpp" in stream trades or table close; did you mean "cp"?'),
    (f"SELECT count(*) FROM trades {W} JOIN close USING («raw»)", UnknownName,
     'unknown column "raw" in table close; known are symbol, cp, since'),
    (f"SELECT sum(«X.n») FROM trades {W}", UnknownName,
     '"X" is neither the stream nor a table of this query; known are trades'),
    (f"SELECT sum(«trades.n») FROM trades T {W}", UnknownName,
     '"trades" is neither the stream nor a table of this query; known are T'),
    (f"SELECT count(*) FROM «trade» {W}", UnknownName,
     'unknown stream or table "trade"; did you mean "trades"?'),
    (f"SELECT count(*) FROM trades {W} JOIN «clse» USING (symbol)", UnknownName,
     'unknown stream or table "clse"; did you mean "close"?'),
    (f"SELECT «summ»(n) FROM trades {W}", UnknownName,
     'function "summ" is not in the language; did you mean "sum"?'),
    (f"SELECT sum(«midcab»(n)) FROM trades {W}", UnknownName,
     'function "midcab" is not in the language; did you mean "midcap"?'),
    (f"SELECT «percentile»(n, 0.5) FROM trades {W}", UnknownName,
     'function "percentile" is not in the language; docs/functions.md lists the functions'),
    (f"SELECT count(*) FROM trades {W} JOIN close ON trades.symbol = close.symbol WHERE «symbol» = 'X'",
     AmbiguousName,
     'column "symbol" is in stream trades and in table close; write trades.symbol or close.symbol'),
    (f"SELECT count(*) FROM trades T {W}, close C WHERE T.symbol = C.symbol GROUP BY «symbol»",
     AmbiguousName, 'column "symbol" is in stream trades and in table close; write T.symbol or C.symbol'),
    (f"SELECT count(*) FROM trades {W} JOIN close USING (symbol) JOIN «close» USING (symbol)", AmbiguousName,
     '"close" stands for two inputs; give one an alias, as in close AS other'),
    (f"SELECT max(«trades.tags.x») FROM trades {W}", NotAllowed,
     "fields of nested columns are not in the language; use a plain column"),
    (f"SELECT max(«symbol.x») FROM trades {W}", NotAllowed,
     "fields of nested columns are not in the language; use a plain column"),
]  # fmt: skip

FUNCTIONS: list[Case] = [
    (f"SELECT max(«strpos»(symbol, 'a')) FROM trades {W}", UnknownName,
     'function "strpos" is not in the language; write instr(s, part)'),
    (f"SELECT «count_if»(ok) FROM trades {W}", UnknownName,
     'function "count_if" is not in the language; write count(*) FILTER (WHERE …)'),
    (f"SELECT max(«mode»(n)) FROM trades {W}", UnknownName,
     'function "mode" is not in the language; docs/functions.md lists the functions'),
    (f"SELECT max(«asinh»(n)) FROM trades {W}", UnknownName,
     'function "asinh" is not in the language; docs/functions.md lists the functions'),
    (f"SELECT max(«regexp_extrcat»(symbol, 'a')) FROM trades {W}", UnknownName,
     'function "regexp_extrcat" is not in the language; did you mean "regexp_extract"?'),
    (f"SELECT max(«log3»(n)) FROM trades {W}", UnknownName,
     'function "log3" is not in the language; docs/functions.md lists the functions'),
    (f"SELECT max(regexp_extract(symbol, «'(a'»)) FROM trades {W}", TypeMismatch,
     "the pattern is not a regular expression: missing ), unterminated subpattern at position 0"),
    (f"SELECT max(regexp_extract(symbol, «'a+'»)) FROM trades {W}", TypeMismatch,
     "the pattern has 0 groups in (…), so there is no group 1; 0 is all that matches"),
    (f"SELECT max(regexp_extract(symbol, '(a)', «2»)) FROM trades {W}", TypeMismatch,
     "the pattern has 1 group in (…), so there is no group 2; 0 is all that matches"),
    (f"SELECT max(«regexp_extract(symbol, symbol)») FROM trades {W}", TypeMismatch,
     "regexp_extract takes a string, a constant pattern and, if wanted, a constant group, "
     "found string and string"),
    (f"SELECT max(regexp_replace(symbol, 'a', «'$1'»)) FROM trades {W}", TypeMismatch,
     "in a replacement $ stands before the number of a group, of which the pattern has 0; "
     "write \\$ or \\\\ for the signs themselves"),
    (f"SELECT max(split_part(symbol, '.', «0»)) FROM trades {W}", TypeMismatch,
     "parts are counted from 1, or from the end with -1; there is none with the number 0"),
    (f"SELECT max(date_format(time, «'YYYY'»)) FROM trades {W}", TypeMismatch,
     "this is not a date pattern: 'Y' is not a letter of patterns; known are y Q M D d E a H k K h m s S X x "
     "Z; text stands in quotes, as in 'T'"),
    (f"SELECT max(date_format(time, «'MMMMM'»)) FROM trades {W}", TypeMismatch,
     "this is not a date pattern: 'MMMMM' has more than 4 letters"),
    (f"SELECT max(time AT TIME ZONE «'Europe/Pariss'») FROM trades {W}", TypeMismatch,
     """unknown time zone 'Europe/Pariss'; did you mean "Europe/Paris"?"""),
    (f"SELECT max(from_utc_timestamp(time, «'BST'»)) FROM trades {W}", TypeMismatch,
     "unknown time zone 'BST'; write it as in 'Europe/Paris', 'UTC' or '+02:00'"),
    (f"SELECT max(«day AT TIME ZONE 'UTC'») FROM trades {W}", TypeMismatch,
     "AT TIME ZONE takes a timestamp, found date; convert it, as in CAST(x AS TIMESTAMP)"),
    (f"SELECT max(get_json_object(symbol, «'a.b'»)) FROM trades {W}", TypeMismatch,
     "this is not a path; write it as in '$.a.b', '$.a[0]', '$[*]' or '$[''a b'']'"),
    (f"SELECT max(parse_url(symbol, «'host'»)) FROM trades {W}", TypeMismatch,
     "parse_url knows the parts HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY, USERINFO, found 'host'"),
    (f"SELECT max(parse_url(symbol, 'HOST', «'id'»)) FROM trades {W}", TypeMismatch, "only QUERY has keys"),
    (f"SELECT max(parse_url(symbol, 'QUERY', «'a['»)) FROM trades {W}", TypeMismatch,
     "a key is made of letters, digits and . _ ~ % -"),
    (f"SELECT max(lpad(symbol, «100000»)) FROM trades {W}", TypeMismatch,
     "the length is from 0 to 65,536, found 100000"),
    (f"SELECT max(repeat(symbol, «-1»)) FROM trades {W}", TypeMismatch,
     "the number is from 0 to 1,000, found -1"),
    (f"SELECT max(sha2(symbol, «0»)) FROM trades {W}", TypeMismatch,
     "sha2 has 224, 256, 384 or 512 bits, found 0"),
    (f"SELECT max(«date_add(day, vol)») FROM trades {W}", TypeMismatch,
     "date_add takes a date or timestamp and a whole number of days, found date and bigint"),
]  # fmt: skip


def test_only_mistyped_names_are_taken_for_others() -> None:
    """Spark's functions that the language has not are not said to be others."""
    known = (*SPELLINGS, *SUGAR, *(one.name for one in AGGREGATES), *SYNONYMS)
    theirs = {name for name in dir(builtin) if callable(getattr(builtin, name)) and name.islower()}
    helpers = {"col", "days", "hours", "months", "years"}
    others = [name for name in theirs - helpers - set(known) if "did you mean" in instead(name, known)]
    assert others == []
    assert set(INSTEAD).isdisjoint(SPELLINGS)
    assert DIFFERENT.isdisjoint(SPELLINGS)


@pytest.mark.parametrize(("name", "remedy"), INSTEAD.items())
def test_what_means_the_same_is_in_the_language(name: str, remedy: str) -> None:
    called = remedy.partition("(")[0]
    assert called in SPELLINGS or called in SUGAR or aggregate(called) is not None
    assert failure(f"SELECT count({name}(n)) AS x FROM trades {W}").problem.endswith(f"; write {remedy}")


TYPES: list[Case] = [
    (f"SELECT sum(«symbol + 1») FROM trades {W}", TypeMismatch,
     "+ takes two numbers, found string and int; write '1' in quotes, or CAST the string AS DOUBLE"),
    (f"SELECT sum(«symbol + n») FROM trades {W}", TypeMismatch,
     f"+ takes two numbers, found string and int; {CAST}"),
    (f"SELECT sum(«symbol * symbol») FROM trades {W}", TypeMismatch,
     "* takes two numbers, found string and string"),
    (f"SELECT sum(«ok + 1») FROM trades {W}", TypeMismatch,
     "+ takes two numbers, found boolean and int; a condition is not a number: "
     "IF(condition, 1, 0) makes it one"),
    (f"SELECT sum(«-ok») FROM trades {W}", TypeMismatch, "- takes a number, found boolean"),
    (f"SELECT sum(«price div 2») FROM trades {W}", TypeMismatch,
     "DIV takes two whole numbers or decimals, found double and int"),
    (f"SELECT max(«time - time») FROM trades {W}", TypeMismatch,
     "- takes two numbers, found timestamp and timestamp; unix_seconds(t) makes a timestamp a number"),
    (f"SELECT max(«n || 'x'») FROM trades {W}", TypeMismatch,
     f"|| takes strings, found int and string; {CAST}"),
    (f"SELECT count(*) FROM trades {W} WHERE «symbol = 5»", TypeMismatch,
     "= takes two values of one type, found string and int; write '5' in "
     "quotes, or CAST the string AS DOUBLE"),
    (f"SELECT count(*) FROM trades {W} WHERE «n = '5'»", TypeMismatch,
     "= takes two values of one type, found int and string; write 5 without quotes"),
    (f"SELECT count(*) FROM trades {W} WHERE «symbol IN ('a', 5)»", TypeMismatch,
     "IN takes values of one type, found string, int; write '5' in quotes, or CAST the string AS DOUBLE"),
    (f"SELECT count(*) FROM trades {W} WHERE «n»", TypeMismatch,
     "WHERE needs a condition, found int; compare it with something"),
    (f"SELECT count(*) FROM trades {W} HAVING «sum(n)»", TypeMismatch,
     "HAVING needs a condition, found bigint; compare it with something"),
    (f"SELECT count(*) FILTER (WHERE «n») FROM trades {W}", TypeMismatch,
     "FILTER needs a condition, found int; compare it with something"),
    (f"SELECT count(*) FROM trades {W} JOIN close ON «trades.symbol»", TypeMismatch,
     "ON needs a condition, found string; compare it with something"),
    (f"SELECT count(*) FROM trades {W} WHERE «n AND ok»", TypeMismatch,
     "AND takes conditions, found int and boolean; a condition is not a "
     "number: IF(condition, 1, 0) makes it one"),
    (f"SELECT count(*) FROM trades {W} WHERE «NOT n»", TypeMismatch, "NOT takes a condition, found int"),
    (f"SELECT count(*) FROM trades {W} WHERE time > «'yesterday'»", TypeMismatch,
     "'yesterday' is not a timestamp; write it as in '2026-01-31 12:00:00'"),
    (f"SELECT count(*) FROM trades {W} WHERE day IN («'2026-02-30'»)", TypeMismatch,
     "'2026-02-30' is not a date; write it as in '2026-01-31'"),
    (f"SELECT max(«DATE 'x'») FROM trades {W}", TypeMismatch,
     "'x' is not a date; write it as in '2026-01-31'"),
    (f"SELECT max(«CASE WHEN ok THEN 1 ELSE 'a' END») FROM trades {W}", TypeMismatch,
     "CASE takes conditions, and values of one type, found boolean, int, string; "
     "write '1' in quotes, or CAST the string AS DOUBLE"),
    (f"SELECT max(«CAST(day AS INT)») FROM trades {W}", TypeMismatch, "CAST cannot turn date into int"),
    (f"SELECT «sum(symbol)» FROM trades {W}", TypeMismatch, "sum takes a number, found string"),
    (f"SELECT «sum(*)» FROM trades {W}", TypeMismatch, "sum takes a number, found *; only count has *"),
    (f"SELECT «count(n, vol)» FROM trades {W}", TypeMismatch, "count takes one argument, found 2"),
    (f"SELECT «max(NULL)» FROM trades {W}", TypeMismatch,
     "max takes a number, string, boolean, date or time, found void"),
    (f"SELECT max(«tags») FROM trades {W}", TypeMismatch,
     'column "tags" has a type that queries cannot use; use a plain column'),
    (f"SELECT max(«abs(n, 2)») FROM trades {W}", TypeMismatch, "abs takes a number, found 2 arguments"),
    (f"SELECT max(«IF(ok, 1)») FROM trades {W}", TypeMismatch, "IF takes 3 arguments, found 2"),
    (f"SELECT max(«round(price, n)») FROM trades {W}", TypeMismatch,
     "round takes a number and, if wanted, a constant number of digits, found double and int"),
    (f"SELECT max(«date_trunc('eon', time)») FROM trades {W}", TypeMismatch,
     "date_trunc takes one of day, hour, microsecond, millisecond, minute, month, quarter, second, week, "
     "year and a timestamp, found string and timestamp"),
    (f"SELECT count(*) FROM trades {W} WHERE «symbol LIKE symbol»", TypeMismatch,
     "LIKE takes a string and a constant pattern, found string and string"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol LIKE «'a\\\\b'»", TypeMismatch,
     "in a LIKE pattern a backslash stands before %, _ or another backslash"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol RLIKE «'(a'»", TypeMismatch,
     "the pattern is not a regular expression: missing ), unterminated subpattern at position 0"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol RLIKE «'a{{'»", TypeMismatch,
     "the pattern has a brace that is not a repetition (write \\{), which Spark does not know"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol RLIKE «r'\\p{{Foo}}'»", TypeMismatch,
     "the pattern has a class \\p{…} that Spark does not know"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol RLIKE «'[a'»", TypeMismatch,
     "the pattern is not a regular expression: a set has no end"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol RLIKE «'[a[b]]'»", TypeMismatch,
     "the pattern has a set inside a set; write one set"),
    (f"SELECT max(«300y») FROM trades {W}", TypeMismatch, "300 does not fit into tinyint"),
    (f"SELECT max(«1e999») FROM trades {W}", TypeMismatch, "this number is too large for a double"),
    (f"SELECT max(«{'1' * 39}») FROM trades {W}", TypeMismatch,
     "this number has more than 38 digits; write it as a double, as in 1e40"),
]  # fmt: skip

WINDOWS: list[Case] = [
    ("SELECT count(*) FROM «trades»", BadWindow,
     "the query has no window over stream trades; write [RANGE '12 min' SLIDE '5 min'] after the stream, "
     "or GROUP BY window(time, '12 min', '5 min')"),
    (f"SELECT count(*) FROM trades {W} GROUP BY «window(time, '5 min')»", BadWindow,
     "the query has two windows; remove one"),
    ("SELECT count(*) FROM trades GROUP BY time/60, «time/300»", BadWindow,
     "the query has two windows; remove one"),
    (f"SELECT count(*) FROM trades {W} T «[»RANGE '5 min']", BadWindow,
     "a stream has one window; remove one of the two"),
    ("SELECT count(*) FROM trades [RANGE «'0 min'»]", BadWindow,
     "the range is 0; it must be longer, as in '5 min'"),
    ("SELECT count(*) FROM trades [RANGE '5 min' SLIDE «'0 s'»]", BadWindow,
     "the slide is 0; it must be longer, as in '5 min'"),
    ("SELECT count(*) FROM trades GROUP BY window(time, '5 min', «'0 s'»)", BadWindow,
     "the slide is 0; it must be longer, as in '5 min'"),
    ("SELECT count(*) FROM trades GROUP BY «HOP(time, '5 min', '0 s')»", BadWindow,
     "the slide is 0; it must be longer, as in '5 min'"),
    ("SELECT count(*) FROM trades [RANGE «'-5 min'»]", BadWindow,
     f'duration "-5 min" is negative; {EXAMPLE}'),
    ("SELECT count(*) FROM trades GROUP BY window(time, '5 min', «'-1 min'»)", BadWindow,
     f'duration "-1 min" is negative; {EXAMPLE}'),
    ("SELECT count(*) FROM trades GROUP BY TUMBLE(time, «'-5 min'»)", BadWindow,
     f'duration "-5 min" is negative; {EXAMPLE}'),
    ("SELECT count(*) FROM trades GROUP BY window(time, '12 min', '5 min', «'-5 min'»)", BadWindow,
     "the start is moved by 5 min or more, which is the slide; as in Spark, it must be by less"),
    ("SELECT count(*) FROM trades GROUP BY window(time, '12 min', '5 min', «'7 min'»)", BadWindow,
     "the start is moved by 5 min or more, which is the slide; as in Spark, it must be by less"),
    ("SELECT count(*) FROM trades [RANGE '5 min' OFFSET «'-4000 days'»]", BadWindow,
     'duration "-4000 days" is longer than ten years; check its unit'),
    ("SELECT count(*) FROM trades [RANGE «300» SLIDE 60]", BadWindow, f'"300" is not a duration; {EXAMPLE}'),
    ("SELECT count(*) FROM trades [RANGE «5 fortnights»]", BadWindow,
     f'unknown unit of time "fortnights" in "5 fortnights"; {EXAMPLE}'),
    ("SELECT count(*) FROM trades [RANGE «'1 month'»]", BadWindow,
     "duration \"1 month\" has no fixed length; count days instead, as in '30 days'"),
    ("SELECT count(*) FROM trades GROUP BY window(time, «INTERVAL 1 YEAR»)", BadWindow,
     "duration \"1 YEAR\" has no fixed length; count days instead, as in '30 days'"),
    ("SELECT count(*) FROM trades [RANGE «'4000 days'»]", BadWindow,
     'duration "4000 days" is longer than ten years; check its unit'),
    ("SELECT count(*) FROM trades GROUP BY window(«day», '5 min')", BadWindow,
     'the window must be over the event time of stream trades, "time"'),
    ("SELECT count(*) FROM trades GROUP BY window(«tim», '5 min')", UnknownName,
     'unknown column "tim" in stream trades; did you mean "time"?'),
    ("SELECT count(*) FROM trades GROUP BY «window(time)»", BadWindow,
     "expected 1 to 3 durations, found 0: window(time, range[, slide[, start]])"),
    ("SELECT count(*) FROM trades GROUP BY «HOP(time, '5 min')»", BadWindow,
     "expected 2 to 3 durations, found 1: HOP(time, slide, size[, start])"),
    ("SELECT count(*) FROM trades GROUP BY «window()»", BadWindow,
     "window needs the event time and durations: window(time, range[, slide[, start]])"),
    ("SELECT count(*) FROM trades GROUP BY window(time, «5»)", BadWindow,
     "expected a duration such as '12 min' or INTERVAL 12 MINUTES"),
    ("SELECT count(*) FROM trades GROUP BY «session_window»(time, '5 min')", BadWindow,
     "session_window is not in the language; use window, HOP or TUMBLE"),
    ("SELECT count(*) FROM «SESSION»(trades, time, '5 min')", NotAllowed,
     "SESSION(…) is not in the language; the window functions of FROM are HOP and TUMBLE"),
    (f"SELECT «window»(time, '5 min'), count(*) FROM trades {W}", BadWindow,
     "window(…) is allowed only in GROUP BY; its bounds are window_start and window_end"),
    (f"SELECT count(*) FROM trades {W} WHERE «hop»(time, '5 min') > 1", BadWindow,
     "hop(…) is allowed only in GROUP BY; its bounds are window_start and window_end"),
    (f"SELECT «window», count(*) FROM trades {W}", NotAllowed,
     "the window is two columns; write window_start and window_end"),
    (f"SELECT count(*) FROM trades {W} WHERE «window_start» > '2026-01-01'", NotAllowed,
     "window_start is known only after aggregation; use it in SELECT or HAVING"),
    (f"SELECT sum(unix_seconds(«window.end»)) FROM trades {W}", NotAllowed,
     "window.end is known only after aggregation; use it in SELECT or HAVING"),
    ("SELECT count(*) FROM trades [«ROWS» 5]", SyntaxMistake,
     "expected RANGE or WINDOW, as in [RANGE '12 min' SLIDE '5 min'], found ROWS"),
    ("SELECT count(*) FROM trades [RANGE «SLIDE» '5 min']", SyntaxMistake,
     "expected a duration such as '12 min', found SLIDE"),
    ("SELECT count(*) FROM trades GROUP BY window(time, INTERVAL '1:30' HOUR «TO» MINUTE)", NotAllowed,
     "INTERVAL … TO … is not in the language; write '1 hour 30 minutes'"),
    ("SELECT count(*) FROM tcp GROUP BY «ts/0»", BadWindow,
     "a window of 0 s is not whole milliseconds up to ten years; divide by another number"),
    (f"SELECT count(*) FROM trades {W}, close «[RANGE '5 min']» WHERE trades.symbol = close.symbol",
     BadWindow,
     "close is a table; only the stream has a window"),
]  # fmt: skip

GROUPS: list[Case] = [
    (f"SELECT «price», count(*) FROM trades {W}", GroupingMistake,
     'column "price" is neither in GROUP BY nor inside an aggregate; add it '
     'to GROUP BY or write e.g. max(price)'),
    (f"SELECT «n» + 2, count(*) FROM trades {W} GROUP BY n + 1", GroupingMistake,
     'column "n" is neither in GROUP BY nor inside an aggregate; add it to GROUP BY or write e.g. max(n)'),
    (f"SELECT count(*) FROM trades T {W}, close C WHERE T.symbol = C.symbol HAVING «C.cp» > 5",
     GroupingMistake,
     'column "C.cp" is neither in GROUP BY nor inside an aggregate; add it '
     'to GROUP BY or write e.g. max(C.cp)'),
    (f"SELECT count(*) FROM trades {W} WHERE «sum(n)» > 5", GroupingMistake,
     "sum(…) is an aggregate, but WHERE tests single rows; use HAVING"),
    (f"SELECT max(«sum(n)») FROM trades {W}", GroupingMistake,
     "sum(…) stands inside another aggregate; use one of them"),
    (f"SELECT count(*) FILTER (WHERE «max(n)» > 5) FROM trades {W}", GroupingMistake,
     "max(…) stands inside another aggregate; use one of them"),
    (f"SELECT count(*) FROM trades {W} GROUP BY «sum(n)»", GroupingMistake,
     "sum(…) is an aggregate, and GROUP BY has none"),
    (f"SELECT «count(*)» FROM trades {W} GROUP BY 1", GroupingMistake,
     "count(…) is an aggregate, and GROUP BY has none"),
    (f"SELECT count(*) FROM trades {W} GROUP BY «2»", GroupingMistake,
     "GROUP BY 2 names no item of SELECT; it has 1"),
    (f"SELECT «1, 2» FROM trades {W}", GroupingMistake,
     "the query aggregates nothing; add an aggregate such as count(*), or GROUP BY a column"),
    (f"SELECT count(*) AS c, «sum(n)» AS C FROM trades {W}", NotAllowed,
     'two columns are named "C"; give one another alias'),
    (f"SELECT «count(*)» AS window_start FROM trades {W}", NotAllowed,
     'the results have a column "window_start" of their own; choose another alias'),
    (f"SELECT «window_end» AS window_start, count(*) FROM trades {W}", NotAllowed,
     'the results have a column "window_start" of their own; choose another alias'),
    (f"SELECT count(*) FROM trades {W} GROUP BY «symbol» AS window_end", NotAllowed,
     'the results have a column "window_end" of their own; add an alias, as in symbol AS k'),
    (f"SELECT symbol, count(*) FROM trades {W} GROUP BY symbol «EMIT EMPTY»", NotAllowed,
     "EMIT EMPTY cannot tell which groups (symbol) an empty window would have; remove it or the GROUP BY"),
]  # fmt: skip

JOINS: list[Case] = [
    (f"SELECT count(*) FROM trades {W}, «close»", NotAllowed,
     "table close is joined without an equality; add one, as in close.column = …"),
    (f"SELECT count(*) FROM trades T {W} JOIN «close» C ON T.n > C.cp", NotAllowed,
     "table close is joined without an equality; add one, as in C.column = …"),
    (f"SELECT count(*) FROM trades T {W} LEFT JOIN close C ON T.symbol = C.symbol AND «C.cp > 5»", NotAllowed,
     "ON of LEFT JOIN close holds only equalities with its columns; use WHERE"),
    (f"SELECT count(*) FROM trades {W} «CROSS» JOIN close", NotAllowed,
     "CROSS JOIN is not in the language; use JOIN or LEFT JOIN with a static table"),
    (f"SELECT count(*) FROM trades {W} «FULL» OUTER JOIN close USING (symbol)", NotAllowed,
     "FULL JOIN is not in the language; use JOIN or LEFT JOIN with a static table"),
    (f"SELECT count(*) FROM trades {W} «RIGHT» JOIN close USING (symbol)", NotAllowed,
     "RIGHT JOIN is not in the language; use JOIN or LEFT JOIN with a static table"),
    (f"SELECT count(*) FROM trades {W} «NATURAL» JOIN close", NotAllowed,
     "NATURAL JOIN is not in the language; use JOIN or LEFT JOIN with a static table"),
    (f"SELECT count(*) FROM trades {W} «LEFT» SEMI JOIN close USING (symbol)", NotAllowed,
     "SEMI JOIN is not in the language; use JOIN or LEFT JOIN with a static table"),
    (f"SELECT count(*) FROM trades {W}, «tcp»", NotAllowed,
     "a query reads one stream; joins of streams are not in the language: trades and tcp"),
    ("SELECT count(*) FROM «close»", NotAllowed, "close is a table; a query reads a stream: trades, tcp"),
    (f"SELECT count(*) FROM close LEFT JOIN «trades» {W} USING (symbol)", NotAllowed,
     "the stream stands before LEFT JOIN"),
    (f"SELECT count(*) FROM trades {W} JOIN close ON «trades.n = close.symbol»", TypeMismatch,
     f"= takes two values of one type, found int and string; {CAST}"),
]  # fmt: skip

REFUSED: list[Case] = [
    (f"SELECT «*» FROM trades {W}", NotAllowed, "SELECT * is not in the language; name the columns"),
    (f"SELECT «trades.»* FROM trades {W}", NotAllowed, "SELECT * is not in the language; name the columns"),
    (f"SELECT «DISTINCT» symbol FROM trades {W}", NotAllowed,
     "DISTINCT is not in the language; GROUP BY the columns instead"),
    (f"SELECT «count(DISTINCT n)» FROM trades {W}", NotAllowed,
     "count(DISTINCT …) is not in the language; group by the column in a query of its own"),
    (f"SELECT max(«abs(DISTINCT n)») FROM trades {W}", NotAllowed,
     "DISTINCT is for aggregates, and abs is not one"),
    (f"SELECT max(«abs(n) FILTER (WHERE ok)») FROM trades {W}", NotAllowed,
     "FILTER is for aggregates, and abs is not one"),
    (f"SELECT max(abs(«*»)) FROM trades {W}", NotAllowed, "* is allowed only in count(*)"),
    (f"SELECT count(*) FROM trades {W} «ORDER» BY 1", NotAllowed,
     "ORDER BY is not in the language; results come by window"),
    (f"SELECT count(*) FROM trades {W} «LIMIT» 5", NotAllowed,
     "LIMIT is not in the language; use HAVING to keep fewer groups"),
    (f"SELECT count(*) FROM trades {W} «UNION» ALL SELECT 1", NotAllowed,
     "UNION is not in the language; write one query each"),
    (f"SELECT count(*) FROM trades {W} «EXCEPT» SELECT 1", NotAllowed,
     "EXCEPT is not in the language; write one query each"),
    (f"SELECT count(*) FROM trades {W} «QUALIFY» 1 = 1", NotAllowed,
     "QUALIFY is not in the language; use HAVING"),
    (f"SELECT count(*) FROM trades {W} «WINDOW» w AS ()", NotAllowed,
     "named windows are not in the language; write the window after the stream"),
    ("«WITH» x AS (SELECT 1) SELECT 1 FROM x", NotAllowed,
     "WITH (common table expressions) is not in the language"),
    (f"SELECT «/*+ BROADCAST(x) */» count(*) FROM trades {W}", NotAllowed,
     "hints are not in the language; remove the hint"),
    (f"SELECT count(*) FROM «(»SELECT 1) {W}", NotAllowed,
     "subqueries are not in the language; name a stream"),
    (f"SELECT («SELECT» 1) FROM trades {W}", NotAllowed, SUBQUERY),
    (f"SELECT count(*) FROM trades {W} WHERE n IN («SELECT» 1)", NotAllowed, SUBQUERY),
    (f"SELECT count(*) FROM trades {W} WHERE «EXISTS» (SELECT 1)", NotAllowed,
     "EXISTS is not in the language; join a static table instead"),
    (f"SELECT count(*) FROM trades {W} WHERE n = «ANY» (SELECT 1)", NotAllowed,
     "ANY is not in the language; compare with IN (…)"),
    (f"SELECT count(*) FROM trades {W} WHERE (n«,» vol) IN ((1, 2))", NotAllowed,
     "rows of several values are not in the language; compare them one by one"),
    (f"SELECT «sum(n)» OVER () FROM trades {W}", NotAllowed,
     "window functions (OVER) are not in the language; write the window after the stream"),
    (f"SELECT count(*) FROM trades {W} GROUP BY «ROLLUP»(n)", NotAllowed,
     "GROUP BY ROLLUP is not in the language; write one query each"),
    (f"SELECT count(*) FROM trades {W} GROUP BY «GROUPING» SETS ((n))", NotAllowed,
     "GROUP BY GROUPING is not in the language; write one query each"),
    (f"SELECT count(*) FROM trades {W} WHERE time > time - «INTERVAL 1 DAY»", NotAllowed,
     "INTERVAL is allowed only in windows; compare times with constants instead"),
    (f"SELECT count(*) FROM trades {W} WHERE symbol LIKE 'a!%' «ESCAPE» '!'", NotAllowed,
     "ESCAPE is not in the language; escape with a backslash"),
    (f"SELECT max(EXTRACT(«SECOND» FROM time)) FROM trades {W}", NotAllowed,
     "EXTRACT(SECOND FROM …) is not in the language; write second(…) for the whole second"),
    (f"SELECT max(EXTRACT(«century» FROM time)) FROM trades {W}", NotAllowed,
     "EXTRACT(century FROM …) is not in the language; known are YEAR, QUARTER, MONTH, "
     "WEEK, DAY, DAYOFWEEK, DOY, HOUR, MINUTE"),
]  # fmt: skip

SYNTAX: list[Case] = [
    ("SELEC«T»", SyntaxMistake, "expected an expression, but the text ends here"),
    ("SELECT «1»", SyntaxMistake, "expected FROM and a stream, but the text ends here"),
    ("SELECT «FROM» trades", SyntaxMistake, "expected an expression, found FROM"),
    ("SELECT count(*) FRO«M»", SyntaxMistake, "expected a stream, but the text ends here"),
    ("«UPDATE» trades", SyntaxMistake, "expected SELECT, found UPDATE"),
    (f"SELECT count(* «FROM» trades {W}", SyntaxMistake, "expected ), found FROM"),
    (f"SELECT max(n «vol») FROM trades {W}", SyntaxMistake, "expected ), found vol"),
    (f"SELECT max(n,«)» FROM trades {W}", SyntaxMistake, "expected an expression, found )"),
    (f"SELECT max(«~»n) FROM trades {W}", SyntaxMistake, "expected an expression, found ~"),
    (f"SELECT max(«x'AB'») FROM trades {W}", SyntaxMistake, "expected an expression, found x'AB'"),
    (f"SELECT count(*) FROM trades {W} WHERE n > 5 AN«D»", SyntaxMistake,
     "expected an expression, but the text ends here"),
    (f"SELECT count(*) FROM trades {W} WHERE n IN (1) «=» ok", SyntaxMistake,
     "expected the end of the statement, found ="),
    (f"SELECT count(*) FROM trades {W} WHERE n NOT «5»", SyntaxMistake,
     "expected BETWEEN, IN or LIKE, found 5"),
    (f"SELECT count(*) FROM trades {W} WHERE n IS «5»", SyntaxMistake,
     "expected NULL, TRUE, FALSE or DISTINCT FROM, found 5"),
    (f"SELECT count(*) FROM trades {W} WHERE CASE n «END»", SyntaxMistake, "expected WHEN, found END"),
    (f"SELECT count(*) FROM trades {W} GROUP «symbol»", SyntaxMistake, "expected BY, found symbol"),
    (f"SELECT count(*) FROM trades {W} EMI«T»", SyntaxMistake, "expected EMPTY, but the text ends here"),
    (f"SELECT count(*) FROM trades«.»x {W}", SyntaxMistake,
     "names of streams and tables have one part, found ."),
    (f"SELECT count(*) FROM trades {W} HAVING count(*) > 5 «WHERE» n > 5", SyntaxMistake,
     "expected the end of the statement, found WHERE"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("marked", "kind", "problem"), [*NAMES, *FUNCTIONS, *TYPES, *WINDOWS, *GROUPS, *JOINS, *REFUSED, *SYNTAX]
)
def test_a_mistake_is_named_and_shown(marked: str, kind: type[QueryError], problem: str) -> None:
    text = marked.replace("«", "").replace("»", "")
    begin = marked.index("«")
    error = failure(text)
    assert type(error) is kind
    assert str(error) == f"query q: {problem}" + caret(text, (begin, marked.index("»") - 1))


def test_a_message_as_the_user_sees_it() -> None:
    text = "SELECT sum(price * vol) AS value\n  FROM trades [RANGE '12 min' SLIDE '5 min']\n\tWHERE prise > 5"
    assert str(failure(text)) == (
        'query q: unknown column "prise" in stream trades; did you mean "price"?\n'
        "   WHERE prise > 5\n"
        "         ^^^^^"
    )
