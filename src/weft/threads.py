"""Independent pieces of work side by side, on the driver's cores.

NumPy and Arrow let go of Python's lock while they compute, so threads do where arrays are large.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MOST_THREADS = 8


def side_by_side(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, worth: bool = True, waits: bool = False
) -> list[_Result]:
    """Return what becomes of each item, in order; one after the other where threads are not worth their cost.

    `waits` says that work is mostly waiting, for disks or others, so that cores do not matter.

    >>> side_by_side(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    several = list(items)
    most = _MOST_THREADS if waits else min(_MOST_THREADS, os.cpu_count() or 1)
    threads = min(most, len(several)) if worth else 1
    if threads <= 1:
        return [work(item) for item in several]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(copy_context().run, work, item) for item in several]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # What has not begun would be in vain.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
