"""The grammar of CASE, CAST and EXTRACT, and functions that are other operations in other words."""

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
    raise cursor.refusal("EXISTS is not in the language; join a static table instead")


SPECIAL: dict[str, Callable[[Cursor, Rule], Node]] = {
    "CAST": _cast, "TRY_CAST": _cast, "EXTRACT": _extract, "EXISTS": _exists,
}  # fmt: skip
"""Words whose brackets have a grammar of their own."""


Sugar = Callable[[str, tuple[Node, ...], Span], Node]


def _sugar(count: int, express: Callable[[tuple[Node, ...], Span], Node]) -> Sugar:
    """Return a function of a number of arguments that other operations express."""

    def apply(name: str, args: tuple[Node, ...], span: Span) -> Node:
        if len(args) != count:
            plural = "" if count == 1 else "s"
            raise TypeMismatch(f"{name} takes {count} argument{plural}, found {len(args)}", span=span)
        return express(args, span)

    return apply


def _nullif(args: tuple[Node, ...], span: Span) -> Node:
    return operation("case", (operation("=", args, span), Constant(span, None), args[0]), span)


def _nvl2(args: tuple[Node, ...], span: Span) -> Node:
    return operation("case", (operation("is_null", args[:1], span), args[2], args[1]), span)


SUGAR: dict[str, Sugar] = {
    "if": _sugar(3, lambda args, span: operation("case", args, span)),
    "nullif": _sugar(2, _nullif),
    "nvl2": _sugar(3, _nvl2),
    "isnull": _sugar(1, lambda args, span: operation("is_null", args, span)),
    "isnotnull": _sugar(1, lambda args, span: operation("not", (operation("is_null", args, span),), span)),
}
"""Functions that are other operations in other words."""
