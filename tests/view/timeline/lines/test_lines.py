"""The source with what each line cost: the document, the picture, the text."""

import re
from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.timeline.lines import LineStat
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import Paths, UserFunction
from perfmagic.view.timeline.lines.doc import Block, LineRow, LinesDoc, lines_doc
from perfmagic.view.timeline.lines.picture import MAX_BYTES, lines_svg
from perfmagic.view.timeline.text import lines_text
from tests.analysis.timeline.test_by_path import MAIN, MS, trace_of
from tests.view.timeline.build import HOSTILE, queue_of


def texts(svg: str) -> list[str]:
    return [text.replace("\u00a0", " ") for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_functions_follow_the_cell_and_say_who_called_them() -> None:
    doc = lines_doc(trace_of([(11, MAIN), (31, MAIN)]))
    assert doc is not None
    assert [(b.name, b.where) for b in doc.blocks] == [
        ("", ""),
        ("step", "In[0] · called from line 2"),
        ("work", "util.py · called from line 2"),
    ]
    assert [(row.line, row.stat is not None) for row in doc.blocks[0].rows] == [(1, False), (2, True)]


def test_rows_know_when_python_was_on_them_and_when_their_ops_ran() -> None:
    doc = lines_doc(trace_of([(11, MAIN), (31, MAIN)]))
    second = doc.blocks[1].rows[0]
    assert second.line == 2
    assert second.python.tolist() == [[10 * MS, 20 * MS], [30 * MS, 40 * MS]]
    assert second.queued.tolist() == [[11 * MS, 12 * MS], [31 * MS, 32 * MS]]
    assert second.executing.tolist() == [[12 * MS, 14 * MS], [32 * MS, 34 * MS]]


def test_what_took_next_to_nothing_is_named_and_not_drawn() -> None:
    doc = lines_doc(trace_of([(11, MAIN)], until_ms=10_000))
    assert doc is not None
    assert [b.name for b in doc.blocks] == ["", "step"]
    assert doc.folded == ("work",)
    assert "under 1 % each: work" in texts(lines_svg(doc))


def test_a_trace_without_functions_has_the_lines_of_its_cell() -> None:
    doc = lines_doc(queue_of())
    assert not doc.has_functions
    assert len(doc.blocks[0].rows) == 3
    assert doc.total.n_ops == 11


def test_the_picture_has_the_code_and_the_numbers_of_every_line() -> None:
    doc = lines_doc(trace_of([(11, MAIN), (31, MAIN)]))
    assert doc is not None
    shown = texts(lines_svg(doc))
    assert "    y = x @ x" in shown
    assert {"Python, ms", "waiting", "device", "ops"} <= set(shown)
    assert shown.count("20.0") == 2  # line 2 and line 3 of step
    assert "its backward" not in shown  # there is none


@pytest.mark.parametrize("n", [3, 400, 3000])
def test_a_long_function_is_cut_counted_and_fits(n: int) -> None:
    doc = lines_doc(long(trace_of([(11, MAIN)], until_ms=200), n))
    assert doc is not None
    svg = lines_svg(doc)
    assert len(svg.encode()) <= MAX_BYTES
    if n > 100:
        assert any(re.fullmatch(r"and [\d,]+ more lines", text) for text in texts(svg))


def long(trace: Trace, n: int) -> Trace:
    """The same with a function of n lines that all ran."""
    assert trace.paths is not None
    known = trace.paths
    texts = tuple((i, f"    y{i} = x @ x") for i in range(1, n + 1))
    rows = np.arange(1, n + 1, dtype=np.int32)
    paths = Paths(
        parent=np.concatenate((known.parent, np.ones(n, np.int32))),
        function=np.concatenate((known.function, np.full(n, len(known.functions), np.int32))),
        line=np.concatenate((known.line, rows)),
        functions=(*known.functions, UserFunction("long", "In[3]", 1, texts)),
        marks=known.marks.make(
            {
                "at_ns": np.concatenate((known.marks.at_ns, (50 + 50 * rows / n) * MS)),
                "thread": np.concatenate((known.marks.thread, np.full(n, MAIN))),
                "path": np.concatenate((known.marks.path, len(known) + rows - 1)),
            }
        ),
        main_thread=MAIN,
    )
    return replace(trace, paths=paths)


def test_other_peoples_text_is_text() -> None:
    trace = trace_of([(11, MAIN)])
    assert trace.paths is not None
    named = tuple(replace(f, name=HOSTILE, file=HOSTILE, texts=((2, HOSTILE),)) for f in trace.paths.functions)
    doc = lines_doc(replace(trace, paths=replace(trace.paths, functions=named)))
    assert doc is not None
    svg = lines_svg(doc)
    assert "<script" not in svg
    assert "\x00" not in svg


def test_the_text_leaves_out_what_cost_nothing_and_counts_what_did_not_fit() -> None:
    doc = lines_doc(trace_of([(11, MAIN), (31, MAIN)]))
    assert doc is not None
    whole = "\n".join(lines_text(doc))
    assert "%%timeline" not in whole
    assert re.search(r" 2 +y = x @ x +20\.0.ms +4\.00.ms +2\n", whole)
    cut = "\n".join(lines_text(doc, most_rows=2))
    assert "and 1 more line of step, in .lines" in cut


def test_lines_that_each_cost_little_are_summed_in_one_line() -> None:
    """1,000 lines of 10 µs are 10 ms: more than a table of one line of 2 ms says."""

    def doc_of(n_small: int) -> LinesDoc:
        times = [2 * MS, *[MS // 100] * n_small]
        rows = tuple(LineRow(n, "x", LineStat(n, "x", ns, 0, 0, 0, 0, 0, 0)) for n, ns in enumerate(times, 1))
        return LinesDoc(0, 20 * MS, (Block("long", "In[1]", rows, "no text"),), (), None)

    text = [line.replace("\xa0", " ") for line in lines_text(doc_of(1000), least_ns=MS // 10)]
    assert text[-1] == "  1,000 lines of long below 100 µs each, 10.0 ms together"
    assert text[1:3] == ["  long · In[1]", "  no text"]
    assert "together" not in "\n".join(lines_text(doc_of(20), least_ns=MS // 10))
