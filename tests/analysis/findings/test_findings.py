from dataclasses import replace

import pytest

from perfmagic.analysis.findings.advice import for_gpus
from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.verdict import verdict
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.timeline.lines import lines
from perfmagic.analysis.timeline.queueing import launches
from perfmagic.analysis.timeline.trust import trust
from perfmagic.analysis.verdict import DEVICE_BOUND
from perfmagic.base.numerics.intervals import total_ns
from perfmagic.trace.columns import CallKind, DeviceOps, Hazard, HostKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import DeviceInfo, Race, Trace
from tests.analysis.build import US, Builder, queued
from tests.analysis.findings.build import busy_device, first_finding, plain
from tests.trace.recorded import as_bytes, launch_and_kernel

UPLOAD = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def test_a_sync_of_the_cell_at_the_end_says_that_the_cell_waits_itself() -> None:
    b = busy_device()
    b.sync(20, 1001)
    assert "The cell blocks until the device finishes." in verdict(b.trace(returned=1002)).sentence + "."
    assert "blocks until the device finishes" not in verdict(b.trace(returned=15)).sentence  # the measurement synced


def test_a_device_that_waits_for_python_is_host_bound_on_the_line_python_was_on() -> None:
    b = Builder()
    b.line(0, 2)
    b.line(20, 3)
    b.op(0, 10, launch=0)
    b.op(900, 1000, launch=895)
    judged = verdict(b.trace())
    assert (judged.kind, judged.cost_ns, judged.lines) == ("host-bound", 885 * US, (3, 2))
    assert "the device waited 885 µs for Python, 875 µs of it on line 3" in plain(judged.sentence)


def test_a_device_with_work_queued_that_does_not_run_is_stalled() -> None:
    judged = verdict(queued((0, 10, 0), (900, 1000, 1)).trace())
    assert (judged.kind, judged.cost_ns) == ("stalled", 890 * US)
    assert "waited 890 µs with work queued, for reasons that the record does not show" in plain(judged.sentence)


def test_without_device_records_the_host_s_operators_are_named() -> None:
    b = Builder()
    b.host_op(0, 50, "aten::linear")
    b.host_op(10, 40, "aten::addmm")
    assert plain(findings(b.trace())[0].sentence) == (
        "no device records: the host's longest operators, with what they called: aten::linear 50.0 µs"
    )
    assert findings(Builder().trace()) == ()


def test_a_pageable_upload_that_held_python_is_found_with_its_line_and_advice() -> None:
    b = busy_device(20)
    b.op(100, 140, launch=(60, 130), name=UPLOAD)
    b.op(150, 1000, launch=141)
    finding = first_finding(b.trace(), "pageable")
    assert (finding.cost_ns, finding.lines) == (30 * US, (2,))  # idle for 40 µs, of which a launch takes 10
    assert finding.cost_ns <= total_ns(finding.where)
    assert plain(finding.sentence).startswith(
        "1 pageable HtoD copy blocked Python for 70.0 µs on line 2. The device was busy 43 %"
    )
    assert finding.advice


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        ([(20, 110, 150)], "40.0 µs overlapped with kernels launched before: Python"),
        ([(140, 150, 250)], "50.0 µs overlapped with kernels launched while a copy still ran: Python"),
        (
            [(20, 110, 150), (140, 150, 180)],
            "40.0 µs overlapped with kernels launched before and 30.0 µs overlapped with kernels launched while a",
        ),
    ],
)
def test_what_a_pageable_copy_ran_beside_is_split_by_when_it_was_launched(
    launches: list[tuple[int, int, int]], words: str
) -> None:
    """launches: of each kernel its launch, start and end. The copy runs from 110 to 200 µs."""
    b = Builder()
    b.line(0, 2)
    for at, start, end in launches:
        b.op(start, end, launch=at, name="gemm")
    b.op(110, 200, launch=(60, 130), name=UPLOAD, stream=20)
    b.op(900, 1000, launch=300, name="gemm")
    finding = first_finding(b.trace(), "pageable")
    assert words in plain(finding.sentence)
    assert "blocked until the copy was staged, launched nothing that could overlap" in plain(finding.sentence)


def test_uploads_that_indexing_makes_cannot_be_pinned_where_it_is_called() -> None:
    b = busy_device(20)
    b.host_op(60, 140, "aten::index")
    b.op(100, 140, launch=(62, 70), name=UPLOAD)
    b.sync(70, 139)
    b.op(150, 1000, launch=141)
    finding = first_finding(b.trace(), "pageable")
    keep = "are tensors on the CPU that indexing copies to the device: keep indices and values there"
    assert plain(finding.advice) == f"They {keep}"
    b.host_op(200, 300, "aten::to")
    b.op(1001, 1100, launch=(210, 220), name=UPLOAD)
    b.sync(220, 299)
    finding = first_finding(b.trace(), "pageable")
    assert plain(finding.advice) == (
        f"1 of them, 77.0 µs, {keep}. For the others, pin_memory() together with non_blocking=True keeps Python from "
        "blocking, pinning alone does not; to overlap with compute, they also need a stream of their own"
    )


@pytest.mark.parametrize(("name", "back"), [(PINNED, 130), (UPLOAD, 69)], ids=["pinned", "short"])
def test_a_pinned_or_short_upload_is_none(name: str, back: float) -> None:
    b = busy_device(20)
    b.op(100, 140, launch=(60, back), name=name)
    b.op(150, 1000, launch=141)
    assert first_finding(b.trace(), "pageable") is None


LOOP = "%%timeline\nfor batch in batches:\n    {code}\ny.sum().item()"


def rounds_of_copies(code: str, size: int = 4 << 20) -> Trace:
    """Four rounds of a loop: line 3 copies for 100 µs, then a kernel runs for 50 µs."""
    b = Builder()
    for n in range(4):
        at = 200 * n
        b.line(at, 3)
        b.op(at + 10, at + 110, launch=(at + 2, at + 110), name=UPLOAD, size=size)
        b.op(at + 120, at + 170, launch=at + 112, name="gemm")
    return b.trace(end=800, returned=790, cell=LOOP.format(code=code))


@pytest.mark.parametrize("code", ["y = x @ w.to(device)", "w_there = w.cuda(); y = x @ w_there"])
def test_a_tensor_that_a_loop_copies_to_the_device_again_is_copied_once_instead(code: str) -> None:
    trace = rounds_of_copies(code)
    found = first_finding(trace, "repeated_copy")
    assert (found.cost_ns, found.lines) == (300 * US, (3,))  # the first of four copies is needed
    answer = find_answers(trace).answers[0]
    assert plain(answer.headline) == "A loop copies `w` to the device 4 times, unchanged"
    assert str(answer.action) == "Copy it once before the loop, and keep it on the device"
    assert answer.gain_ns >= 300 * US
    assert not any("pin_memory" in a.action for a in find_answers(trace).answers)


@pytest.mark.parametrize(
    "code",
    [
        "y = x @ batch.to(device)",  # the loop's own variable
        "y = x @ batches[0].to(device)",
        "w = load(); y = x @ w.to(device)",
        "fill(w); y = x @ w.to(device)",
        "w.copy_(batch); y = x @ w.to(device)",
        "w[0] = batch; y = x @ w.to(device)",
        "y = w.to(device); y += x",  # its copy on the device is needed afresh
        "y = w.to(device).add_(x)",
        "y = w.to(device).view(-1); y.add_(1)",
        "y: Tensor = w.to(device); y.add_(1)",
        "w.data[0] = 1; y = x @ w.to(device)",
        "w.numpy()[:] = batch; y = x @ w.to(device)",
        "w.load(batch); y = x @ w.to(device)",
        "y = w.to(device)[index]",  # the index may be what is copied
        "y = w.to(torch.half) * torch.tensor(0.5, device=device)",
        "w.to(device)",  # a module, which is copied once
        "y = x @ w.to(device) + '\ud800'",  # no text that Python reads
        "y = w.to(device)(x)",
        "y = x @ w.to(device) + batch.to(device)",
    ],
)
def test_what_may_be_another_tensor_in_each_round_is_no_such_copy(code: str) -> None:
    trace = rounds_of_copies(code)
    assert first_finding(trace, "repeated_copy") is None
    assert any("pin_memory" in a.action for a in find_answers(trace).answers)


def test_item_in_a_loop_is_counted_once_a_call_and_costs_nothing_while_the_device_works() -> None:
    b = busy_device()
    for start in (100, 300, 500):
        b.host_op(start, start + 100, "aten::item")
        b.sync(start + 10, start + 20)
        b.sync(start + 20, start + 90)
    finding = first_finding(b.trace(returned=1000), "sync")
    assert (finding.cost_ns, finding.lines) == (0, (2,))
    assert (
        plain(finding.sentence)
        == "Python blocked 240 µs in .item() ×3 on line 2. The device was busy 100 % of that time"
    )


@pytest.mark.parametrize(
    ("until", "launched", "cost_ns"),
    [(600, 890, 100 * US), (890, 300, None)],  # with an op queued the device was idle for another reason
)
def test_a_sync_costs_the_time_in_which_the_device_was_idle_with_nothing_queued(
    until: float, launched: float, cost_ns: int | None
) -> None:
    b = busy_device(500)
    b.sync(400, until)
    b.op(900, 1000, launch=launched)
    assert first_finding(b.trace(), "sync").cost_ns == cost_ns


def test_the_syncs_at_the_edges_of_a_file_s_record_are_not_laid_on_the_model() -> None:
    b = Builder()
    b.op(1, 1000)  # launched before the record
    b.sync(0, 900, name="cudaDeviceSynchronize")
    b.op(1000, 2000, launch=910)
    b.sync(920, 2010, name="cudaDeviceSynchronize")
    facts = first_finding(b.trace(), "sync")
    assert "×2, where the record begins and ends: profilers synchronize there themselves" in plain(facts.sentence)
    assert "blocks until the device finishes" not in verdict(b.trace()).sentence
    b.host_op(0, 2020, "loop.py(3): run", kind=HostKind.PYTHON)
    b.host_op(0, 900, "torch/cuda/__init__.py(975): synchronize", kind=HostKind.PYTHON)
    facts = first_finding(b.trace(), "sync")
    assert "begins and ends: run (loop.py:3) made the call. The device" in plain(facts.sentence)
    b.host_op(915, 2015, "torch/profiler/profiler.py(235): stop_trace", kind=HostKind.PYTHON)
    facts = first_finding(b.trace(), "sync")
    assert (
        "begins and ends: the calls are from run (loop.py:3) (900 µs) and the profiler (1.09 ms). The device"
        in plain(facts.sentence)
    )
    b.host_op(915, 2015, "aten::item")
    assert "blocks until the device finishes" in verdict(b.trace()).sentence


def test_the_measurement_s_own_sync_is_no_finding() -> None:
    b = busy_device()
    b.sync(100, 1001)
    assert first_finding(b.trace(returned=50), "sync") is None


def test_exposed_copies_are_found_with_their_longest_and_hidden_ones_are_not() -> None:
    b = busy_device(500)
    b.op(400, 600, launch=3, name=PINNED, stream=8)
    finding = first_finding(b.trace(), "exposed_copy")
    assert finding.cost_ns == 100 * US
    assert plain(finding.sentence) == (
        "exposed copies: 100 µs of 200 µs did not overlap with compute. It is an HtoD copy of 200 µs, queued by line 2"
    )
    hidden = busy_device(700)
    hidden.op(400, 600, launch=3, name=PINNED, stream=8)
    assert first_finding(hidden.trace(), "exposed_copy") is None


def test_exposed_communication_follows_the_user_s_pattern() -> None:
    b = busy_device(500)
    b.op(500, 600, launch=3, name="my_exchange", stream=8)
    assert first_finding(b.trace(), "exposed_communication") is None
    finding = next(f for f in findings(b.trace(), comm_names="exchange") if f.rule == "exposed_communication")
    assert finding.cost_ns == 100 * US


def small(n: int, length: float, period: float = 20, *, compute_major: int | None = None) -> Trace:
    """n ops of a length, each launched 6 µs into its period and started 2 µs later."""
    b = Builder()
    for i in range(n):
        b.op(period * i + 8, period * i + 8 + length, launch=period * i + 6)
    return b.trace(devices=(DeviceInfo(0, "cuda", "Test GPU", compute_major=compute_major),))


def test_ops_launched_one_by_one_are_found_with_their_number_and_the_time_python_was_late() -> None:
    finding = first_finding(small(60, 4), "one_by_one")
    # 14 µs until each launch; then 2 µs until the op starts, of all but the last, after which nothing runs dry
    assert finding.cost_ns == (59 * 14 + 58 * 2) * US
    assert plain(finding.sentence) == (
        "60 ops launched one by one: one every 19.7 µs on average, with a median duration of 4.00 µs. "
        "The queue ran empty before each, and the device waited 942 µs for Python. "
        "CUDA graphs or torch.compile launch many ops at once. "
        "With CUDA graphs, the run takes about 316 µs (300 µs to 332 µs) instead of 1.19 ms"
    )
    older = first_finding(small(60, 4, compute_major=6), "one_by_one")
    assert plain(older.advice) == "CUDA graphs launch many ops at once"  # Triton needs 7.0
    assert first_finding(small(9, 4), "one_by_one") is None  # every loop begins with an empty queue
    assert first_finding(small(60, 18), "one_by_one") is None  # launched while the op before was executing
    assert first_finding(small(60, 4, 220), "one_by_one") is None  # Python did something else in between


def steps_with_a_pause(pause_us: float, n: int = 3, stray: int = 0) -> Builder:
    """n training steps of 1 ms; in each "relu" waits so long for an operator of the host; then ops of other names."""
    b = Builder()
    for i in range(n):
        at = 1000 * i
        b.host_op(at, at + 1000, f"ProfilerStep#{i}", kind=HostKind.ANNOTATION)
        b.op(at + 10, at + 500, launch=at + 2, name="gemm")
        b.host_op(at + 490, at + 495 + pause_us, "my augmentation", kind=HostKind.ANNOTATION)
        b.host_op(at + 491, at + 494 + pause_us, "train.py(31): step", kind=HostKind.PYTHON)
        b.host_op(at + 492, at + 493 + pause_us, "aten::sort")
        name = f"relu{i}" if i < stray else "relu"
        b.op(at + 504 + pause_us, at + 1005, launch=at + 500 + pause_us, name=name)
    return b


def test_a_gap_that_comes_again_names_its_op_how_often_where_python_was_and_in_which_steps() -> None:
    finding = first_finding(steps_with_a_pause(100).trace(), "repeated_gap")
    assert finding.cost_ns == 300 * US
    assert plain(finding.sentence) == (
        "recurring gap ×3 between gemm and relu: the device waited 300 µs for Python, 100 µs each, over 3 steps. "
        "Python was in step (train.py:31) for 282 µs of 300 µs, in aten::sort for 279 µs of 300 µs, "
        "inside my augmentation for 285 µs of 300 µs. "
        "torch.compile or CUDA graphs remove this Python work. "
        "With this fixed, the run takes about 2.71 ms (2.57 ms to 2.84 ms) instead of 3.00 ms"
    )


def test_gaps_before_different_ops_or_too_short_or_too_few_are_no_repetition() -> None:
    assert first_finding(steps_with_a_pause(100, stray=1).trace(), "repeated_gap") is None
    assert first_finding(steps_with_a_pause(49).trace(), "repeated_gap") is None
    assert first_finding(steps_with_a_pause(100, n=2).trace(), "repeated_gap") is None


def test_a_gap_in_some_of_the_steps_says_in_how_many() -> None:
    finding = first_finding(steps_with_a_pause(100, n=5, stray=2).trace(), "repeated_gap")
    assert ", over 3 of 5 steps." in plain(finding.sentence)


def test_gaps_while_python_fetches_data_are_left_to_the_finding_on_data_loading() -> None:
    b = steps_with_a_pause(0)
    for i in range(3):
        b.host_op(1000 * i + 1001, 1000 * i + 1400, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
        b.op(1000 * i + 1405, 1000 * i + 1406, launch=1000 * i + 1402, name="copy")
    b.ops = [row for row in b.ops if b.names[row["name"]] in ("copy", "relu")]
    trace = b.trace()
    assert first_finding(trace, "data_loading") is not None
    assert first_finding(trace, "repeated_gap") is None


def test_the_longest_gap_is_found_when_it_is_a_twentieth_of_the_extent() -> None:
    b = busy_device(1000)
    b.op(1055, 1100, launch=1054)
    finding = first_finding(b.trace(), "longest_gap")
    assert finding.cost_ns == 54 * US  # the part in which no launch was under way
    assert ", 55.0 µs: the device waited 54.0 µs for Python and 1.00 µs for launches" in plain(finding.sentence)
    near = busy_device(1000)
    near.op(1054, 1100, launch=1053)
    assert first_finding(near.trace(), "longest_gap") is None


def test_the_longest_gap_names_where_python_was_but_not_the_profiler_s_own_step() -> None:
    for name, said in (("ProfilerStep#4", False), ("## load ##", True)):
        b = busy_device(1000)
        b.host_op(0, 2000, name, kind=HostKind.ANNOTATION)
        b.op(1500, 1600, launch=1499)
        finding = first_finding(b.trace(), "longest_gap")
        assert (f"Python was inside {name}" in finding.sentence) is said


def test_the_longest_gap_is_split_into_its_parts() -> None:
    b = busy_device(100)
    b.sync(110, 120)
    b.op(400, 500, launch=200)
    b.op(500, 1000, launch=450)
    finding, waited = first_finding(b.trace(), "longest_gap"), first_finding(b.trace(), "sync")
    assert plain(finding.detail) == (
        ", 300 µs: the device waited 199 µs with work queued, for reasons that the record does not show, 90.0 µs for "
        "Python, 10.0 µs while Python was in a blocking call and 1.00 µs for launches to arrive on line 2"
    )
    assert (finding.cost_ns, waited.cost_ns) == (200 * US, 10 * US)  # no instant counts twice


def test_a_longest_gap_that_several_findings_explain_is_left_out() -> None:
    b = busy_device(100)
    b.sync(110, 150)
    b.op(400, 500, launch=200)
    b.op(500, 1000, launch=450)
    assert first_finding(b.trace(), "longest_gap") is None


def test_the_longest_gap_is_a_part_of_the_finding_that_explains_it() -> None:
    b = busy_device(100)
    b.sync(90, 390)
    b.op(400, 1000, launch=(391, 395))
    b.sync(980, 1190)
    b.op(1200, 1800, launch=(1191, 1195))
    tree = [(f.depth, f.rule, f.cost_ns) for f in findings(b.trace())]
    at = tree.index((0, "sync", (290 + 190) * US))
    assert tree[at + 1] == (1, "longest_gap", 290 * US)


def test_the_longest_gap_is_left_out_where_a_finding_is_about_little_else() -> None:
    b = busy_device(100)
    b.sync(90, 390)
    b.op(400, 1000, launch=(391, 395))
    found_rules = [(f.rule, f.cost_ns) for f in findings(b.trace())]
    assert ("sync", 290 * US) in found_rules
    assert "longest_gap" not in [rule for rule, _ in found_rules]


def full_queue(depth: int) -> Trace:
    b = busy_device(5000)
    for i in range(depth):
        b.op(5000 + i, 5001 + i, launch=(10 + i, 10.5 + i))
    b.op(8000, 8001, launch=(1500, 4000))
    return b.trace()


def test_a_launch_that_waited_for_room_in_the_queue_is_found_and_costs_nothing() -> None:
    finding = first_finding(full_queue(950), "queue_full")
    assert (finding.cost_ns, finding.lines) == (0, (2,))
    assert "1 launch blocked Python for 2.50 ms on line 2. Up to 951 launches were queued" in plain(finding.sentence)
    assert first_finding(full_queue(800), "queue_full") is None


def test_all_findings_are_ranked_by_cost_behind_the_verdict() -> None:
    b = busy_device(300)
    b.sync(200, 350)
    b.op(400, 900, launch=360, name=PINNED)
    rules = [f.rule for f in findings(b.trace())]
    assert rules == ["verdict", "exposed_copy", "sync", "device_time"]


def test_a_missing_wait_comes_before_all_else_and_names_both_lines() -> None:
    b = busy_device(300)
    writer = b.op(300, 350, launch=20, name="gemm", stream=8)
    b.op(400, 900, launch=360, name=PINNED)
    b.line(370, 3)
    reader = b.op(900, 950, launch=380, name="add")
    kinds = findings(b.trace(races=(Race(reader, writer),)))[:2]
    assert [f.rule for f in kinds] == ["race", "verdict"]
    assert (kinds[0].lines, kinds[0].cost_ns) == ((2, 3), None)
    assert plain(kinds[0].sentence).startswith(
        "a wait is missing, and on a GPU the result may be wrong: add on line 3 uses on stream 7 what gemm on line 2 "
        "writes on stream 8"
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Hazard.WRITE_AFTER_READ, "zero on line 3 overwrites on stream 7 what mul on line 2 reads on stream 8"),
        (Hazard.WRITE_AFTER_WRITE, "zero on line 3 overwrites on stream 7 what mul on line 2 writes on stream 8"),
    ],
)
def test_a_missing_wait_says_what_each_op_does_with_the_memory(kind: Hazard, words: str) -> None:
    b = Builder()
    b.line(0, 2)
    earlier = b.op(10, 110, launch=5, name="mul", stream=8)
    b.line(6, 3)
    later = b.op(120, 220, launch=7, name="zero")
    found = findings(b.trace(races=(Race(later, earlier, kind),)))[0]
    assert words in plain(found.sentence)
    assert found.advice == "Stream 7 must wait for stream 8 first, with wait_stream()"


def test_of_one_line_a_missing_wait_each_way_is_two_findings() -> None:
    b = Builder()
    b.line(0, 2)
    first = b.op(10, 110, launch=5, name="mm")
    there = b.op(120, 220, launch=6, name="mm", stream=8)
    back = b.op(230, 330, launch=7, name="add")
    found = [f for f in findings(b.trace(races=(Race(there, first), Race(back, there)))) if f.rule == "race"]
    assert sorted(f.advice for f in found) == [
        "Stream 7 must wait for stream 8 first, with wait_stream()",
        "Stream 8 must wait for stream 7 first, with wait_stream()",
    ]


def test_a_blocking_call_names_the_operator_that_asked() -> None:
    b = Builder()
    b.host_op(0, 100, "my_module")
    b.host_op(1, 50, "aten::nonzero")
    b.host_op(2, 40, "aten::copy_")
    b.sync(3, 3)
    b.sync(60, 70)
    b.sync(200, 210)
    result = syncs(b.trace())
    assert [result.asker_name(i) for i in range(3)] == ["nonzero", "my_module", "cudaStreamSynchronize"]


def test_trust_counts_what_is_missing() -> None:
    b = Builder()
    b.op(1, 2)  # before the window
    b.op(10, 20, launch=5)
    b.op(15, 30)  # launch record missing, overlaps
    b.op(40, 40, launch=45)  # before its launch, no duration
    b.launch(50)  # no device record
    b.launch(51, name="cudaMemsetAsync")
    b.launch(52, name="cudaStreamBeginCapture", kind=CallKind.OTHER)
    b.launch(53)
    b.launch(54, name="cudaStreamEndCapture", kind=CallKind.OTHER)
    result = trust(b.trace(dropped_events=3))
    assert (result.n_orphans, result.n_without_launch, result.n_overlaps) == (1, 1, 1)
    assert (result.n_before_launch, result.n_zero_durations, result.n_launches_without_op) == (1, 1, 1)
    assert len(result.sentences) == 7
    assert trust(busy_device().trace()).sentences == ()


def test_a_line_is_charged_with_its_host_queue_device_and_idle_time() -> None:
    b = Builder()
    b.line(0, 2)
    b.line(20, 3)
    b.line(100, 0)
    b.op(5, 15, launch=2)
    b.op(50, 90, launch=45)
    b.sync(60, 95)
    two, three = lines(b.trace(returned=100, cell="%%timeline\na = f()\nb = g()"))
    assert (two.line, two.text, two.host_ns, two.n_ops, two.device_ns) == (2, "a = f()", 20 * US, 1, 10 * US)
    assert (two.queued_ns, two.blocked_ns, two.idle_ns) == (3 * US, 0, 5 * US)
    assert (three.line, three.host_ns, three.n_launches, three.blocked_ns) == (3, 80 * US, 1, 35 * US)
    assert three.idle_ns == 25 * US


def test_a_graph_is_one_launch_of_many_ops() -> None:
    b = Builder()
    graph = b.launch(0, 4)
    for i in range(3):
        b.op(5 + i, 6 + i, of=graph)
    b.op(10, 11, launch=(6, 8))
    result = launches(b.trace())
    assert (result.n_calls, result.n_ops, result.n_graphs, result.largest_graph) == (2, 4, 1, 3)
    assert result.mean_call_ns == 3 * US


def test_streams_that_ran_at_once_are_said_and_so_are_those_that_did_not() -> None:
    b = Builder()
    b.op(10, 30, launch=1, stream=7)
    b.op(20, 50, launch=2, stream=8)
    at_once = first_finding(b.trace(returned=5), "streams")
    assert plain(at_once.sentence) == "2 streams ran concurrently for 10.0 µs, 25 % of the time the device was busy"
    b = Builder()
    b.op(10, 30, launch=1, stream=7)
    b.op(30, 50, launch=2, stream=8)
    in_turn = first_finding(b.trace(returned=5), "streams")
    assert in_turn.sentence == "2 streams never ran concurrently"
    assert first_finding(busy_device().trace(), "streams") is None


def test_waits_that_leave_the_queue_empty_say_what_the_device_then_lost() -> None:
    b = Builder()
    b.line(0, 3)
    for i in range(4):
        b.op(100 * i + 10, 100 * i + 40, launch=100 * i)
        b.sync(100 * i + 2, 100 * i + 41)
    waits = first_finding(b.trace(returned=342), "sync")
    assert "Each left the queue empty. The device then waited 181 µs for Python" in plain(waits.sentence)


def test_time_before_the_first_op_is_charged_to_the_line_python_was_on() -> None:
    b = Builder()
    b.line(0, 2)
    b.line(400, 3)
    b.line(900, 4)
    b.op(910, 990, launch=905)
    judged = verdict(b.trace(end=1000, returned=1000))
    assert "the device waited 905 µs for Python, 500 µs of it on line 3" in plain(judged.sentence)
    assert "Python worked on for 10.0 µs after the last op" in plain(judged.sentence)


def fetching(until: float) -> Trace:
    """The device idles from 500 to 900 µs; Python is in the loader up to an instant."""
    b = busy_device(500)
    b.host_op(400, until, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    b.op(900, 1000, launch=890)
    return b.trace()


def test_data_loading_costs_the_time_in_which_the_device_waited_for_the_loader() -> None:
    finding = first_finding(fetching(800), "data_loading")
    assert (finding.cost_ns, finding.lines) == (300 * US, (2,))
    assert plain(finding.sentence).startswith(
        "data loading: the device waited 300 µs while Python fetched 1 batch on line 2. With num_workers"
    )
    assert first_finding(fetching(505), "data_loading") is None


def test_a_cell_whose_device_begins_late_or_ends_early_is_found_and_a_file_is_not() -> None:
    b = Builder()
    b.line(0, 2)
    b.line(150, 3)
    b.op(200, 800, launch=190)
    cell = b.trace(start=0, end=1000, returned=1000)
    late, alone = sorted((f for f in findings(cell) if f.rule == "alone"), key=lambda f: f.start_ns)
    assert (late.cost_ns, late.lines, alone.cost_ns, alone.lines) == (190 * US, (2,), 200 * US, (3,))
    assert (
        plain(late.sentence)
        == "the device started late: it ran no op for the first 190 µs, 19 % of the cell, on line 2"
    )
    assert first_finding(b.trace(start=130, end=870, returned=870), "alone") is None
    assert first_finding(b.trace(start=0, end=1000), "alone") is None


def early(n: int, ahead: float) -> Trace:
    """n of 100 ops start before their launch."""
    b = Builder()
    for i in range(100):
        b.op(20 * i, 20 * i + 10, launch=20 * i + (ahead if i < n else -5))
    return b.trace()


def test_clocks_that_disagree_are_said_with_the_largest_error() -> None:
    finding = first_finding(early(2, 7), "clocks")
    assert "2 ops start before the launch, by up to 7.00 µs" in plain(finding.sentence)
    assert first_finding(early(0, 7), "clocks") is None
    assert first_finding(early(1, 7), "clocks") is not None


def unrecorded(n: int) -> Trace:
    b = Builder()
    for i in range(200):
        b.op(20 * i, 20 * i + 10, launch=20 * i - 5)
    for i in range(n):
        b.launch(5000 + i)
    return b.trace()


def test_launches_without_a_record_make_it_incomplete() -> None:
    finding = first_finding(unrecorded(3), "incomplete")
    assert "3 of 203 launches have no device record" in plain(finding.sentence)
    assert first_finding(unrecorded(2), "incomplete") is None


def gemms(without_us: float, gpu: str) -> Trace:
    """100 µs of matrix kernels on tensor cores, some without, and other kernels, 500 µs in all."""
    b = Builder()
    b.op(0, 100, launch=-5, name="ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_nn")
    b.op(100, 100 + without_us, launch=-4, name="ampere_sgemm_128x64_nn")
    b.op(100 + without_us, 500, launch=-3, name="vectorized_elementwise_kernel")
    return b.trace(devices=(DeviceInfo(0, "cuda", gpu),))


def test_matrix_kernels_without_tensor_cores_are_found_where_the_gpu_has_some() -> None:
    finding = first_finding(gemms(100, "NVIDIA A100-SXM4-80GB"), "tensor_cores")
    assert "cudnn" not in finding.advice  # no convolution did without
    assert "matrix kernels ran without them for 100 µs, 20 % of the kernel time" in plain(finding.sentence)
    assert "set_float32_matmul_precision" in finding.advice
    older = first_finding(gemms(100, "Tesla V100-SXM2-16GB"), "tensor_cores")
    assert older.advice == "Matrix products use them under autocast to float16"
    assert first_finding(gemms(99, "NVIDIA A100-SXM4-80GB"), "tensor_cores") is None
    assert first_finding(gemms(100, "Quadro GP100"), "tensor_cores") is None


def two_devices(second_us: float) -> Trace:
    """Device 3 is busy for 600 of 1000 µs, device 5 for so long; both wait for Python in between."""
    b = Builder()
    b.op(0, 300, launch=0, device=3, name="gemm")
    b.op(700, 1000, launch=695, device=3, name="gemm")
    b.op(1, second_us / 2, launch=0, device=5, name="gemm")
    b.op(second_us / 2, second_us, launch=1, device=5, name="gemm")
    return b.trace(devices=(DeviceInfo(3, "cuda", "Test GPU"), DeviceInfo(5, "cuda", "Test GPU")))


def test_of_several_devices_the_verdict_and_the_findings_name_the_one_they_speak_of() -> None:
    first, gap = findings(two_devices(500))[:2]
    assert plain(first.sentence) == (
        "host-bound: device 3, the busiest of 2, waited 395 µs for Python. It was busy 60 % of its extent"
    )
    assert plain(gap.sentence).startswith("longest idle gap, 400 µs: device 3 waited 395 µs for Python and 5.00 µs")
    bound = findings(two_devices(1000))[0]
    assert plain(bound.sentence) == (
        "device-bound: device 5, the busiest of 2, was busy 100 % of its extent. Python ran up to 1 op and 999 µs ahead"
    )
    assert all("device 0" not in f.sentence for f in findings(busy_device().trace()))


def test_a_wait_for_several_devices_does_not_call_one_of_them_busy() -> None:
    b = Builder()
    b.op(0, 600, launch=0, device=3)
    b.op(0, 900, launch=1, device=5)
    b.sync(100, 1000)
    b.op(1010, 1400, launch=1001, device=5)
    devices = (DeviceInfo(3, "cuda", "Test GPU"), DeviceInfo(5, "cuda", "Test GPU"))
    finding = first_finding(b.trace(devices=devices), "sync")
    assert ". Some device was busy 89 % of that time" in plain(finding.sentence)
    one = Builder()
    one.op(0, 900, launch=0, device=3)
    one.sync(100, 1000)
    one.op(1010, 1400, launch=1001, device=3)
    assert ". The device was busy 89 % of that time" in plain(
        first_finding(one.trace(devices=devices), "sync").sentence
    )


def test_a_verdict_says_what_the_device_spent_alone_for_a_twentieth_of_the_time() -> None:
    b = busy_device(100)
    b.op(100, 700, launch=3, name="ncclDevKernel_AllReduce", stream=8)
    b.op(1000, 1100, launch=990)
    first, *others = findings(b.trace())
    second = next(one for one in others if one.rule == "exposed_communication")
    assert first.cause == "host-bound"
    assert plain(first.detail).endswith(
        "While busy, it spent 600 µs in communication that did not overlap with compute"
    )
    assert (second.rule, second.cost_ns) == ("exposed_communication", 600 * US)
    # Python is later still: it would be no shorter without
    assert second.won_ns == 0
    assert second.gain_text.startswith("Fixing this alone saves almost nothing: the critical path is 90")
    b = busy_device(100)
    b.op(100, 154, launch=3, name="ncclDevKernel_AllReduce", stream=8)
    b.op(1000, 1100, launch=990)
    assert "hile busy" not in findings(b.trace())[0].sentence
    b = busy_device(900)
    b.op(900, 1000, launch=3, name="ncclDevKernel_AllReduce", stream=8)
    b.op(1000, 1110, launch=4, name=PINNED)
    assert findings(b.trace())[0].cause == "device-bound"
    assert "While busy, it spent 110 µs in copies and 100 µs in communication" in plain(findings(b.trace())[0].sentence)


def test_behind_device_bound_the_first_finding_is_not_about_an_idle_device() -> None:
    b = busy_device(900)
    b.op(900, 930, launch=3, name=PINNED)
    b.sync(4, 931)
    b.op(985, 1000, launch=984)
    first, second, *_ = findings(b.trace())
    assert (first.cause, first.cost_ns, second.rule) == (DEVICE_BOUND, None, "device_time")


def of_ten(n_repaired: int) -> bytes:
    """Ten kernels of 100 µs, some without a duration."""
    events = []
    for i in range(10):
        events += launch_and_kernel(i, 100 * i - 50, 100 * i)
        events[-1]["dur"] = 100
        if i < n_repaired:
            del events[-1]["dur"]
    return as_bytes(events)


def test_a_verdict_on_repaired_durations_says_so_and_on_too_many_there_is_none() -> None:
    assert "repaired" not in verdict(read_trace(of_ten(0))).sentence
    trace = read_trace(of_ten(0))
    few = replace(trace, meta=replace(trace.meta, repaired_ops=1, repaired_ns=99 * US, repaired_calls=2))
    few = replace(few, ops=DeviceOps.make({**_twice(few)}))
    judged = verdict(few)
    assert judged.kind == "device-bound"
    assert plain(judged.sentence).endswith("It rests on repaired durations of 1 of 20 device ops and 2 of 10 calls")
    broken = read_trace(of_ten(1))
    assert (broken.meta.repaired_ops, broken.meta.repaired_ns, broken.meta.repaired_calls) == (1, 0, 0)
    (first,) = findings(broken)
    assert plain(first.sentence) == (
        "no verdict: it rests on repaired durations of 1 of 10 device ops, too many to say who waited for whom"
    )


def _twice(trace: Trace) -> dict[str, list[int]]:
    """The ops of a trace, and the same once more behind them."""
    columns = {name: [*column.tolist()] * 2 for name, column in trace.ops.to_dict().items()}
    for name in ("start_ns", "end_ns"):
        columns[name][10:] = [ns + 1000 * US for ns in columns[name][10:]]
    return columns


def test_advice_to_compile_or_capture_is_for_gpus_where_the_device_is_simulated() -> None:
    advice = "CUDA graphs or torch.compile launch many ops at once"
    for kind, expected in (("cuda", advice), ("sim", f"On a GPU, {advice}; the simulated device cannot do that")):
        trace = Builder().trace(devices=(DeviceInfo(0, kind, kind),))
        assert for_gpus(trace, 0, advice) == expected
    assert for_gpus(trace, 0, "") == ""
