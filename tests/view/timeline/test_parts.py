"""The small parts of a picture: packing, text widths, ticks, path data, colours."""

import configparser
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.base import units
from perfmagic.base.terminal import columns, cut_to_columns, escaped
from perfmagic.trace.model import LaunchShape
from perfmagic.view.nbval import sanitize_file
from perfmagic.view.svg.canvas import Canvas, number, quantised, step_line, step_path, thin_line
from perfmagic.view.svg.metrics import Scale, fitted, ticks, width_px
from perfmagic.view.svg.palette import TONES, mixed, queued
from perfmagic.view.timeline.doc import describe_shape
from perfmagic.view.timeline.lanes import pack
from perfmagic.view.timeline.picture.frame import DETAILS, PLOT_PX, Frame
from perfmagic.view.timeline.picture.timeline import word_sides

from .build import UNHURRIED

ops = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40).map(sorted)


@UNHURRIED
@given(ops)
def test_packing_never_overlaps_and_drops_nothing(spans: list[tuple[int, int]]) -> None:
    start = np.array([a for a, _ in spans], np.int64)
    end = start + np.array([n for _, n in spans], np.int64)
    packing = pack(start, end)
    assert len(packing.sub_lane) == len(spans)
    assert (packing.sub_lane < packing.split).all()
    for lane in range(packing.depth):
        mine = packing.sub_lane == lane
        assert (start[mine][1:] >= end[mine][:-1]).all()


def test_the_lane_splits_only_where_ops_overlap() -> None:
    packing = pack(np.array([0, 5, 20, 30]), np.array([10, 15, 30, 40]))
    assert packing.sub_lane.tolist() == [0, 1, 0, 0]
    assert packing.split.tolist() == [2, 2, 1, 1]


def test_a_chinese_letter_is_as_wide_as_the_font_is_high() -> None:
    assert width_px("矩阵乘", 10) == pytest.approx(30)
    assert width_px("矩阵", 10, mono=True) == pytest.approx(20)
    assert width_px("ii", 10) < width_px("WW", 10) / 3


@UNHURRIED
@given(st.text(max_size=60), st.floats(0, 300))
def test_a_fitted_label_fits(text: str, max_px: float) -> None:
    assert width_px(fitted(text, max_px, 10), 10) <= max_px + 1e-6


def test_a_label_is_cut_only_when_three_letters_remain() -> None:
    assert fitted("ampere_sgemm", 45, 10) == "amper…"
    assert fitted("ampere_sgemm", 20, 10) == ""
    assert fitted("mm", 60, 10) == "mm"


@UNHURRIED
@given(st.text(max_size=40), st.integers(2, 30))
def test_text_cut_for_a_terminal_keeps_to_its_columns(text: str, max_columns: int) -> None:
    assert columns(cut_to_columns(text, max_columns)) <= max_columns


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (LaunchShape((4096, 8, 1), (256, 1, 1), 48), ("4,096 × 8 blocks", "of 256 threads, 48 registers")),
        (LaunchShape((3, 1, 1), (64, 1, 1), None, 16_384), ("3 blocks", "of 64 threads, 16.4 kB shared")),
        (LaunchShape((1, 1, 1), (1, 2, 32)), ("1 block", "of 1 × 2 × 32 threads")),
        (LaunchShape((1, 1, 12), (32, 1, 1), 0, 0), ("1 × 1 × 12 blocks", "of 32 threads")),
    ],
)
def test_a_launch_shape_in_words(shape: LaunchShape, words: tuple[str, str]) -> None:
    assert tuple(part.replace("\u00a0", " ") for part in describe_shape(shape)) == words


def test_ticks_are_round_and_far_enough_apart() -> None:
    labels = ticks(167e6, 796)
    assert [t.offset_ns for t in labels] == [0, 50e6, 100e6, 150e6]
    assert [t.text for t in labels] == [f"{n}\u00a0ms" for n in (0, 50, 100, 150)]


def test_ticks_of_a_tiny_span_share_one_unit() -> None:
    assert [t.text for t in ticks(1500, 796)] == [
        f"{n}\u00a0µs" for n in ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2", "1.4")
    ]


def test_a_number_takes_the_decimals_of_its_interval() -> None:
    assert units.duration_like(1_240_000, 100_000) == "1.2\u00a0ms"
    assert units.duration_like(980_000, 10_000, unit_of_ns=1_240_000, unit=False) == "0.98"


def test_time_outside_the_window_stays_at_its_edge() -> None:
    assert Scale(100, 200, 50).x([0, 150, 900]).tolist() == [0, 25, 50]


def test_a_coordinate_is_short_and_in_half_pixels() -> None:
    assert [number(v) for v in (0.5, 0.25, -0.25, -0.0, 12.3)] == ["1", ".5", "-.5", "0", "24.6"]


def test_a_column_never_disappears_by_rounding() -> None:
    assert quantised(np.array([0.0, 0.01, 0.6, 1.4]), 0.5).tolist() == [0, 0.5, 0.5, 1.5]


def test_a_skyline_writes_only_changes() -> None:
    edges = np.arange(5.0)
    assert step_path(edges, np.array([0, 3, 3, 1.0]), 10) == "M2 20v-6h4v4h2v2z"


def test_a_step_line_is_interrupted_where_nothing_is() -> None:
    assert step_line(np.arange(4.0), np.array([2, np.nan, 1.0]), 10, down=False) == "M0 16h2M4 18h2"


def test_a_straight_line_is_one_piece_and_a_corner_is_kept() -> None:
    x = np.arange(9.0)
    assert thin_line(x, 2 * x, 0.1) == "M0 0l16 32"
    assert thin_line(x, np.abs(x - 4), 0.1) == "M0 8l8-8l8 8"


def test_tints_are_opaque_mixtures_and_neighbours_differ() -> None:
    assert mixed("#000000", "#ffffff", 0.2) == "#cccccc"
    assert queued("comp", 0) != queued("comp", 1)
    assert all(len(tone.light) == len(tone.dark) == 7 for tone in TONES.values())


def test_foreign_text_becomes_character_data() -> None:
    assert escaped('<b a="1">&\x00\u202e\ud800') == "&lt;b a=&quot;1&quot;&gt;&amp;\ufffd\ufffd\ufffd"


@pytest.mark.parametrize(
    ("xs", "sides"),
    [
        ((100, 700), ("right", "left")),
        ((500, 650), ("left", "left")),
        ((700, 790), ("left", "right")),
        ((700, 795), ("left", "right")),
        ((10, 20), ("", "right")),
        ((780, 795), ("left", "right")),
    ],
)
def test_the_words_of_two_flags_never_meet(xs: tuple[float, ...], sides: tuple[str, ...]) -> None:
    frame = Frame(Canvas(), Scale(0, PLOT_PX, PLOT_PX), DETAILS[0])
    assert word_sides(xs, (200.0, 100.0), frame) == sides


@pytest.mark.parametrize("label", ["simulated device", "2 simulated devices"])
def test_a_compared_timeline_keeps_the_device_and_not_its_numbers(label: str) -> None:
    rules = configparser.RawConfigParser()
    rules.read_string(sanitize_file())
    for paced in (", paced: mm ≥ 2 ms", ", paced: matmul 4 GFLOP/s,\ncopies 200 MB/s", ""):
        about = f"         {label}{paced} · 20 device ops · busy\n         99 %"
        text = f"25.4 ms  The device decides: it was busy 99 % of the time\n{about}\n  1 stream"
        assert re.sub(rules["timeline"]["regex"], rules["timeline"]["replace"], text) == f"TIMELINE {label}"


def test_numbers_of_a_virtual_clock_are_compared_and_pictures_are_not() -> None:
    rules = configparser.RawConfigParser()
    rules.read_string(sanitize_file(virtual=True))
    (name,) = rules.sections()
    text, html = "25.4 ms  The device decides: it was busy 99 % of the time", '<div dir="ltr">25.4 ms<img></div>'
    assert [re.sub(rules[name]["regex"], rules[name]["replace"], one) for one in (text, html)] == [text, "HTML"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("431 ms   Rank 1 is late: rank 0 waited 42 ms\n         2 ranks · simulated device", "RANKS 2 ranks"),
        ("Weak scaling from 1 to 4 ranks is 79 % efficient: the\ncell takes 487 ms", "SCALING Weak 1 4"),
        (
            "Python decides: 9 ms passed\n  2 simulated devices, paced: mm ≥ 2 ms ·\n  15 operators · 61 ms",
            "GRAPH of 15 operators",
        ),
        ("One lane decides: cpu\n  this machine's CPU · 1 operator · 3 ms of work", "GRAPH of 1 operators"),
        ("device-bound: Python is back after 1 ms, the device after 9 ms", "SYNCBENCH"),
        ("bottleneck unclear: the samples do not confirm the recorded run", "SYNCBENCH"),
    ],
)
def test_what_load_changes_is_not_compared_and_numbers_of_ranks_and_operators_are(text: str, kept: str) -> None:
    rules = configparser.RawConfigParser()
    rules.read_string(sanitize_file())
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    assert text == kept
