"""Leave out what lies outside of some profiler steps: python cut_steps.py SOURCE.json.gz FIRST LAST OUT.json

FIRST and LAST are numbers of steps, as in `ProfilerStep#1009`, or seconds after the first event, as in `0.5s`. The text
of what is kept is that of the source, byte for byte, with every key and argument. Kept are

- events that start between the begin of FIRST and the end of LAST, and Python frames that last over a part of this time
- device ops that were launched in this time, and the launches of device ops that started in it
- annotations on the device with the name of one on the host
- flows that begin or end at a kept event
- metadata, and all that stands beside `traceEvents`.

The profiler's own span and the end of its record are left out: they tell of the whole record.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEVICE = {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}
ON_DEVICE = "gpu_user_annotation"
OF_THE_RECORD = {"Trace"}
NAMES_OF_THE_RECORD = {"Record Window End"}
FLOWS = {"s", "t", "f"}
BETWEEN = re.compile(r"[\s,]*")

Row = dict[str, Any]
Window = tuple[float, float]


def events(text: str, begin: int) -> Iterator[tuple[Row, str]]:
    """The rows of an array that begins there, each with its text."""
    decoder, at = json.JSONDecoder(), begin
    while text[at] != "]":
        row, end = decoder.raw_decode(text, at)
        yield row, text[at:end]
        at = BETWEEN.match(text, end).end()  # type: ignore[union-attr]


def kept(rows: list[Row], window: Window) -> list[bool]:
    """Which rows stay."""
    inside = [window[0] <= float(row.get("ts", -1)) < window[1] for row in rows]
    launched = {_correlation(row) for row, here in zip(rows, inside, strict=True) if here and row.get("cat") in CALLS}
    ran = {_correlation(row) for row, here in zip(rows, inside, strict=True) if here and row.get("cat") in DEVICE}
    stay = [
        row.get("ph") == "M" or "ts" not in row or _stays(row, here, window, launched - {None}, ran - {None})
        for row, here in zip(rows, inside, strict=True)
    ]
    chosen = [row for row, here in zip(rows, stay, strict=True) if here]
    named = {row["name"] for row in chosen if row.get("cat") == "user_annotation"}
    end = max((_end(row) for row in chosen if row.get("cat") in DEVICE), default=0)
    stay = [
        row["name"] in named and window[0] <= float(row["ts"]) < end if row.get("cat") == ON_DEVICE else here
        for row, here in zip(rows, stay, strict=True)
    ]
    ends = {_place(row) for row, here in zip(rows, stay, strict=True) if here and row.get("ph") == "X"}
    flows = {_flow(row) for row in rows if row.get("ph") in FLOWS and _place(row) in ends}
    return [_flow(row) in flows if row.get("ph") in FLOWS else here for row, here in zip(rows, stay, strict=True)]


def _flow(row: Row) -> tuple[Any, Any]:
    return row.get("cat"), row.get("id")


def _stays(row: Row, inside: bool, window: Window, launched: set[Any], ran: set[Any]) -> bool:
    category = row.get("cat")
    if category in OF_THE_RECORD or row.get("name") in NAMES_OF_THE_RECORD:
        return False
    if category == "python_function":
        return float(row["ts"]) < window[1] and _end(row) > window[0]
    return (
        inside
        or (category in DEVICE and _correlation(row) in launched)
        or (category in CALLS and _correlation(row) in ran)
    )


def _end(row: Row) -> float:
    return float(row["ts"]) + float(row.get("dur", 0))


def _correlation(row: Row) -> Any:
    args = row.get("args") or {}
    return args.get("correlation")


def _place(row: Row) -> tuple[Any, ...]:
    return row.get("pid"), row.get("tid"), row.get("ts")


def window_of(rows: list[Row], first: str, last: str) -> Window:
    """From the begin of one step to the end of another, in the unit of the file."""
    host = [row for row in rows if row.get("ph") == "X" and row.get("cat") not in DEVICE | {ON_DEVICE}]
    spans = [(float(row["ts"]), _end(row), row["name"]) for row in host]
    begin = min(span[0] for span in spans)
    if first.endswith("s"):
        return begin + float(first[:-1]) * 1e6, begin + float(last[:-1]) * 1e6
    of = {name: [span for span in spans if span[2] == f"ProfilerStep#{name}"] for name in (first, last)}
    return min(span[0] for span in of[first]), max(span[1] for span in of[last])


def main(source: str, first: str, last: str, out: str) -> None:
    """Read, cut, write."""
    raw = Path(source).read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    begin = text.index("[", text.index('"traceEvents"')) + 1
    begin = BETWEEN.match(text, begin).end()  # type: ignore[union-attr]
    rows, texts = zip(*events(text, begin), strict=True)
    separator = text[begin + len(texts[0]) : text.index("{", begin + len(texts[0]))]
    end = text.rindex(texts[-1]) + len(texts[-1])
    stay = kept(list(rows), window_of(list(rows), first, last))
    chosen = [line for line, here in zip(texts, stay, strict=True) if here]
    Path(out).write_text(text[:begin] + separator.join(chosen) + text[end:])


if __name__ == "__main__":
    main(*sys.argv[1:])
