"""The forward of a backward: by number, by time, and in what torch.profiler writes."""

import json
from pathlib import Path

import numpy as np

from perfmagic.trace.columns import NONE, forward_rows
from perfmagic.trace.formats.npz import read_npz, write_npz
from perfmagic.trace.kineto.reader import read_trace


def test_the_latest_forward_with_the_number_that_began_before_is_taken() -> None:
    number = np.array([5, 5, 6, 5])
    at_ns = np.array([10, 20, 25, 40])
    wanted, before = np.array([5, 5, 5, 6, 7, 6]), np.array([30, 50, 10, 26, 99, 25])
    assert forward_rows(number, at_ns, wanted, before).tolist() == [1, 3, NONE, 2, NONE, NONE]


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}


def numbered(number: int, forward_thread: int = 0) -> dict[str, object]:
    return {"Sequence number": number, "Fwd thread id": forward_thread}


# relu makes node 4 and mm node 5; a number stands on all that was called until the next node was made
EVENTS = [
    event("cpu_op", "aten::relu", 0, 10, **numbered(4)),
    event("cpu_op", "aten::view", 12, 2, **numbered(5)),
    event("cpu_op", "aten::mm", 20, 10, **numbered(5)),
    event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 100, 30, 2, **numbered(5, 1)),
    event("cpu_op", "MmBackward0", 101, 20, 2, **numbered(5, 1)),
    event("cpu_op", "autograd::engine::evaluate_function: ReluBackward0", 140, 20, 2, **numbered(4, 1)),
    event("cpu_op", "autograd::engine::evaluate_function: AccumulateGrad", 170, 20, 2),
    *(
        event("cuda_runtime", "cudaLaunchKernel", ts, 2, tid, correlation=i)
        for i, (ts, tid) in enumerate(((5, 1), (25, 1), (105, 2), (125, 2), (145, 2), (175, 2)), 1)
    ),
    *(event("kernel", f"kernel{i}", 200 + 10 * i, 5, 7, correlation=i, stream=7, device=0) for i in range(1, 7)),
]


def test_launches_of_a_backward_find_the_operator_of_their_forward() -> None:
    trace = read_trace(json.dumps({"traceEvents": EVENTS}).encode(), links=True)
    # of mm's two launches one is inside MmBackward0 and one only in what evaluates it; AccumulateGrad has no forward
    assert trace.ops.forward_ns.tolist() == [NONE, NONE, 20_000, 20_000, 0, NONE]
    assert trace.ops.forward_thread.tolist() == [0, 0, 1, 1, 1, 0]


def test_numbers_are_read_only_where_they_are_asked_for() -> None:
    trace = read_trace(json.dumps({"traceEvents": EVENTS}).encode())
    assert (trace.ops.forward_ns == NONE).all()


def test_the_forward_survives_saving_as_columns(tmp_path: Path) -> None:
    trace = read_trace(json.dumps({"traceEvents": EVENTS}).encode(), links=True)
    again = read_npz(write_npz(trace, tmp_path / "t.npz"), 1 << 30)
    assert again.ops.forward_ns.tolist() == trace.ops.forward_ns.tolist()
    assert again.ops.forward_thread.tolist() == trace.ops.forward_thread.tolist()


def test_damaged_numbers_do_no_harm() -> None:
    odd = [*EVENTS, event("cpu_op", "aten::odd", 30, 1, **{"Sequence number": "x", "Fwd thread id": None})]
    odd += [event("cpu_op", "aten::huge", 32, 1, **{"Sequence number": 2**64 - 1, "Fwd thread id": 2**70})]
    trace = read_trace(json.dumps({"traceEvents": odd}).encode(), links=True)
    assert trace.ops.forward_ns.tolist() == [NONE, NONE, 20_000, 20_000, 0, NONE]
