"""Between which ranks host tensors were sent: torch's profiler does not record it, and the process group knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from perfmagic.trace.model import Trace


class Message(Protocol):
    """An operation on host tensors, in the order they were called: perfmagic.capture.devices.groups.Took."""

    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def peer(self) -> int | None: ...


def with_partners(trace: Trace, called: Sequence[Message]) -> Trace:
    """The trace with "gloo:send" as "gloo:send 0->1" and its kin, as torch names NCCL's.

    gloo records a message as it is called, so the n-th of a kind is the n-th called. A kind of which another number was
    recorded is left as it is.
    """
    names, host_names = list(trace.names), trace.host_ops.name.copy()
    for kind in ("send", "recv"):
        titles = [f"gloo:{one.title}" for one in called if one.kind == kind and one.peer is not None]
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
