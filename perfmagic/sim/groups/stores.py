"""Calls of a key-value store on a virtual clock: a rank that reads a key goes on once it has come from the other.

It comes as a message on the link does, from the call of the rank that sets it. Ranks that change one key in turn, as a
barrier counts them, go on no earlier than those before them. Calls take no other time.
Beside each key there is another, with the instant of virtual time, and beside a queue one of instants; callers see
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from torch.distributed import distributed_c10d

from perfmagic.base.clock import HOST, VIRTUAL, now_ns
from perfmagic.sim.device import sim_device
from perfmagic.sim.groups.operations import SEND

_SUFFIX = "/virtual ns"
_Store: Any = distributed_c10d.Store  # its methods are those of all stores, and are left as they are
_READS = ("get", "wait", "multi_get")
_BY_TURNS = ("add", "append", "compare_set", "barrier")


def keep_times(kind: Any) -> None:
    """Let the calls of a class of stores take virtual time; once a class."""
    if hasattr(kind.get, "keeps_times"):
        return
    around = {"set": _setting, "multi_set": _setting, **dict.fromkeys(_READS, _reading)}
    around |= {**dict.fromkeys(_BY_TURNS, _in_turn), "queue_push": _pushing, "queue_pop": _popping}
    around |= {"num_keys": _counting, "list_keys": _listing, "delete_key": _deleting}
    for name, timed in around.items():
        if hasattr(kind, name):
            setattr(kind, name, timed(getattr(kind, name)))
    vars(kind.get)["keeps_times"] = True


Call = Callable[..., Any]


def _setting(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any, keys: Any, values: Any) -> Any:
        for key, value in zip(_each(keys), _each(values), strict=False) if VIRTUAL else ():
            _Store.set(store, key + _SUFFIX, str(now_ns() + _message_ns(value)))  # first: who finds the key finds it
        return call(store, keys, values)

    return timed


def _reading(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any, keys: Any, *args: Any) -> Any:
        result = call(store, keys, *args)
        _wait_for(store, _each(keys))
        return result

    return timed


def _in_turn(call: Call) -> Call:
    meets = call.__name__ == "barrier"

    @wraps(call)
    def timed(store: Any, key: str, *args: Any, **named: Any) -> Any:
        if VIRTUAL:
            _put_off(store, key + _SUFFIX, now_ns() + (_message_ns(b"") if meets else 0))
        result = call(store, key, *args, **named)
        _wait_for(store, [key])
        return result

    return timed


def _pushing(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any, key: str, value: Any) -> Any:
        if VIRTUAL:
            _Store.queue_push(store, key + _SUFFIX, str(now_ns() + _message_ns(value)))
        return call(store, key, value)

    return timed


def _popping(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any, key: str, *args: Any, **named: Any) -> Any:
        result, name = call(store, key, *args, **named), key + _SUFFIX
        if VIRTUAL and _Store.queue_len(store, name):  # else it was pushed on a real clock
            HOST.wait_until(int(_Store.queue_pop(store, name)))
        return result

    return timed


def _counting(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any) -> Any:
        below = store  # a prefix's own keys are listed, and those of all counted
        while hasattr(below, "underlying_store"):
            below = below.underlying_store
        listed = _Store.list_keys(below) if VIRTUAL and hasattr(_Store, "list_keys") else ()
        return call(store) - sum(map(_is_instant, listed))

    return timed


def _listing(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any) -> Any:
        return [key for key in call(store) if not _is_instant(key)]

    return timed


def _deleting(call: Call) -> Call:
    @wraps(call)
    def timed(store: Any, key: str) -> Any:
        if VIRTUAL:
            _Store.delete_key(store, key + _SUFFIX)
        return call(store, key)

    return timed


def _is_instant(key: str) -> bool:
    return key.endswith(_SUFFIX)


def _each(given: Any) -> Any:
    return (given,) if isinstance(given, (str, bytes)) else given


def _message_ns(value: str | bytes) -> int:
    return SEND.takes_ns(sim_device(0).pace, len(value), 2)


def _put_off(store: Any, name: str, at_ns: int) -> None:
    """Set an instant to a later one, whatever other ranks do meanwhile."""
    before, wanted = "", str(at_ns)
    while int(before or 0) < at_ns and (now := _Store.compare_set(store, name, before, wanted).decode()) != wanted:
        before = now


def _wait_for(store: Any, keys: Iterable[str]) -> None:
    for name in (key + _SUFFIX for key in keys) if VIRTUAL else ():
        if _Store.check(store, [name]):  # else it was set on a real clock
            HOST.wait_until(int(_Store.get(store, name)))
