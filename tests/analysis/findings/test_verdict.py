"""The verdict: every case of tests/data/verdict_cases.txt, and what docs/verdict.md promises for any trace."""

import re
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.facts import Facts, cell_time
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.verdict import judged_by_path, verdict, verdict_of
from perfmagic.analysis.replay.critical_path import DECIDES_FRAC, KEPT_BUSY_FRAC
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND, HOST_TAIL, KINDS, MIXED, NO_RECORDS, NO_VERDICT
from perfmagic.base.numerics.intervals import intersect, merge, total_ns
from perfmagic.base.units import percent
from perfmagic.trace.model import DeviceInfo, Trace
from perfmagic.view.timeline.doc import timeline_doc
from tests.analysis.build import US, Builder, queued
from tests.analysis.findings.build import plain

pytestmark = pytest.mark.slow

DOC = Path(__file__).parents[3] / "docs" / "verdict.md"
CASES = Path(__file__).parents[2] / "data" / "verdict_cases.txt"
_TERM = r"[\d.]+i|[\d.]+(?:\+[\d.]+i)?"
_OP = re.compile(rf"`({_TERM})(?:–({_TERM}))? → ({_TERM})–({_TERM})`(?: i < (\d+))?(?: device (\d+))?(?: (pageable))?")
_SPAN = re.compile(rf"`({_TERM})–({_TERM})`(?: i < (\d+))?")


class Case(NamedTuple):
    """A row of the table of cases."""

    name: str
    ops: str
    blocked: str
    returned: str
    end: str
    kind: str
    busy: str


def cases() -> list[Case]:
    table = CASES.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return list(starmap(Case, rows[2:]))


def at(term: str, i: int) -> float:
    """The value of "40+100i"."""
    return sum(float(part.rstrip("i")) * (i if part.endswith("i") else 1) for part in term.split("+"))


def built(case: Case) -> Trace:
    b, sim = Builder(), case.ops.endswith("sim")
    for launched, returned, start, end, n, device, pageable in _OP.findall(case.ops):
        for i in range(int(n or 1)):
            first = at(launched, i)
            last = at(returned, i) if returned else first + 0.4
            name = "Memcpy HtoD (Pageable -> Device)" if pageable else "kernel"
            b.op(at(start, i), at(end, i), launch=(first, last), device=int(device or 0), name=name)
    for start, end, n in _SPAN.findall(case.blocked):
        for i in range(int(n or 1)):
            b.sync(at(start, i), at(end, i))
    kind = "sim" if sim else "cuda"
    known = sorted({row["device"] for row in b.ops})
    return b.trace(
        end=float(case.end),
        returned=None if case.returned == "–" else float(case.returned),
        devices=[DeviceInfo(int(device), kind, kind) for device in known],
    )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_case_has_its_verdict(case: Case) -> None:
    trace = built(case)
    assert len(trace.ops) == sum(int(n or 1) for *_, n, _, _ in _OP.findall(case.ops)) > 0
    judged = verdict(trace)
    assert (judged.kind, plain(percent(judged.busy_frac))) == (case.kind, case.busy)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_words_and_picture_give_one_busy_share_of_one_named_whole(case: Case) -> None:
    trace = built(case)
    found = findings(trace)
    header = timeline_doc(trace, found).header
    of = "its extent" if case.returned == "–" else "the cell"
    busy, of_record = plain(header.busy), re.compile(rf"busy (\S+ %) of the record(?:, {case.busy} of its extent)?")
    if case.returned == "–":
        assert of_record.search(busy)
        assert case.busy in busy
    else:
        assert busy.endswith(f"busy {case.busy} of the cell")
    assert f"busy {case.busy} of {of}" in plain(found[0].sentence)


def test_the_document_names_every_kind() -> None:
    text = DOC.read_text(encoding="utf-8").lower()
    assert {kind for kind in KINDS if f"**{kind}**" in text} == set(KINDS)
    assert {case.kind for case in cases()} < set(KINDS)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A few ops on one or two devices, some queued far ahead, some without a launch; a few blocking calls."""
    b, times = Builder(), st.integers(0, 400)
    for _ in range(draw(st.integers(1, 7))):
        start = draw(times)
        ahead, length = draw(st.sampled_from([0, 1, 8, 40, 200])), draw(st.integers(0, 200))
        launch = None if draw(st.integers(0, 5)) == 0 else max(0, start - ahead)
        stream, device = draw(st.sampled_from([(7, 0), (8, 0), (7, 1)]))
        b.op(start, start + length, launch=launch, stream=stream, device=device)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(times)
        b.sync(start, start + draw(st.integers(1, 250)))
    end = draw(st.integers(100, 800))
    returned = draw(st.one_of(st.none(), st.integers(0, end)))
    kind = draw(st.sampled_from(["sim", "cuda"]))
    return b.trace(end=end, returned=returned, devices=[DeviceInfo(0, kind, kind), DeviceInfo(1, kind, kind)])


@given(traces())
@settings(deadline=None, max_examples=60)
def test_the_parts_of_a_cell_never_overlap_and_add_up_to_it(trace: Trace) -> None:
    for device in trace.device_ids:
        time = cell_time(trace, device)
        parts = list(time.parts.values())
        assert sum(map(total_ns, parts)) == time.window.length_ns == total_ns(merge(*parts))
        for own in (time.causes.in_python, time.causes.one_by_one, time.unfed, time.tail):
            assert not total_ns(intersect(own, time.python_waits))  # what counts as Python's work is no waiting


@given(traces())
@settings(deadline=None, max_examples=60)
def test_no_kind_stands_over_a_picture_that_says_otherwise(trace: Trace) -> None:
    facts = Facts(trace)
    judged, time = verdict_of(facts), facts.cell_time
    assert judged.kind in KINDS
    assert judged.kind != NO_RECORDS
    if judged.kind == DEVICE_BOUND:
        assert 2 * (time.busy_ns + time.waited_ns["other_device"]) >= time.window.length_ns
    path = judged_by_path(facts)
    if path is not None:
        assert path.host_ns + path.device_ns + path.copies_ns + path.communication_ns + path.latency_ns <= path.run_ns
    if judged.kind == HOST_BOUND and path is not None:
        assert path.host_ns >= DECIDES_FRAC * path.run_ns
        assert path.busy_ns < KEPT_BUSY_FRAC * path.run_ns
    elif judged.kind == HOST_BOUND:
        assert 2 * time.python_waits_ns < time.window.length_ns
        assert time.busy_frac <= 0.8
        assert judged.cost_ns >= 0.2 * time.window.length_ns
        assert 2 * (time.latency_ns + time.stalled_ns + time.tail_ns) <= time.window.length_ns - time.busy_ns


@given(traces())
@settings(deadline=None, max_examples=60)
def test_every_share_of_a_cell_names_what_it_is_a_share_of(trace: Trace) -> None:
    found = findings(trace)
    doc = timeline_doc(trace, found)
    shown = plain(f"{doc.header.busy}. {found[0].sentence}")
    shown = re.sub(r"At least one was busy .*? of that time", "", shown)  # of several devices together
    shares = re.findall(r"([<>]?\d+ %) of (the cell|the record|its extent)", shown)
    assert len(re.findall(r"busy [<>]?\d+ %", shown)) == (1 if found[0].cause == NO_VERDICT else 2)
    assert len(set(shares)) == len({whole for _, whole in shares}), "one share of each whole"


def test_of_two_devices_it_says_how_long_either_was_busy_and_both() -> None:
    b = Builder()
    b.op(100, 500, launch=10, device=0)
    b.op(400, 700, launch=20, device=1)
    found = plain(verdict(b.trace(end=1000, returned=30)).detail)
    assert "At least one was busy 60 % of that time, both at once 10 %" in found


def test_a_path_of_python_under_a_busy_device_keeps_pace() -> None:
    b = Builder()
    for i in range(20):
        b.op(50 * i + 2, 50 * i + 48, launch=50 * i + 1)
    trace = b.trace(end=1010, returned=1005)
    assert verdict(trace).kind == MIXED
    assert plain(find_answers(trace).decides) == (
        "Python and the device keep pace: the device was busy 91 % of the time"
    )


def test_idle_time_is_described_by_its_parts() -> None:
    (case,) = (case for case in cases() if case.name == "Python waits for the first op before it computes")
    assert plain(verdict(built(case)).sentence) == (
        "device-bound: the device was busy 59 % of the cell. Python ran up to 1 op and 506 µs ahead. "
        "The device waited 386 µs for Python and 14.0 µs while Python was in a blocking call"
    )


def test_a_cell_of_a_few_microseconds_says_so() -> None:
    (case,) = (case for case in cases() if case.name == "one short op, waited for")
    assert plain(verdict(built(case)).detail).startswith(
        "the cell took 40.0 µs, little more than a launch and a sync cost by themselves. The device was busy 8 %"
    )


def test_of_two_devices_one_after_the_other_the_first_waits_for_the_second_and_not_for_python() -> None:
    (case,) = (case for case in cases() if case.name == "two devices one after the other")
    judged = verdict(built(case))
    assert "device 0, the busiest of 2, was busy 50 % of the cell" in plain(judged.sentence)
    assert "for Python" not in judged.sentence


def test_one_op_of_a_file_has_nobody_to_wait_for_and_no_verdict() -> None:
    b = queued((10, 1000, 4))
    assert plain(verdict(b.trace(end=1000)).sentence) == "no verdict: one op of 990 µs is too little for one"
    assert verdict(b.trace(end=1000, returned=6)).kind == DEVICE_BOUND  # a cell has a beginning and an end besides


def test_a_wait_for_a_stream_of_another_device_is_not_python_s() -> None:
    b = Builder()
    first = b.op(5, 900, launch=1, stream=8, device=1)
    b.wait(2, 7, 8, first, on_device=1)
    b.op(902, 1000, launch=3, stream=7)
    b.op(4, 6, launch=2.5, stream=9)
    devices = [DeviceInfo(0, "cuda", "Test GPU"), DeviceInfo(1, "cuda", "Test GPU")]
    trace = b.trace(end=1000, returned=10, devices=devices)
    time = cell_time(trace, 0)
    assert total_ns(time.causes.other_stream) == 894 * US
    assert time.host_ns < 10 * US
    assert time.device_ns > 890 * US  # the other device executes meanwhile: together they decide
    assert verdict(trace).kind == DEVICE_BOUND


def test_calls_that_a_file_lacks_are_named_where_the_device_waited_for_python() -> None:
    for second, told in ((2, False), (1385, True)):
        b = Builder()
        b.op(10, 20, of=b.launch(0, 1, correlation=1))
        b.op(1010, 1020, of=b.launch(1001, 1002, correlation=second))
        words = plain(verdict(b.trace()).sentence)
        held = "For 981 µs of it nothing of the host was recorded, and call numbers jump from 1 to 1385"
        assert (held in words) == told, words


def test_of_a_file_python_behind_the_last_op_is_the_tail_of_the_path() -> None:
    b = queued((10, 20, 5), (30, 300, 25))
    b.host_op(310, 1000, "aten::sort")
    judged = verdict(b.trace())
    assert (judged.kind, judged.cost_ns) == (HOST_TAIL, None)
    assert "Python worked on for 700 µs after the last op" in plain(judged.sentence)
