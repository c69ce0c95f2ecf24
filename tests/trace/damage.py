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
    return DAMAGED[file_name]()


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


DAMAGED: dict[str, Callable[[], bytes]] = {
    "begin_end_events.json": _events(_begin_and_end),
    "big_int_args.json": _device_ops(args=lambda op: op["args"] | {"queued": -1, "Comms Id": 2**64 - 1}),
    "bom.json": lambda: b"\xef\xbb\xbf" + SOUND,
    "control_char.json": _raw(CALL, b"cuda\t\x01StreamIsCapturing"),
    "duplicate_correlation.json": _copies(ts=lambda op: op["ts"] + 1000),
    "dur_overflows_next_same_stream.json": _device_ops(dur=lambda op: op["dur"] + 50),
    "empty.json": lambda: b"",
    "empty_events.json": _events(lambda _events: []),
    "gpu_before_launch.json": _device_ops(ts=lambda op: op["ts"] - 40),
    "gz_but_named.json": lambda: gzip.compress(SOUND, mtime=0),
    "html_injection_names.json": _device_ops(kernels_only=True, name=MARKUP),
    "huge_dur.json": _device_ops(kernels_only=True, dur=9.2e15),
    "invalid_utf8.json": _raw(CALL, b"cuda\xff\xfeStreamIsCapturing"),
    "list_root.json": lambda: json.dumps(json.loads(SOUND)["traceEvents"]).encode(),
    "metadata_only.json": _events(lambda events: [event for event in events if event["ph"] == "M"]),
    "missing_correlation.json": _device_ops(args=_without("correlation")),
    "missing_dur.json": _device_ops(dur=...),
    "nan_inf.json": _nan_or_inf,
    "negative_dur.json": _device_ops(dur=-5.0),
    "no_args.json": _device_ops(args=...),
    "null_fields.json": _device_ops(name=None, args=None),
    "old_categories.json": _events(_old_categories),
    "orphan_kernel.json": _events(_without_last_launch),
    "plain_but_named.json.gz": lambda: SOUND,
    "shuffled.json": _events(lambda events: random.Random(0).sample(events, len(events))),
    "sound.json": lambda: SOUND,
    "sound.json.gz": lambda: gzip.compress(SOUND, mtime=0),
    "string_ts_tid.json": _device_ops(ts=lambda op: str(op["ts"]), tid=lambda op: f"stream {op['tid']}"),
    "trailing_comma.json": _raw(b"    }\n  ],", b"    },\n],"),
    "truncated.json.gz": lambda: gzip.compress(SOUND, mtime=0)[:2160],
    "truncated_mid_event.json": lambda: SOUND[:27636],
    "truncated_no_closer.json": lambda: SOUND[:-44],
    "two_devices.json": _copies(
        pid=lambda op: 1,
        args=lambda op: op["args"] | {"device": 1, "correlation": op["args"]["correlation"] + 100_000},
    ),
    "unescaped_quote.json": _raw(CALL, b'cuda"X"StreamIsCapturing'),
    "unicode_names.json": _device_ops(kernels_only=True, name=lambda op: f"カーネル 核函数 🚀 {op['name']}"),
    "zero_ts_dur.json": _device_ops(ts=0, dur=0),
}
