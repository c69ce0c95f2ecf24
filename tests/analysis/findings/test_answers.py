"""What to do: findings with one remedy are one answer, replayed once, the most first."""

from dataclasses import replace

import pytest

from perfmagic.analysis.findings.answer import Answers, name_action
from perfmagic.analysis.findings.answers import LEAST_FRAC, MOST_ANSWERS, find_answers, who_decides
from perfmagic.analysis.findings.catalogue import action
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.kernels import claim
from perfmagic.analysis.verdict import STALLED
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import DeviceInfo
from tests.analysis.build import Builder, queued
from tests.analysis.findings.build import plain
from tests.trace.recorded import ALL, real, real_trace, recorded


def answered(name: str) -> Answers:
    return find_answers(real_trace(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_answers_of_recorded_traces_gain_and_stand_by_their_gain(name: str) -> None:
    answers = answered(name)
    assert len(answers.answers) <= MOST_ANSWERS
    worth = [(a.cost_ns if a.gain_ns is None else a.gain_ns) or 0 for a in answers.answers]
    assert worth == sorted(worth, reverse=True)
    for answer in answers.answers:
        assert answer.action
        worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
        assert worth_ns is None or worth_ns >= LEAST_FRAC * answer.before_ns
        assert answer.low_ns is None or answer.low_ns <= (answer.after_ns or 0) <= (answer.high_ns or 0)
    assert len({answer.action for answer in answers.answers}) == len(answers.answers)
    if answers.together is not None:
        assert all(answers.together.after_ns <= (a.after_ns or answers.together.after_ns) for a in answers.answers)


def test_one_remedy_is_one_answer_with_every_rule_that_asks_for_it() -> None:
    (first,) = answered("a100_alexnet_cuda_sync").answers
    assert (plain(first.headline), first.action) == (
        "The record is cold: it includes what only first calls do",
        "Record a warm run: run the code once before recording",
    )
    assert first.rules == ("in_call", "alone")
    assert len(first.evidence) == 2


def test_one_lost_launch_and_one_earlier_op_are_said_in_the_singular() -> None:
    b = Builder()
    b.op(-20, 10)
    b.op(10, 20, launch=5)
    b.launch(15)  # no device record
    warnings = " ".join(map(plain, find_answers(b.trace()).warnings))
    assert "1 launch has no device record" in warnings
    assert "The record begins while earlier work still runs: 1 op, 30.0 µs" in warnings


@pytest.mark.slow
def test_what_gains_little_is_named_and_is_no_answer() -> None:
    answers = answered("v100_4streams_nccl_graphs")
    assert answers.little_gain == (".item() stops Python 8 times",)
    assert "item" not in "".join(answer.headline for answer in answers.answers)


def test_copies_that_are_mostly_on_the_device_have_no_action_for_batches() -> None:
    answers = answered("v100_4streams_nccl_graphs")
    assert "34.5 ms of copies overlap no compute" in map(plain, answers.also_seen)


def test_tensor_cores_are_no_faster_than_the_data_sheet_says() -> None:
    """The answer's bound against the sum of the claimed kernels: a V100 has 125 TFLOP/s for 15.7 of float32."""
    trace = real_trace("v100_float_epoch_ns")
    (answer,) = find_answers(trace).answers
    claimed = claim(Facts(trace, None), "tensor_cores")
    assert answer.at_most
    assert 0 < (answer.gain_ns or 0) <= claimed.ops_ns * (1 - 15.7 / 125) + 1


def test_the_text_is_cut_at_the_headline_and_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    answer = replace(answered("a100_nccl_rank0of2").answers[1], headline="kernel\x1b[31m" * 9)
    lines = Answers("Python decides", 441_000_000, (answer,), also_seen=("a\x1b[2J" * 9,)).text().splitlines()[1:]
    assert plain(lines[0]).endswith("…  441 ms → 395 ms")
    assert all(len(line) <= 60 for line in lines)
    assert "\x1b" not in "".join(lines)


def test_a_fact_without_a_remedy_is_also_seen() -> None:
    assert [plain(headline) for headline in answered("a100_nccl_rank0of2").also_seen] == [
        "20.7 ms of communication overlaps no compute"
    ]


def test_the_text_has_two_lines_for_each_answer_and_ends_with_the_rest() -> None:
    lines = plain(answered("a100_nccl_rank0of2").text()).splitlines()
    assert lines[0] == "441 ms   Python decides: the device waited for it 76 % of the time"
    assert [line.split()[0] for line in lines[1:]] == ["1", "→", "2", "→", "Also"]
    assert lines[1].endswith("at best 441 ms → 186 ms")
    assert lines[3].endswith("441 ms → 395 ms")


def test_an_action_says_on_which_lines_unless_the_headline_does() -> None:
    assert name_action("Python is late", "Batch them", ()) == "Batch them"
    assert name_action("Python is late", "Batch them", (4,)) == "Batch them (line 4)"
    assert name_action("Python is late", "Batch them", (4, 5, 7, 9)) == "Batch them (lines 4, 5, 7, …)"
    assert name_action("Rank 1 is late on line 4", "Batch them", (4,)) == "Batch them"
    assert name_action("both", "", (4,)) == ""


def test_a_device_that_was_busy_once_it_began_did_not_stand_still() -> None:
    builder = Builder()
    for i in range(10):
        builder.op(100_000 + i * 10_000, 110_000 + i * 10_000, launch=builder.launch(i, i + 1))
    trace = builder.trace(end=200_000)
    open_text = who_decides(Facts(trace, None), STALLED)
    assert plain(open_text) == "Open: the first op began 100 ms late; then the device was busy 100 %"


@pytest.mark.parametrize(
    ("device", "remedy"), [(DeviceInfo(0, "cuda", "GPU"), "other_work"), (DeviceInfo(0, "sim", "sim"), "virtual_clock")]
)
def test_an_idle_queue_of_a_simulated_device_is_put_down_to_its_thread(device: DeviceInfo, remedy: str) -> None:
    (answer,) = find_answers(queued((0, 10, 0), (900, 1000, 1)).trace(devices=[device])).answers
    assert answer.action == action(remedy)


def test_one_unexplained_gap_near_the_beginning_is_named_with_what_followed() -> None:
    assert plain(answered("mi300_sglang_hipgraph").decides) == (
        "Open: one early gap of 463 ms is unexplained; then the device was busy 93 %"
    )


def test_only_operators_that_copy_nothing_to_the_device_read_values() -> None:
    answers = answered("mi300_sglang_prefilldecode")  # both .to() copy 60 bytes to the device
    assert ".to() stops Python 2 times" in map(plain, answers.also_seen)
    assert "Read the values once, after the loop" not in {answer.action for answer in answers.answers}


def test_the_headlines_are_those_of_findings_without_a_time_where_a_gain_is_known() -> None:
    known = {finding.headline for finding in findings(real_trace("a100_nccl_rank0of2"))}
    answers = answered("a100_nccl_rank0of2")
    assert {*answers.little_gain, *answers.also_seen} <= known
    first, second = (answer.headline for answer in answers.answers)
    assert first == "The device waits for Python between ops", "of two findings"
    assert second in known
    (alone,) = (a for a in answered("gp100_gpu_user_annotation").answers if a.rules == ("alone",))
    assert plain(alone.headline) == "The record is cold: it includes what only first calls do"


def test_without_device_work_or_after_a_failure_there_is_nothing_to_do() -> None:
    assert find_answers(Builder().trace()) == Answers("No device activity is in the record", 0)
    failed = find_answers(queued((0, 10, 0)).trace(failed="ValueError: no"))
    assert (failed.decides, failed.answers) == ("The code failed before its end", ())
    builder = Builder()
    builder.launch(0, 10)
    lost = find_answers(builder.trace(end=20))
    assert (plain(lost.decides), lost.total_ns) == ("Device work was not recorded: 1 launch, no kernels", 20_000)


def test_the_last_reductions_of_ddp_that_overlap_nothing_ask_for_other_ranks_and_buckets() -> None:
    answers = answered("mi300_resnet_2streams")
    assert action("last_bucket") in [answer.action for answer in answers.answers]


def test_a_collective_far_slower_than_a_larger_one_waits_for_another_rank() -> None:
    """The all-to-all of 24 kB took 6,132 µs and 542 µs; that of 192 bytes 1,021 µs, one of 14 kB 133 µs."""
    answers = answered("dlrm_8ranks/worker3_step_12.1694128201557")
    (answer,) = (answer for answer in answers.answers if answer.action == action("open_ranks"))
    assert answer.at_most
    assert 0 < (answer.gain_ns or 0) <= (6_132 - 542 + 1_021 - 133) * 1_000
    assert answer.cost_ns <= (6_132 - 542 + 1_021 - 133) * 1_000


def test_work_for_torch_compile_or_graphs_is_one_answer_with_work_for_graphs_alone() -> None:
    (answer,) = (a for a in answered("b200_pdl_overlaps_python_stacks").answers if "CUDA graphs" in a.action)
    assert answer.action == action("graphs")
    assert {"one_by_one", "many_gaps", "repeated_gap"} == {*answer.rules}


def test_indices_kept_on_the_device_have_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.analysis.findings.answers.MOST_ANSWERS", 5)  # three others gain more
    answers = find_answers(read_trace(real("dlrm_8ranks/worker0_step_12.1694128201545")))
    (answer,) = (answer for answer in answers.answers if answer.action == action("keep_indices"))
    assert answer.gain_ns


def test_indices_kept_on_the_device_gain_their_copies_and_the_waits_for_them() -> None:
    b = Builder()
    for n in range(3):  # Python is in the copy for 40 µs of each round, and works for 20 µs before it
        at = 100 * n
        b.host_op(at + 20, at + 60, "aten::index")
        b.op(at + 30, at + 59, launch=(at + 21, at + 60), name="Memcpy HtoD (Pageable -> Device)", size=1 << 20)
        b.op(at + 65, at + 100, launch=(at + 61, at + 62))
    (answer,) = (a for a in find_answers(b.trace(end=300)).answers if a.action == action("keep_indices"))
    assert 3 * 29_000 <= (answer.gain_ns or 0) <= 3 * 40_000


def test_a_first_call_far_longer_than_later_ones_says_that_the_record_is_cold() -> None:
    """By the file, the first copy of 19.3 MB began 36.4 ms after its call, which took 40.0 ms, later ones 3.9 ms."""
    (answer,) = (a for a in answered("v100_2021_old_categories").answers if a.action == action("warm_up"))
    assert 0.9 * 36_436_000 <= (answer.gain_ns or 0) <= 40_000_000
    b = Builder()
    for n in range(20):
        took = 40 if n == 0 else 9
        b.op(60 * n + took + 1, 60 * n + 59, launch=(60 * n, 60 * n + took), name="gemm")
    (cold,) = (f for f in findings(b.trace()) if f.rule == "alone")
    assert (cold.action, cold.end_ns - cold.start_ns) == (action("warm_up"), 40_000)
    b.launch(1300, 1311)  # 40 µs is less than four times as long
    assert not [f for f in findings(b.trace()) if f.rule == "alone"]


def test_a_record_too_large_for_its_path_still_has_gains() -> None:
    answers = answered("a100_segment_anything").answers  # 132,676 instants
    assert answers[0].action.startswith("Batch the work")
    assert any(answer.gain_ns for answer in answers)


def test_workers_of_a_loader_gain_at_best_what_the_loads_cost() -> None:
    """With workers the same training took 126 ms a step (v100_2021_old_categories); six steps are recorded."""
    (answer,) = (a for a in answered("v100_resnet50_workers0").answers if "data_loading" in a.rules)
    assert answer.at_most
    assert (answer.after_ns or 0) < 6 * 126_000_000 < answer.before_ns


def test_a_record_without_a_replay_still_bounds_what_tensor_cores_gain() -> None:
    found = find_answers(recorded("v100_4streams_nccl_step"))
    first = found.answers[0]
    assert (first.rules, first.at_most) == (("tensor_cores",), True)
    # 44.0 ms of kernels, at 15.7 instead of 125 TFLOP/s: data sheet of the V100
    assert first.gain_ns == pytest.approx(44.0e6 * (1 - 15.7 / 125), rel=0.01)
    assert any("no replay" in warning for warning in found.warnings)
