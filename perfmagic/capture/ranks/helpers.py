"""What the threads of a rank do: which of them may still act, and which key of a store the main one waits for."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from perfmagic.base.user_lines import Place, stack_of
from perfmagic.sim import groups

# daemons that never run the user's code, by the module of what they run; whatever is not here may do anything
_SERVANTS = (
    "perfmagic.capture.", "perfmagic.sim.", "perfmagic.trace.", "multiprocessing.queues", "tensorboard.",
    "torch._inductor.", "torch.utils.data._utils.", "tqdm._monitor",
)  # fmt: skip
_WAITS = ("perfmagic.sim.groups.posting", "wait")  # for an operation between ranks
_IDLE = ("concurrent.futures.thread", "_worker")  # for work that a thread which runs would have to give


class Helpers:
    """Threads that have been started since the constructor, without those that serve torch and perfmagic."""

    def __init__(self) -> None:
        self._before = frozenset(threading.enumerate())

    def stand(self, *, daemons: bool) -> tuple[str, bool]:
        """The name of one that may still act, "" where none does; whether one waits in an operation between ranks.

        daemons: whether those count too, which a program's end does not wait for.
        """
        running, waiting = "", False
        for thread in threading.enumerate():
            stack = stack_of(thread.ident)
            if not stack or thread in self._before or not self._counts(thread, stack, daemons):
                continue
            names = stack[0].module, stack[0].code.co_name
            if names == _WAITS:
                waiting = True
            elif names != _IDLE:
                running = running or thread.name
        return running, waiting

    @staticmethod
    def _counts(thread: threading.Thread, stack: Sequence[Place], daemons: bool) -> bool:
        if isinstance(thread, threading._DummyThread):
            return False
        return not thread.daemon or (daemons and not _run_by(stack).startswith(_SERVANTS))


def finish_threads() -> None:
    """As at a program's end: come back when all threads have ended that are no daemons.

    Only Python's own function also ends pools, whose threads wait for work until then. Afterwards no pool takes any.
    """
    main = threading.main_thread()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not main):
        threading._shutdown()  # type: ignore[attr-defined]


def _run_by(stack: Sequence[Place]) -> str:
    """The module of the outermost function that is not threading's own."""
    return next((place.module for place in reversed(stack) if place.module != "threading"), "")


# A call of a store in C++ has no frame: a function of Python goes around it, whose frame holds the key.

_CLASSES = ("TCPStore", "FileStore", "HashStore", "PrefixStore")  # not their base: a user's own store is left alone
_BLOCKING = ("get", "wait")
_KEYS_SHOWN = 3


def show_key_waits() -> None:
    """From now on key_wait_of() knows what this process waits for in a store's get() or wait().

    On a virtual clock these and other calls of a store take virtual time.
    """
    dist = importlib.import_module("torch.distributed")
    for store in (getattr(dist, name) for name in _CLASSES):
        groups.time_store(store)
        for name in _BLOCKING:
            call = getattr(store, name)
            if getattr(call, "__code__", None) is not _CODE:
                setattr(store, name, _with_frame(call))


def key_wait_of(thread: int | None) -> tuple[str, int] | None:
    """The call that a thread waits in, as "store.get('ready')", and when it began; None where it waits for no key."""
    if all(place.code is not _CODE for place in stack_of(thread)[:2]):
        return None
    frame = sys._current_frames().get(thread or 0)
    if frame is not None and frame.f_code is not _CODE:
        frame = frame.f_back  # the innermost is the one that keeps virtual time
    if frame is None or frame.f_code is not _CODE:
        return None
    local = frame.f_locals
    if "since_ns" not in local:  # the call has only begun
        return None
    keys = [local["keys"]] if isinstance(local["keys"], str) else list(local["keys"])
    more = ", ..." if len(keys) > _KEYS_SHOWN else ""
    shown = ", ".join(map(repr, keys[:_KEYS_SHOWN]))
    return f"store.{local['call'].__name__}({shown}{more})", local["since_ns"]


def _with_frame(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def waiting(store: Any, keys: Any, *args: Any, **named: Any) -> Any:
        since_ns = time.perf_counter_ns()  # noqa: F841 - key_wait_of() reads it
        return call(store, keys, *args, **named)

    return waiting


_CODE = _with_frame(len).__code__
