from perfmagic.analysis.timeline.overlap import breakdown, overlap_matrix
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded


def test_each_pair_of_classes_has_the_time_of_both_at_once() -> None:
    b = Builder()
    b.op(10, 30, name="gemm")
    b.op(20, 60, name="Memcpy HtoD (Pinned -> Device)", stream=8)
    b.op(25, 35, name="Memcpy DtoH (Device -> Pinned)", stream=9)
    b.op(50, 70, name="ncclAllReduce", stream=10)
    b.op(12, 22, name="gemm", device=1)
    found = {(row.first, row.second): row for row in overlap_matrix(b.trace(), 0)}
    assert {pair: row.overlap_ns for pair, row in found.items()} == {
        ("compute", "htod"): 10 * US,
        ("compute", "dtoh"): 5 * US,
        ("compute", "communication"): 0,
        ("htod", "dtoh"): 10 * US,
        ("htod", "communication"): 10 * US,
        ("dtoh", "communication"): 0,
    }
    assert (found["compute", "htod"].frac_of_first, found["compute", "htod"].frac_of_second) == (0.5, 0.25)


def test_a_class_alone_has_no_pair() -> None:
    b = Builder()
    b.op(10, 30)
    assert overlap_matrix(b.trace(), 0).to_dict() == []


def test_the_matrix_of_a_recorded_step_agrees_with_its_breakdown() -> None:
    trace = recorded("v100_4streams_nccl_step")
    parts = breakdown(trace, trace.device_ids[0])
    found = {(row.first, row.second): row for row in overlap_matrix(trace, trace.device_ids[0])}
    assert found["compute", "communication"].overlap_ns == parts.compute_communication.overlap_ns > 0
    assert found["compute", "communication"].frac_of_second == parts.compute_communication.frac_of_second
    assert {name for pair in found for name in pair} == {"compute", "htod", "dtoh", "dtod", "communication", "memset"}
