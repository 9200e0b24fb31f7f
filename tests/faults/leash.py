"""Processes that do not outlive the one that started them."""

import ctypes
import signal

_SET_PARENT_DEATH_SIGNAL = 1


def die_with_parent() -> None:
    """Have this process killed when its parent is gone (Linux only)."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
