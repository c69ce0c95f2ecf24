"""docs/report.schema.json describes exactly what a report holds: a new, missing or retyped key is a reviewed change."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from perfmagic.analysis.ranks.answers import find_job_answers
from perfmagic.analysis.ranks.findings import rank_findings
from perfmagic.analysis.ranks.pipelines.bubble import pipeline_stages
from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.analysis.report import SCHEMA_VERSION, report
from perfmagic.base.kinds import PredictedFor
from perfmagic.trace.columns import HostKind, OpKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Collective, Trace, make_trace
from tests.analysis.build import Builder
from tests.analysis.ranks.programs import job
from tests.analysis.ranks.test_collectives_of_ranks import job as hot_experts
from tests.analysis.ranks.test_pipelines import STAGES, staged
from tests.analysis.shaped import FLOAT, Shaped
from tests.schema_checks import never_filled, objects, problems
from tests.schemas import schema_of
from tests.trace.recorded import NAMES, as_bytes, event, launch_and_kernel, real_trace, recorded

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = schema_of("report")


def everything() -> Iterator[Trace]:
    """Recorded traces, and made ones with what those do not hold."""
    for name in NAMES:
        yield recorded(name.removesuffix(".json.gz"))
    b = Builder()
    b.line(0, 2)
    for i in range(12):  # launched one by one
        b.op(20 * i + 10, 20 * i + 15, launch=20 * i + 5)
    b.op(300, 330, launch=290, name="Memcpy PtoP (Device -> Device)", size=4096, stream=8)
    b.host_op(0, 200, "ProfilerStep#2", kind=HostKind.ANNOTATION)
    b.host_op(200, 900, "ProfilerStep#3", kind=HostKind.ANNOTATION)
    b.host_op(400, 500, "aten::item")
    b.sync(410, 490)
    yield b.trace(returned=900)
    with_sizes = as_bytes(
        [
            *launch_and_kernel(1, 0, 10, name="ncclDevKernel_AllReduce"),
            event("kernel", "nccl", 30, 5, stream=7, device=0, correlation=2)
            | {"args": {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10, "Group size": 2}},
            event("kernel", "gemm", 60, 0, stream=7, device=0, grid=[1, 2, 3], block=[64, 1, 1]),
        ],
        distributedInfo={"rank": 0, "world_size": 2},
    )
    yield read_trace(with_sizes)
    yield read_trace(with_sizes[:-3])
    yield with_memory()
    shaped = Shaped().span("python_function", "nn.Module: Linear_0", 0, 9).span("python_function", "a.py(1): f", 1, 8)
    gemm = (("ampere_sgemm_128x64_nn", 9.0),)
    yield shaped.op("aten::mm", [[8, 8], [8, 8]], FLOAT, gemm).op("aten::mm").trace()
    held = Builder()
    held.host_op(6, 890, "train.py(3): load", kind=HostKind.PYTHON)
    held.op(0, 5, launch=0)
    held.op(900, 905, launch=895)
    yield held.trace()
    looped = Builder()  # two answers of lines, and both together
    for at in range(0, 24_000, 2_000):
        looped.line(at, 2)
        looped.host_op(at + 1, at + 800, "Optimizer.zero_grad#SGD.zero_grad", kind=HostKind.ANNOTATION)
        for fill in range(at, at + 600, 100):
            looped.op(fill + 30, fill + 40, launch=fill + 10)
        looped.line(at + 810, 3)
        looped.op(at + 830, at + 1500, launch=at + 815)
        looped.line(at + 840, 4)
        looped.host_op(at + 845, at + 1520, "aten::item")
        looped.op(at + 1501, at + 1503, launch=at + 850, name="Memcpy DtoH (Device -> Pageable)", size=4)
        looped.sync(at + 855, at + 1510)
    yield looped.trace(returned=24_000)
    yield Builder().trace()
    of_model = looped.trace(returned=24_000)
    model = PredictedFor("H100 SXM", 1.4)
    device = replace(of_model.meta.devices[0], kind="sim", pace=f"virtual clock: {model.words}", predicted=model)
    yield replace(of_model, meta=replace(of_model.meta, devices=(device,)))


def with_memory() -> Trace:
    kernel = {"start_ns": [10], "end_ns": [900], "kind": [OpKind.KERNEL], "name": [0]}
    counters = {"at_ns": [0, 100, 200], "series": [1, 1, 1], "value": [10.0, 30.0, 5.0]}
    meta = replace(Builder().trace().meta, end_ns=1000)
    return make_trace(("mm", "Total Allocated"), meta, ops=kernel, counters=counters)


@pytest.fixture(scope="module")
def given() -> list[dict[str, Any]]:
    """As JSON gives them back."""
    found = [json.loads(json.dumps(report(trace))) for trace in everything()]
    found.append(json.loads(json.dumps(report(recorded("v100_4streams_nccl_step"), comm_names="nccl"))))
    found.append(json.loads(json.dumps(report(real_trace("v100_2021_old_categories")))))
    together = [finding.to_dict() for finding in rank_findings([rank_of_two(0, 10), rank_of_two(1, 900)])]
    ranks = ranks_of([rank_of_two(0, 10), rank_of_two(1, 900)])
    rows = json.loads(json.dumps(ranks.table.to_dict()))
    of_job = {"rank_findings": json.loads(json.dumps(together)), "rank_table": rows}
    of_job["rank_answers"] = [find_job_answers(ranks).to_dict(), *(report["answers"] for report in found)]
    of_job["rank_collectives"] = hot_experts("all_to_all", [[1000, 200, 200, 600]]).collectives.to_dict()
    of_job["rank_pipelines"] = pipeline_stages(job(STAGES, staged("1F1B", slow=1))).to_dict()
    return [*found, found[0] | json.loads(json.dumps(of_job))]


def rank_of_two(rank: int, late: int) -> Trace:
    """Rank 1 arrives late at an all-reduce that ends at 1000 µs on both."""
    b = Builder()
    b.op(0, 5, launch=0, name="gemm")
    b.op(late, 1000, launch=late, name="ncclDevKernel_AllReduce", stream=9)
    trace = b.trace()
    collective = Collective("allreduce", 10, 10, "Float", 2, "0", (0, 1))
    ops = replace(trace.ops, collective=(trace.ops.stream == 9).astype("int32") - 1)
    return replace(trace, ops=ops, collectives=(collective,), meta=replace(trace.meta, rank=rank, world_size=2))


def test_every_report_is_what_the_schema_says(given: list[dict[str, Any]]) -> None:
    assert [problem for value in given for problem in problems(SCHEMA, value)] == []


def test_everything_the_schema_describes_is_given_by_some_trace(given: list[dict[str, Any]]) -> None:
    assert never_filled(SCHEMA, given) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r["trust"].update(n_new=1), "n_new"),
        (lambda r: next(iter(r["devices"].values())).pop("busy_ns"), "busy_ns"),
        (lambda r: next(iter(r["devices"].values()))["streams"][0].update(n_ops="3"), "not of type 'integer'"),
        (lambda r: r.update(schema_version=SCHEMA_VERSION + 1), "was expected"),
    ],
    ids=["a new key", "a missing key", "another type", "another version"],
)
def test_a_change_of_a_key_is_seen(change: Any, said: str) -> None:
    b = Builder()
    b.op(10, 20, launch=5)
    value = json.loads(json.dumps(report(b.trace())))
    assert problems(SCHEMA, value) == []
    change(value)
    (problem,) = problems(SCHEMA, value)
    assert said in problem


def test_the_version_of_the_schema_is_that_of_a_report() -> None:
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def test_a_busy_share_says_what_it_is_a_share_of() -> None:
    shares = [part["properties"]["busy_frac"] for _, part in objects(SCHEMA) if "busy_frac" in part["properties"]]
    assert len(shares) == 2
    for share in shares:
        assert re.search(r"share of the (device's )?(extent|step)", share["description"])
