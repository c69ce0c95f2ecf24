"""Damage at random: every file gives a trace that all analyses and pictures take, or one TraceError.

    python -m tests.trace.kineto.fuzz [--seconds 600] [--seed N]

The tests run some hundred rounds; this runs as long as it is told to, and prints what it would take to see a failure
again.
"""

import argparse
import gzip
import json
import random
import sys
import time
import traceback
from typing import Any

from perfmagic.base.errors import TraceError
from perfmagic.results import TimelineResult
from perfmagic.trace.kineto import file as kineto_file
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.view.timeline.live_data import timeline_wire
from perfmagic.view.timeline.text import timeline_text
from tests.trace.recorded import FOLDER

SOURCES = ("a100_event_sync_3streams", "gp100_gpu_user_annotation")
EVENTS = 120  # of a source; every kind of record is among them
# what a number, a name or a whole value may turn into
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**53 + 1, 2**63, -(2**63), 10**25, 0.1, -0.0, 1e300, -1e300, 9e15, 1e-9),
    *("", "7", "stream 7", "-1", "nan", "日本語", "</script>", 'a "b" c', "\u2028", "\x00", "x" * 5000),
    *([], [1, 2, 3], {}, {"ph": "X"}, [[[]]], [0, 0, 0], [1, 1, "x"]),
)
ODD_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp", "s")
ODD_CATEGORIES = ("kernel", "gpu_memcpy", "cuda_runtime", "cuda_sync", "cpu_op", "user_annotation", "python_function")


def sound(name: str) -> dict[str, Any]:
    """A recorded file as Python objects, cut to some of its events."""
    data: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    events = data["traceEvents"]
    step = max(1, len(events) // EVENTS)
    data["traceEvents"] = events[::step]
    return data


def damaged(chance: random.Random) -> bytes:
    """A recorded file with damage of one to four kinds, as bytes."""
    data = sound(chance.choice(SOURCES))
    for _ in range(chance.randint(0, 3)):
        chance.choice((_change_value, _drop_key, _repeat, _shuffle, _change_argument, _odd_row))(data, chance)
    text = json.dumps(data, indent=chance.choice((None, 1)), ensure_ascii=chance.random() < 0.5).encode(
        errors="replace"
    )
    for _ in range(chance.randint(0, 2)):
        text = chance.choice((_cut, _flip, _insert, _without))(text, chance)
    if chance.random() < 0.3:
        text = gzip.compress(text, 1, mtime=0)
        if chance.random() < 0.5:
            text = chance.choice((_cut, _flip))(text, chance)
    return text


def check(data: bytes) -> str:
    """Read, analyse and draw; gives what came of it: "trace", or "error"."""
    try:
        trace = read_trace(data)
    except TraceError as error:
        if not error.message:
            raise AssertionError("an error without words") from error
        return "error"
    result = TimelineResult(trace)
    json.dumps(result.to_dict(), allow_nan=False)
    timeline_text(result.doc)
    timeline_wire(result.doc, trace)
    result._repr_mimebundle_()
    return "trace"


def _events(data: dict[str, Any]) -> list[Any]:
    events: list[Any] = data["traceEvents"]
    return events


def _row(data: dict[str, Any], chance: random.Random) -> Any:
    return chance.choice(_events(data) or [{}])


def _change_value(data: dict[str, Any], chance: random.Random) -> None:
    for _ in range(chance.randint(1, 5)):
        row = _row(data, chance)
        if isinstance(row, dict):
            row[chance.choice(ODD_KEYS)] = chance.choice((*ODD, *ODD_CATEGORIES))


def _change_argument(data: dict[str, Any], chance: random.Random) -> None:
    for _ in range(chance.randint(1, 5)):
        row = _row(data, chance)
        args = row.get("args") if isinstance(row, dict) else None
        if isinstance(args, dict) and args:
            args[chance.choice(list(args))] = chance.choice(ODD)


def _drop_key(data: dict[str, Any], chance: random.Random) -> None:
    row = _row(data, chance)
    if isinstance(row, dict) and row:
        del row[chance.choice(list(row))]


def _repeat(data: dict[str, Any], chance: random.Random) -> None:
    _events(data).extend(_row(data, chance) for _ in range(chance.randint(1, 5)))


def _shuffle(data: dict[str, Any], chance: random.Random) -> None:
    chance.shuffle(_events(data))


def _odd_row(data: dict[str, Any], chance: random.Random) -> None:
    _events(data).insert(chance.randint(0, len(_events(data))), chance.choice(ODD))


def _cut(text: bytes, chance: random.Random) -> bytes:
    return text[: chance.randint(0, len(text))]


def _flip(text: bytes, chance: random.Random) -> bytes:
    changed = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _insert(text: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(text))
    return (
        text[:at] + chance.choice((b"nan", b'"', b"}", b"]", b",", b"{", b"\\", b"\xff", b"\x00", b"-inf")) + text[at:]
    )


def _without(text: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(text))
    return text[:at] + text[at + chance.randint(1, 40) :]


def round_of(seed: int) -> str:
    """One round, reproducible: blocks are small, so that cuts fall everywhere."""
    chance = random.Random(seed)
    whole = kineto_file.BLOCK_BYTES
    kineto_file.BLOCK_BYTES = chance.choice((whole, 200, 1000, 5000))
    try:
        return check(damaged(chance))
    finally:
        kineto_file.BLOCK_BYTES = whole


def main() -> int:
    """Run for a time; 1 where a round failed, with the number that repeats it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, help="one round only: the one with this number")
    options = parser.parse_args()
    if options.seed is not None:
        print(round_of(options.seed))
        return 0
    since, seed, found = time.monotonic(), random.randrange(10**9), {"trace": 0, "error": 0}
    while time.monotonic() - since < options.seconds:
        seed += 1
        try:
            found[round_of(seed)] += 1
        except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
            traceback.print_exc()
            print(f"python -m tests.trace.kineto.fuzz --seed {seed}", file=sys.stderr)
            return 1
    print(f"{sum(found.values())} files: {found['trace']} opened, {found['error']} refused with a message")
    return 0


if __name__ == "__main__":
    sys.exit(main())
