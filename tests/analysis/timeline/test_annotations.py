import pytest

from perfmagic.analysis.timeline.operators import AnnotationStat, user_annotations
from perfmagic.base.numerics.intervals import total_ns, union
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded

MARK = HostKind.ANNOTATION


def by_name(trace: Trace) -> dict[str, AnnotationStat]:
    return {row.name: row for row in user_annotations(trace)}


def two_steps() -> Trace:
    """A step 0–100 and one 100–200, in the first a loss 50–100; of the first step two ops run at once."""
    b = Builder()
    b.host_op(0, 100, "step", kind=MARK)
    b.host_op(50, 100, "loss", kind=MARK)
    b.host_op(100, 200, "step", kind=MARK)
    b.host_op(0, 200, "mm")
    b.op(110, 130, launch=10)
    b.op(120, 140, launch=20, stream=8)
    b.op(150, 160, launch=60)
    b.op(160, 170, launch=70, device=1)
    b.op(165, 180, launch=150)
    b.op(300, 310, launch=250)
    return b.trace()


def test_an_annotation_is_projected_on_the_ops_launched_inside_it() -> None:
    found = by_name(two_steps())
    assert (found["step"].n_occurrences, found["step"].host_ns, found["step"].n_ops) == (2, 200 * US, 5)
    assert found["step"].busy_ns == (30 + 30) * US
    assert found["step"].extent_ns == ((170 - 110) + (180 - 165)) * US


def test_an_op_belongs_to_every_annotation_around_its_launch() -> None:
    loss = by_name(two_steps())["loss"]
    assert (loss.n_occurrences, loss.host_ns, loss.n_ops, loss.busy_ns, loss.extent_ns) == (
        1,
        50 * US,
        2,
        20 * US,
        20 * US,
    )


def test_operators_are_no_annotations_and_the_longest_comes_first() -> None:
    assert [row.name for row in user_annotations(two_steps())] == ["step", "loss"]
    assert user_annotations(Builder().trace()) == ()


def test_an_annotation_inside_one_of_its_name_counts_once() -> None:
    b = Builder()
    b.host_op(0, 100, "block", kind=MARK)
    b.host_op(20, 80, "block", kind=MARK)
    b.op(110, 130, launch=30)
    (block,) = user_annotations(b.trace())
    assert (block.n_occurrences, block.host_ns, block.n_ops, block.busy_ns, block.extent_ns) == (
        2,
        100 * US,
        1,
        20 * US,
        20 * US,
    )


def test_ops_of_another_thread_do_not_count() -> None:
    b = Builder()
    b.host_op(0, 100, "forward", kind=MARK)
    b.op(110, 130, launch=30, thread=2)
    (forward,) = user_annotations(b.trace())
    assert (forward.n_ops, forward.busy_ns, forward.extent_ns) == (0, 0, 0)


@pytest.mark.parametrize("name", ["v100_4streams_nccl_step", "gp100_gpu_user_annotation", "a100_alexnet_cuda_sync"])
def test_the_annotations_of_a_recorded_trace_are_those_looked_up_one_by_one(name: str) -> None:
    trace = recorded(name)
    host, ops, calls = trace.host_ops, trace.ops, trace.calls
    launched = ops.launch != NONE
    thread, at = calls.thread[ops.launch], calls.start_ns[ops.launch]
    found = by_name(trace)
    assert set(found) == {trace.names[n] for n in host.name[host.kind == MARK]}
    for words, stat in found.items():
        inside = launched & False
        extent = 0
        rows = ((host.kind == MARK) & (host.name == trace.names.index(words))).nonzero()[0]
        for row in rows:
            before = rows[(rows < row) & (host.thread[rows] == host.thread[row])]
            if (host.end_ns[before] > host.start_ns[row]).any():  # inside one of its name
                continue
            mine = launched & (thread == host.thread[row]) & (at >= host.start_ns[row]) & (at < host.end_ns[row])
            inside |= mine
            extent += ops.end_ns[mine].max() - ops.start_ns[mine].min() if mine.any() else 0
        assert (stat.n_ops, stat.busy_ns) == (inside.sum(), total_ns(union(ops.start_ns[inside], ops.end_ns[inside])))
        assert stat.extent_ns == extent
