"""A pickle of plain data: lists, dictionaries, texts, numbers, and tuples of numbers.

A pickle is a program, so its opcodes are looked at before it runs: those that import, call or look up anything are
refused, and so are sizes and places that are not in the file. Other tuples may nest so deeply that hashing one
overflows the stack. Source of the opcodes: Lib/pickletools.py.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import struct
from contextlib import suppress
from typing import Any, ClassVar

_FRAME = rb"(?:\x95.{8})?"  # may begin before any opcode
_NUMBER = rb"(?:%b(?:[N\x88\x89]|K.|M..|J.{4}|G.{8}|[IFL][^\n]*\n))" % _FRAME
_TUPLE = rb"(?:%(n)b%(f)b\x85|%(n)b{2}%(f)b\x86|%(n)b{3}%(f)b\x87|\(%(n)b*%(f)bt|\))" % {b"n": _NUMBER, b"f": _FRAME}
# marks, pops, containers and what fills them; places in the memo that are read, or lie in its first 4 million
_OTHER = rb"[\]}ldaesu\x94012]|[qh].|j.{4}|r..[\x00-\x3f]\x00|\x80.|\x95.{8}|[Vg][^\n]*\n"
# opcodes of known length, some at a time: the regular expression keeps a state for each until it has matched
_RUN = re.compile(rb"(?:%b|%b|%b|\(){1,500}" % (_OTHER, _TUPLE, _NUMBER), re.DOTALL)
_PUT = re.compile(rb"r(.{4})|p(\d{1,12})\n", re.DOTALL)
_COUNTED = {b"\x8c": 1, b"X": 4, b"\x8d": 8, b"\x8a": 1}  # texts and LONG1: bytes of their length
_NAMES = {opcode.code.encode("latin-1"): opcode.name for opcode in pickletools.opcodes}


class _Plain(pickle.Unpickler):
    """A second lock: no opcode that asks for a class comes here."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def plain_pickle(data: bytes) -> Any:
    """Load a pickle of plain data. Raises ValueError for any other, before its code runs."""
    at = 0
    while data[at : at + 1] != b".":
        run = _RUN.match(data, at)
        at = run.end() if run else _after(data, at)
    try:
        return _Plain(io.BytesIO(data[: at + 1])).load()
    except (pickle.UnpicklingError, EOFError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it is damaged: {error}") from None


def _after(data: bytes, at: int) -> int:
    """Where the opcode ends that begins at a place. Raises ValueError for one that plain data does not have."""
    code = data[at : at + 1]
    put = _PUT.match(data, at)
    if put and (int.from_bytes(put[1], "little") if put[1] else int(put[2])) <= at:  # one place a byte at most
        return put.end()
    if code in _COUNTED:
        begin = at + 1 + _COUNTED[code]
        end = begin + int.from_bytes(data[at + 1 : begin], "little")
        if begin <= end <= len(data):
            return end
    name = _NAMES.get(code, "the end of the file" if not code else f"byte {code!r}")
    raise ValueError(f"there is {name} at byte {at:,}, and a snapshot holds plain data")


# Tuples of texts, too: by Python's own loop, 0.4 µs an opcode, where they may nest too deeply to be hashed.

# no opcode that imports, calls or looks up anything; memory for the memo is taken as it fills
_NESTING = b"()]}ldaesut\x85\x86\x87qrhj\x94\x95\x80.N\x88\x89KMJ\x8aGX\x8c\x8d"
_Loop: Any = pickle._Unpickler


class _Nested(_Loop):  # type: ignore[misc]
    """Tuples become lists: those have no hash, and nested tuples overflow the stack in theirs."""

    dispatch: ClassVar[dict[int, Any]] = {code: _Loop.dispatch[code] for code in _NESTING}

    def _listed(self, n: int) -> None:
        self.stack[len(self.stack) - n :] = [self.stack[len(self.stack) - n :]]

    def load_tuple(self) -> None:
        items = self.pop_mark()
        self.append(items)

    dispatch |= {ord("t"): load_tuple, ord(")"): lambda self: self._listed(0)}
    dispatch |= {0x84 + n: lambda self, n=n: self._listed(n) for n in (1, 2, 3)}


_SHORT = b"|".join(re.escape(b"X%c\0\0\0" % n) + b".{%d}" % n for n in range(48))  # most texts
_LONG = b"|".join(re.escape(b"\x8a%c" % n) + b".{%d}" % n for n in (8, 7, 6, 5))  # instants
_PLAIN_RUN = re.compile(
    rb"(?:[()\]}ldaesut\x85\x86\x87\x94N\x88\x89]|[qhK\x80].|M..|[Jj].{4}|r..[\x00-\x3f]\x00|[G\x95].{8}|%b|%b){1,500}"
    % (_SHORT, _LONG),
    re.DOTALL,
)
_TUPLES = b"\x85", b"\x86", b"\x87", b"t"
_MOST_TUPLES = 20_000  # each may hold the one before; to hash one takes some 100 bytes of the stack


def nested_pickle(data: bytes) -> Any:
    """Load a pickle of plain data, tuples of any as tuples or lists. Raises ValueError for any other.

    Its lists may hold each other, and one list may stand in many places: count before you walk through them.
    """
    if _is_shallow(data):
        with suppress(Exception):  # the loop below says what is wrong
            return _Plain(io.BufferedReader(io.BytesIO(data), len(data))).load()
    source = io.BytesIO(data)
    try:
        return _Nested(source).load()
    except KeyError as error:
        code = error.args[0]
        what = f"there is {_NAMES.get(bytes([code]), f'byte {code}')} before byte {source.tell():,}"
        raise ValueError(f"{what}, and only plain data is read") from None
    except (pickle.UnpicklingError, EOFError, IndexError, TypeError, AttributeError, ValueError, struct.error) as error:
        cut = "" if data.endswith(b".") else f"it ends at byte {len(data):,} before it is whole"
        raise ValueError(cut or f"it is damaged: {error}") from None


def _is_shallow(data: bytes) -> bool:
    """Whether nothing but plain data is in a pickle, and few tuples."""
    if sum(map(data.count, _TUPLES)) > _MOST_TUPLES:
        return False
    at = 0
    while (code := data[at : at + 1]) != b".":
        if run := _PLAIN_RUN.match(data, at):
            at = run.end()
        elif code in _COUNTED:
            begin = at + 1 + _COUNTED[code]
            at = begin + int.from_bytes(data[at + 1 : begin], "little")
        else:
            return False
    return True
