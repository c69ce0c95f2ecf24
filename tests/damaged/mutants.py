"""Damage by chance, for any kind of file: to JSON values, to columns, to pickles and to bytes.

Each mutator changes its argument and says in words what it changed, so that a failure can be read.
"""

import copy
import json
import pickle
import random
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Chance = random.Random
MOST_MORE_BYTES = 2**30  # of address space, for one file of some kB and all that it is shown as
# what any value may turn into
ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 2**31 - 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 10**25, 10**400),
    *(0.1, -0.0, 1e-320, 1e-9, 9e15, 1e300, -1e300, float("nan"), float("inf"), -float("inf")),
    *("", "7", "-1", "nan", "日本語", "</script>", 'a "b" c', "\u2028", "\x00", "\ud800", "x" * 5000, "a\nb"),
    *([], [1, 2, 3], [0, 0, 0], [[[]]], [1, 1, "x"], [None], [1e300] * 3, {}, {"a": 1}, {"": None}),
)
ODD_BYTES = (b"nan", b'"', b"}", b"]", b",", b"{", b"\\", b"\xff", b"\x00", b"-inf", b"1e999", b"9" * 30)
# opcodes of pickles: all that would import, call or look up outside, and those whose argument is a size or a place
OPCODES = (
    *(b"cos\nsystem\n", b"\x8c\x02os\x8c\x06system\x93", b"R", b"b", b"(ios\nsystem\n", b"o", b"\x81", b"\x92"),
    *(b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00", b"Pid\n", b"Q", b"\x97", b"\x98"),
    *(b"r\xff\xff\xff\x7f", b"j\xff\xff\xff\x7f", b"q\x00", b"h\x00", b"p99999999999\n", b"g0\n", b"\x94"),
    *(b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\x7f", b"\x8b\xff\xff\xff\x7f", b"\x96" + b"\xff" * 7 + b"\x7f"),
    *(b"2" * 50, b"0", b"1", b"(", b"t", b"l", b"d", b"e", b"u", b"s", b"a", b"\x8f", b"\x90", b"\x91", b"."),
    *(b"]" * 3000, b"(" * 3000, b"I" + b"9" * 5000 + b"\n", b"L" + b"9" * 5000 + b"L\n", b"Fnan\n", b"\x80\x7f"),
)


def odd(chance: Chance) -> Any:
    """A value that stands nowhere in a sound file."""
    if chance.random() < 0.02:
        return json.loads("[" * 200 + "]" * 200)
    return copy.deepcopy(chance.choice(ODD))


def change_value(root: Any, chance: Chance) -> str:
    """Change one place in a tree of dictionaries and lists; places of all depths are as likely."""
    holder, key, where = _place(root, chance)
    if holder is None:
        return "nothing: the value has no parts"
    change = chance.choice((_replace, _replace, _replace, _drop, _add, _swap, _wrap, _scale))
    return f"{where}: {change(holder, key, chance)}"


def _place(root: Any, chance: Chance) -> tuple[Any, Any, str]:
    """A part of the tree: what holds it, its key there, and the way to it."""
    holder, key, way = None, None, "$"
    here = root
    while isinstance(here, (dict, list)) and here and (holder is None or chance.random() < 0.8):
        holder = here
        key = chance.choice(list(here)) if isinstance(here, dict) else chance.randrange(len(here))
        way += f"[{key!r}]"
        here = here[key]
    return holder, key, way


def _replace(holder: Any, key: Any, chance: Chance) -> str:
    old, holder[key] = holder[key], odd(chance)
    return f"{old!r:.40} → {holder[key]!r:.40}"


def _drop(holder: Any, key: Any, chance: Chance) -> str:
    del holder[key]
    return "left out"


def _add(holder: Any, key: Any, chance: Chance) -> str:
    if isinstance(holder, dict):
        holder[chance.choice(("more", "record", "course", "samples_s", "kind", ""))] = odd(chance)
    else:
        holder[key:key] = [copy.deepcopy(holder[key])] * chance.choice((1, 3, 100))
    return "more beside it"


def _swap(holder: Any, key: Any, chance: Chance) -> str:
    other = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    holder[key], holder[other] = holder[other], holder[key]
    return f"swapped with {other!r}"


def _wrap(holder: Any, key: Any, chance: Chance) -> str:
    holder[key] = chance.choice((lambda v: [v], lambda v: {"a": v}, str, lambda v: [v, v]))(holder[key])
    return f"wrapped: {holder[key]!r:.40}"


def _scale(holder: Any, key: Any, chance: Chance) -> str:
    value = holder[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        return _replace(holder, key, chance)
    by: Callable[[Any], Any] = chance.choice(
        (lambda v: -v, lambda v: v + 2**31, lambda v: v * 10**9, lambda v: v / 1e9, float, lambda v: v + 1)
    )
    holder[key] = by(value)
    return f"{value!r} → {holder[key]!r}"


def as_json(value: Any, chance: Chance) -> bytes:
    """The JSON of a changed tree, now and then damaged as text."""
    data = json.dumps(value, ensure_ascii=chance.random() < 0.7).encode(errors="replace")
    return change_bytes(data, chance)[0] if chance.random() < 0.15 else data


def change_bytes(data: bytes, chance: Chance) -> tuple[bytes, str]:
    """Bytes cut, flipped, left out, repeated or put in."""
    at = chance.randint(0, len(data))
    kind = chance.choice(("cut", "flip", "flip", "flip", "without", "insert", "splice", "number"))
    changed = bytearray(data)
    if kind == "cut":
        del changed[at:]
    elif kind == "flip":
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    elif kind == "without":
        del changed[at : at + chance.randint(1, 40)]
    elif kind == "insert":
        changed[at:at] = chance.choice(ODD_BYTES)
    elif kind == "splice":
        other = chance.randint(0, len(data))
        changed[at:at] = data[other : other + chance.randint(1, 60)]
    else:
        number = chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1))
        changed[at : at + 4] = struct.pack("<I", number)
    return bytes(changed), f"{kind} at byte {at}"


def change_pickle(value: Any, chance: Chance) -> tuple[bytes, str]:
    """A pickle of a changed tree, or a pickle whose opcodes are changed."""
    words = []
    if chance.random() < 0.7:
        words = [change_value(value, chance) for _ in range(chance.choice((1, 1, 2, 3)))]
    data = pickle.dumps(value, protocol=chance.randint(0, 5))
    if not words or chance.random() < 0.2:
        at, code = chance.randint(0, len(data)), chance.choice(OPCODES)
        data = data[:at] + code + data[at:]
        words.append(f"{code[:12]!r} at byte {at}")
    if chance.random() < 0.2:
        data, said = change_bytes(data, chance)
        words.append(said)
    return data, "; ".join(words)


@contextmanager
def little_memory() -> Iterator[None]:
    """No more address space than what is used now and MOST_MORE_BYTES: a file that asks for more is a MemoryError."""
    if sys.platform != "linux":
        yield
        return
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MORE_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
