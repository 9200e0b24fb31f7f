"""The grammar of expressions: operators, in Spark's order of precedence."""

from weft.query.cursor import Cursor
from weft.query.data_types import data_type
from weft.query.lexer import TokenKind
from weft.query.primaries import primary
from weft.query.syntax import Constant, Node, Number, Operation, Text, TimeText, operation

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _UNARY, _CAST = 1, 2, 3, 4, 5, 11, 12

_BINARY: dict[str, tuple[int, str]] = {
    "=": (_COMPARISON, "="), "==": (_COMPARISON, "="), "<>": (_COMPARISON, "<>"), "!=": (_COMPARISON, "<>"),
    "<": (_COMPARISON, "<"), "<=": (_COMPARISON, "<="), ">": (_COMPARISON, ">"), ">=": (_COMPARISON, ">="),
    "<=>": (_COMPARISON, "<=>"),
    "|": (6, "|"), "^": (7, "^"), "&": (8, "&"),
    "+": (9, "+"), "-": (9, "-"), "||": (9, "concat"),
    "*": (10, "*"), "/": (10, "/"), "%": (10, "%"), "DIV": (10, "div"),
}  # fmt: skip
"""Symbol or word: how tightly it binds, and its canonical name."""
_CONNECTIVES = {"OR": (_OR, "or"), "AND": (_AND, "and")}
_PREDICATES = frozenset({"IS", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"})
_PATTERNS = {"LIKE": "like", "ILIKE": "ilike", "RLIKE": "rlike", "REGEXP": "rlike"}


def expression(cursor: Cursor, minimum: int = 0) -> Node:
    """Read an expression whose operators bind at least as tightly as `minimum`."""
    cursor.enter()
    start = cursor.index
    left = _prefix(cursor)
    # A predicate cannot be an operand of what binds tighter: `a IN (1) = b` is refused, as in Spark.
    ceiling = _CAST
    while True:
        key = cursor.token.key
        if (binary := _BINARY.get(key)) and minimum <= binary[0] <= ceiling:
            left = _infix(cursor, left, start, *binary)
        elif (connective := _CONNECTIVES.get(key)) and minimum <= connective[0]:
            left, ceiling = _connected(cursor, left, start, *connective), connective[0]
        elif key in _PREDICATES and minimum <= _PREDICATE <= ceiling:
            left, ceiling = _predicate(cursor, left, start), _AND
        elif key == "::" and ceiling == _CAST:
            cursor.advance()
            type = data_type(cursor)
            left = operation("cast", (left,), cursor.span_from(start), type)
        else:
            cursor.leave()
            return left


def _prefix(cursor: Cursor) -> Node:
    start = cursor.index
    if cursor.accept("NOT") or cursor.accept("!"):
        operand = expression(cursor, _NOT)
        return operation("not", (operand,), cursor.span_from(start))
    if cursor.accept("-"):
        if cursor.token.kind is TokenKind.NUMBER:
            number = cursor.advance()
            return Number(cursor.span_from(start), "-" + number.text)
        operand = expression(cursor, _UNARY)
        return operation("neg", (operand,), cursor.span_from(start))
    if cursor.accept("+"):
        return expression(cursor, _UNARY)
    return primary(cursor, expression)


def _infix(cursor: Cursor, left: Node, start: int, power: int, operator: str) -> Node:
    cursor.advance()
    if cursor.at("ANY") or cursor.at("ALL") or cursor.at("SOME"):
        raise cursor.refusal(f"{cursor.token.key} is not in the language; compare with IN (…)")
    right = expression(cursor, power + 1)
    return operation(operator, (left, right), cursor.span_from(start))


def _connected(cursor: Cursor, left: Node, start: int, power: int, operator: str) -> Node:
    """Read a whole chain at once, so that a thousand terms become one flat node."""
    word = cursor.token.key
    terms = [left]
    while cursor.accept(word):
        terms.append(expression(cursor, power + 1))
    flat: list[Node] = []
    for term in terms:
        flat.extend(term.args if isinstance(term, Operation) and term.operator == operator else (term,))
    return operation(operator, tuple(flat), cursor.span_from(start))


def _predicate(cursor: Cursor, left: Node, start: int) -> Node:
    read = _is if cursor.accept("IS") else _test
    negated = cursor.accept("NOT")
    node = read(cursor, left, start)
    if not negated:
        return node
    # IS NOT DISTINCT FROM is a negation of one.
    if isinstance(node, Operation) and node.operator == "not":
        return node.args[0]
    return operation("not", (node,), cursor.span_from(start))


def _is(cursor: Cursor, left: Node, start: int) -> Node:
    if cursor.accept("NULL") or cursor.accept("UNKNOWN"):
        return operation("is_null", (left,), cursor.span_from(start))
    if cursor.accept("DISTINCT", "FROM"):
        right = expression(cursor, _COMPARISON)
        same = operation("<=>", (left, right), cursor.span_from(start))
        return operation("not", (same,), same.span)
    if cursor.at("TRUE") or cursor.at("FALSE"):
        truth = Constant(cursor.span(), cursor.advance().key == "TRUE")
        return operation("<=>", (left, truth), cursor.span_from(start))
    raise cursor.mistake("expected NULL, TRUE, FALSE or DISTINCT FROM")


def _test(cursor: Cursor, left: Node, start: int) -> Node:
    if cursor.accept("BETWEEN"):
        return _between(cursor, left, start)
    if cursor.accept("IN"):
        return _in(cursor, left, start)
    name = _PATTERNS.get(cursor.token.key)
    if name is None:
        raise cursor.mistake("expected BETWEEN, IN or LIKE")
    cursor.advance()
    pattern = expression(cursor, _COMPARISON)
    if cursor.at("ESCAPE"):
        raise cursor.refusal("ESCAPE is not in the language; escape with a backslash")
    return operation(name, (left, pattern), cursor.span_from(start))


def _between(cursor: Cursor, left: Node, start: int) -> Node:
    low = expression(cursor, _COMPARISON)
    cursor.expect("AND")
    high = expression(cursor, _COMPARISON)
    span = cursor.span_from(start)
    return operation("and", (operation(">=", (left, low), span), operation("<=", (left, high), span)), span)


def _in(cursor: Cursor, left: Node, start: int) -> Node:
    cursor.expect("(")
    cursor.refuse_subquery()
    items = cursor.listed(expression)
    cursor.expect(")")
    span = cursor.span_from(start)
    if all(isinstance(item, Number | Text | Constant | TimeText) for item in items):
        return operation("in", (left, *items), span)
    tests = tuple(operation("=", (left, item), span) for item in items)
    return tests[0] if len(tests) == 1 else operation("or", tests, span)
