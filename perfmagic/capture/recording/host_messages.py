"""Between which ranks host tensors were sent, and in which group: torch's profiler does not record it, and the process
group knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from perfmagic.trace.model import Trace

MOST_APART_NS = 20_000_000  # the same end, told by the profiler and by the group on a busy machine


class Message(Protocol):
    """An operation on host tensors, in the order they were called: perfmagic.capture.devices.groups.Took."""

    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def peer(self) -> int | None: ...
    @property
    def end_ns(self) -> int: ...


def with_partners(trace: Trace, called: Sequence[Message], row_name: Callable[[Any], str], offset_ns: int = 0) -> Trace:
    """The trace with "gloo:send" as "gloo:send 0->1" and its kin, as torch names NCCL's; and with collectives by the
    names that row_name gives them, which say their group where it is not the first.

    gloo records a message as it is called, so the n-th of a kind is the n-th called. Collectives of several groups run
    on threads of their own: a row is that operation of its kind which ended with it. A kind of which another number was
    recorded is left as it is.  offset_ns: from the clock of what was called to unix time.
    """
    names, host_names = list(trace.names), trace.host_ops.name.copy()
    _name_collectives(trace, called, row_name, offset_ns - trace.meta.base_unix_ns, names, host_names)
    for kind in ("send", "recv"):
        titles = [row_name(one) for one in called if one.kind == kind and one.peer is not None]
        rows = np.flatnonzero(np.array([name == f"gloo:{kind}" for name in names], bool)[host_names])
        if titles and len(rows) == len(titles):
            numbers = {title: len(names) + i for i, title in enumerate(dict.fromkeys(titles))}
            names += numbers
            host_names[rows] = [numbers[title] for title in titles]
    if len(names) == len(trace.names):
        return trace
    host_names.flags.writeable = False
    changed: dict[str, Any] = {"host_ops": replace(trace.host_ops, name=host_names)}
    return replace(trace, names=tuple(names), **changed)


def _name_collectives(
    trace: Trace,
    called: Sequence[Message],
    row_name: Callable[[Any], str],
    by_ns: int,
    names: list[str],
    host_names: Any,
) -> None:
    """Give rows of collectives the names that tell their groups.  by_ns: from when they were called to the trace's."""
    mine = [one for one in called if one.peer is None]
    for title in {one.title for one in mine if row_name(one) != f"gloo:{one.title}"}:
        of_kind = sorted((one for one in mine if one.title == title), key=lambda one: one.end_ns)
        is_row = np.array([name == f"gloo:{title}" for name in trace.names], bool)[trace.host_ops.name]
        rows = np.flatnonzero(is_row)
        rows = rows[np.argsort(trace.host_ops.end_ns[rows], kind="stable")]
        if len(rows) != len(of_kind):
            continue
        apart_ns = np.abs(trace.host_ops.end_ns[rows] - np.array([one.end_ns + by_ns for one in of_kind]))
        if int(apart_ns.max(initial=0)) <= MOST_APART_NS:
            for row, one in zip(rows.tolist(), of_kind, strict=True):
                name = row_name(one)
                if name not in names:
                    names.append(name)
                host_names[row] = names.index(name)
