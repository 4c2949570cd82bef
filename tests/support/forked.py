"""Work in a process of its own, which ends without what this one does at its end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """Start a process that does the work; its id. It ends with 0, or with 1 and a traceback when the work fails."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return process


def ended(process: int) -> int:
    """Wait for its end. Returns its exit code; -n after signal n."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
