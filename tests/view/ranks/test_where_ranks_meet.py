"""Lines, dots and arrows between the rows of several ranks, and the columns that the live view draws them from."""

import re
import zlib
from itertools import pairwise

import numpy as np
import pytest

from perfmagic.view.ranks import doc as module
from perfmagic.view.ranks.doc import BANDS, Met, RanksDoc, met_of
from perfmagic.view.ranks.live_data import ranks_wire
from perfmagic.view.ranks.picture import ranks_svg
from perfmagic.view.svg.canvas import UNITS_PER_PX, Canvas
from perfmagic.view.svg.metrics import Scale
from tests.analysis.build import US
from tests.view.ranks.build import four_ranks, ranks, ring_doc
from tests.view.timeline.build import decoded


def table_of(doc: RanksDoc, table: str) -> dict[str, list[int]]:
    """The columns of one table, decoded as the browser does."""
    wire = ranks_wire(doc, {})
    data = zlib.decompress(wire.payload[: wire.header["overview_bytes"]])
    layout = wire.header["columns"]
    return {c["name"]: decoded(data, layout, table, c["name"]) for c in layout if c["table"] == table}


def test_the_wire_has_each_collective_with_a_part_of_every_rank() -> None:
    doc = four_ranks()  # four rounds that end at 1, 2, 3, 4 ms; rank 2 comes 820 µs into each, the axis begins at 0
    meet, part = table_of(doc, "meet"), table_of(doc, "part")
    assert meet["met"] == [(1000 * i + 820) * US for i in range(4)]
    assert meet["last"] == [2] * 4
    assert meet["waited"] == [500 * US] * 4  # of rank 0, which comes 320 µs into each
    assert part["row"] == [0, 1, 2, 3] * 4
    came = [meet["met"][m] - before for m, before in zip(part["meeting"], part["start"], strict=True)]
    assert came[:4] == [320 * US, 340 * US, 820 * US, 380 * US]
    assert part["wait"][:4] == [500 * US, 480 * US, 0, 440 * US]
    ends = [start + length for start, length in zip(came, part["length"], strict=True)]
    assert sorted(set(ends)) == [1000 * US, 2000 * US, 3000 * US, 4000 * US]
    assert [kind.split(" · ")[0] for kind in ranks_wire(doc, {}).header["kinds"]] == [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    ]


def test_the_wire_has_both_ends_of_each_message() -> None:
    message = table_of(ring_doc(), "message")
    assert message["met"] == [100 * US] * 4
    assert sorted(zip(message["source"], message["target"], strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert message["sent"] == [0] * 4
    assert message["sent_end"] == [40 * US] * 4
    assert message["arrived"] == [50 * US] * 4
    asked = dict(zip(message["target"], message["asked"], strict=True))
    assert asked == {i: (10 * i + 20 - 100) * US for i in range(4)}


def test_a_row_has_python_s_lines_its_blocked_calls_and_receives_by_themselves() -> None:
    doc = ring_doc()
    bands = doc.rows[1].bands
    assert set(bands) == set(BANDS)
    assert bands["host"].tolist() == [[0, 90 * US]]
    assert bands["blocked"].tolist() == [[200 * US, 300 * US]]
    assert bands["transfer"].tolist() == [[100 * US, 140 * US]]
    assert bands["asked"].tolist() == [[30 * US, 100 * US]]
    assert bands["got"].tolist() == [[100 * US, 150 * US]]
    assert doc.parts[-1] == "4 messages"


def picture_of(met: Met, span_ns: int, n: int) -> dict[str, str]:
    """The data of each stroked or filled path, by its dash, its cap, or "tips"."""
    from perfmagic.view.ranks.picture import Places, draw_met, heights

    canvas = Canvas()
    draw_met(canvas, met, Scale(0, span_ns, 500), Places(0, heights(n), n), 1)
    svg = canvas.svg(100, "")
    style = dict(re.findall(r"\.([a-z]+)\{([^}]*)\}", svg.split("@media")[0]))
    paths: dict[str, str] = {}
    for cls, data in re.findall(r'<path class="([a-z]+)" d="([^"]*)"', svg):
        rule = style[cls]
        name = (
            "lines"
            if "dasharray" in rule
            else "dots"
            if "linecap" in rule
            else "shafts"
            if "stroke" in rule
            else "tips"
        )
        paths[name] = data
    return paths


def test_a_line_joins_the_ranks_of_a_collective_and_a_dot_stands_on_the_last() -> None:
    doc = four_ranks()
    drawn = picture_of(doc.met, 4_000_000, 4)
    lines = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", drawn["lines"])
    assert [float(x) / UNITS_PER_PX for x, _, _ in lines] == pytest.approx([102.5, 227.5, 352.5, 477.5])
    row_px = 44  # of four ranks, the gap included
    tops = {(float(low) - float(high)) / UNITS_PER_PX for _, high, low in lines}
    assert tops == {3 * row_px}
    dots = re.findall(r"M([\d.]+) ([\d.]+)h0", drawn["dots"])
    assert {(float(y) - float(lines[0][1])) / UNITS_PER_PX for _, y in dots} == {2 * row_px}
    assert len(dots) == 4


def test_an_arrow_goes_from_each_send_to_its_receive() -> None:
    drawn = picture_of(ring_doc().met, 500 * US, 4)
    shafts = re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", drawn["shafts"])
    assert len(shafts) == 4
    assert {(float(a), float(b)) for a, _, b, _ in shafts} == {(100 * UNITS_PER_PX, 150 * UNITS_PER_PX)}
    down = sorted(round((float(y1) - float(y0)) / UNITS_PER_PX) for _, y0, _, y1 in shafts)
    assert down[0] < -100  # from the last rank up to the first
    assert down[1:] == [down[1]] * 3
    assert drawn["tips"].count("z") == 4


def test_lines_that_would_touch_are_one_of_the_longest_wait() -> None:
    n = 1000
    met = np.arange(n, dtype=np.int64)
    waited = (met * 37) % 101
    two = np.tile(np.array([0, 1]), n)
    whole = {"met_ns": met, "waited_ns": waited, "err_ns": met * 0, "last": met * 0, "kind": met * 0}
    doc_met = Met(kinds=("x",), **whole, meeting=np.repeat(met, 2), row=two)
    xs = [float(x) / UNITS_PER_PX for x, _ in re.findall(r"M([\d.]+) ([\d.]+)V", picture_of(doc_met, n, 2)["lines"])]
    assert 40 < len(xs) <= 125
    assert min(b - a for a, b in pairwise(sorted(xs))) >= 4
    assert waited[[round(x * n / 500) for x in xs]].mean() > 75


def test_the_static_picture_says_how_long_a_wait_was_and_what_the_marks_mean() -> None:
    svg = ranks_svg(four_ranks()).replace("\u00a0", " ")
    assert ">waits 500 µs<" in svg
    for words in ("came last", "Python blocked", "data moving"):
        assert f">{words}<" in svg


def test_of_very_many_collectives_those_with_the_longest_waits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTS", 8)
    job = ranks(4)
    kept = met_of(job)
    assert len(kept.met_ns) == 2
    assert len(kept.row) == 8
