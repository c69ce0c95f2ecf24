"""How much collective operations moved, and how fast."""

import pytest

from perfmagic.analysis.report import report
from perfmagic.analysis.timeline.collectives import bus_factor, collectives, size_bytes
from perfmagic.trace.columns import OpKind
from perfmagic.trace.model import Collective, Trace, TraceMeta, make_trace
from tests.analysis.build import Builder
from tests.trace.recorded import real_trace

ALL_REDUCE = Collective("allreduce", 1_000_000, 1_000_000, "Float", 4, "default_pg")
GATHER = Collective("_allgather_base", 250, 1000, "BFloat16", 4, "default_pg")


def _trace(*of: int) -> Trace:
    """Ops of 1 ms, each of the numbered collective."""
    n = len(of)
    start = [2_000_000 * i for i in range(n)]
    ops = {"start_ns": start, "end_ns": [s + 1_000_000 for s in start], "kind": [OpKind.KERNEL] * n, "name": [0] * n}
    known = [ALL_REDUCE, GATHER, Collective("allreduce", 500_000, 500_000, "Float", 4, "default_pg")]
    return make_trace(["ncclKernel"], TraceMeta("test"), ops=ops | {"collective": list(of)}, collectives=known)


def test_sizes_and_times_are_summed_by_operation_type_and_group() -> None:
    first, second = collectives(_trace(0, 1, 2, -1), 0)
    assert (first.name, first.n_ops, first.total_ns, first.size_bytes) == ("all_reduce", 2, 2_000_000, 6_000_000)
    assert first.algorithm_bytes_per_s == pytest.approx(3e9)
    assert first.bus_bytes_per_s == pytest.approx(4.5e9)  # 2 × 3 / 4
    assert (second.size_bytes, second.n_ops) == (2000, 1)
    assert second.bus_bytes_per_s == pytest.approx(1.5e6)  # 3 / 4


@pytest.mark.parametrize(
    ("name", "ranks", "factor"),
    [
        ("allreduce", 8, 1.75),
        ("c10d::allreduce_", 2, 1.0),
        ("reduce_scatter", 4, 0.75),
        ("all_to_allv", 4, 0.75),
        ("broadcast", 4, 1.0),
        ("allreduce", None, None),
        ("barrier", 4, None),
    ],
)
def test_the_factor_of_the_links_is_that_of_the_operation(name: str, ranks: int | None, factor: float | None) -> None:
    assert bus_factor(name, ranks) == factor


def test_what_the_record_does_not_say_is_none() -> None:
    assert size_bytes(Collective("allreduce", 10, 10, "Quantised")) is None
    assert size_bytes(Collective("allreduce", dtype="Float")) is None


def test_kernels_without_metadata_are_counted_with_the_reason_and_what_to_do() -> None:
    rows = collectives(_trace(-1, -1), 0)
    assert len(rows) == 0
    assert rows.note.replace("\u00a0", " ") == (
        "2 communication kernels (2.00 ms) without collective metadata (size, group): "
        "no host operator was recorded. Record ProfilerActivity.CPU too: the metadata come from there"
    )
    assert "2 communication kernels" in repr(rows)
    assert collectives(_trace(0, 1), 0).note == ""
    assert collectives(_trace(-1), 0, comm_names="nothing of that name").note == ""
    b = Builder()
    b.op(10, 20, launch=2, name="ncclDevKernel_AllReduce")
    b.host_op(0, 5, "aten::mm")
    assert "only calls through torch.distributed" in collectives(b.trace(), 0).note
    b.host_op(1, 4, "record_param_comms")
    assert collectives(b.trace(), 0).note.endswith("Record with a newer one")


def test_the_report_says_why_the_table_of_collectives_is_empty() -> None:
    device = report(_trace(-1))["devices"]["0"]
    assert device["collectives"] == []
    (note,) = device["notes"]
    assert (note["kind"], note["numbers"]) == ("no_collective_metadata", {"n_ops": 1, "total_ns": 1_000_000})
    assert note["words"].startswith("1 communication kernel")


def test_a_recorded_step_of_two_ranks_has_its_collectives() -> None:
    trace = real_trace("a100_nccl_rank0of2")
    found = collectives(trace, trace.device_ids[0])
    assert sum(stat.n_ops for stat in found) == int((trace.ops.collective != -1).sum()) > 0
    assert all(stat.group_size == 2 for stat in found)
    assert all(stat.bus_bytes_per_s is None or 1e6 < stat.bus_bytes_per_s < 1e12 for stat in found)
