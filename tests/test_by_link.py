"""Lessons opened by a link: the files name what exists, and the packages that pyproject.toml names."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
tomllib = pytest.importorskip("tomllib", reason="Python is older than 3.11")

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("by_link", ROOT / "demos" / "by_link.py")
by_link = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(by_link)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONDA = {"torch": "pytorch-cpu"}  # packages that conda-forge has by another name
LESSON = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])


def environment(name: str) -> list[Any]:
    """What a file for conda installs."""
    read = yaml.safe_load((ROOT / name).read_text("utf-8"))
    assert read["channels"] == ["conda-forge"]
    return read["dependencies"]


def asked(group: str) -> set[str]:
    """What a group of pyproject.toml installs besides perfmagic's own dependencies, by conda-forge's names."""
    found: set[str] = set()
    for entry in PROJECT["dependency-groups"][group]:
        if isinstance(entry, dict):
            found |= asked(entry["include-group"])
        elif extras := re.fullmatch(r"perfmagic\[(.+)\]", entry):
            found |= {
                line for name in extras[1].split(",") for line in PROJECT["project"]["optional-dependencies"][name]
            }
        else:
            found.add(entry)
    return {re.sub(r"^[\w-]+", lambda name: CONDA.get(name[0], name[0]), line) for line in found}


def test_conda_installs_what_make_lab_installs() -> None:
    python = f"python{PROJECT['project']['requires-python']}"
    *named, from_pip = environment("environment.yml")
    assert set(named) == asked("lab") | {python, "pip"}
    assert from_pip == {"pip": ["."]}
    assert environment("binder/environment.yml") == named


def test_binder_begins_with_the_tour_and_its_commands_name_files_of_the_clone() -> None:
    script = ROOT / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    copied = re.findall(r"^cp (\S+)", script.read_text("utf-8"), re.MULTILINE)
    assert [name for name in copied if not (ROOT / name).is_file()] == []
    first = yaml.safe_load((ROOT / "binder" / "jupyter_server_config.json").read_text("utf-8"))
    assert {one["default_url"] for one in first.values()} == {"/lab/tree/demos/00_tour.ipynb"}
    assert (ROOT / "demos" / "00_tour.ipynb").is_file()


def test_the_image_runs_as_the_user_and_names_files_of_the_clone() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert {name for name, _ in steps} <= {"ARG", "FROM", "USER", "RUN", "COPY"}
    assert [rest for name, rest in steps if name == "USER"][-1] == "${NB_UID}"
    text = " ".join(rest for _, rest in steps)
    named = re.findall(r"--file (\S+)|\bcp (\S+)", text)
    assert len(named) == 2
    assert [name for pair in named for name in pair if name and not (ROOT / name).is_file()] == []
    assert "/demos/00_tour.ipynb" in (ROOT / "Dockerfile").read_text("utf-8")


def test_a_lesson_gets_links_to_itself_once() -> None:
    path = Path("demos/01_a.ipynb")
    once = by_link.linked(LESSON, "them/perf.magic", path)
    twice = by_link.linked(once, "them/perf.magic", path)
    assert [cell.source for cell in twice.cells] == [cell.source for cell in once.cells]
    words, code, last = once.cells
    assert "colab.research.google.com/github/them/perf.magic/blob/HEAD/demos/01_a.ipynb)" in words.source
    assert "mybinder.org/v2/gh/them/perf.magic/HEAD?labpath=demos%2F01_a.ipynb)" in words.source
    assert "git clone --quiet --depth 1 https://github.com/them/perf.magic /content/perf.magic\n" in code.source
    assert "%cd -q /content/perf.magic/demos" in code.source
    assert last.source == "1 + 1"
    nbformat.validate(once)


def test_the_first_cell_does_nothing_outside_colab(tmp_path: Path) -> None:
    code = by_link.linked(LESSON, "them/perfmagic", Path("demos/01_a.ipynb")).cells[1].source
    (tmp_path / "cell.ipy").write_text(f"{code}\nprint('done')\n", "utf-8")
    command = [sys.executable, "-m", "IPython", "--no-banner", "cell.ipy"]
    env = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr.strip()) == ("done", "")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://git.example/them/perfmagic", "must be https://github.com/OWNER/NAME"),
        ("https://github.com/them/perfmagic", "missing.ipynb: must be in"),
    ],
)
def test_what_a_link_could_not_open_is_refused(
    address: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["by_link.py", address, str(tmp_path / "missing.ipynb")])
    assert by_link.main() == 1
    assert words in capsys.readouterr().err
