"""Draw shared plans as SVG: a stream at the left, its relations in the middle, their queries at the right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from weft.optimizer.cost import edge_rate
from weft.optimizer.explain import counted
from weft.optimizer.plan import Answer, Relation, SharedPlan
from weft.optimizer.slices import Slicing
from weft.predicates import TRUE, Formula, attributes
from weft.query.logical import StreamDef
from weft.window import duration

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_LISTED_RELATIONS = 40
_LISTED_QUERIES = 8
_LISTED_PRIMITIVES = 4
_TOOLTIP = 400
"""Characters of the tooltip of a text that does not fit."""
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# In pixels. The font is monospaced, so the width of a text follows from its length.
_CHARACTER = 7.3
_LINE = 17
_PADDING = 10
_MARGIN = 24
_ROW = 50
"""Height of a line between boxes, with a label above it and one below it."""
_TRUNK = 16
"""How far right of a box the lines from it part."""
_COLUMNS = ((_MARGIN, 156), (396, 240), (876, 170))
"""Left edges and widths of boxes: streams, relations, queries."""
_WIDTH = 876 + 170 + _MARGIN
_SCREEN = 480
"""A box stands in the middle of what it leads to, but no further down than the middle of a screen."""

_STYLE = """
    text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #dbe4f0 }
    .name { font-weight: bold; fill: #ffffff }
    .quiet { fill: #9fb0c9 }
    path { fill: none; stroke: #6a7f9f; stroke-width: 1.5 }
    .background { fill: #0f1826 }
    .stream { fill: #10395c; stroke: #4fb0f0 }
    .relation { fill: #35275f; stroke: #a78bfa }
    .query { fill: #14432c; stroke: #4ac27d }
  """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A box, the labels of the line that leads to it, and the boxes that it leads to."""

    kind: str
    """A class of the style sheet; "more" stands for nodes that are left out, and has no box."""
    lines: Sequence[str]
    above: str = ""
    below: str = ""
    children: Sequence["_Node"] = ()

    @property
    def height(self) -> int:
        """Of the box."""
        return len(self.lines) * _LINE + _PADDING

    @property
    def span(self) -> int:
        """Height of the node with all that it leads to."""
        return max(self.height + _LINE, _ROW, sum(child.span for child in self.children))


def plan_svg(plans: Sequence[tuple[StreamDef, SharedPlan]]) -> str:
    """Return a picture of the plans of streams, one below the other, as the text of an SVG file."""
    trees = [_stream(*plan) for plan in plans] or [_Node(kind="more", lines=["no queries"])]
    height = sum(tree.span for tree in trees) + 2 * _MARGIN
    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", width=f"{_WIDTH}", height=f"{height}")
    svg.set("viewBox", f"0 0 {_WIDTH} {height}")
    SubElement(svg, "title").text = "shared plan"
    SubElement(svg, "style").text = _STYLE
    _rectangle(svg, 0, 0, _WIDTH, height, "background")
    top = _MARGIN
    for tree in trees:
        _draw(svg, tree, 0, top)
        top += tree.span
    indent(svg)
    return tostring(svg, encoding="unicode") + "\n"


def _stream(stream: StreamDef, plan: SharedPlan) -> _Node:
    answers = plan.answers_by_relation()
    listed, others = plan.relations[:_LISTED_RELATIONS], plan.relations[_LISTED_RELATIONS:]
    relations = [_relation(relation, answers[relation.id], plan) for relation in listed]
    if others:
        queries = sum(len(answers[relation.id]) for relation in others)
        lines = [
            f"… and {len(others):,} more",
            f"for {counted(queries, 'query', 'queries')}",
        ]
        relations.append(_Node(kind="more", lines=lines))
    lines = [
        stream.name,
        f"event time {stream.time}",
        f"delay {duration(stream.delay_ms)}",
        "read once a batch",
    ]
    return _Node(kind="stream", lines=lines, children=relations)


def _relation(relation: Relation, answers: Sequence[Answer], plan: SharedPlan) -> _Node:
    primitives = [str(primitive) for primitive in relation.primitives] or ["rows"]
    if len(primitives) > _LISTED_PRIMITIVES:
        primitives[_LISTED_PRIMITIVES:] = [f"… and {len(primitives) - _LISTED_PRIMITIVES:,} more"]
    fed = [] if relation.source is None else [f"from relation {relation.source + 1}"]
    lines = [f"relation {relation.id + 1}", *fed, *(f"joined with {join.table}" for join in relation.joins)]
    lines.append(_slices(edge_rate(tuple(relation.windows), plan.slicing), plan.slicing))
    if len(relation.predicates) > 1:
        lines.append("each row aggregated once" if relation.shared else "once per row and predicate")
    return _Node(
        kind="relation",
        lines=lines + primitives,
        above=_rows(relation.predicates),
        below=f"by {', '.join(map(str, relation.keys))}" if relation.keys else "",
        children=_queries(answers, with_predicates=len(relation.predicates) > 1),
    )


def _slices(per_ms: float, slicing: Slicing) -> str:
    an_hour = f"{per_ms * _HOUR_MS:,.0f}"
    if an_hour == "0":
        return f"{per_ms * _DAY_MS:.2g} {slicing} slices a day"
    return f"{an_hour} {slicing} {'slice' if an_hour == '1' else 'slices'} an hour"


def _rows(predicates: Sequence[Formula]) -> str:
    if len(predicates) > 1:
        return f"{len(predicates):,} predicates on {', '.join(map(str, attributes(predicates)))}"
    return "all rows" if predicates[0] == TRUE else f"where {predicates[0]}"


def _queries(answers: Sequence[Answer], *, with_predicates: bool) -> list[_Node]:
    """Return the first queries of a relation, and how many more there are."""
    nodes = [
        _Node(
            kind="query",
            lines=[answer.query.name],
            above=str(answer.query.window),
            below=_rows([answer.predicate]) if with_predicates else "",
        )
        for answer in answers[:_LISTED_QUERIES]
    ]
    if len(answers) > _LISTED_QUERIES:
        windows = len({answer.query.window for answer in answers})
        predicates = len({answer.predicate for answer in answers})
        more = _Node(
            kind="more",
            lines=[f"… and {len(answers) - _LISTED_QUERIES:,} more"],
            above=f"{counted(windows, 'window', 'windows')} in all",
            below=f"{counted(predicates, 'predicate', 'predicates')} in all" if with_predicates else "",
        )
        nodes.append(more)
    return nodes


def _draw(svg: Element, node: _Node, depth: int, top: float) -> None:
    """Draw a node in its column, and all that it leads to, from the given height on."""
    left, width = _COLUMNS[depth]
    middle = _middle(node, top)
    below = top + (node.span - sum(child.span for child in node.children)) / 2
    for child in node.children:
        _draw_line(svg, child, (left + width, middle), (_COLUMNS[depth + 1][0], _middle(child, below)))
        _draw(svg, child, depth + 1, below)
        below += child.span
    first = middle - node.height / 2
    if node.kind != "more":
        _rectangle(svg, left, first, width, node.height, node.kind)
    for number, line in enumerate(node.lines, 1):
        style = "quiet" if node.kind == "more" else "name" if number == 1 else ""
        _text(svg, left + _PADDING, first + number * _LINE, line, width - 2 * _PADDING, style)


def _middle(node: _Node, top: float) -> float:
    return top + min(node.span, _SCREEN) / 2


def _draw_line(svg: Element, node: _Node, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw the line to a node, with its labels over the part that no other line shares."""
    trunk = start[0] + _TRUNK
    SubElement(svg, "path", d=f"M{start[0]:g} {start[1]:g}H{trunk:g}V{end[1]:g}H{end[0]:g}")
    room = end[0] - trunk - _PADDING
    _text(svg, trunk + _PADDING, end[1] - 6, node.above, room)
    _text(svg, trunk + _PADDING, end[1] + 15, node.below, room)


def _rectangle(svg: Element, x: float, y: float, width: float, height: float, style: str) -> None:
    position = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
    SubElement(svg, "rect", position, rx="6", **{"class": style})


def _text(svg: Element, x: float, y: float, text: str, room: float, style: str = "") -> None:
    """Write a line of text; one that is too wide is cut, and has a tooltip with more of it."""
    text = _NOT_IN_XML.sub("\ufffd", text)
    shown = _cut(text, int(room / _CHARACTER))
    parent = svg
    if shown != text:
        parent = SubElement(svg, "g")
        SubElement(parent, "title").text = _cut(text, _TOOLTIP)
    if shown:
        position = {"x": f"{x:g}", "y": f"{y:g}"} | ({"class": style} if style else {})
        SubElement(parent, "text", position).text = shown


def _cut(text: str, columns: int) -> str:
    """Return a text, or the beginning of one that is wider than so many columns, marked as such."""
    if sum(map(_columns, text)) <= columns:
        return text
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken >= columns:
            return text[:index] + "…"
    return text


def _columns(character: str) -> int:
    return 2 if east_asian_width(character) in "WF" else 1
