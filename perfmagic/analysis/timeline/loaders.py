"""When Python fetched batches from a DataLoader."""

from __future__ import annotations

import re

import numpy as np

from perfmagic.trace.columns import HostOps
from perfmagic.trace.frames import in_one_table
from perfmagic.trace.model import Trace

# torch records `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__` around the fetching of each batch
_LOADER = re.compile(r"DataLoader\w*(?:\)#\w+)?\.__next__")


def is_loader(name: str) -> bool:
    """Whether a name on the host is that of a DataLoader fetching a batch."""
    return _LOADER.search(name) is not None


def fetches(trace: Trace) -> HostOps:
    """What fetched a batch: an operator's mark, or a Python frame."""
    loaders = np.array([is_loader(name) for name in trace.names], bool)
    host = trace.host_ops
    marks = host.take(loaders[host.name] if len(host) else np.zeros(0, bool))
    return in_one_table(marks, trace.python_frames.named(loaders))
