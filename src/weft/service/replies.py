"""What is told of a request, whatever comes of it."""

import logging
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb

from weft.errors import WeftError
from weft.storage.mailbox import Reply, Request

_log = logging.getLogger("weft.service")


def reply_of(request: Request, carry_out: Callable[[Request], Reply]) -> Reply:
    """Carry out a request; what is raised becomes the reply."""
    try:
        return carry_out(request)
    except WeftError as error:
        return Reply(ok=False, said=str(error))
    except Exception as error:
        # Whatever it was, the thread must go on, and whoever asked must hear of it. The log must not:
        # the text may hold values of rows.
        fields = {"do": request.do, "kind": type(error).__name__, "at": _raised_at(error)}
        _log.error("a request failed", extra=fields)
        return Reply(ok=False, said=f"{request.do} failed: {type(error).__name__}: {error}")


def _raised_at(error: BaseException) -> str:
    """Return where in the code an error was raised."""
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
