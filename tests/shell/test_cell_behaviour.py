"""A cell with a magic behaves as the plain cell does: names, values, display, await, magics inside."""

import pytest

from .alike import ALIKE
from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


@pytest.mark.parametrize("what", ALIKE)
def test_the_cell_does_what_the_plain_cell_does(notebook: Notebook, head: str, what: str) -> None:
    if what == "a variable can be deleted" and "bench" in head:
        return  # its second run would find nothing to delete
    measured = [notebook.run(f"{head}\n{body}") for body in ALIKE[what]]
    plain = [notebook.run(body) for body in ALIKE[what]]
    assert [ran.error for ran in (*measured, *plain)] == [None] * 2 * len(plain)
    assert [(ran.value, ran.shown) for ran in measured] == [(ran.value, ran.shown) for ran in plain]


def test_only_the_users_names_enter_the_namespace(notebook: Notebook, head: str) -> None:
    before = set(notebook.names)
    notebook.run(f"{head}\nx = 1\nx")
    new = {name for name in set(notebook.names) - before if name.strip("_i0123456789")}
    assert new == {"x"}


def test_the_last_value_is_shown_and_kept(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\nx = 'RES'\nx + 'ULT'")
    assert ran.value == "RESULT"
    assert ran.shown == ["'RESULT'"]
    assert notebook.names["_"] == "RESULT"
    assert "RESULT" in notebook.names["Out"].values()


def test_the_measurement_is_shown_once(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\nx = 1")
    assert ran.error is None
    assert len(ran.outputs) == 1
    assert ran.report.strip()


def test_print_is_seen_once(notebook: Notebook, head: str) -> None:
    assert notebook.run(f"{head}\nprint('hello')").printed == "hello\n"


def test_display_inside_the_cell_is_seen_once(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\nfrom IPython.display import display\ndisplay('one')")
    assert [bundle["text/plain"] for bundle in ran.outputs].count("'one'") == 1


@pytest.mark.parametrize("above", ["\n", "\n\n  \n"])
def test_blank_lines_above_the_magic_are_allowed(notebook: Notebook, head: str, above: str) -> None:
    ran = notebook.run(f"{above}{head}\n6 * 7")
    assert ran.value == 42
    assert len(ran.outputs) == 1


def test_text_that_looks_like_a_magic_is_left_alone(notebook: Notebook, magic: str) -> None:
    ran = notebook.run(f's = """\n%%{magic}\n"""\ns')
    assert ran.value == f"\n%%{magic}\n"
    assert ran.outputs == []


def test_an_annotated_name_is_recorded_as_in_a_plain_cell(notebook: Notebook, head: str) -> None:
    notebook.run("x: int = 1")
    plain = dict(notebook.names.get("__annotations__", {}))
    notebook.run(f"{head}\ny: int = 1")
    assert notebook.names["y"] == 1
    assert dict(notebook.names.get("__annotations__", {})).keys() >= plain.keys()


def test_the_timeline_runs_the_body_once(notebook: Notebook) -> None:
    notebook.run("n = 0")
    assert notebook.run("%%timeline\nn += 1\nn").value == 1
    assert notebook.names["n"] == 1


@pytest.mark.parametrize("name", ["bench", "syncbench"])
def test_a_benchmark_says_how_often_the_body_really_ran(notebook: Notebook, name: str) -> None:
    notebook.run("n = 0")
    notebook.run(f"%%{name} -r 6 --warmup 0 -o result\nn += 1")
    assert notebook.names["n"] >= 7  # the first call, and six samples
    assert f"{notebook.names['n']:,}" in repr(notebook.names["result"])


def test_the_value_of_a_benchmark_is_that_of_the_run_that_counts(notebook: Notebook) -> None:
    notebook.run("n = 0")
    assert notebook.run("%%bench -r 6 --warmup 0\nn += 1\nn").value == 1


class TestTheNextCell:
    """A plain cell after a measured one is not measured."""

    @pytest.mark.parametrize("body", ["x = 1", "x = = 1", "1 / 0"])
    def test_is_untouched(self, notebook: Notebook, head: str, body: str) -> None:
        notebook.run(f"{head}\n{body}")
        ran = notebook.run("1 + 1")
        assert (ran.value, ran.shown, ran.outputs, ran.printed, ran.warned) == (2, ["2"], [], "", "")
        assert notebook.names["_"] == 2

    def test_is_untouched_after_the_cell_was_transformed_and_never_run(self, notebook: Notebook, head: str) -> None:
        notebook.shell.transform_cell(f"{head}\nx = 1")
        notebook.shell.check_complete(f"{head}\nx = 1")
        ran = notebook.run("1 + 1")
        assert (ran.value, ran.outputs) == (2, [])

    def test_is_measured_again_when_it_asks_for_it(self, notebook: Notebook, head: str) -> None:
        for _ in range(3):
            assert len(notebook.run(f"{head}\nx = 1").outputs) == 1


class TestOtherMagicsAround:
    """%%capture and %%time stay what they are."""

    def test_capture_takes_what_the_cell_printed_and_showed(self, notebook: Notebook, head: str) -> None:
        ran = notebook.run(f"%%capture got\n{head}\nprint('inside')\nx = 5")
        assert (ran.outputs, ran.printed) == ([], "")
        assert notebook.names["x"] == 5
        assert notebook.names["got"].stdout == "inside\n"
        assert len(notebook.names["got"].outputs) == 1

    def test_time_reports_beside_the_measurement(self, notebook: Notebook, head: str) -> None:
        ran = notebook.run(f"%%time\n{head}\nx = 5\nx + 1")
        assert "Wall time" in ran.printed
        assert notebook.names["x"] == 5
        assert len(ran.outputs) == 1
        assert ran.value == 6

    def test_two_stacked_magics_give_one_clear_error(self, notebook: Notebook, head: str) -> None:
        ran = notebook.run(f"{head}\n%%time\nx = 5")
        assert "%%time" in ran.refusal
        assert ran.refusal.count("\n") <= 1
        assert "x" not in notebook.names
        assert notebook.run("1 + 1").value == 2


class TestInteractivity:
    """ast_node_interactivity decides what a plain cell shows, and so what a measured one shows."""

    def test_all_shows_every_value_once(self, notebook: Notebook, head: str) -> None:
        notebook.shell.ast_node_interactivity = "all"
        assert notebook.run(f"{head}\n1 + 1\n2 + 2\nx = 3\n3 + 3").shown == ["2", "4", "6"]

    def test_last_expr_or_assign_shows_what_was_assigned_last(self, notebook: Notebook, head: str) -> None:
        notebook.shell.ast_node_interactivity = "last_expr_or_assign"
        assert notebook.run(f"{head}\nx = 6 * 7").value == 42

    def test_none_shows_no_value(self, notebook: Notebook, head: str) -> None:
        notebook.shell.ast_node_interactivity = "none"
        assert notebook.run("6 * 7").shown == []
        assert notebook.run(f"{head}\n6 * 7").shown == []


def test_showing_a_tensor_as_last_value_is_recorded_like_printing_it(notebook: Notebook) -> None:
    pytest.importorskip("torch", reason="a device is waited for")
    notebook.run("import torch, perfmagic\nx = torch.ones(2, device=perfmagic.device('sim', pace='kernels=20ms'))")
    ran = notebook.run("%%timeline -o result\nz = x + 1\nz")
    assert ran.shown == ["tensor([2., 2.], device='sim:0')"]
    assert notebook.names["result"].lines[-1].blocked_ns > 0
    printed = notebook.run("%%timeline -o result\nz = x + 1\nprint(z)")
    assert printed.printed.startswith("tensor([2., 2.], device='sim:0')")
    assert notebook.names["result"].lines[-1].blocked_ns > 0
    notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")
