"""Which representations of a result reach a notebook's output, by display mode."""

from collections.abc import Iterator
from typing import Any

import pytest

import perfmagic
from perfmagic.api.show import show, show_once
from perfmagic.base.display import choose
from perfmagic.results import Result, TimelineResult
from perfmagic.view.page import ONLY_THE_PICTURE
from perfmagic.widget import timeline as shown
from tests.analysis.build import Builder
from tests.view.timeline.build import queue_of

pytestmark = pytest.mark.slow

WIDGET = "application/vnd.jupyter.widget-view+json"


class Front:
    """A shell whose outputs go to a front end, which keeps them."""

    kernel = object()
    execution_count = 1

    def __init__(self) -> None:
        self.display_pub = self
        self.outputs: list[dict[str, Any]] = []
        self.displays: list[dict[str, Any]] = []
        self.metadata: list[dict[str, Any]] = []

    def publish(self, data: dict[str, Any], metadata: dict[str, Any], **display: Any) -> None:
        self.outputs.append(data)
        self.displays.append(display)
        self.metadata.append(metadata)


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    made = Front()
    monkeypatch.setattr("perfmagic.api.show.running_shell", lambda: made)
    monkeypatch.setattr("perfmagic.api.show._shown", [])
    monkeypatch.setattr("perfmagic.base.display._chosen", [])
    shown._open.clear()
    yield made
    for _, views in shown._open.values():
        shown.close(views)
    shown._open.clear()


def timeline() -> TimelineResult:
    return TimelineResult(queue_of())


def empty_timeline() -> TimelineResult:
    return TimelineResult(Builder().trace())


def bench() -> Result:
    return perfmagic.bench(lambda: None, samples=6, warmup=0)


@pytest.mark.parametrize(
    ("mode", "make", "expected"),
    [
        ("static", timeline, ["picture"]),
        ("auto", timeline, ["picture below", "widget"]),
        ("auto", empty_timeline, ["picture"]),  # nothing to look into
        ("widget", empty_timeline, ["picture below", "widget"]),
        ("html", timeline, ["frame"]),
        ("html", bench, ["picture"]),
        ("widget", bench, ["picture"]),
    ],
)
def test_the_mode_decides_which_representations_are_published(
    front: Front, mode: str, make: Any, expected: list[str]
) -> None:
    choose(mode)
    result = make()
    show(result)
    outputs = []
    for bundle in front.outputs:
        html = bundle.get("text/html", "")
        below = html == ONLY_THE_PICTURE + result.html()
        outputs.append(
            "widget" if WIDGET in bundle
            else "picture" if html == result.html()
            else "picture below" if below
            else "frame" if "<iframe" in html
            else "none"
        )  # fmt: skip
    assert outputs == expected
    assert front.outputs[0]["text/plain"] == result.text()


@pytest.mark.parametrize("mode", ["auto", "widget"])
def test_a_live_view_publishes_no_second_text(front: Front, mode: str) -> None:
    choose(mode)
    show(timeline())
    assert [sorted(bundle) for bundle in front.outputs if WIDGET in bundle] == [[WIDGET]]
    assert sum("text/plain" in bundle for bundle in front.outputs) == 1


@pytest.mark.parametrize(
    ("mode", "gets_input", "environment", "expected"),
    [
        ("auto", False, {}, 1),
        ("auto", True, {}, 2),
        ("auto", False, {"VOILA_PREHEAT": "False"}, 2),  # its pages are used, though its cells get no input
        ("widget", False, {}, 2),
    ],
)
def test_a_program_that_runs_a_notebook_gets_the_picture_alone(
    front: Front,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    gets_input: bool,
    environment: dict[str, str],
    expected: int,
) -> None:
    request = {"content": {"code": "", "allow_stdin": gets_input}}
    monkeypatch.setattr(front, "get_parent", lambda: request, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    choose(mode)
    show(timeline())
    assert len(front.outputs) == expected
    assert WIDGET in front.outputs[-1] or expected == 1


def test_a_result_is_drawn_once_in_its_cell_and_again_in_the_next(front: Front) -> None:
    choose("static")
    result = timeline()
    show(result)
    show_once(result)
    assert len(front.outputs) == 1
    front.execution_count = 2
    show_once(result)
    assert len(front.outputs) == 2
    assert perfmagic.last() is result


def test_the_first_output_replaces_the_progress(front: Front) -> None:
    choose("widget")
    show(timeline(), replaces="progress")
    assert front.displays == [{"transient": {"display_id": "progress"}, "update": True}, {}]


def test_a_widgets_metadata_is_published_with_it(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {
        "application/vnd.jupyter.widget-view+json": {"colab": {"custom_widget_manager": {"url": "https://a.test"}}}
    }
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "widget")
    monkeypatch.setattr(
        "perfmagic.widget.timeline.TimelineWidget._repr_mimebundle_", lambda self: ({"text/plain": ""}, about)
    )
    show(timeline())
    assert front.metadata == [{}, about]
