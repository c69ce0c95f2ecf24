"""A trace by hand whose ops lie on lines of functions, one of them in the backward of a line."""

from dataclasses import replace

import numpy as np

from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from tests.analysis.timeline.test_by_path import AUTOGRAD, MAIN, MS, WORKER, trace_of

BACKWARD = 3  # the row of ops that is the backward of the first


def with_backward() -> Trace:
    """Ops of step line 2, of work line 11, of step line 2 one call deeper, and of the cell: the first's backward."""
    trace = trace_of([(11, MAIN), (14, WORKER), (31, MAIN), (50, AUTOGRAD)])
    at = np.full(len(trace.ops), NONE, np.int64)
    at[BACKWARD] = 11 * MS
    thread = np.where(at == NONE, NONE, MAIN)
    return replace(trace, ops=replace(trace.ops, forward_ns=at, forward_thread=thread))
