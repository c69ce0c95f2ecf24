"""time.sleep() on a virtual clock: what the user's code sleeps on the main thread passes there, too."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import update_wrapper
from types import FrameType
from typing import Any

from perfmagic.base.clock import HOST, VIRTUAL

# these, and installed packages, sleep until something has really happened
_LIBRARIES = frozenset({"torch", "perfmagic", *sys.stdlib_module_names})
_INSTALLED = "site-packages", "dist-packages"


class Sleep:
    """Stands in for time.sleep().  really: whether to sleep also where virtual time passes.

    An object, as a function of Python in a class would become a method.
    """

    def __init__(self, *, really: bool) -> None:
        self._sleep: Any = time.sleep
        update_wrapper(self, self._sleep)
        self._really, self._pid = really, os.getpid()

    def __call__(self, seconds: float, /) -> None:
        __tracebackhide__ = True
        begun_ns = HOST.read_ns()
        counts = bool(VIRTUAL) and self._is_host() and _is_users(sys._getframe(1))
        self._sleep(min(seconds, 0) if counts and not self._really else seconds)  # which refuses what is no time
        if counts:
            HOST.wait_until(begun_ns + round(seconds * 1e9))  # other threads may have let time pass meanwhile

    def __reduce__(self) -> str:
        return "sleep"  # of the module time, in any process

    def _is_host(self) -> bool:
        """Whether this is the thread whose time the clock keeps: no other, and none of a forked child."""
        return threading.current_thread() is threading.main_thread() and os.getpid() == self._pid


def count_sleeps(*, really: bool = True) -> None:
    """From now on time.sleep() takes virtual time; once a process. Cells that have imported it get it, too."""
    plain = time.sleep
    if isinstance(plain, Sleep):
        return
    sleep = vars(time)["sleep"] = Sleep(really=really)
    names = vars(sys.modules["__main__"])
    names.update({name: sleep for name, value in names.items() if value is plain})


def _is_users(frame: FrameType) -> bool:
    is_library = str(frame.f_globals.get("__name__", "")).partition(".")[0] in _LIBRARIES
    return not is_library and not any(folder in frame.f_code.co_filename for folder in _INSTALLED)
