"""The grammar of expressions: CASE, CAST and the like, and functions that are CASE in other words."""

from collections.abc import Callable

from weft.errors import NotAllowed, Span, TypeMismatch
from weft.query.cursor import Cursor
from weft.query.data_types import data_type
from weft.query.syntax import Constant, Node, operation

Rule = Callable[[Cursor], Node]
_FIELDS = {
    "YEAR": "year", "YEARS": "year", "MONTH": "month", "MONTHS": "month", "DAY": "day", "DAYS": "day",
    "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "HOUR": "hour", "HOURS": "hour",
    "MINUTE": "minute", "MINUTES": "minute",
}  # fmt: skip


def case(cursor: Cursor, expression: Rule) -> Node:
    """Read CASE in either form; ELSE NULL is added where there is no ELSE."""
    start = cursor.index
    cursor.advance()
    subject = None if cursor.at("WHEN") else expression(cursor)
    parts: list[Node] = []
    while cursor.accept("WHEN"):
        test = expression(cursor)
        parts.append(test if subject is None else operation("=", (subject, test), test.span))
        cursor.expect("THEN")
        parts.append(expression(cursor))
    if not parts:
        raise cursor.mistake("expected WHEN")
    parts.append(expression(cursor) if cursor.accept("ELSE") else Constant(cursor.span(), None))
    cursor.expect("END")
    return operation("case", tuple(parts), cursor.span_from(start))


def _cast(cursor: Cursor, expression: Rule) -> Node:
    start = cursor.index
    cursor.advance()
    cursor.expect("(")
    operand = expression(cursor)
    cursor.expect("AS")
    type = data_type(cursor)
    cursor.expect(")")
    return operation("cast", (operand,), cursor.span_from(start), type)


def _extract(cursor: Cursor, expression: Rule) -> Node:
    start = cursor.index
    cursor.advance()
    cursor.expect("(")
    field, span = cursor.advance(), cursor.span_from(cursor.index - 1)
    name = _FIELDS.get(field.text.upper())
    if name is None:
        fields = "YEAR, MONTH, DAY, DAYOFWEEK, HOUR, MINUTE"
        # In Spark its value has a fraction, unlike second().
        hint = "; write second(…) for the whole second" if field.key == "SECOND" else f"; known are {fields}"
        raise NotAllowed(f"EXTRACT({field.text} FROM …) is not in the language{hint}", span=span)
    cursor.expect("FROM")
    operand = expression(cursor)
    cursor.expect(")")
    return operation(name, (operand,), cursor.span_from(start))


def _exists(cursor: Cursor, expression: Rule) -> Node:
    raise NotAllowed("EXISTS is not in the language; join a static table instead", span=cursor.span())


SPECIAL: dict[str, Callable[[Cursor, Rule], Node]] = {
    "CAST": _cast, "TRY_CAST": _cast, "EXTRACT": _extract, "EXISTS": _exists,
}  # fmt: skip
"""Words whose brackets have a grammar of their own."""


def _if(name: str, args: tuple[Node, ...], span: Span) -> Node:
    _check_count(name, args, 3, span)
    return operation("case", args, span)


def _nullif(name: str, args: tuple[Node, ...], span: Span) -> Node:
    _check_count(name, args, 2, span)
    return operation("case", (operation("=", args, span), Constant(span, None), args[0]), span)


def _nvl2(name: str, args: tuple[Node, ...], span: Span) -> Node:
    _check_count(name, args, 3, span)
    return operation("case", (operation("is_null", args[:1], span), args[2], args[1]), span)


def _is_null(name: str, args: tuple[Node, ...], span: Span) -> Node:
    _check_count(name, args, 1, span)
    return operation("is_null", args, span)


def _is_not_null(name: str, args: tuple[Node, ...], span: Span) -> Node:
    return operation("not", (_is_null(name, args, span),), span)


def _check_count(name: str, args: tuple[Node, ...], wanted: int, span: Span) -> None:
    if len(args) != wanted:
        plural = "" if wanted == 1 else "s"
        raise TypeMismatch(f"{name} takes {wanted} argument{plural}, found {len(args)}", span=span)


SUGAR: dict[str, Callable[[str, tuple[Node, ...], Span], Node]] = {
    "if": _if, "nullif": _nullif, "nvl2": _nvl2, "isnull": _is_null, "isnotnull": _is_not_null,
}  # fmt: skip
"""Functions that other operations express."""
