"""Which faces of a result reach a notebook's output, by display mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import perfmagic
from perfmagic.display import choose
from perfmagic.results import Result, TimelineResult
from perfmagic.show import show, show_once
from perfmagic.view.timeline.html import ONLY_THE_PICTURE
from perfmagic.widget import shown
from tests.analysis.build import Builder
from tests.view.timeline.build import queue_of

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
    monkeypatch.setattr("perfmagic.show.running_shell", lambda: made)
    monkeypatch.setattr("perfmagic.show._shown", [])
    monkeypatch.setattr("perfmagic.display._chosen", [])
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
    ("mode", "make", "faces"),
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
def test_the_mode_decides_which_faces_are_put_out(front: Front, mode: str, make: Any, faces: list[str]) -> None:
    choose(mode)
    result = make()
    show(result)
    found = []
    for bundle in front.outputs:
        html = bundle.get("text/html", "")
        below = html == ONLY_THE_PICTURE + result.html()
        found.append(
            "widget" if WIDGET in bundle
            else "picture" if html == result.html()
            else "picture below" if below
            else "frame" if "<iframe" in html
            else "none"
        )  # fmt: skip
    assert found == faces
    assert front.outputs[0]["text/plain"] == result.text()


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


def test_the_first_output_takes_the_place_of_the_progress(front: Front) -> None:
    choose("widget")
    show(timeline(), replaces="progress")
    assert front.displays == [{"transient": {"display_id": "progress"}, "update": True}, {}]


def test_what_a_front_end_is_told_of_a_widget_goes_with_it(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {
        "application/vnd.jupyter.widget-view+json": {"colab": {"custom_widget_manager": {"url": "https://a.test"}}}
    }
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "widget")
    monkeypatch.setattr(
        "perfmagic.widget.timeline.TimelineWidget._repr_mimebundle_", lambda self: ({"text/plain": ""}, about)
    )
    show(timeline())
    assert front.metadata == [{}, about]
