"""Several ranks on one axis: in text, HTML, picture and wire, the same numbers."""

import configparser
import json
import re
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest

from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.base.terminal import columns
from perfmagic.results import RanksResult
from perfmagic.results.ranks import Traces
from perfmagic.trace.model import Trace
from perfmagic.view.html import MAX_OUTPUT_BYTES
from perfmagic.view.nbval import sanitize_file
from perfmagic.view.ranks.doc import HEAD, rank_table, ranks_doc
from perfmagic.view.ranks.live_data import window_on_axis
from perfmagic.view.ranks.picture import DETAILS, MAX_BYTES, heights, ranks_picture, ranks_svg
from perfmagic.view.svg.layouts import MAX_BYTES as LAYOUTS_BYTES
from tests.analysis.build import US
from tests.analysis.ranks.test_costly_waits import rank as costly_rank
from tests.analysis.ranks.test_costly_waits import rounds
from tests.analysis.ranks.test_ranks import rank
from tests.view.ranks.build import four_ranks, ranks, result


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_all_ranks_lie_on_one_axis_that_begins_with_the_earliest() -> None:
    doc = result(skew_us=50_000).doc
    assert min(row.start_ns for row in doc.rows) == 0
    assert doc.span_ns == max(row.end_ns for row in doc.rows)
    waits = [row.bands["wait"] for row in doc.rows]
    ends = [spans[:, 1].max() for i, spans in enumerate(waits) if i != 2]
    assert len(set(ends)) == 1  # the clock of rank 1, 50 ms off, is put right: all leave the last collective together
    assert "clocks moved by up to 50.0 ms" in plain(doc.clocks)


def test_every_form_names_the_late_rank_and_its_numbers() -> None:
    ranks = result()
    text = ranks.text(details=True)
    assert "rank 2 takes 1.92 ms more than its peers in gemm" in plain(text)
    assert all(columns(line) <= 100 for line in text.split("\n"))
    html = ranks.html()
    assert "<b>rank 2 takes 1.92 ms more than its peers in gemm in every step</b>" in plain(html)
    for cells in rank_table(ranks.doc).rows:
        assert len(cells) == len(HEAD)
        assert all(f">{cell}</td>" in html for cell in cells if cell)
    assert len(html.encode()) <= MAX_OUTPUT_BYTES


def test_notebooks_compare_how_many_ranks_there_were_and_nothing_that_varies() -> None:
    rules = configparser.ConfigParser()
    rules.read_string(sanitize_file())
    for n in (1, 4):
        text = result(n).text() if n > 1 else RanksResult.of(result().timelines[:1]).text()
        assert re.sub(rules["ranks"]["regex"], rules["ranks"]["replace"], text) == f"RANKS {n} rank{'s' * (n > 1)}"


def beside_compute() -> tuple[Trace, Trace]:
    """Of 300 µs in which rank 0 waits in each of 4 collectives, it computes 200."""
    return tuple(  # type: ignore[return-value]
        costly_rank(
            i,
            rounds((10, 600)) if i else rounds((10, 300), (300, 500)),
            rounds((600, 800) if i else (300, 800)),
        )
        for i in range(2)
    )


def test_the_hatch_the_words_beside_the_row_and_the_table_count_the_same_waiting() -> None:
    ranks = ranks_of(beside_compute())
    assert ranks is not None
    doc = ranks_doc(ranks)
    row, cells = doc.rows[0], rank_table(doc).rows[0]
    hatched, paler = (row.bands[name] for name in ("wait", "wait_beside"))
    assert (hatched[:, 1] - hatched[:, 0]).tolist() == [100 * US] * 4
    assert (paler[:, 1] - paler[:, 0]).tolist() == [200 * US] * 4
    assert (plain(row.words[0]), plain(cells[HEAD.index("waiting")])) == ("waits 400 µs", "400 µs")
    assert plain(row.words[1]) == "computes 1.96 ms"
    assert "the same, overlapped with compute" in ranks_svg(doc)
    assert "the longest waiting for others 400 µs" in plain(doc.alt)
    assert (doc.rows[1].words[0], rank_table(doc).rows[1][HEAD.index("waiting")]) == ("", "0\u00a0ns")


@pytest.mark.slow
def test_a_picture_of_many_ranks_is_bounded_in_height_and_bytes() -> None:
    for n in (4, 40, 130):
        doc = result(n).doc
        svg = ranks_svg(doc)
        assert len(svg.encode()) <= MAX_BYTES
        assert ranks_picture(doc).n_bytes <= LAYOUTS_BYTES
        height = float(ET.fromstring(svg).get("height", "0"))
        assert height <= 900
        assert ("more ranks" in svg) is (n > DETAILS[0][1] or svg.count(">rank ") < n)
    assert 8 * (heights(8).row + heights(8).gap) <= 400


def test_the_wire_holds_the_rows_and_behind_them_each_rank_s_own_timeline() -> None:
    ranks = result()
    wire = ranks.wire
    header = json.loads(wire.header_json)
    overview = zlib.decompress(wire.payload[: header["overview_bytes"]])
    assert len(overview) == sum(c["width"] * c["rows"] for c in header["columns"])
    assert [row["rank"] for row in header["ranks"]] == [0, 1, 2, 3]
    at = header["overview_bytes"]
    for row in header["ranks"]:
        part = row["part"]
        assert part["at"] == at
        own = zlib.decompress(wire.payload[at : at + part["bytes"]])
        layout = part["header"]["columns"]
        assert len(own) == sum(c["width"] * c["rows"] for c in layout)
        assert part["header"]["span_ns"] == header["span_ns"]  # the common axis: one window means the same in all
        at += part["bytes"]
    assert at == len(wire.payload)


def test_a_rank_s_own_lanes_begin_where_its_row_does() -> None:
    ranks = result(skew_us=-3_000)
    for row, timeline in zip(ranks.doc.rows, ranks.timelines, strict=True):
        start, end = window_on_axis(ranks.doc, row)
        assert end - start == ranks.doc.span_ns
        first = int(timeline.trace.ops.start_ns[0])
        device = row.bands["compute"]
        assert device[0, 0] == first - start


def test_a_row_s_bands_are_the_table_s_numbers() -> None:
    for row in four_ranks().rows:
        total = {name: int(np.diff(spans, axis=1).sum()) for name, spans in row.bands.items()}
        assert total["compute"] == row.stat.compute_ns
        assert total["idle"] == row.stat.idle_ns
        assert total["wait"] == row.stat.waiting_ns
        assert total["wait"] + total["transfer"] == row.stat.communication_ns


def test_several_files_are_a_tuple_that_knows_its_jobs() -> None:
    ranks = result()
    lone = type(ranks.timelines[0])(rank(0, world_size=9), title="lone.json")
    traces = Traces((*ranks.timelines, lone))
    assert len(traces) == 5
    assert [len(job.timelines) for job in traces.jobs] == [4]
    assert traces.alone == [lone]
    assert traces.mixed.startswith("these files are of 2 jobs")
    assert traces.ranks.ranks.ranks == [0, 1, 2, 3]
    bundle = traces._repr_mimebundle_()
    assert "Rank 2 is late" in bundle["text/plain"]
    assert bundle["text/html"].count("<img") == 2
    with pytest.raises(Exception, match="no two of them are ranks of one job"):
        _ = Traces((lone,)).ranks


def test_the_ranks_of_a_result_are_pickled_and_shown_in_one_sentence() -> None:
    assert repr(result()).startswith("Ranks 0, 1, 2, 3 on one axis. rank 2 takes ")
    assert ranks().alignment.moved_ns == {}


def test_what_is_shown_of_a_late_rank_is_the_work_that_takes_longest() -> None:
    ranks = result()
    late = next(f for f in ranks.wire.header["findings"] if f["rule"] == "straggler")
    gemms = ranks.rank(2).trace.ops.select(ranks.rank(2).trace.ops.stream == 7)
    ends_ns = gemms.end_ns + ranks.ranks.alignment.offset_ns[2]
    assert late["end_ns"] in ends_ns.tolist()
    assert late["end_ns"] - late["start_ns"] >= int((gemms.end_ns - gemms.start_ns).max())
