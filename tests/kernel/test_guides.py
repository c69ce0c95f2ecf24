"""Every command of the guides does what it says: a page is run as a notebook, from top to bottom."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.conftest import WITHOUT
from tests.trace.formats.nsight_made import h100
from tests.trace.recorded import eight_ranks

from .session import run_notebook

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "data" / "traces"
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [*GUIDES, ROOT / "docs" / "hosts.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def cells_of(page: Path) -> list[str]:
    """The blocks of a page as cells: Python as it is, files written, commands run by a shell that stops at an error."""
    found = []
    for kind, source in BLOCK.findall(page.read_text("utf-8")):
        if kind == "bash":
            found.append(f"%%bash\nset -euo pipefail\n{source}")
        elif kind == "python":
            named = FILE.match(source)
            found.append(f"%%writefile {named[1]}\n{source}" if named else source)
        else:  # a workflow is run below
            assert kind in ("text", "yaml"), f"{page.name}: a block of {kind} is run by nobody"
    return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that guides speak of."""
    shutil.copy(TRACES / "v100_4streams_nccl_step.json.gz", tmp_path / "run.pt.trace.json.gz")
    for name in ("before", "after"):
        shutil.copy(TRACES / "v100_4streams_nccl_step.json.gz", tmp_path / f"{name}.json.gz")
    for name in ("run", "before", "after"):
        shutil.copy(h100(), tmp_path / f"{name}.sqlite")
    shutil.copytree(eight_ranks(), tmp_path / "runs")
    lesson = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("n = 64", metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell("%load_ext perfmagic\nimport torch, perfmagic"),
            nbformat.v4.new_code_cell(
                "%%timeline -o t\nx = torch.ones(n, n, device=perfmagic.device('sim')).sum().item()"
            ),
        ]
    )
    lesson.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(lesson, tmp_path / "lesson.ipynb")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{WITHOUT}")
    monkeypatch.setenv("PYTEST_PLUGINS", "perfmagic.pytest_plugin")  # as its entry point does where it is installed
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / ".ipython"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / ".jupyter"))
    return tmp_path


def steps_of(workflow: str) -> dict[str, str]:
    """The commands of a workflow by the names of their steps, in order."""
    yaml = pytest.importorskip("yaml", reason="reads the workflow")
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


def run_step(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of one step as GitHub does."""
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", commands]
    return subprocess.run(shell, cwd=folder, capture_output=True, text=True, check=False)


def test_the_workflow_for_ci_passes_equal_code_and_fails_slower_code(desk: Path) -> None:
    pytest.importorskip("torch", reason="the workflow installs it")
    blocks = BLOCK.findall((ROOT / "docs" / "guides" / "ci.md").read_text("utf-8"))
    (workflow,) = (source for kind, source in blocks if kind == "yaml")
    for source in (source for kind, source in blocks if kind == "python"):
        (desk / FILE.match(source)[1]).write_text(source)
    steps = steps_of(workflow)
    assert steps.pop("Install") == 'python -m pip install "perfmagic[torch]" pytest'
    for name, commands in steps.items():
        tries = (run_step(commands, desk) for _ in range(2))  # other tests keep every core busy: one may be unlucky
        done = next((each for each in tries if each.returncode == 0), None)
        assert done is not None, f"{name}: {run_step(commands, desk).stdout}"
    for file, before, after in (
        ("test_speed.py", "sum([i * i for i in range(2000)])", "sum([i * i for i in range(9000)])"),
        ("step.py", "model(x).sum()", "(model(x) + model(x)).sum()"),
    ):
        text = (desk / file).read_text()
        assert text.count(before) == 1
        (desk / file).write_text(text.replace(before, after))
    slower = {name: run_step(commands, desk) for name, commands in list(steps.items())[1:]}
    assert [done.returncode for done in slower.values()] == [1, 1]
    assert "2 failed" in slower["Are the functions slower?"].stdout
    assert slower["Is the step slower?"].stdout.startswith("slower: a step takes")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_guide_runs_from_top_to_bottom(page: Path, desk: Path) -> None:
    for module in ("torch", "pandas", "papermill", "nbval"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    cells = cells_of(page)
    assert len(cells) >= (3 if page in GUIDES else 1)
    for _ in range(2):
        notebook, error = run_notebook(cells, sys.executable, desk)
        streams = [output for cell in notebook.cells for output in cell.outputs if output.output_type != "display_data"]
        # papermill chooses ports that are free and opens them later: other tests may have taken one meanwhile
        if not (error and "_async_wait_for_ready" in str(streams)):
            break
    assert error == "", streams[-3:]


def test_every_guide_is_one_page() -> None:
    lengths = {page.name: len(page.read_text("utf-8").split()) for page in GUIDES}
    assert len(lengths) == 7
    assert max(lengths.values()) <= 700, lengths
