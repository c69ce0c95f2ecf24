"""What pages and pictures of ranks show first: the steps, and the first cause among them."""

import pytest

from perfmagic.view.ranks.doc import RanksDoc, ranks_doc
from perfmagic.view.ranks.live_data import ranks_wire
from perfmagic.view.ranks.picture import ranks_svg
from tests.analysis.findings.build import plain
from tests.analysis.ranks.programs import MS, Program, Rank, job

START_UP_MS, STEP_MS = 3000, 30


def trained(*, late: int = -1, late_ms: float = 60, steps: int = 20, marked: bool = True) -> Program:
    """Steps of 30 ms after a start-up of 3 s; in one of them line 5 takes longer on rank 2."""

    def program(r: Rank) -> None:
        r.work(2, START_UP_MS)
        r.meet(0, 1, 2, 3)
        for step in range(steps):
            if marked:
                r.step(step)
            r.work(4, 10)
            r.work(5, 10 + (late_ms if (r.number, step) == (2, late) else 0))
            r.meet(0, 1, 2, 3)
            r.work(6, 9.9)  # with 0.1 ms of the collective

    return program


def shown_ms(doc: RanksDoc) -> tuple[float, float]:
    return doc.opening.start_ns / MS, doc.opening.end_ns / MS


@pytest.mark.parametrize("file", [False, True])
def test_without_a_cause_the_first_full_steps_are_shown_and_start_up_is_one_line(file: bool) -> None:
    doc = ranks_doc(job(4, trained(), file=file))
    start_ms, end_ms = shown_ms(doc)
    assert START_UP_MS - 5 < start_ms < START_UP_MS + STEP_MS
    assert end_ms - start_ms == pytest.approx(3 * STEP_MS, rel=0.1)
    assert plain(doc.opening.words).startswith("shown first: steps 0 to 2, 9")
    assert "Start-up takes the first 3.00 s" in plain(doc.opening.words)
    assert plain(doc.opening.words) in plain(ranks_svg(doc))


@pytest.mark.parametrize("file", [False, True])
def test_the_step_of_the_first_cause_is_shown_with_an_outline_of_its_line(file: bool) -> None:
    doc = ranks_doc(job(4, trained(late=12, late_ms=200), file=file))
    start_ms, end_ms = shown_ms(doc)
    begins_ms = START_UP_MS + 12 * STEP_MS  # of the late step
    assert start_ms == pytest.approx(begins_ms - STEP_MS, abs=15)
    assert end_ms == pytest.approx(begins_ms + 2 * STEP_MS + 200, abs=15)
    assert plain(doc.opening.words).startswith("shown first: steps 11 to 13")
    mark = doc.opening.mark
    assert mark is not None
    assert (mark.rank, plain(mark.words)) == (2, "line_5" if file else "line 5")
    assert (mark.start_ns / MS, mark.end_ns / MS) == pytest.approx((begins_ms + 10, begins_ms + 220), abs=0.5)
    assert f">{'line_5' if file else 'line 5'}<" in plain(ranks_svg(doc))
    assert plain(ranks_wire(doc, {}).header["mark"][3]) == plain(mark.words)


def test_without_steps_a_short_cause_is_shown_with_as_much_time_around_it() -> None:
    doc = ranks_doc(job(4, trained(late=12, late_ms=200, marked=False)))
    mark, (start_ms, end_ms) = doc.opening.mark, shown_ms(doc)
    assert mark is not None
    assert (mark.end_ns - mark.start_ns) / MS == pytest.approx(210, abs=0.5)
    assert end_ms - start_ms == pytest.approx(3 * 230, rel=0.1)  # from the collective before to the one after
    assert "the first cause is longest" in plain(doc.opening.words)


def test_a_job_whose_steps_are_nearly_all_of_it_is_shown_whole() -> None:
    def program(r: Rank) -> None:
        for step in range(3):
            r.step(step)
            r.work(4, 10)
            r.meet(0, 1)

    doc = ranks_doc(job(2, program))
    assert (doc.opening.start_ns, doc.opening.end_ns, doc.opening.words) == (0, doc.span_ns, "")
    assert ranks_wire(doc, {}).header["shown"] == ""
