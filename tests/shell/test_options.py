"""The first line of a magic: options, help, wrong options."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

import perfmagic

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


def test_o_binds_the_result(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o found\nx = 1")
    assert notebook.names["found"] is perfmagic.last()
    assert len(repr(notebook.names["found"])) > 20


def test_o_binds_what_was_measured_before_a_failure(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o found\n1 / 0")
    assert "ZeroDivisionError" in repr(notebook.names["found"])


def test_a_result_is_shown_again_when_it_is_the_value_of_a_cell(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o found\nx = 1")
    ran = notebook.run("found")
    faces = [*ran.shown, *(bundle["text/plain"] for bundle in ran.outputs)]
    assert len(faces) == 1
    assert "object at 0x" not in faces[0]


def test_a_result_becomes_a_dictionary(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o found\nx = 1")
    assert isinstance(notebook.names["found"].to_dict(), dict)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_h_lists_the_options_and_runs_nothing(notebook: Notebook, magic: str, flag: str) -> None:
    ran = notebook.run(f"%%{magic} {flag}\nx = 1")
    assert "-o NAME" in ran.printed
    assert magic in ran.printed
    assert "x" not in notebook.names
    assert ran.error is None
    assert ran.outputs == []


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_h_works_without_a_body(notebook: Notebook, magic: str, flag: str) -> None:
    assert "-o NAME" in notebook.run(f"%%{magic} {flag}").printed
    assert "-o NAME" in notebook.run(f"%{magic} {flag}").printed


@pytest.mark.parametrize(
    ("options", "says"),
    [("--nonsense", "--nonsense"), ("-o 1x", "1x"), ("-o class", "class"), ("-o", "-o"), ("-o a.b", "a.b")],
)
def test_a_wrong_option_is_one_message_and_runs_nothing(
    notebook: Notebook, magic: str, options: str, says: str
) -> None:
    ran = notebook.run(f"%%{magic} {options}\nx = 1")
    assert says in ran.refusal
    assert len(ran.refusal.splitlines()) <= 2  # what is wrong, and a hint
    assert ran.error is not None  # Run All stops
    assert "x" not in notebook.names
    assert ran.outputs == []


@pytest.mark.parametrize("name", ["bench", "syncbench"])
@pytest.mark.parametrize(
    "options",
    [
        "-r 0",
        "-n 0",
        "-n -3",
        "-n many",
        "--runs 0",
        "--warmup -1",
        "--cooldown -1",
        "--sweep n",
        "--cold -n 5",
        "--time 0",
        "--time nan",
        "--rel -1",
        "--setup-each",
    ],
)
def test_a_number_that_makes_no_sense_is_one_message(notebook: Notebook, name: str, options: str) -> None:
    ran = notebook.run(f"%%{name} {options}\nx = 1")
    flag, _, value = options.partition(" ")
    assert flag in ran.refusal or (value and value in ran.refusal)
    assert len(ran.refusal.splitlines()) <= 2
    assert "x" not in notebook.names


def test_an_unknown_device_is_one_message(notebook: Notebook) -> None:
    ran = notebook.run("%%timeline --device abacus\nx = 1")
    assert "abacus" in ran.refusal
    assert "x" not in notebook.names


def test_the_line_form_refuses_in_the_same_words(notebook: Notebook, magic: str) -> None:
    cell = notebook.run(f"%%{magic} --nonsense\nx = 1").refusal
    line = notebook.run(f"%{magic} --nonsense x = 1").refusal
    assert line.replace("%", "") == cell.replace("%", "")


def test_setup_code_runs_once_before_the_cell(notebook: Notebook, head: str) -> None:
    notebook.run("n = 0")
    ran = notebook.run(f"{head} n += 100\nn")
    assert ran.value == 100


def test_setup_each_runs_before_every_sample(notebook: Notebook) -> None:
    notebook.run("made = 0")
    notebook.run("%%bench -r 6 --warmup 0 --setup-each made += 1; todo = [1]\ntodo.pop()")
    assert notebook.names["made"] >= 7
    assert notebook.names["todo"] == []


def test_setup_code_that_fails_stops_the_cell_with_its_own_error(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head} 1 / 0\nx = 1")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "x" not in notebook.names


def test_nothing_is_left_running_after_setup_code_failed(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} 1 / 0\nx = 1")
    assert not builtins.__perfmagic__.running  # type: ignore[attr-defined]
    assert notebook.run(f"{head} y = 5\ny").value == 5


def test_setup_code_with_a_syntax_error_is_said_to_be_wrong(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head} y = = 2\nx = 1")
    assert ran.error is not None
    assert "perfmagic/magics" not in ran.traceback
    assert "x" not in notebook.names


def test_quotes_in_setup_code_are_left_alone(notebook: Notebook, head: str) -> None:
    assert notebook.run(f"{head} s = 'a  b' + \"c\"\ns").value == "a  bc"


def test_tensorboard_writes_into_a_folder_that_is_made(notebook: Notebook, tmp_path: Path) -> None:
    ran = notebook.run("%%timeline --tensorboard runs/first\nx = 1")
    assert ran.error is None
    assert [path.name.split(".")[0] for path in (tmp_path / "runs" / "first").iterdir()] == ["worker"]


def test_a_tensorboard_folder_that_cannot_be_made_is_one_message(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    ran = notebook.run("%%timeline --tensorboard taken\nx = 1")
    assert "taken cannot be made" in f"{ran.refusal}{ran.error}"
    assert notebook.names["x"] == 1


def test_perfmagic_says_in_words_which_face_is_seen(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.display._chosen", [])
    monkeypatch.setattr("perfmagic.magics.status.in_notebook", lambda _shell: True)
    assert "html: the live view as a page in a frame" in notebook.run("%perfmagic display html").printed
    monkeypatch.setattr("perfmagic.magics.status.in_notebook", lambda _shell: False)
    assert "display      text: a terminal shows no pictures" in notebook.run("%perfmagic").printed
