"""What is written for TensorBoard: its plugin opens it and computes from it what our own analyses compute.

torch-tb-profiler has its own words. GPU utilisation: when at least one *kernel* ran, of the time from the first step's
start to the last step's end; copies do not count. A step ends with the last device op it launched; the next one starts
there at the earliest, and the first one where all that was launched before it has ended. A step's time is shared out,
each instant once, to the first of kernel, memcpy, memset, communication, runtime call, data loader, operator;
communication is what the host marked as such, on the host too, and the kernels launched directly inside it. Its times
are float µs: every one is compared to the nanosecond.
"""

import gzip
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.timeline.kernels import kernels
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.base.errors import OptionError
from perfmagic.base.numerics.intervals import Intervals, intersect, merge, subtract, total_ns, union
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import NONE, Bool, HostKind, OpKind
from perfmagic.trace.formats.tensorboard import write_tensorboard
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import DeviceInfo, Trace, busy_intervals
from tests.analysis.build import US, Builder
from tests.trace.recorded import NAMES, columns_by_name, recorded

pytestmark = pytest.mark.slow


ROLES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CpuOp", "Other", "Total")
MARKED = ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")  # collectives the plugin knows
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
ODD = "矩阵 <script>\"mm\"</script>\\ 'N/A'"


@dataclass(frozen=True)
class Opened:
    """What the plugin found; times in ns, as its float µs say."""

    data: Any
    profile: Any

    def step_parts(self) -> list[dict[str, int]]:
        return [dict(zip(ROLES, map(_ns, step.costs), strict=True)) for step in self.data.steps_costs]

    def kernel_table(self) -> dict[str, tuple[int, int, int, int]]:
        """Calls, total, longest and shortest by name."""
        return {
            name: (int(row["count"]), _ns(row["sum"]), _ns(row["max"]), _ns(row["min"]))
            for name, row in self.data.kernel_stat.iterrows()
        }

    def utilisation(self, device: int) -> float:
        return float(self.data.gpu_metrics_parser.gpu_utilization[device])


@pytest.fixture
def opened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Callable[[Trace], Opened]:
    """Writes a trace and has the plugin read it and make all its views, without a word of complaint."""
    reason = "torch-tb-profiler is not installed"
    parser = pytest.importorskip("torch_tb_profiler.profiler.data", reason=reason).RunProfileData
    views = import_module("torch_tb_profiler.profiler.run_generator").RunGenerator

    def open_with_the_plugin(trace: Trace) -> Opened:
        path = write_tensorboard(trace, tmp_path / "runs")
        with caplog.at_level(logging.WARNING):
            data = parser.parse("worker", None, str(path), str(tmp_path))
            profile = views("worker", None, data).generate_run_profile()
        assert [record.getMessage() for record in caplog.records] == []
        return Opened(data, profile)

    return open_with_the_plugin


def two_steps(*, synchronised: bool = True) -> Trace:
    """Two steps with operators, kernels on two streams, copies and a memset; or with the device running behind."""
    late = 0 if synchronised else 60
    b = Builder()
    for number, at in ((4, 0), (5, 200)):
        b.host_op(at, at + 190, f"ProfilerStep#{number}", kind=HostKind.ANNOTATION)
        b.host_op(at + 2, at + 12, LOADER, kind=HostKind.ANNOTATION)
        b.host_op(at + 14, at + 40, "aten::linear")
        b.host_op(at + 16, at + 30, "aten::mm")
        b.op(at + 30, at + 90.125, launch=at + 20, name="gemm")
        b.op(at + 50, at + 120 + late, launch=at + 33, name=ODD, stream=8)
        b.op(at + 110, at + 140, launch=at + 45, name="Memcpy HtoD (Pinned -> Device)", stream=9, size=4096)
        b.op(at + 138, at + 141, launch=at + 50, name="Memset (Device)", size=64)
        b.op(at + 150, at + 160.5 + late, launch=at + 55, name="gemm")
        b.sync(at + 60, at + 175)
    return b.trace()


def test_a_synchronised_step_is_shared_out_as_our_steps_and_overlaps_say(opened: Callable[[Trace], Opened]) -> None:
    trace = two_steps()
    found, ours, whole = opened(trace), steps(trace), breakdown(trace, 0)
    parts = found.step_parts()
    assert found.data.steps_names == [str(step.number) for step in ours] == ["4", "5"]
    assert [part["Total"] for part in parts] == [step.duration_ns for step in ours]
    assert [part["Kernel"] for part in parts] == [step.compute_ns for step in ours] == [100_500] * 2
    assert [_device_ns(part) for part in parts] == [step.busy_ns for step in ours]
    assert sum(part["Kernel"] for part in parts) == (
        whole.partition.compute_alone_ns + whole.partition.compute_with_other_ns
    )
    assert sum(part["Memcpy"] for part in parts) == whole.exposed_copy_ns == 40 * US
    assert sum(part["Memset"] for part in parts) == whole.partition.memset_alone_ns == 2 * US
    assert [part["DataLoader"] for part in parts] == [10 * US] * 2
    assert [sum(part[role] for role in ROLES[:-1]) for part in parts] == [part["Total"] for part in parts]


@pytest.mark.parametrize("name", ["by hand", "by hand, late", "v100_4streams_nccl_step"])
def test_a_step_that_the_device_ends_later_is_the_plugins_window_over_our_intervals(
    name: str, opened: Callable[[Trace], Opened]
) -> None:
    trace = two_steps(synchronised="late" not in name) if name.startswith("by hand") else recorded(name)
    assert opened(trace).step_parts() == [parts_of(trace, window) for window in plugin_windows(trace)]


@pytest.mark.parametrize("name", ["by hand", "by hand, late", *(name.removesuffix(".json.gz") for name in NAMES)])
def test_the_plugins_utilisation_is_the_time_with_a_kernel_over_its_steps(
    name: str, opened: Callable[[Trace], Opened]
) -> None:
    trace = two_steps(synchronised="late" not in name) if name.startswith("by hand") else recorded(name)
    found = opened(trace)
    (device,) = trace.device_ids
    span = union(*np.array([[plugin_windows(trace)[0][0]], [plugin_windows(trace)[-1][1]]]))
    with_kernel = total_ns(intersect(_with_kernel(trace), span))
    assert with_kernel > 0
    assert round(found.utilisation(device) * total_ns(span)) == with_kernel
    whole = breakdown(trace, device)
    if total_ns(intersect(busy_intervals(trace), span)) == whole.busy_ns:  # no op outside the steps
        without_kernel_ns = whole.busy_ns - total_ns(_with_kernel(trace))
        utilised = found.utilisation(device) * total_ns(span) + without_kernel_ns
        assert round(utilised) == whole.busy_ns
        assert utilised / whole.extent_ns == pytest.approx(whole.busy_frac, abs=1e-12)
    else:
        assert name == "v100_4streams_nccl_step"


@pytest.mark.parametrize("name", ["by hand", "two devices", *(name.removesuffix(".json.gz") for name in NAMES)])
def test_the_kernel_table_is_ours(name: str, opened: Callable[[Trace], Opened]) -> None:
    made = {"by hand": two_steps, "two devices": two_devices}
    trace = made[name]() if name in made else recorded(name)
    found = opened(trace)
    ours = [kernel for device in trace.device_ids for kernel in kernels(trace, device)]
    by_name = {
        name: (
            sum(k.n_ops for k in ours if k.name == name),
            sum(k.total_ns for k in ours if k.name == name),
            max(k.max_ns for k in ours if k.name == name),
            min(k.min_ns for k in ours if k.name == name),
        )
        for name in {k.name for k in ours}
    }
    assert found.kernel_table() == by_name
    shown = {row[0]: row[2:] for row in found.profile.kernel_table["data"]["rows"]}  # whole µs
    for kernel in ours if len(trace.device_ids) == 1 else ():
        calls, total_us, mean_us, *_ = shown[kernel.name]
        assert calls == kernel.n_ops
        assert abs(total_us - kernel.total_ns / US) <= 0.501
        assert abs(mean_us - kernel.mean_ns / US) <= 0.501


def test_a_kernel_counts_to_the_operator_that_launched_it(opened: Callable[[Trace], Opened]) -> None:
    found = opened(two_steps())
    table = {(row[0], row[1]): row[8] for row in found.profile.kernel_op_table["data"]["rows"]}
    assert table == {("gemm", "aten::mm"): 2, (ODD, "aten::linear"): 2, ("gemm", "CallTreeRoot"): 2}
    device_us = {row["name"]: row["device_total_duration"] for row in found.profile.operation_table_by_name["data"]}
    assert device_us == {"aten::mm": 120, "aten::linear": 260}


def test_collectives_are_joined_as_the_host_marked_them(opened: Callable[[Trace], Opened]) -> None:
    b = Builder()
    b.host_op(0, 100, "ProfilerStep#1", kind=HostKind.ANNOTATION)
    b.host_op(5, 30, "record_param_comms")
    b.host_op(10, 20, "nccl:all_reduce", kind=HostKind.ANNOTATION)
    b.op(40, 70, launch=12, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    b.op(60, 90, launch=32, name="gemm")
    trace = b.trace()
    (parts,) = opened(trace).step_parts()
    (step,) = steps(trace)
    assert parts["Kernel"] == step.compute_ns == 30 * US
    on_host = 10 * US
    assert parts["Communication"] == breakdown(trace, 0).exposed_communication_ns + on_host == 30 * US


def two_devices() -> Trace:
    b = Builder()
    b.op(10, 30, launch=1, name="gemm")
    b.op(15, 40, launch=2, name="gemm", device=2)
    b.op(20, 45, launch=3, name="add", device=2)
    return b.trace(devices=(DeviceInfo(0, "sim", "sim", "2 ms an op"), DeviceInfo(2, "sim", "sim:2", "2 ms an op")))


def test_a_trace_without_steps_is_one_over_its_window(opened: Callable[[Trace], Opened]) -> None:
    trace = replace(two_devices(), meta=replace(two_devices().meta, end_ns=100 * US))
    found = opened(trace)
    assert found.data.steps_names == ["0"]
    assert [part["Total"] for part in found.step_parts()] == [100 * US]
    assert found.utilisation(0) == pytest.approx(0.20)
    assert found.utilisation(2) == pytest.approx(0.30)


def test_devices_say_what_is_known_of_them_and_that_they_are_simulated(opened: Callable[[Trace], Opened]) -> None:
    summary = opened(two_devices()).profile.gpu_summary
    told = [(row["title"], row["value"]) for row in summary if row["title"] in ("GPU 0:", "GPU 2:", "Name", "Memory")]
    names = ("simulated device, 2 ms an op", "simulated device sim:2, 2 ms an op")
    assert told == [("GPU 0:", ""), ("Name", names[0]), ("GPU 2:", ""), ("Name", names[1])]


def test_ops_without_a_launch_and_calls_without_an_op_stay_apart(opened: Callable[[Trace], Opened]) -> None:
    b = Builder()
    b.host_op(0, 50, "aten::mm")
    b.op(0, 10, name="orphan")
    b.op(5, 25, name="orphan", stream=8)
    b.launch(20, correlation=NONE, name="cudaEventQuery")
    b.op(30, 40, launch=25, name="gemm")
    rows = opened(b.trace()).profile.kernel_op_table["data"]["rows"]
    # the plugin hangs what no call launched on the thread that has the steps
    assert {(row[0], row[1]): row[8] for row in rows} == {("orphan", "CallTreeRoot"): 2, ("gemm", "aten::mm"): 1}


@pytest.mark.parametrize(
    "trace",
    [Builder().trace(), Builder().trace(start=5, end=5)],
    ids=["nothing at all", "an empty window"],
)
def test_a_trace_with_nothing_in_it_opens(trace: Trace, opened: Callable[[Trace], Opened]) -> None:
    assert opened(trace).step_parts()[0]["Total"] == US


def test_annotations_that_only_look_like_steps_do_not_stop_the_plugin(opened: Callable[[Trace], Opened]) -> None:
    b = Builder()
    b.host_op(0, 9, "ProfilerStep#last", kind=HostKind.ANNOTATION)
    b.host_op(10, 19, "ProfilerStep#")
    assert opened(b.trace()).data.steps_names == ["0"]


def test_a_simulated_run_agrees(opened: Callable[[Trace], Opened]) -> None:
    torch = pytest.importorskip("torch", reason="the simulated device needs torch")
    device = perfmagic.device("sim")
    with perfmagic.timeline(device="sim") as recording:
        x = torch.ones(64, 64, device=device)
        for _ in range(3):
            x = x @ x
        x.cpu()
    trace = recording.result.trace
    found, (device_id,) = opened(trace), trace.device_ids
    window = plugin_windows(trace)[0]
    assert found.step_parts() == [parts_of(trace, window)]
    table = found.kernel_table()
    assert {k.name: (k.n_ops, k.total_ns) for k in kernels(trace, device_id)} == {k: v[:2] for k, v in table.items()}
    with_kernel = total_ns(intersect(_with_kernel(trace), union(*np.array([window]).T)))
    assert with_kernel == sum(k.total_ns for k in kernels(trace, device_id))  # one stream
    assert round(found.utilisation(device_id) * (window[1] - window[0])) == with_kernel > 0
    assert "simulated device" in found.profile.gpu_summary[1]["value"]


def test_the_file_is_named_as_the_plugin_expects(tmp_path: Path) -> None:
    trace = two_steps()
    pattern = pytest.importorskip(
        "torch_tb_profiler.consts", reason="torch-tb-profiler is not installed"
    ).WORKER_PATTERN
    ranked = replace(trace, meta=replace(trace.meta, rank=3))
    folder = tmp_path / "runs" / "one"
    paths = [
        write_tensorboard(trace, folder),
        write_tensorboard(ranked, folder),
        write_tensorboard(trace, folder, "a.7"),
    ]
    assert [pattern.match(path.name).group(1) for path in paths] == ["worker", "rank3", "a.7"]
    assert all(pattern.match(path.name).group(2) for path in paths)
    assert {path.parent for path in paths} == {folder}


def test_it_reads_back_with_its_launches(tmp_path: Path) -> None:
    trace = recorded("v100_4streams_nccl_step")
    found = read_trace(write_tensorboard(trace, tmp_path))
    for table in ("ops", "calls"):
        columns = columns_by_name(trace, table)
        assert columns_by_name(found, table) == columns | {"correlation": columns_by_name(found, table)["correlation"]}
    assert found.meta.devices == trace.meta.devices


def test_no_folder_is_written(tmp_path: Path) -> None:
    b = Builder()
    b.host_op(0, 10, "/home/ann/lab/train.py(3): step", kind=HostKind.PYTHON)
    path = TimelineResult(b.trace(failed="OSError: /home/ann/x/y.bin")).to_tensorboard(tmp_path, "w")
    text = gzip.decompress(path.read_bytes()).decode()
    assert "/home" not in text
    assert "ann/" not in text
    assert "train.py(3): step" in {event["name"] for event in json.loads(text)["traceEvents"]}


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(OptionError, match=r"taken cannot be made"):
        write_tensorboard(two_steps(), tmp_path / "taken")
    with pytest.raises(OptionError, match=r"'a/b' cannot be part of a file's name"):
        write_tensorboard(two_steps(), tmp_path, "a/b")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def plugin_windows(trace: Trace) -> list[tuple[int, int]]:
    """The plugin's steps, of ours: see the head of this file. Without steps the window, and what the host did."""
    ours: list[Step] = list(steps(trace))
    ops = trace.ops
    if not ours:
        tables = [trace.calls, trace.host_ops]
        start = min([trace.meta.start_ns, *(int(t.start_ns.min()) for t in tables if len(t))])
        end = max([trace.meta.end_ns, *(int(t.end_ns.max()) for t in tables if len(t))])
        return [(start, max(end, int(ops.end_ns.max())))]
    launched = trace.launch_start_ns()
    inside: Bool = np.zeros(len(ops), bool)
    for step in ours:
        inside |= (ops.launch != NONE) & (launched >= step.start_ns) & (trace.launch_end_ns() <= step.end_ns)
    before = ops.end_ns[~inside & (ops.end_ns < ours[0].first_op_ns)]
    previous, windows = max([ours[0].start_ns, *before.tolist()]), []
    for step in ours:
        windows.append((max(previous, step.start_ns), max(step.end_ns, step.last_op_ns or 0)))
        previous = windows[-1][1]
    return windows


def parts_of(trace: Trace, window: tuple[int, int]) -> dict[str, int]:
    """A window shared out as the plugin does, by our interval sets."""
    left, parts = union(*np.array([window]).T), {}
    for role, intervals in _sets(trace).items():
        parts[role] = total_ns(intersect(left, intervals))
        left = subtract(left, intervals)
    return parts | {"Other": total_ns(left), "Total": window[1] - window[0]}


def _sets(trace: Trace) -> dict[str, Intervals]:
    """Our intervals by the plugin's roles. Kernels that a marked collective launched are its communication."""
    ops, host = trace.ops, trace.host_ops
    names = np.array([trace.names[row] for row in host.name], object)
    marked = np.array([name.startswith("nccl:") and name[5:] in MARKED for name in names], bool)
    loader = np.array([name.startswith("enumerate(DataLoader)#") for name in names], bool)
    kernel, collective = ops.kind == OpKind.KERNEL, _launched_in(trace, marked)
    sets = {
        "Kernel": union(ops.start_ns[kernel & ~collective], ops.end_ns[kernel & ~collective]),
        "Memcpy": _class(trace, "copy"),
        "Memset": _class(trace, "memset"),
        "Communication": merge(
            union(ops.start_ns[kernel & collective], ops.end_ns[kernel & collective]),
            union(host.start_ns[marked], host.end_ns[marked]),
        ),
        "Runtime": union(trace.calls.start_ns, trace.calls.end_ns),
        "DataLoader": union(host.start_ns[loader], host.end_ns[loader]),
    }
    operator = (host.kind == HostKind.OP) & ~marked & ~loader
    return sets | {"CpuOp": union(host.start_ns[operator], host.end_ns[operator])}


def _launched_in(trace: Trace, which: Bool) -> Bool:
    """Which ops were launched with one of these host ops as the shortest operator or collective around the call."""
    ops, calls, host = trace.ops, trace.calls, trace.host_ops
    linked = (host.kind == HostKind.OP) | which
    found = np.zeros(len(ops), bool)
    for at in np.flatnonzero(ops.launch != NONE).tolist() if which.any() else ():
        call = ops.launch[at]
        around = linked & (host.thread == calls.thread[call])
        around &= (host.start_ns <= calls.start_ns[call]) & (host.end_ns > calls.start_ns[call])
        rows = np.flatnonzero(around)
        found[at] = len(rows) and which[rows[np.argmin((host.end_ns - host.start_ns)[rows])]]
    return found


def _with_kernel(trace: Trace) -> Intervals:
    return merge(_class(trace, "compute"), _class(trace, "communication"))


def _class(trace: Trace, name: str) -> Intervals:
    return merge(*(breakdown(trace, device).intervals[name] for device in trace.device_ids))


def _device_ns(parts: dict[str, int]) -> int:
    return parts["Kernel"] + parts["Memcpy"] + parts["Memset"]


def _ns(us: float) -> int:
    return round(us * US)
