"""The live timeline's Python half: what it sends, what it hears, and when it ends."""

import base64
import json
import threading
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ipywidgets import Widget
from ipywidgets.widgets.widget import _instances

from perfmagic.api.show import _live_bundle
from perfmagic.base.display import choose, display_mode
from perfmagic.base.errors import OptionError
from perfmagic.results import TimelineResult
from perfmagic.view.page import drawing_script, script
from perfmagic.view.timeline.doc import ViewState
from perfmagic.view.timeline.writers import LiveView
from perfmagic.widget import timeline as shown
from perfmagic.widget.timeline import TimelineWidget, timeline_widget
from tests.trace.recorded import recorded
from tests.view.ranks.build import result as ranked_result
from tests.view.timeline.build import MS, queue_of


@pytest.fixture
def result() -> TimelineResult:
    return TimelineResult(recorded("v100_4streams_nccl_step"))


@pytest.fixture
def _no_views() -> Iterator[None]:
    shown._open.clear()
    yield
    for _, views in shown._open.values():
        shown.close(views)
    shown._open.clear()


def test_it_sends_the_data_once_and_the_module_with_it(result: TimelineResult) -> None:
    widget = timeline_widget(result.live())
    header = json.loads(widget.header)
    assert header["n_ops"] == len(result.trace.ops)
    assert header["origin_ns"] == result.doc.start_ns
    assert len(widget.payload) > 10_000
    assert "_esm" in widget.keys
    widget.close()


def stored_text(state: dict[str, Any], name: str) -> str:
    """The script of a model that a view names."""
    packed = _instances[state[name].removeprefix("IPY_MODEL_")].get_state()["packed"]
    return zlib.decompress(base64.b64decode(packed)).decode()


@pytest.mark.usefixtures("_no_views")
def test_a_notebook_s_views_share_the_module(result: TimelineResult) -> None:
    def seen(live: LiveView, cell: str) -> dict[str, Any]:
        shown.live_view(live, cell, 1)
        return shown._open[cell][1][-1].get_state()

    first, second, ranked = seen(result.live(), "a"), seen(result.live(), "b"), seen(ranked_result().live(), "c")
    assert first["module"] == second["module"] == ranked["module"]
    assert first["_esm"] == ranked["_esm"] == script("loader")
    assert len(first["_esm"]) < 1_000
    assert first["more"] is None
    assert stored_text(first, "module") == script("timeline")
    assert stored_text(ranked, "more") == script("more")
    Widget.close_all()
    assert stored_text(seen(result.live(), "d"), "module") == script("timeline")


def test_a_view_placed_by_hand_has_what_it_needs_in_itself(result: TimelineResult) -> None:
    few, all_ = timeline_widget(result.live()), timeline_widget(ranked_result().live())
    assert few._esm == drawing_script(more=False)
    assert all_._esm == drawing_script(more=True) == script("timeline") + script("more")
    few.close()
    all_.close()


def test_what_the_browser_selects_is_a_window_of_the_trace(result: TimelineResult) -> None:
    widget = timeline_widget(result.live())
    assert result.selection is None
    widget.set_state({"view_ns": [0.0, 5e6], "selected_ns": [1e6, 4e6]})
    origin = result.doc.start_ns
    selected = result.selection
    assert (selected.meta.start_ns, selected.meta.end_ns) == (origin + MS, origin + 4 * MS)
    assert TimelineResult(selected).verdict is not None
    widget.set_state({"selected_ns": []})
    assert result.selection is None
    widget.close()


def test_python_drives_every_view_until_it_is_closed(result: TimelineResult) -> None:
    first, second = timeline_widget(result.live()), timeline_widget(result.live())
    origin = result.doc.start_ns
    result.zoom(origin + 10, origin + 30)
    result.highlight("gemm")
    assert first.asked_ns == second.asked_ns == [10.0, 30.0]
    assert first.marked == {"name": "gemm"}
    second.close()
    result.highlight(line=3)
    assert first.marked == {"line": 3}
    assert second.marked == {"name": "gemm"}
    result.highlight()
    assert first.marked == {}
    first.close()


def test_a_window_without_length_is_refused(result: TimelineResult) -> None:
    with pytest.raises(OptionError, match="not after its start at 5 ns"):
        result.zoom(5, 5)


def test_messages_on_another_thread_are_not_lost() -> None:
    state = ViewState()
    heard: list[int] = []
    state.listen(lambda seen: heard.append(seen.line))

    def report(n: int) -> None:
        for i in range(300):
            state.report((i, i + n), (n, n + 1))

    threads = [threading.Thread(target=report, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for line in range(300):
        state.mark("", line)
    for thread in threads:
        thread.join()
    seen = state.seen
    assert heard == list(range(300))
    assert seen.line == 299
    assert seen.view is not None
    assert (seen.view[0], seen.selection[1] - seen.selection[0]) == (299, 1)


@pytest.mark.usefixtures("_no_views")
def test_running_a_cell_again_closes_what_its_last_run_showed() -> None:
    def alive() -> list[bool]:
        return [view.comm is not None for view in seen]

    seen: list[TimelineWidget] = []
    for cell, run in (("a", 1), ("a", 1), ("b", 2), ("a", 3)):
        bundle, _ = shown.live_view(TimelineResult(queue_of()).live(), cell, run)
        assert "application/vnd.jupyter.widget-view+json" in bundle
        seen.append(shown._open[cell][1][-1])
    assert alive() == [False, False, True, True]


def test_a_view_that_is_closed_leaves_no_model_behind(result: TimelineResult) -> None:
    before = set(_instances)
    widget = timeline_widget(result.live())
    assert set(_instances) - before >= {widget.model_id, widget.layout.model_id}
    widget.close()
    assert set(_instances) == before


@pytest.mark.usefixtures("_no_views")
@pytest.mark.parametrize(("metadata", "alive"), [({}, [True, True]), ({"cellId": "7f"}, [False, True])])
def test_cells_with_the_same_text_keep_their_views_where_the_host_does_not_say_which_cell_runs(
    metadata: dict[str, str], alive: list[bool]
) -> None:
    request = {"content": {"code": "t"}, "metadata": metadata}
    seen = []
    for run in (1, 2):
        shell = SimpleNamespace(get_parent=lambda: request, execution_count=run)
        _live_bundle(shell, TimelineResult(queue_of()).live())
        seen.append([*shown._open.values()][-1][1][-1])
    assert [view.comm is not None for view in seen] == alive


def test_a_display_that_does_not_exist_is_refused_with_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.display._chosen", [])
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "hologram")
    with pytest.raises(OptionError, match="PERFMAGIC_DISPLAY: no display called 'hologram'"):
        display_mode()
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "static")
    assert display_mode() == "static"
    choose("html")
    assert display_mode() == "html"
