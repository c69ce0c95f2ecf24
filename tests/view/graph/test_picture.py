"""The picture of a graph: it says what the numbers say, stays small, and nothing is written over anything."""

import base64
import re
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from perfmagic.base import units
from perfmagic.base.errors import CaptureError, TraceError
from perfmagic.results import GraphResult
from perfmagic.trace.columns import SeenOps
from perfmagic.view.graph.picture import BOX_PX, Painter, graph_picture
from perfmagic.view.svg.canvas import UNITS_PER_PX, Canvas
from perfmagic.view.svg.metrics import width_px
from tests.analysis.graph.made import KERNEL, chain, op, recorded, two_devices

MOST_BYTES = 40_000
NS = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def serial() -> GraphResult:
    return GraphResult(*two_devices())


def texts(svg: str) -> list[tuple[float, float, str, float, str]]:
    """x, y, words, size and anchor of each text, in pixels."""
    words = []
    for node in ET.fromstring(svg).iter(f"{NS}text"):
        if node.text is None:
            continue
        size = float(node.get("font-size", 2 * 10)) / UNITS_PER_PX
        x, y = (float(node.get(key, 0)) / UNITS_PER_PX for key in "xy")
        words.append((x, y, node.text, size, node.get("text-anchor", "")))
    return words


def boxes_of(words: list[tuple[float, float, str, float, str]]) -> list[tuple[float, float, float, float, str]]:
    """Left, top, right and bottom of each text."""
    boxes = []
    for x, y, text, size, anchor in words:
        wide = width_px(text, size)
        left = x - {"middle": wide / 2, "end": wide}.get(anchor, 0)
        boxes.append((left, y - 0.72 * size, left + wide, y, text))
    return boxes


@pytest.mark.parametrize("of", [two_devices(), chain(60), chain(200, lines=20), chain(300)], ids=range(4))
def test_no_word_lies_on_another_or_outside(of: tuple[object, object]) -> None:
    svg = GraphResult(*of).svg()  # type: ignore[arg-type]
    words = boxes_of(texts(svg))
    assert len(words) > 8
    for a, b in combinations(words, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
    height = float(re.search(r'height="(\d+)"', svg)[1])  # type: ignore[index]
    assert all(left >= 0 and right <= 1000 and top >= 0 and bottom <= height for left, top, right, bottom, _ in words)
    assert len(svg.encode()) <= MOST_BYTES


def test_every_operator_is_a_box_with_its_time(serial: GraphResult) -> None:
    said = [text for *_, text, _, _ in texts(serial.svg())]
    for node in serial.nodes():
        assert node.name in said
        assert units.duration(node.duration_ns) in said


def test_the_marks_are_explained_where_they_occur_and_only_there(serial: GraphResult) -> None:
    red, bar, green = "red dots: independent", "red bar: its inputs", "green: ran concurrently"
    assert all(words in serial.svg() for words in (red, bar))
    assert green not in serial.svg()
    at_once = [
        (op("a", 0, 1, writes=[1]), (KERNEL, 0, 1, 50)),
        (op("b", 1, 2, writes=[2]), (KERNEL, 1, 2, 50)),
    ]
    svg = GraphResult(*recorded(at_once)).svg()
    assert green in svg
    assert red not in svg
    assert bar not in svg


def test_words_and_picture_name_the_same_times(serial: GraphResult) -> None:
    """Not by 5 % or so: what is written twice is the same number."""
    executed, possible = units.duration(209), units.duration(100)
    assert f"as executed: {executed}" in serial.svg()
    assert f"as the dependencies allow, one op at a time in each lane: {possible}" in serial.svg()
    for output in (serial.text().replace("\n", " "), serial.sentence):
        assert f"of {executed}" in re.sub(r"\s+", " ", output).replace(executed.replace("\xa0", " "), executed)
    assert "in 7 lanes · on average dependencies allow 1.9 at once, 0.91 ran" in " ".join(serial.text().split())
    earlier = units.duration(serial.late()[0].earlier_ns)
    assert f">{earlier} late<" in serial.svg()
    assert f"could have begun {earlier} earlier than it did" in serial.html()


def test_where_nothing_could_be_shorter_the_critical_path_decides() -> None:
    graph = GraphResult(*recorded([(op("a", 0, 10, writes=[1]), None)]))
    assert graph.sentence == "The critical path decides: 10 ns of 10 ns".replace(" ns", "\xa0ns")
    assert graph.conclusion.proposals == ()
    assert (graph.could, graph.did) == (1.0, 1.0)


def test_the_longest_chain_is_bold_and_only_that(serial: GraphResult) -> None:
    """Three of the six needs are on it: copy → mm → copy → add, and the last crosses several columns."""
    svg = serial.svg()
    [bold] = re.findall(r"\.(\w+)\{stroke:#1b1f24;fill:none;stroke-width:4\}", svg)
    [thin] = re.findall(r"\.(\w+)\{stroke:#6a727d;fill:none;stroke-width:2\}", svg)
    lines = {node.get("class"): node.get("d", "").count("M") for node in ET.fromstring(svg).iter(f"{NS}path")}
    assert (lines[bold], lines[thin]) == (3, 3)


def test_the_picture_has_words_for_those_who_cannot_see_it(serial: GraphResult) -> None:
    root = ET.fromstring(serial.svg())
    assert root.get("role") == "img"
    label = root.get("aria-label", "")
    assert "7 operators in 7 lanes: cpu, cpu → sim:0" in label
    assert serial.sentence in label
    assert f'alt="{label}"' in serial.html()


def test_both_themes_have_their_colours(serial: GraphResult) -> None:
    assert "@media(prefers-color-scheme:dark)" in serial.svg()


def test_the_html_holds_the_picture_and_no_script(serial: GraphResult) -> None:
    data = re.search(r"base64,([^\"]+)", serial.html())
    assert base64.b64decode(data[1]).decode() == graph_picture(serial._doc()).svg
    assert "<script" not in serial.html()


def test_boxes_do_not_overlap(serial: GraphResult) -> None:
    painter = Painter(Canvas(), serial._doc())
    painter.draw()
    places = [painter.place(i) for i in range(7)]
    for (ax, ay), (bx, by) in combinations(places, 2):
        assert abs(ax - bx) >= painter.box_px or abs(ay - by) >= BOX_PX


def test_a_result_without_operators_says_so_in_every_form() -> None:
    empty = GraphResult(recorded([])[0], SeenOps())
    assert empty.is_empty
    assert empty.text() == "Graph: no operator of torch ran"
    assert "no operator of torch ran" in empty.html()
    assert empty.to_dict() == {"note": "Graph: no operator of torch ran"}
    for ask in (empty.nodes, empty.edges, empty.svg, empty.longest, empty.late):
        with pytest.raises(TraceError, match="no operator"):
            ask()


def test_networkx_gets_nodes_and_edges_with_their_columns(serial: GraphResult) -> None:
    nx = pytest.importorskip("networkx")
    made = serial.to_networkx()
    assert (made.number_of_nodes(), made.number_of_edges()) == (7, 6)
    assert nx.is_directed_acyclic_graph(made)
    assert made.nodes[1]["lane"] == "sim:0"
    assert made.edges[0, 1]["kind"] == "data"
    length = nx.dag_longest_path(made, weight=None)
    assert len(length) == 4


def test_without_networkx_the_error_says_what_to_install(serial: GraphResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(CaptureError, match="networkx, which is not installed") as raised:
        serial.to_networkx()
    assert "pip install networkx" in str(raised.value)


def test_the_tables_are_rows(serial: GraphResult) -> None:
    assert len(serial.nodes()) == 7
    assert serial.nodes().to_dict()[3]["earlier_ns"] == 100
    assert [(edge.needs, edge.of) for edge in serial.edges()] == [(0, 1), (1, 2), (3, 4), (4, 5), (2, 6), (5, 6)]
    assert serial.to_dict()["possible_ns"] == 100
    pytest.importorskip("pandas")
    assert list(serial.to_frame()["name"]) == ["copy", "mm", "copy", "copy", "mm", "copy", "add"]


def test_an_operator_is_drawn_where_its_ops_ran_and_not_between() -> None:
    foreach = op("_foreach_add_", 0, 2, writes=[1])
    trace, _ = recorded([(foreach, (KERNEL, 0, 10, 20)), (foreach, (KERNEL, 1, 90, 100))])
    result = GraphResult(trace, SeenOps((foreach,)))
    assert [node.duration_ns for node in result.nodes()] == [20]
    assert result._doc().executed_ns.tolist() == [[0, 0, 10], [0, 80, 90]]
