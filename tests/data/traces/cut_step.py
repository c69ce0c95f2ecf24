"""Cut one profiler step out of a Kineto trace: python cut_step.py SOURCE.json.gz "ProfilerStep#1011" OUT.json.gz

Kept: host rows that start in the step, device rows that start in it or were launched in it, the launches of all these
(some lie before the step: the host runs ahead), the metadata rows, device properties and ranks. Of the arguments only
those that say where and how an op ran. Flow rows and all other top-level keys are left out. Times, durations and names
are unchanged. Categories named behind OUT, such as cpu_op, are left out.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}
HOST = {"cpu_op", "user_annotation"}
KEYS = ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "displayTimeUnit")
ARGS = ("device", "stream", "correlation", "bytes", "name", "sort_index", "labels")


def cut(trace: dict[str, Any], step: str) -> dict[str, Any]:
    """The trace with the rows of one step."""
    rows = trace["traceEvents"]
    marker = next(row for row in rows if row.get("name") == step and row.get("cat") == "user_annotation")
    begin, end = marker["ts"], marker["ts"] + marker["dur"]

    def inside(row: dict[str, Any]) -> bool:
        return bool(begin <= row["ts"] < end)

    launched = {_correlation(row) for row in rows if row.get("cat") in CALLS and inside(row)}
    ran = {_correlation(row) for row in rows if row.get("cat") in DEVICE and inside(row)}
    kept = [
        row
        for row in rows
        if row.get("ph") == "M"
        or (row.get("cat") in HOST and inside(row))
        or (row.get("cat") in CALLS and (inside(row) or _correlation(row) in ran))
        or (row.get("cat") in DEVICE and (inside(row) or _correlation(row) in launched))
    ]
    return {key: trace[key] for key in KEYS if key in trace} | {"traceEvents": [_slim(row) for row in kept]}


def _correlation(row: dict[str, Any]) -> Any:
    return row.get("args", {}).get("correlation")


def _slim(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"args": {key: row["args"][key] for key in ARGS if key in row.get("args", {})}}


def main(source: str, step: str, out: str, *left_out: str) -> None:
    """Read, cut, write."""
    trace = cut(json.loads(gzip.decompress(Path(source).read_bytes())), step)
    trace["traceEvents"] = [row for row in trace["traceEvents"] if row.get("cat") not in left_out]
    text = json.dumps(trace, separators=(",", ":"))
    Path(out).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
