import pytest

from perfmagic.analysis.timeline.operators import AnnotationStat, user_annotations
from perfmagic.base.numerics.intervals import total_ns, union
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded

MARK = HostKind.ANNOTATION


def numbers(row: AnnotationStat) -> tuple[int, float, int, float, float]:
    """How often, how long on the host, ops, how long they were busy and from first to last; in µs."""
    return row.n_occurrences, row.host_ns / US, row.n_ops, row.busy_ns / US, row.extent_ns / US


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
    step = by_name(two_steps())["step"]
    assert numbers(step) == (2, 200, 5, 30 + 30, (170 - 110) + (180 - 165))


def test_an_op_belongs_to_every_annotation_around_its_launch() -> None:
    assert numbers(by_name(two_steps())["loss"]) == (1, 50, 2, 20, 20)


def test_operators_are_no_annotations_and_the_longest_comes_first() -> None:
    assert [row.name for row in user_annotations(two_steps())] == ["step", "loss"]
    assert user_annotations(Builder().trace()) == ()


def test_an_annotation_inside_one_of_its_name_counts_once() -> None:
    b = Builder()
    b.host_op(0, 100, "block", kind=MARK)
    b.host_op(20, 80, "block", kind=MARK)
    b.op(110, 130, launch=30)
    (block,) = user_annotations(b.trace())
    assert numbers(block) == (2, 100, 1, 20, 20)


def test_ops_of_another_thread_do_not_count() -> None:
    b = Builder()
    b.host_op(0, 100, "forward", kind=MARK)
    b.op(110, 130, launch=30, thread=2)
    (forward,) = user_annotations(b.trace())
    assert numbers(forward) == (1, 100, 0, 0, 0)


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
