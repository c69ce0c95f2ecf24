"""What goes to the browser: small, exact, and the same as the vectors that the front end's tests read."""

import gzip
import json
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.find import findings
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from perfmagic.view.page import STATIC, live_page, script
from perfmagic.view.ranks.writers import ranks_section
from perfmagic.view.svg.palette import TONES
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.live_columns import ColumnWriter
from perfmagic.view.timeline.live_data import SCHEMA, Wire, timeline_wire
from perfmagic.view.timeline.writers import live_section
from tests.trace.recorded import ALONE, real, recorded
from tests.view.ranks.build import result, ring_doc
from tests.view.timeline.build import HOSTILE, UNHURRIED, decoded, queue_of
from tests.view.timeline.wire_vectors import FOLDER, amounts, cases, expected

pytestmark = pytest.mark.slow


FRONTEND = Path(__file__).resolve().parents[3] / "perfmagic" / "frontend" / "src"
# a notebook stores each once, packed, and a page as it is
BUNDLE_GZIP_BYTES = {"timeline.js": 45_000, "more.js": 7_500}
BYTES_A_SLICE = 6.6  # up to one of them for the critical path, one for what frames are called in a flame graph
ENOUGH = 10_000  # slices from which on names and the header's share do not count


def wire_of(trace: Trace) -> Wire:
    return timeline_wire(timeline_doc(trace, findings(trace)), trace)


@UNHURRIED
@given(st.lists(st.integers(-(2**40), 2**40), max_size=40))
def test_every_code_gives_back_what_was_written(numbers: list[int]) -> None:
    out = ColumnWriter()
    out.signed("t", "signed", numbers)
    out.delta("t", "delta", numbers)
    out.plain("t", "plain", [abs(n) for n in numbers])
    raw = zlib.decompress(out.payload())
    assert decoded(raw, out.layout, "t", "signed") == numbers
    assert decoded(raw, out.layout, "t", "delta") == numbers
    assert decoded(raw, out.layout, "t", "plain") == [abs(n) for n in numbers]


def test_a_number_no_browser_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"t\.x holds numbers"):
        ColumnWriter().plain("t", "x", [2**53])


@pytest.mark.parametrize("name", cases())
def test_the_committed_vectors_are_what_is_sent(name: str) -> None:
    trace = cases()[name]
    doc = timeline_doc(trace, findings(trace), find_answers(trace))
    wire = timeline_wire(doc, trace)
    again = "make it current with: python -m tests.view.timeline.wire_vectors"
    assert json.loads((FOLDER / f"{name}.header.json").read_text("utf-8")) == wire.header, again
    assert zlib.decompress((FOLDER / f"{name}.payload.zlib").read_bytes()) == zlib.decompress(wire.payload), again
    assert json.loads((FOLDER / f"{name}.expected.json").read_text("utf-8")) == expected(doc, trace), again


def test_the_committed_amounts_are_how_numbers_are_written() -> None:
    assert json.loads((FOLDER / "amounts.json").read_text("utf-8")) == json.loads(json.dumps(amounts()))


def test_a_recorded_step_takes_few_bytes() -> None:
    wire = wire_of(recorded("v100_4streams_nccl_step"))
    assert wire.n_slices > ENOUGH
    assert len(wire.payload) / wire.n_slices <= BYTES_A_SLICE


def test_recorded_traces_take_few_bytes() -> None:
    sizes = {}
    for name in ALONE:
        wire = wire_of(read_trace(real(name)))
        if wire.n_slices >= ENOUGH:
            sizes[name] = len(wire.payload) / wire.n_slices
    assert len(sizes) >= 4
    assert {name: size for name, size in sizes.items() if size > BYTES_A_SLICE} == {}


def test_hostile_names_cannot_leave_the_page_s_data() -> None:
    trace = queue_of(name=HOSTILE + "</script><script>alert(1)</script><!--")
    doc = timeline_doc(trace, findings(trace))
    page = live_page("x</title><script>alert(2)</script>", [live_section(doc, trace)])
    assert page.count("<script") == 3  # header, payload, module
    assert page.count("</script>") == 3
    assert "alert(1)</script>" not in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy[1]
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'$", policy[1])


@pytest.mark.parametrize("name", BUNDLE_GZIP_BYTES)
def test_a_script_is_small_and_ends_no_script_element(name: str) -> None:
    source = (STATIC / name).read_bytes()
    assert len(gzip.compress(source, 9)) <= BUNDLE_GZIP_BYTES[name]
    assert b"</script" not in source.lower()
    assert b"<!--" not in source


def test_a_page_has_what_few_results_need_only_with_them() -> None:
    trace = queue_of()
    one, several = live_section(timeline_doc(trace, []), trace), ranks_section(ring_doc(), result().wire)
    assert script("more") not in live_page("one", [one])
    assert script("timeline") + script("more") in live_page("both", [one, several])


def test_both_sides_name_the_same_schema() -> None:
    assert f"SCHEMA = {SCHEMA};" in (FRONTEND / "model" / "wire.ts").read_text()


def test_both_sides_have_the_same_colours() -> None:
    tones = dict(re.findall(r'(\w+): \["(#\w{6}", "#\w{6})"\]', (FRONTEND / "paint" / "theme.ts").read_text()))
    same = {token for token, tone in TONES.items() if tones.get(token) == f'{tone.light}", "{tone.dark}'}
    # findings and graphs have no live view with such colours, and its stack of memory has no words
    assert set(TONES) - same == {"warn", "at_once", "on_mem_dark", "on_mem_middle"}
