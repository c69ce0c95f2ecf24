"""One sound trace, damaged in each way that files come damaged: made for a test, not stored."""

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

from tests.trace.recorded import FOLDER

Event = dict[str, Any]
SOUND = gzip.decompress((FOLDER / "a100_event_sync_3streams.json.gz").read_bytes())  # 149 events, 6 device ops
CALL = b"cudaStreamIsCapturing"  # first at byte 4,979: a name that damage falls into
MARKUP = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def damaged(file_name: str) -> bytes:
    """The content of a file of DAMAGED."""
    return DAMAGED[file_name][0]()


def _events(change: Callable[[list[Event]], list[Event] | None]) -> Callable[[], bytes]:
    """Damage to the list of events."""

    def make() -> bytes:
        trace = json.loads(SOUND)
        events = trace["traceEvents"]
        changed = change(events)
        trace["traceEvents"] = events if changed is None else changed
        return json.dumps(trace, ensure_ascii=False).encode()

    return make


def _device_ops(*, kernels_only: bool = False, **fields: Any) -> Callable[[], bytes]:
    """Damage to fields of each device op.  fields: a value, or a function from the event to one; ... removes it."""

    def change(events: list[Event]) -> None:
        for op in _ops(events, kernels_only):
            values = {key: value(op) if callable(value) else value for key, value in fields.items()}
            op.update(values)
            for key in [key for key, value in values.items() if value is ...]:
                del op[key]

    return _events(change)


def _ops(events: list[Event], kernels_only: bool = False) -> list[Event]:
    kinds = ("kernel",) if kernels_only else ("kernel", "gpu_memset", "gpu_memcpy")
    return [event for event in events if event.get("cat") in kinds]


def _without(*keys: str) -> Callable[[Event], Event]:
    return lambda op: {key: value for key, value in op["args"].items() if key not in keys}


def _copies(**changes: Any) -> Callable[[], bytes]:
    """Each device op once more, with other values."""

    def change(events: list[Event]) -> list[Event]:
        again = [op | {key: value(op) for key, value in changes.items()} for op in _ops(events)]
        return events + again

    return _events(change)


def _begin_and_end(events: list[Event]) -> list[Event]:
    pairs: list[Event] = []
    for event in events:
        if event.get("cat") == "cpu_op":
            end = {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event["dur"]}
            pairs += [event | {"ph": "B"}, end]
        else:
            pairs.append(event)
    return pairs


def _old_categories(events: list[Event]) -> None:
    names = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel", "gpu_memset": "Memset"}
    for event in events:
        if event.get("cat") in names:
            event["cat"] = names[event["cat"]]


def _without_last_launch(events: list[Event]) -> list[Event]:
    launch = next(e for e in events if e.get("name") == "cudaLaunchKernel" and e["args"]["correlation"] == 1413)
    return [event for event in events if event is not launch]


def _nan_or_inf() -> bytes:
    text, n = SOUND.decode(), 0
    for event in _ops(json.loads(SOUND)["traceEvents"]):
        rate = event["args"].get("memory bandwidth (GB/s)")
        if rate is not None:
            text, n = text.replace(f'(GB/s)": {rate}', f'(GB/s)": {("nan", "inf", "-inf")[n % 3]}', 1), n + 1
    return text.encode()


def _raw(old: bytes, new: bytes) -> Callable[[], bytes]:
    return lambda: SOUND.replace(old, new, 1)


# file: how it is made, its device ops, a word of the repair ("" where nothing needs repair); None: an error
DAMAGED: dict[str, tuple[Callable[[], bytes], int | None, str]] = {
    "begin_end_events.json": (_events(_begin_and_end), 6, ""),
    "big_int_args.json": (_device_ops(args=lambda op: op["args"] | {"queued": -1, "Comms Id": 2**64 - 1}), 6, ""),
    "bom.json": (lambda: b"\xef\xbb\xbf" + SOUND, 6, ""),
    "control_char.json": (_raw(CALL, b"cuda\t\x01StreamIsCapturing"), 6, "control characters"),
    "duplicate_correlation.json": (_copies(ts=lambda op: op["ts"] + 1000), 12, ""),
    "dur_overflows_next_same_stream.json": (_device_ops(dur=lambda op: op["dur"] + 50), 6, ""),
    "empty.json": (lambda: b"", None, "0 bytes"),
    "empty_events.json": (_events(lambda _events: []), None, "no events at all"),
    "gpu_before_launch.json": (_device_ops(ts=lambda op: op["ts"] - 40), 6, ""),
    "gz_but_named.json": (lambda: gzip.compress(SOUND, mtime=0), 6, ""),
    "html_injection_names.json": (_device_ops(kernels_only=True, name=MARKUP), 6, ""),
    "huge_dur.json": (_device_ops(kernels_only=True, dur=9.2e15), 6, "3 durations of more than a day"),
    "invalid_utf8.json": (
        _raw(CALL, b"cuda\xff\xfeStreamIsCapturing"),
        6,
        "UTF-8 at byte 4,983; 2 characters were replaced",
    ),
    "list_root.json": (lambda: json.dumps(json.loads(SOUND)["traceEvents"]).encode(), 6, ""),
    "metadata_only.json": (
        _events(lambda events: [event for event in events if event["ph"] == "M"]),
        None,
        "40 metadata",
    ),
    "missing_correlation.json": (_device_ops(args=_without("correlation")), 6, ""),
    "missing_dur.json": (_device_ops(dur=...), 6, "6 records without a duration"),
    "nan_inf.json": (_nan_or_inf, 6, "3 events with a bare nan or inf"),
    "negative_dur.json": (_device_ops(dur=-5.0), 6, "6 records with a negative duration"),
    "no_args.json": (_device_ops(args=...), 6, ""),
    "null_fields.json": (_device_ops(name=None, args=None), 6, "6 events without a name"),
    "old_categories.json": (_events(_old_categories), 6, ""),
    "orphan_kernel.json": (_events(_without_last_launch), 6, ""),
    "plain_but_named.json.gz": (lambda: SOUND, 6, ""),
    "shuffled.json": (_events(lambda events: random.Random(0).sample(events, len(events))), 6, ""),
    "sound.json": (lambda: SOUND, 6, ""),
    "sound.json.gz": (lambda: gzip.compress(SOUND, mtime=0), 6, ""),
    "string_ts_tid.json": (
        _device_ops(ts=lambda op: str(op["ts"]), tid=lambda op: f"stream {op['tid']}"),
        6,
        "6 numbers written as text",
    ),
    "trailing_comma.json": (_raw(b"    }\n  ],", b"    },\n],"), 6, "1 trailing comma"),
    "truncated.json.gz": (lambda: gzip.compress(SOUND, mtime=0)[:2160], 6, "105 whole events were read"),
    "truncated_mid_event.json": (lambda: SOUND[:27636], 6, "in the middle of event 127; 126 whole events"),
    "truncated_no_closer.json": (lambda: SOUND[:-44], 6, "after the events is damaged"),
    "two_devices.json": (
        _copies(
            pid=lambda op: 1,
            args=lambda op: op["args"] | {"device": 1, "correlation": op["args"]["correlation"] + 100_000},
        ),
        12,
        "",
    ),
    "unescaped_quote.json": (_raw(CALL, b'cuda"X"StreamIsCapturing'), 6, "1 name with an unescaped quote"),
    "unicode_names.json": (_device_ops(kernels_only=True, name=lambda op: f"カーネル 核函数 🚀 {op['name']}"), 6, ""),
    "zero_ts_dur.json": (_device_ops(ts=0, dur=0), 0, "6 records without a time"),
}
