"""time.sleep() on a virtual clock: what the user's code sleeps on the main thread passes there, too."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import update_wrapper
from types import FrameType, ModuleType
from typing import Any

from perfmagic.base.clock import HOST, VIRTUAL
from perfmagic.base.user_lines import is_users

# these, and installed packages, sleep until something has really happened
_LIBRARIES = frozenset({"torch", "perfmagic", *sys.stdlib_module_names})


class Sleep:
    """Stands in for time.sleep().  really: whether to sleep also where virtual time passes.  pid: whose clock it is.

    An object, as a function of Python in a class would become a method.
    """

    def __init__(self, *, really: bool, pid: int) -> None:
        self._sleep: Any = time.sleep
        update_wrapper(self, self._sleep)
        self._really, self.pid = really, pid

    def __call__(self, seconds: float, /) -> None:
        __tracebackhide__ = True
        begun_ns = HOST.read_ns()
        counts = bool(VIRTUAL) and self._is_host() and self._is_users(sys._getframe(1))
        self._sleep(min(seconds, 0) if counts and not self._really else seconds)  # which refuses what is no time
        if counts:
            HOST.wait_until(begun_ns + round(seconds * 1e9))  # other threads may have let time pass meanwhile

    def _is_users(self, frame: FrameType) -> bool:
        return _is_users(str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename)

    def __reduce__(self) -> str:
        return "sleep"  # of the module time, in any process

    def _is_host(self) -> bool:
        """Whether this is the thread whose time the clock keeps: no other, and none of a forked child."""
        return threading.current_thread() is threading.main_thread() and os.getpid() == self.pid


def count_sleeps(*, really: bool = True, forks: bool = False) -> None:
    """From now on time.sleep() takes virtual time; once a process. Users' code that has imported it gets it, too.

    forks: in the processes that this one forks, each once it calls this itself. To look for users' code there would
    write to the pages of all modules, which forks share.
    """
    plain = time.sleep
    if isinstance(plain, Sleep):
        plain.pid = plain.pid or os.getpid()
        return
    sleep = vars(time)["sleep"] = Sleep(really=really, pid=0 if forks else os.getpid())
    for name, module in tuple(sys.modules.items()):
        is_module = issubclass(type(module), ModuleType)  # isinstance() is also true of what only says so, as cffi's
        names = object.__getattribute__(module, "__dict__") if is_module else {}  # loads none
        if name == "__main__" or _is_users(name, str(names.get("__file__"))):
            names.update({name: sleep for name, value in tuple(names.items()) if value is plain})


def _is_users(module: str, file: str) -> bool:
    return module.partition(".")[0] not in _LIBRARIES and is_users(file)
