"""The kinds of sinks and their options, however they are written."""

import re
from collections.abc import Mapping

from weft.errors import NotAllowed, SyntaxMistake, UnknownName, suggestion
from weft.query.logical import SinkDef, SinkKind

_SINK_OPTIONS: Mapping[SinkKind, tuple[str, ...]] = {
    SinkKind.PARQUET: ("path",), SinkKind.POSTGRES: ("connection", "connection_env"), SinkKind.CONSOLE: (),
}  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def sink_kind(written: str) -> SinkKind:
    """Return a kind of sinks by its name."""
    try:
        return SinkKind(written.casefold())
    except ValueError:
        raise UnknownName(f'unknown kind of sink "{written}"{suggestion(written, SinkKind)}') from None


def sink_def(name: str, kind: SinkKind, options: Mapping[str, str], queries: tuple[str, ...]) -> SinkDef:
    """Return a sink's definition if its options make sense."""
    for key in options:
        check_sink_option(kind, key)
    given = {key.casefold(): value for key, value in options.items()}
    if kind is SinkKind.PARQUET and not given.get("path"):
        raise SyntaxMistake(f"sink {name} has no folder; add OPTIONS (path 'results/') (in Python path=…)")
    if kind is SinkKind.POSTGRES:
        if len(given) != 1:
            raise SyntaxMistake(
                f"sink {name} needs one connection string; add OPTIONS (connection_env 'NAME'), the name of "
                "an environment variable that holds it, or else (connection 'postgresql://…')"
            )
        if not _VARIABLE.fullmatch(given.get("connection_env", "NAME")):
            # What is there instead may be the connection string.
            raise SyntaxMistake(f"connection_env of sink {name} takes the name of an environment variable")
    for query in queries:
        if queries.count(query) > 1:
            raise NotAllowed(f"sink {name} is FOR query {query} twice; remove one")
    return SinkDef(name=name, kind=kind, options=tuple(given.items()), queries=queries)


def check_sink_option(kind: SinkKind, key: str) -> None:
    """Raise UnknownName if sinks of a kind have no such option."""
    known = _SINK_OPTIONS[kind]
    if key.casefold() not in known:
        hint = suggestion(key, known) or "; it takes none"
        if not _VARIABLE.fullmatch(key):
            # It may be the connection string.
            raise UnknownName(f"a {kind} sink has no option of this name{suggestion('', known)}")
        raise UnknownName(f'a {kind} sink has no option "{key}"{hint}')
