"""Attributes of Weft's modules set to something else, and put back."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

Undo = Callable[[], None]


def put(module: str, path: str, value: object) -> Undo:
    """Set an attribute of a module, or of a class in it; return how to put it back."""
    owner, name = _target(module, path)
    before = vars(owner)[name]
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)


def wrap(module: str, path: str, around: Callable[..., Any]) -> Undo:
    """Have a function called through another, which is given it first."""
    owner, name = _target(module, path)
    before = vars(owner)[name]
    return put(module, path, lambda *given, **named: around(before, *given, **named))


def _target(module: str, path: str) -> tuple[Any, str]:
    owner: Any = import_module(module)
    *classes, name = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    return owner, name
