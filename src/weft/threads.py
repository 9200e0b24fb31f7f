"""Independent pieces of work in parallel, on the driver's cores.

NumPy and Arrow release Python's lock while they compute, so threads suffice where arrays are large.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MAX_THREADS = 8
_MAX_WAITING = 32
"""Writes of files that wait for a disk at the same time become durable together."""


def side_by_side(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, worth: bool = True, waits: bool = False
) -> list[_Result]:
    """Return the result for each item, in order; without threads where they are not worth their cost.

    `waits` says that the work is mostly waiting, for disks or others, so that cores do not matter.

    >>> side_by_side(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    inputs = list(items)
    limit = _MAX_WAITING if waits else min(_MAX_THREADS, os.cpu_count() or 1)
    threads = min(limit, len(inputs)) if worth else 1
    if threads <= 1:
        return [work(item) for item in inputs]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(copy_context().run, work, item) for item in inputs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # The results of items not yet begun are not needed.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
