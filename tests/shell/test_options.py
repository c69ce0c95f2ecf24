"""The first line of a magic: options, help, wrong options."""

import builtins
from pathlib import Path

import pytest

import perfmagic

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


def test_o_binds_the_result(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o result\nx = 1")
    assert notebook.names["result"] is perfmagic.last()
    assert len(repr(notebook.names["result"])) > 20
    assert isinstance(notebook.names["result"].to_dict(), dict)


def test_o_binds_the_partial_result_of_a_failed_cell(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o result\n1 / 0")
    assert "ZeroDivisionError" in repr(notebook.names["result"])


def test_a_result_is_shown_again_when_it_is_the_value_of_a_cell(notebook: Notebook, head: str) -> None:
    notebook.run(f"{head} -o result\nx = 1")
    ran = notebook.run("result")
    texts = [*ran.shown, *(bundle["text/plain"] for bundle in ran.outputs)]
    assert len(texts) == 1
    assert "object at 0x" not in texts[0]


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
def test_a_wrong_option_prints_one_message_and_runs_nothing(
    notebook: Notebook, magic: str, options: str, says: str
) -> None:
    ran = notebook.run(f"%%{magic} {options}\nx = 1")
    assert says in ran.refusal
    assert len(ran.refusal.splitlines()) <= 2  # what is wrong, and a hint
    assert ran.error is not None  # Run All stops
    assert "x" not in notebook.names
    assert ran.outputs == []


INVALID = "-r 0; -n 0; -n -3; -n many; --runs 0; --warmup -1; --cooldown -1; --sweep n; --cold -n 5; --time 0"


@pytest.mark.parametrize("name", ["bench", "syncbench"])
@pytest.mark.parametrize("options", [*INVALID.split("; "), "--time nan", "--rel -1", "--setup-each"])
def test_an_invalid_number_prints_one_message(notebook: Notebook, name: str, options: str) -> None:
    ran = notebook.run(f"%%{name} {options}\nx = 1")
    flag, _, value = options.partition(" ")
    assert flag in ran.refusal or (value and value in ran.refusal)
    assert len(ran.refusal.splitlines()) <= 2
    assert "x" not in notebook.names


@pytest.mark.parametrize(("magic", "option"), [
    ("timeline", "--save"), ("timeline", "--html"), ("timeline", "--tensorboard"), ("ranks", "--save"),
])  # fmt: skip
@pytest.mark.parametrize("empty", ["''", '""', "' '"])
def test_an_empty_file_name_prints_one_message_and_runs_nothing(
    notebook: Notebook, magic: str, option: str, empty: str
) -> None:
    ran = notebook.run(f"%%{magic} {option} {empty}\nx = 1")
    assert f"argument {option}: the name is empty" in ran.refusal
    assert "x" not in notebook.names


def shares(notebook: Notebook, text: str) -> tuple[float, str]:
    ran = notebook.run(f"%%bench --rel {text} --samples 3 --warmup 0 -o result\nx = 1")
    assert ran.error is None
    return notebook.names["result"].settings["rel"], ran.warned


@pytest.mark.parametrize("text", ["5%", "0.05"])
def test_rel_is_a_percentage_or_a_fraction(notebook: Notebook, text: str) -> None:
    assert shares(notebook, text) == (pytest.approx(0.05), "")


@pytest.mark.parametrize(("text", "is_taken_as"), [
    ("5", "5 is taken as 5 %; write 5% or 0.05"), ("0.5", "0.5 is taken as 50 %; write 50% or 0.5"),
])  # fmt: skip
def test_an_ambiguous_rel_prints_one_note(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, text: str, is_taken_as: str
) -> None:
    monkeypatch.setattr("perfmagic.base.options._said", set())
    result, errors = shares(notebook, text)
    assert result == pytest.approx(float(text) / (100 if text == "5" else 1))
    assert errors == f"perfmagic: {is_taken_as}\n"
    assert shares(notebook, text) == (result, "")


def test_an_unknown_device_prints_one_message(notebook: Notebook) -> None:
    ran = notebook.run("%%timeline --device abacus\nx = 1")
    assert "abacus" in ran.refusal
    assert "x" not in notebook.names


def test_the_line_form_has_the_same_error_message(notebook: Notebook, magic: str) -> None:
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


def test_a_syntax_error_in_setup_code_is_reported(notebook: Notebook, head: str) -> None:
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


def test_an_unusable_tensorboard_folder_prints_one_message(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    ran = notebook.run("%%timeline --tensorboard taken\nx = 1")
    assert "taken cannot be made" in f"{ran.refusal}{ran.error}"
    assert notebook.names["x"] == 1


def test_perfmagic_describes_the_display_in_use(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.display._chosen", [])
    monkeypatch.setattr("perfmagic.magics.status.in_notebook", lambda _shell: True)
    assert "html: the live view as a page in a frame" in notebook.run("%perfmagic display html").printed
    monkeypatch.setattr("perfmagic.magics.status.in_notebook", lambda _shell: False)
    assert "display      text: a terminal shows no pictures" in notebook.run("%perfmagic").printed


@pytest.mark.parametrize("options", ["-r 7 -n 3", "--samples 7 --calls 3", "--samples=7 --calls=3"])
def test_short_flags_are_the_names_of_the_keywords(notebook: Notebook, options: str) -> None:
    assert notebook.run(f"%%bench {options} --warmup 0 -o result\nx = 1").error is None
    result = notebook.names["result"]
    assert (result.settings["samples"], result.settings["calls"], result.returns.n) == (7, 3, 7)


@pytest.mark.parametrize(("line", "meant"), [
    ("%perfmagic dislpay static", "display"),
    ("%ranks restrat", "restart"),
    ("%bench --smaples 3 x = 1", "--samples"),
    ("%compare a b --quantitiy done", "--quantity"),
])  # fmt: skip
def test_a_mistyped_word_suggests_the_nearest_one(notebook: Notebook, line: str, meant: str) -> None:
    assert f"did you mean {meant}?" in notebook.run(line).refusal
    assert "did you mean" not in notebook.run("%%bench --xyzzy\n1").refusal
