"""What Python was doing: exact shares by operator, annotation and frame, against counting instants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.timeline.host_time import ThreadTime, held_by, host_time, longest_operator, python_during
from perfmagic.base.numerics.intervals import parts_of, union
from perfmagic.trace.columns import HostKind
from tests.analysis.build import US, Builder

FRAME, MARK = HostKind.PYTHON, HostKind.ANNOTATION


def test_the_innermost_operator_has_the_share_and_those_around_it_the_inclusive_time() -> None:
    b = Builder()
    b.host_op(0, 100, "aten::linear")
    b.host_op(20, 80, "aten::addmm")
    b.host_op(0, 100, "aten::elsewhere", thread=2)
    found = python_during(b.trace(), 10 * US, 120 * US, thread=1)
    assert found.total_ns == 110 * US
    assert [(o.name, o.share_ns, o.inclusive_ns) for o in found.operators] == [
        ("aten::addmm", 60 * US, 60 * US),
        ("aten::linear", 30 * US, 90 * US),
    ]
    held = held_by(found.operators, found.total_ns)
    assert held.name == "aten::addmm"


def test_nothing_that_ran_for_less_than_half_of_the_time_held_python() -> None:
    b = Builder()
    b.host_op(0, 49, "aten::sort")
    found = python_during(b.trace(), 0, 100 * US, thread=1)
    assert held_by(found.operators, found.total_ns) is None


def test_a_step_of_the_profiler_is_no_place() -> None:
    b = Builder()
    b.host_op(0, 100, "ProfilerStep#3", kind=MARK)
    b.host_op(10, 60, "augment", kind=MARK)
    found = python_during(b.trace(), 0, 100 * US, thread=1)
    assert [(a.name, a.share_ns) for a in found.annotations] == [("augment", 50 * US)]


def frames() -> Builder:
    """train.py calls scipy, which calls what is built in; then torch's own frames; then a thread's beginning alone."""
    b = Builder()
    b.host_op(0, 100, "train.py(31): step", kind=FRAME)
    b.host_op(10, 70, "scipy/ndimage/_interpolation.py(648): zoom", kind=FRAME)
    b.host_op(20, 60, "<built-in function zoom_shift>", kind=FRAME)
    b.host_op(70, 90, "torch/nn/modules/module.py(1532): _call_impl", kind=FRAME)
    b.host_op(75, 80, "<built-in method linear of type object at 0x7f>", kind=FRAME)
    b.host_op(120, 130, "threading.py(982): run", kind=FRAME)
    return b


def test_of_frames_the_innermost_of_people_s_code_counts_and_what_is_built_in_names_its_caller() -> None:
    found = python_during(frames().trace(), 0, 140 * US, thread=1)
    assert [(f.function, f.place, f.share_ns, f.inclusive_ns) for f in found.frames] == [
        ("step", "train.py:31", 40 * US, 100 * US),
        ("zoom_shift", "scipy/ndimage/_interpolation.py:648", 40 * US, 40 * US),
        ("zoom", "scipy/ndimage/_interpolation.py:648", 20 * US, 60 * US),
        ("run", "threading.py:982", 10 * US, 10 * US),
    ]
    assert found.frames[1].name == "zoom_shift (scipy/ndimage/_interpolation.py:648)"


def test_a_recursion_is_counted_once() -> None:
    b = Builder()
    b.host_op(0, 100, "tree.py(1): walk", kind=FRAME)
    b.host_op(10, 90, "tree.py(1): walk", kind=FRAME)
    (only,) = python_during(b.trace(), 0, 100 * US, thread=1).frames
    assert (only.share_ns, only.inclusive_ns) == (100 * US, 100 * US)


def test_without_a_thread_the_one_with_most_calls_is_asked() -> None:
    b = frames()
    b.host_op(0, 50, "aten::mm", thread=5)
    b.launch(1, thread=5)
    assert [o.name for o in python_during(b.trace(), 0, 50 * US).operators] == ["aten::mm"]
    assert python_during(Builder().trace(), 0, 10).total_ns == 10


Spans = list[tuple[int, int]]
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=4)


def trees(n_names: int) -> st.SearchStrategy[tuple]:  # type: ignore[type-arg]
    return st.recursive(
        st.tuples(st.integers(0, n_names - 1), st.just(())),
        lambda inner: st.tuples(st.integers(0, n_names - 1), st.lists(inner, max_size=3).map(tuple)),
        max_leaves=8,
    )


TREE, FRAME_TREE = trees(3), trees(4)
OPERATORS = ("op0", "op1", "op2")
FRAMES = ("train.py(3): step", "scipy/a.py(5): zoom", "torch/nn/m.py(7): call", "<built-in function f>")


def put(b: Builder, tree: tuple, start: int, length: int, names: tuple[str, ...] = OPERATORS) -> None:  # type: ignore[type-arg]
    """A tree of operators or frames inside [start, start + length), the parts of each side by side."""
    b.host_op(start, start + length, names[tree[0]], kind=FRAME if names is FRAMES else HostKind.OP)
    width = (length - 2) // max(1, len(tree[1]))
    for i, inner in enumerate(tree[1]):
        if width >= 1:
            put(b, inner, start + 1 + i * width, width, names)


@settings(deadline=None, max_examples=60)
@given(TREE, SPANS)
def test_shares_agree_with_counting_instants_and_add_up(tree: tuple, spans: Spans) -> None:  # type: ignore[type-arg]
    b = Builder()
    put(b, tree, 3, 40)
    trace = b.trace()
    start, length = np.array(spans, np.int64).reshape(-1, 2).T * US
    where = union(start, start + length)
    found = host_time(trace, np.ones(len(where), np.int64), where)
    asked = [t for start, end in (where // US).tolist() for t in range(start, end)]
    rows = [(row["start_ns"] // US, row["end_ns"] // US, trace.names[row["name"]]) for row in b.host]
    inner = [min(((e - s, n) for s, e, n in rows if s <= t < e), default=(0, ""))[1] for t in asked]
    around = [{n for s, e, n in rows if s <= t < e} for t in asked]
    assert {o.name: o.share_ns for o in found.operators if o.share_ns} == {
        n: inner.count(n) * US for n in set(inner) if n
    }
    assert {o.name: o.inclusive_ns for o in found.operators} == {
        n: sum(n in one for one in around) * US for n in set().union(*around)
    }
    assert sum(o.share_ns for o in found.operators) + inner.count("") * US == found.total_ns == len(asked) * US


def test_the_longest_operator_of_each_interval_is_the_innermost_for_most_of_it() -> None:
    b = Builder()
    b.host_op(0, 100, "outer")
    b.host_op(10, 40, "inner")
    trace = b.trace()
    where = np.array([[0, 45], [50, 90], [200, 210]], np.int64) * US
    found = longest_operator(trace, np.ones(3, np.int64), where)
    assert [trace.names[n] if n >= 0 else None for n in found] == ["inner", "outer", None]


@settings(deadline=None, max_examples=60)
@given(SPANS, SPANS)
def test_the_parts_of_intervals_agree_with_counting_instants(asked: Spans, by: Spans) -> None:
    start, length = np.array(asked, np.int64).reshape(-1, 2).T
    covering = union(*(np.array(by, np.int64).reshape(-1, 2) @ np.array([[1, 1], [0, 1]])).T)
    number, parts = parts_of(start, start + length, covering)
    instants = {t for s, e in covering.tolist() for t in range(s, e)}
    for i, (first, n) in enumerate(asked):
        got = [t for s, e in parts[number == i].tolist() for t in range(s, e)]
        assert got == [t for t in range(first, first + n) if t in instants]


@settings(deadline=None, max_examples=60)
@given(FRAME_TREE, TREE, SPANS)
def test_time_by_row_is_time_by_piece(frames: tuple, tree: tuple, spans: Spans) -> None:  # type: ignore[type-arg]
    b = Builder()
    put(b, frames, 2, 44, FRAMES)
    put(b, tree, 3, 40)
    trace = b.trace()
    start, length = np.array(spans, np.int64).reshape(-1, 2).T * US
    where = union(start, start + length)
    thread = np.ones(len(where), np.int64)
    by_row = host_time(trace, thread, where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadTime, "row_times", lambda _self: None)
        assert host_time(trace, thread, where) == by_row


def test_frames_that_overshoot_the_one_around_them_are_cut_into_pieces() -> None:
    b = Builder()
    b.host_op(0, 50, "train.py(3): step", kind=FRAME)
    b.host_op(40, 52, "scipy/a.py(5): zoom", kind=FRAME)
    found = python_during(b.trace(), 0, 60 * US, thread=1)
    assert [(f.function, f.share_ns, f.inclusive_ns) for f in found.frames] == [
        ("step", 40 * US, 50 * US),
        ("zoom", 12 * US, 12 * US),
    ]
