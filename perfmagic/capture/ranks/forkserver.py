"""A program of one thread that has imported torch, and forks a rank whenever it is asked to.

Not multiprocessing's own fork server, which costs the same (2.5 CPU s for four ranks): a process has one of that, so
a notebook's DataLoader workers would share ours, or have started theirs without torch; it imports the script it was
started from again; and one more process keeps track of semaphores that ranks do not have.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

from perfmagic.capture.ranks.connection import Connection
from perfmagic.capture.ranks.settings import adopt

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main(control_fd: int, preload: list[str]) -> None:
    """Serve until the notebook's end of the socket closes."""
    control = socket.socket(fileno=control_fd)
    connection = Connection(control)
    gc.disable()  # what imports make stays, so collections among them cost and find little
    problems = _prepare(preload)
    # without a collection before: ranks would fill the holes it leaves, each in its own copy of those pages (6 MB)
    gc.freeze()  # a collection in a rank would else write to every page that ranks share
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection.send({"ready": True, "threads": _threads(), "problems": problems})
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    both: list[Any] = [control, woken]
    living: set[int] = set()
    while True:
        ready, _, _ = select.select(both, [], [])
        if woken in ready:
            with suppress(BlockingIOError):
                os.read(woken, 4096)
            _report_ended(connection, living)
        if control in ready:
            mark, fds, _, _ = socket.recv_fds(control, 1, 2)
            if not mark:
                _end_groups(living)
                os._exit(0)
            request, _ = connection.receive()
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for fd in (control.fileno(), woken, wake):
                    os.close(fd)
                _become(request, *fds)
            for fd in fds:
                os.close(fd)
            living.add(pid)
            connection.send({"forked": pid})


def _prepare(names: list[str]) -> list[str]:
    return [problem for name in names if (problem := _problem_of(name))]


def _problem_of(name: str) -> str:
    """Import a module, or call a function of one, MODULE:FUNCTION."""
    module, _, function = name.partition(":")
    try:
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()
    except Exception as error:  # noqa: BLE001 - a rank that needs it says so where it is seen
        return f"{name}: {type(error).__name__}: {error}"
    return ""


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - also those that Python did not start
    except OSError:
        return threading.active_count()


def _end_groups(living: set[int]) -> None:
    """End the ranks, and what they have started: a rank that dies with this process leaves its children alone."""
    for pid in living:
        with suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet
            os.killpg(pid, signal.SIGKILL)


def _report_ended(connection: Connection, living: set[int]) -> None:
    while True:
        pid, status = _wait_for_any()
        if not pid:
            return
        living.discard(pid)
        try:
            connection.send({"ended": pid, "code": os.waitstatus_to_exitcode(status)})
        except OSError:
            os._exit(0)


def _wait_for_any() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def _become(request: dict[str, Any], sock_fd: int, out_fd: int) -> None:
    """Run as a rank, and never come back."""
    code = 1
    try:
        parent = request["server"]
        with suppress(OSError, AttributeError):  # also where a rank holds the GIL for ever and sees no end of a socket
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        run_rank(request, sock_fd, out_fd)
        code = 0
    except BaseException:  # noqa: BLE001 - the notebook shows it where the rank could not start
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def run_rank(request: dict[str, Any], sock_fd: int, out_fd: int | None) -> None:
    """The program of a rank, in this process.  out_fd: where C++ prints to; None where it does already."""
    os.setsid()  # an interrupt of the notebook's process group is for the notebook alone
    if out_fd is not None:
        os.dup2(out_fd, 1)
        os.dup2(out_fd, 2)
        os.close(out_fd)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    adopt(request)
    connection = Connection(socket.socket(fileno=sock_fd))
    importlib.import_module(request["program"]).main(connection, request["rank"])
