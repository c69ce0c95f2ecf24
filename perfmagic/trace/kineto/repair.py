"""Kineto JSON to events: the tolerant way, for damaged files.

The text is read one event at a time. An event that is no JSON is repaired where the damage is of a known kind, else
left out; a number, name or id of the wrong type is converted. Each repair is counted and comes back as a remark.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from perfmagic.base.errors import TraceError
from perfmagic.base.files import all_printable
from perfmagic.base.language import counted, phrase
from perfmagic.base.units import count
from perfmagic.trace.columns import NONE, Remark
from perfmagic.trace.kineto.decode import EVENT_TYPES, Chunk, CounterArgs, Event, Header, Instant, Loose, Unread

_MOST_DIGITS = 400  # of a whole number: no float is longer, and int() refuses thousands


def _parse_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal("Infinity")


def _parse_float(text: str) -> float | Decimal:
    """Exact where a decimal can be: its exponent has up to 18 digits, and a signalling NaN is no number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return _parse_far(text)
    return math.nan if number.is_nan() else number


def _parse_far(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


_STRICT = json.JSONDecoder(parse_float=_parse_float, parse_int=_parse_int)
# allows control characters in strings
_LOOSE = json.JSONDecoder(parse_float=_parse_float, parse_int=_parse_int, strict=False)

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_SPACE = re.compile(r"[\s,]*")
_KEYS = "ph|cat|name|pid|tid|ts|dur|args|id|bp|s"
_BOUNDARY = re.compile(rf'\}}(?=\s*,\s*\{{\s*"(?:{_KEYS})"\s*:)')
_LAST_END = re.compile(r"\}(?=\s*,?\s*\])")
_BARE_NAN = re.compile(r"(?<=[:\[,\s])[-+]?(?:nan|inf(?:inity)?)(?=\s*[,\]}])", re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_NAME = re.compile(rf'("name"\s*:\s*")(.*?)("\s*(?:,\s*"(?:{_KEYS})"\s*:|\}}))', re.DOTALL)
_BARE_QUOTE = re.compile(r'(?<!\\)"')
_NUMBER = re.compile(r"-?\d{1,19}")  # as many digits as int64 has
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a surrogate pair, or a whole one
_INT64_MAX = 2**63 - 1
_WHOLE_ARGS = ("correlation", "wait_on_stream", "wait_on_device", "wait_on_cuda_event_record_corr_id")
_LOOSE_ARGS = (
    *("stream", "device", "bytes", "Total Allocated", "Total Reserved", "Device Id", "value"),
    *("registers per thread", "shared memory", "In msg nelems", "Out msg nelems", "Group size", "Seq"),
    *("Src Rank", "Dst Rank", "Sequence number", "Fwd thread id"),
)
_OTHER_ARGS = (
    "Collective name",
    "grid",
    "block",
    "call",
    "dtype",
    "Process Group Name",
    "Process Group Ranks",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
)


@dataclass
class _Repairs:
    """How often each kind of damage was found, and what is reported only once."""

    counts: Counter[str] = field(default_factory=Counter)
    once: list[Remark] = field(default_factory=list)

    def remarks(self) -> list[Remark]:
        """Everything that was repaired."""
        return [*self.once, *(Remark(kind, counted(n, *DAMAGE[kind]), {"n": n}) for kind, n in self.counts.items())]

    def printable(self, value: Any) -> Any:
        """The value without halves of surrogate pairs, which are counted."""
        text, n = all_printable(value)
        if n:
            self.counts["surrogate"] += n
        return text


# What was repaired: one and many.
DAMAGE = {
    "nan": ("{n} event with a bare nan or inf was repaired", "{n} events with a bare nan or inf were repaired"),
    "quote": ("{n} name with an unescaped quote was repaired", "{n} names with unescaped quotes were repaired"),
    "comma": ("{n} trailing comma was removed", "{n} trailing commas were removed"),
    "control": ("{n} event with raw control characters was read", "{n} events with raw control characters were read"),
    "lost": ("{n} damaged event was left out", "{n} damaged events were left out"),
    "surrogate": ("{n} text had a lone surrogate, now “\ufffd”", "{n} texts had lone surrogates, now “\ufffd”"),
    "text": ("{n} number written as text was read", "{n} numbers written as text were read"),
    "name": ("{n} event without a name is shown as “(no name)”", "{n} events without a name are shown as “(no name)”"),
    "number": ("{n} field that is no number was ignored", "{n} fields that are no numbers were ignored"),
}


def repair(data: bytes, origin: str, repairs: list[Remark]) -> tuple[Chunk, Header]:
    """All events that can be read of a damaged file; adds to repairs what was repaired.

    Raises TraceError where the text is not a trace.
    """
    text = _as_text(data, repairs)
    start = _events_start(text, origin)
    done = _Repairs()
    try:
        rows, end = _scan(text, start, done)
        header = _header(text, start, end, done)
    except RecursionError:
        raise TraceError(f"{origin} nests too deep to be a trace") from None
    ts_us = [_number(row.get("ts"), done) for row in rows]
    dur_us = [_number(row.get("dur"), done) for row in rows]
    chunk = Chunk([_event(row, done) for row in rows], ts_us=ts_us, dur_us=dur_us)
    repairs.extend(done.remarks())
    return chunk, header


def _as_text(data: bytes, repairs: list[Remark]) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = data.decode(errors="replace")
        n = text.count(chr(0xFFFD))
        words = counted(
            n,
            "the text is not valid UTF-8 at byte {at}; {n} character was replaced",
            "the text is not valid UTF-8 at byte {at}; {n} characters were replaced",
            at=count(error.start),
        )
        repairs.append(Remark("not_utf_8", words, {"first_byte": error.start, "n_characters": n}))
        return text


def _events_start(text: str, origin: str) -> int:
    """Where the first event may stand."""
    if match := _EVENTS.search(text):
        return match.end()
    stripped = text.lstrip()
    if stripped.startswith("["):
        return len(text) - len(stripped) + 1
    hint = "perfmagic reads the Chrome JSON that torch.profiler exports"
    if not stripped.startswith("{"):
        raise TraceError(f"{origin} is not JSON: it starts with {stripped[:20]!r}", hint=hint)
    keys = re.findall(r'"([^"\\]{1,40})"\s*:', stripped[:4096])[:5]
    if "traceEvents" in keys:
        raise TraceError(f"{origin}: its traceEvents are not a list of events", hint=hint)
    raise TraceError(f"{origin} has no traceEvents; it holds {', '.join(keys) or 'nothing'}", hint=hint)


def _scan(text: str, at: int, done: _Repairs) -> tuple[list[Any], int]:
    """The events from `at` to the end of their list, and where that end is; the text's length where it has none."""
    rows: list[Any] = []
    halves = _HALF.search(text) is not None
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches the empty text
        if at >= len(text):
            words = phrase("the file ends before the list of events is closed; {whole}", whole=_whole(rows))
            done.once.append(Remark("list_not_closed", words, {"n_events": len(rows)}))
            return rows, at
        if text[at] == "]":
            return rows, at + 1
        try:
            row, at = _STRICT.raw_decode(text, at)
        except json.JSONDecodeError:
            # where the damaged event that starts at `at` ends: before the next event, or before the end of the list
            match = _BOUNDARY.search(text, at) or _LAST_END.search(text, at)
            end = match.end() if match else None
            if end is None:
                n = count(len(rows) + 1)
                words = phrase("the file ends in the middle of event {n}; {whole}", n=n, whole=_whole(rows))
                done.once.append(Remark("cut_in_event", words, {"n_events": len(rows)}))
                return rows, len(text)
            row, at = _repaired(text[at:end], done), end
        if isinstance(row, dict):
            rows.append(done.printable(row) if halves else row)
        elif row is not None:
            done.counts["lost"] += 1


def _whole(rows: list[Any]) -> str:
    return counted(len(rows), "{n} whole event was read", "{n} whole events were read")


def _repaired(chunk: str, done: _Repairs) -> Any:
    """The event that a damaged piece of text was meant to be; None where no known repair helps."""
    kinds: list[str] = []
    for kind, fixed in _attempts(chunk):
        if fixed != chunk:
            kinds.append(kind)
        chunk = fixed
        try:
            row = _LOOSE.decode(chunk.strip())
        except json.JSONDecodeError:
            continue
        done.counts.update(kinds or ["control"])
        return row
    done.counts["lost"] += 1
    return None


def _attempts(chunk: str) -> list[tuple[str, str]]:
    """The chunk with one repair more at each step."""
    no_nan = _BARE_NAN.sub("null", chunk)
    no_comma = _TRAILING_COMMA.sub("", no_nan)
    no_quote = _NAME.sub(lambda m: m[1] + _BARE_QUOTE.sub(r'\\"', m[2]) + m[3], no_comma)
    return [("", chunk), ("nan", no_nan), ("comma", no_comma), ("quote", no_quote)]


def _header(text: str, start: int, end: int, done: _Repairs) -> Header:
    """The needed keys before and after the events."""
    before = text[:start].strip()
    keys: dict[str, Any] = {}
    if before.startswith("{"):
        keys |= _header_part(before[: before.rfind('"traceEvents"')].rstrip(" \t\r\n,") + "}", "before", done)
        keys |= _header_part("{" + text[end:].lstrip(" \t\r\n,"), "after", done) if text[end:].strip() else {}
    return Header(**{key: keys.get(key) for key in Header.__struct_fields__})


def _header_part(part: str, where: str, done: _Repairs) -> dict[str, Any]:
    for kind, fixed in _attempts(part):
        try:
            row, _ = _LOOSE.raw_decode(fixed)
        except json.JSONDecodeError:
            continue
        if kind:
            done.counts[kind] += 1
        return done.printable(row) if isinstance(row, dict) else {}
    words = {
        "before": phrase("the part before the events is damaged and was left out"),
        "after": phrase("the part after the events is damaged and was left out"),
    }
    done.once.append(Remark("header_damaged", words[where]))
    return {}


def _event(row: dict[str, Any], done: _Repairs) -> Event:
    name = row.get("name")
    if name is None and row.get("ph") != "E":
        done.counts["name"] += 1
        name = "(no name)"
    args = row.get("args")
    kind = EVENT_TYPES.get(str(row.get("ph") or ""), Unread)
    values = {
        "cat": str(row.get("cat") or ""),
        "name": str(name or ""),
        "pid": _loose(row.get("pid")) or 0,
        "tid": _loose(row.get("tid")) or 0,
        "args": _args_of(kind, args if isinstance(args, dict) else {}, done),
    }
    event: Event = kind(**{key: values[key] for key in kind.__struct_fields__ if key in values})
    return event


def _args_of(kind: type[Event], args: dict[str, Any], done: _Repairs) -> msgspec.Raw | CounterArgs:
    text = msgspec.json.encode(_args(args, done))
    return msgspec.json.decode(text, type=CounterArgs) if issubclass(kind, Instant) else msgspec.Raw(text)


def _args(args: dict[str, Any], done: _Repairs) -> dict[str, Any]:
    """The arguments some table needs, with the types it expects."""
    known: dict[str, Any] = {key: _integer(args.get(key), done) for key in _WHOLE_ARGS if args.get(key) is not None}
    known |= {key: _loose(args[key]) for key in _LOOSE_ARGS if key in args}
    return known | {key: _plain(args[key]) for key in _OTHER_ARGS if key in args}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _loose(value)


def _number(value: Any, done: _Repairs) -> float | Decimal:
    if isinstance(value, str):
        done.counts["text"] += 1
        value = _parse_float(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return math.nan
    return Decimal(value) if isinstance(value, int) else value


def _integer(value: Any, done: _Repairs) -> int:
    if value is None:
        return NONE
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        done.counts["text"] += 1
        value = int(value)
    if type(value) is int and -_INT64_MAX <= value <= _INT64_MAX:
        return value
    done.counts["number"] += 1
    return NONE


def _loose(value: Any) -> Loose:
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
