"""Writing a trace for TensorBoard: torch-tb-profiler 0.4.3 opens the file and computes its views from it.

Its dialect is that of 2021, and differs from trace.formats.chrome's: calls are "Runtime"; a call says by "External
id" which operator made it, and its ops say the same (without the ids, all of it counts to one operator); "correlation"
must lead from an op to one call, so calls and ops are renumbered; a share of the step's time needs a step, so one is
written over the window where the trace has none. A trace lacks some of what the plugin would show: blocks per SM,
occupancy, memory and compute capability of the devices, and single allocations. Those columns are left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.base.errors import OptionError
from perfmagic.base.files import file_path, made_folder
from perfmagic.trace.columns import NONE, Bool, HostKind, HostOps, Int64, OpKind
from perfmagic.trace.formats import chrome
from perfmagic.trace.hoststack import nested
from perfmagic.trace.model import Trace

NO_OPERATOR = 0  # External id of what no operator made
_STEP = "ProfilerStep#"
_WHOLE_STEP = re.compile(_STEP + r"\d{1,9}$")
_LOADER = re.compile(r"enumerate\((DataLoader\)#.*\.__next__$|DataPipe\)#)")
_COLLECTIVE = re.compile(r"(nccl|gloo):(broadcast|reduce|all_reduce|all_gather|reduce_scatter)$")
_SHORTEST_STEP_NS = 1000  # the plugin divides by a step's time, and by that of a bucket of at least 1 µs


def write_tensorboard(trace: Trace, folder: str | os.PathLike[str], worker: str | None = None) -> Path:
    """Save a trace where `tensorboard --logdir` finds it, and give the file's path.

    folder: made where it does not exist.  worker: what the plugin lists it as, "rank3" or "worker" if left out; each
    file of a worker is one of its spans. The wait records of streams are left out: the plugin has no place for them.
    Raises OptionError where the file cannot be written.
    """
    path = worker_file(folder, trace, worker)
    meta = replace(trace.meta, races=())  # their row numbers are not those of this file
    head = chrome.header(replace(trace, meta=meta)) | {"deviceProperties": _device_properties(trace)}
    return chrome.write_events(path, head, _events(trace))


def worker_file(folder: str | os.PathLike[str], trace: Trace, worker: str | None = None) -> Path:
    """A new file's path as the plugin expects it, <worker>.<digits>.pt.trace.json.gz; makes the folder."""
    target, rank = file_path(folder), trace.meta.rank
    name = worker or ("worker" if rank is None else f"rank{rank}")
    if re.search(r"[/\\\0]", name):
        raise OptionError(f"the worker {name!r} cannot be part of a file's name", hint="leave slashes out")
    return made_folder(target) / f"{name}.{time.time_ns()}.pt.trace.json.gz"


def _device_properties(trace: Trace) -> list[dict[str, Any]]:
    """What is known of each device: the plugin takes the row of a device's index, whatever its id."""
    known = {info.index: info for info in trace.meta.devices}
    count = 1 + max([*known, *trace.device_ids], default=-1)
    return [{"id": i} | ({"name": known[i].label} if i in known else {}) for i in range(count)]


def _events(trace: Trace) -> Iterator[str]:
    names, host = chrome.json_names(trace), trace.whole_host()
    # of each call the External id of the innermost operator, data loader or collective around it; shape of calls
    linked = (host.kind == HostKind.OP) & ~_named(trace, host, re.compile(_STEP))
    linked |= (host.kind == HostKind.ANNOTATION) & (_named(trace, host, _LOADER) | _named(trace, host, _COLLECTIVE))
    inside = nested(host, linked).innermost_at(trace.calls.thread, trace.calls.start_ns)
    made_by = np.where(inside == NONE, NO_OPERATOR, _id_of(inside))
    yield from chrome.metadata(trace)
    yield from _ops(trace, names, made_by)
    yield from _calls(trace, names, made_by)
    yield from _host_ops(trace, host)
    if not bool(_named(trace, trace.host_ops, _WHOLE_STEP).any()):
        yield _window_step(trace, host)
    yield from chrome.flows(trace)
    yield from chrome.counters(trace, names)


def _ops(trace: Trace, names: list[str], made_by: Int64) -> Iterator[str]:
    for at, row in enumerate(chrome.rows(trace.ops)):
        launch, args = row["launch"], chrome.op_args(trace, row)
        args["correlation"] = len(trace.calls) + at if launch == NONE else launch
        args["External id"] = NO_OPERATOR if launch == NONE else int(made_by[launch])
        yield chrome.span(
            chrome.OP_CATEGORY[OpKind(row["kind"])], names[row["name"]], row["device"], row["stream"], row, args
        )


def _calls(trace: Trace, names: list[str], made_by: Int64) -> Iterator[str]:
    args_of = chrome.call_args(trace)
    for at, row in enumerate(chrome.rows(trace.calls)):
        args = {"correlation": at, "External id": int(made_by[at])} | args_of(row)
        yield chrome.span("Runtime", names[row["name"]], chrome.HOST_PID, row["thread"], row, args)


def _host_ops(trace: Trace, host: HostOps) -> Iterator[str]:
    names = chrome.host_names(trace)
    for at, row in enumerate(chrome.rows(host)):
        args = {"External id": _id_of(at)} | chrome.host_args(trace, row)
        category = _category(HostKind(row["kind"]), trace.names[row["name"]])
        yield chrome.span(category, names[row["name"]], chrome.HOST_PID, row["thread"], row, args)


def _category(kind: HostKind, name: str) -> str:
    if name.startswith(_STEP) and not _WHOLE_STEP.match(name):
        return chrome.HOST_CATEGORY[HostKind.PYTHON]  # as anything else the plugin stops at a step without a number
    if kind == HostKind.ANNOTATION and _LOADER.match(name):
        return chrome.HOST_CATEGORY[HostKind.OP]  # what the plugin's DataLoader time is taken from
    return chrome.HOST_CATEGORY[kind]


def _id_of(row: Any) -> Any:
    """The External id of rows of the host."""
    return row + NO_OPERATOR + 1


def _named(trace: Trace, host: HostOps, pattern: re.Pattern[str]) -> Bool:
    """Which rows have a name that begins as a pattern says; shape of host."""
    matching = [at for at, name in enumerate(trace.names) if pattern.match(name)]
    named: Bool = np.isin(host.name, matching)
    return named


def _window_step(trace: Trace, host: HostOps) -> str:
    """A step over the window and all that the host did, on the thread that did most."""
    meta, tables = trace.meta, (trace.calls, host)
    start_ns = min([meta.start_ns, *(int(t.start_ns.min()) for t in tables if len(t))])
    end_ns = max([meta.end_ns, *(int(t.end_ns.max()) for t in tables if len(t)), start_ns + _SHORTEST_STEP_NS])
    threads, n = np.unique(np.concatenate([t.thread for t in tables]), return_counts=True)
    thread = int(threads[np.argmax(n)]) if len(threads) else 0
    args = {"External id": _id_of(len(host))}
    times = {"start_ns": start_ns, "end_ns": end_ns}
    return chrome.span(chrome.HOST_CATEGORY[HostKind.ANNOTATION], f'"{_STEP}0"', chrome.HOST_PID, thread, times, args)
