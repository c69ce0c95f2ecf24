"""What was read of a file stands in memory as small as its numbers are."""

import pickle

import numpy as np

from perfmagic.trace.kineto.gathered import CALLS, Part, slim
from perfmagic.trace.kineto.reader import read_trace
from tests.trace.recorded import as_bytes, event

LARGE = 2**31


def test_columns_take_the_bytes_that_their_numbers_need() -> None:
    given = {"same": np.full(5, LARGE), "small": np.arange(5) - LARGE, "large": np.arange(5) + LARGE - 4}
    columns = slim(given | {"real": np.arange(5) / 2})
    assert {name: column.tolist() for name, column in columns.items()} == {
        "same": [LARGE] * 5,
        "small": [-LARGE + n for n in range(5)],
        "large": [LARGE - 4 + n for n in range(5)],
        "real": [0.0, 0.5, 1.0, 1.5, 2.0],
    }
    assert columns["same"].strides == (0,)
    assert [columns[name].dtype for name in ("small", "large", "real")] == [np.int32, np.int64, np.float64]


def test_a_value_of_all_rows_is_pickled_once() -> None:
    part = Part(1, columns={CALLS: {"start_ns": np.arange(5000), "thread": np.broadcast_to(np.int64(7), 5000)}})
    data = pickle.dumps(part, protocol=5)
    again = pickle.loads(data)
    assert len(data) < 5000 * 9
    assert (again.number, again.rows(CALLS)) == (1, 5000)
    assert again.columns[CALLS]["thread"].tolist() == [7] * 5000


def test_numbers_of_any_size_come_back_from_chunks_of_small_ones() -> None:
    threads = [1, 2**40, -5]
    calls = [event("cuda_runtime", "cudaLaunchKernel", n, 1, tid=thread) for n, thread in enumerate(threads)]
    trace = read_trace(as_bytes(calls), origin="trace.json")
    assert (trace.calls.thread.tolist(), trace.calls.thread.dtype) == (threads, np.int64)
