"""Rows as tables: headings without units, values with them, cut to fit."""

import html
from dataclasses import dataclass

import pytest

from perfmagic.base.tables import SORTABLE, describe_value
from perfmagic.base.terminal import columns
from perfmagic.results import TimelineResult
from perfmagic.trace.names import OpClass
from perfmagic.trace.rows import HTML_ROWS, TEXT_ROWS, Rows
from tests.analysis.findings.build import plain
from tests.trace.recorded import recorded


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("total_ns", 262_422_467, "262 ms"),
        ("ns", 1500, "1.50 µs"),
        ("done_s", 0.0025, "2.50 ms"),
        ("size_bytes", 92_928, "92.9 kB"),
        ("bus_bytes_per_s", 12e9, "12.0 GB/s"),
        ("flop_per_s", 2e12, "2.00 TFLOP/s"),
        ("tokens_per_s", 7702, "7,700 tokens/s"),
        ("busy_frac", 0.86, "86 %"),
        ("frac_of_first", 0.5, "50 %"),
        ("start_ns", 61_783_000, "61.783 ms"),  # an instant: its neighbours are close
        ("n_ops", 15_632, "15,632"),
        ("stream", 15_632, "15632"),  # a number that names a thing
        ("mean", 2.7763, "2.78"),
        ("op_class", OpClass.MATRIX, "matrix"),
        ("pageable", True, "yes"),
        ("lines", (3, 7), "3, 7"),
        ("line", 0, "–"),
        ("line", 3, "3"),
        ("host_op", None, "–"),
        ("name", "a\x1b[31mb\nc", "a\ufffd[31mb c"),
    ],
)
def test_a_value_has_the_unit_that_its_name_ends_in(name: str, value: object, words: str) -> None:
    assert describe_value(name, value).replace("\u00a0", " ") == words


@dataclass(frozen=True)
class Part:
    name: str
    n_ops: int
    busy_ns: int
    busy: str | None = None


def test_rows_print_with_headings_and_units() -> None:
    rows = Rows([Part("gemm", 1200, 6_000_000), Part("add", 3, 900)], Part)
    assert plain(repr(rows)).splitlines() == [
        "2 parts",
        "  name    ops  busy_ns",  # a heading that two fields would share stays the name of the field
        "  gemm  1,200  6.00 ms",
        "  add       3   900 ns",
    ]


def test_what_is_left_out_is_counted_and_where_to_find_it_is_said() -> None:
    rows = Rows([Part(f"k{i}", i, i) for i in range(TEXT_ROWS + 3)], Part, note="some were cut")
    assert plain(repr(rows)).splitlines()[-2:] == ["  3 more rows: to_frame() has all", "  some were cut"]
    assert repr(rows[:TEXT_ROWS]).count("\n") == TEXT_ROWS + 2  # the title, the headings, and the note


def test_a_long_name_gives_way() -> None:
    wide = Rows([Part("字" * 80, 1, 1)], Part)
    assert columns(repr(wide).splitlines()[2]) <= 102
    assert "…" in repr(wide)


def test_findings_are_whole_sentences_with_their_cost() -> None:
    found = TimelineResult(recorded("v100_4streams_nccl_step")).findings
    assert isinstance(found, Rows)
    text = " ".join(repr(found).split())
    for finding in found:
        assert " ".join(finding.sentence.split()) in text
    assert "rule" not in repr(found).splitlines()[1]


def test_html_escapes_names_and_bounds_rows() -> None:
    rows = Rows([Part("<script>alert(1)</script>" * 9, i, i) for i in range(HTML_ROWS + 5)], Part)
    page = rows._repr_html_()
    assert "<script>alert" not in page
    assert page.count("<tr") == HTML_ROWS + 1
    assert "5 more rows: to_frame() has all" in page
    assert 'title=".n_ops"' in page  # the heading says what the field is called


@dataclass(frozen=True)
class Kernel:
    name: str
    short_name: str
    total_ns: int


GEMMS = [f"void gemm<float, ns::Tile<{n}, 64>, true, {'x' * 60}>(float*)" for n in range(3)]


def kernels() -> Rows[Kernel]:
    return Rows([Kernel(name, f"gemm<Tile<{i}>>", 1500 * i) for i, name in enumerate(GEMMS)], Kernel)


def test_kernels_are_shown_by_their_short_names_with_the_whole_ones_behind() -> None:
    assert "gemm<Tile<1>>" in repr(kernels())
    assert "short_name" not in repr(kernels())
    page = kernels()._repr_html_()
    assert f'title="{html.escape(GEMMS[1])}"' in page
    assert ">gemm&lt;Tile&lt;1&gt;&gt;</td>" in page
    assert kernels().to_dict()[1]["name"] == GEMMS[1]


@pytest.mark.parametrize("width", [45, 60, 100, 200])
def test_a_table_takes_the_terminal_that_there_is(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = TimelineResult(recorded("v100_4streams_nccl_step"))
    of_result = (result.kernels, result.operators, result.syncs, result.idle_gaps, result.steps, result.copies)
    for rows in (kernels(), *(table() for table in of_result)):
        lines = repr(rows).splitlines()
        assert max(map(columns, lines[:-1])) <= width + 2
    lines = repr(result.kernels()).splitlines()
    assert len({line.split()[1] for line in lines[2:-1]}) == TEXT_ROWS  # kernels read differently at any width
    assert max(map(columns, lines)) > min(width, 160) * 0.7


def test_a_wider_terminal_shows_longer_names(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = TimelineResult(recorded("v100_4streams_nccl_step")).kernels()
    monkeypatch.setenv("COLUMNS", "200")
    assert "CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>" in repr(rows)
    monkeypatch.setenv("COLUMNS", "60")
    assert "CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>" not in repr(rows)


def test_html_tables_sort_by_the_numbers_behind_the_words() -> None:
    page = kernels()._repr_html_()
    assert f"<table {SORTABLE}" in page
    assert 'data-value="1500"' in page
    assert page.count("<thead>") == page.count("<tbody>") == page.count("<script>") == 1


@dataclass(frozen=True)
class EntryStat:
    name: str
    line: int
    lines: tuple[int, ...] = ()


def test_a_table_is_headed_by_what_its_rows_are() -> None:
    assert repr(Rows([EntryStat("a", 1)], EntryStat)).splitlines()[0] == "1 entry"
    assert repr(Rows([EntryStat("a", 1)] * 2, EntryStat)).splitlines()[0] == "2 entries"
    assert repr(TimelineResult(recorded("v100_4streams_nccl_step")).kernels()).splitlines()[0] == "131 kernels"


def test_a_column_in_which_no_row_says_anything_is_left_out() -> None:
    unknown = Rows([EntryStat("a", 0), EntryStat("b", 0)], EntryStat)
    assert repr(unknown).splitlines()[1].split() == ["name"]
    assert ">line<" not in unknown._repr_html_()
    one_known = Rows([EntryStat("a", 0), EntryStat("b", 3)], EntryStat)
    assert repr(one_known).splitlines()[1].split() == ["name", "line"]


def test_what_an_annotation_is_called_is_no_signature() -> None:
    rows = Rows([Part("forward(batch=3)", 1, 1), Part("forward(batch=4)", 1, 1)], Part)
    assert "forward(batch=3)" in repr(rows)
    assert "forward(batch=4)" in repr(rows)


def test_an_empty_table_has_no_rows_in_html_either() -> None:
    page = Rows((), Part, note="nothing ran")._repr_html_()
    assert "<tr" not in page
    assert "0 parts" in page
    assert "nothing ran" in page
