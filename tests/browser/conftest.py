"""A browser, a private JupyterLab, and a notebook that was executed and saved."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.kernel.session import run_notebook

from .chromium import FLAGS, executable
from .notebook import close_documents
from .server import jupyter_server

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "build" / "screens"
CELLS = (
    "%load_ext perfmagic",
    "import torch, perfmagic\ndevice = perfmagic.device('sim', pace=perfmagic.Pace(kernel_s=2e-3))",
    "%%timeline -o found\nx = torch.randn(64, 64, device=device)\nfor _ in range(20):\n    x = x @ x\n队列 = x.sum()",
    "found.to_html('page.html')",
    "%%bench -r 20 --time 0.2\nx + x",
)


@dataclass(frozen=True)
class Saved:
    """What a notebook left behind."""

    folder: Path
    notebook: Path
    page: Path
    root: Path = ROOT


def executed(cells: Sequence[str], folder: Path, display: str) -> Any:
    """A notebook of these cells, executed without a front end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("IPYTHONDIR", str(folder / ".ipython"))
        patch.setenv("PERFMAGIC_DISPLAY", display)
        notebook, error = run_notebook(cells, sys.executable, folder)
    assert error == "", [o for cell in notebook.cells for o in cell.outputs if o.output_type == "error"]
    return notebook


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A notebook executed without a front end and written to disk, never trusted."""
    folder = tmp_path_factory.mktemp("saved")
    notebook = executed(CELLS, folder, "static")
    path = folder / "saved.ipynb"
    nbformat.write(notebook, str(path))
    return Saved(folder, path, folder / "page.html")


@pytest.fixture(scope="package")  # the driver keeps an event loop running in this thread, which others must not meet
def chromium() -> Iterator[Any]:
    """A headless Chromium of the system."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = executable()
    if found is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    SCREENS.mkdir(parents=True, exist_ok=True)
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def new_tab(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a tab of a browser that has seen nothing, with options of its own, as often as it is called."""
    made = []

    def new(width: int = 1000, height: int = 1000, **options: Any) -> Any:
        options = {"device_scale_factor": 1, **options}
        made.append(chromium.new_context(viewport={"width": width, "height": height}, **options))
        return made[-1].new_page()

    yield new
    for context in made:
        context.close()


@pytest.fixture
def tab(new_tab: Callable[..., Any]) -> Any:
    """A new page of the size of a laptop's window."""
    return new_tab(width=1280)


@pytest.fixture(scope="package")
def loaded(chromium: Any) -> Iterator[Any]:
    """One tab for all notebooks in JupyterLab, which is loaded with the first of them."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000}, device_scale_factor=1)
    yield context.new_page()
    context.close()


@pytest.fixture
def desk(loaded: Any) -> Iterator[Any]:
    """That tab, left without documents and kernels."""
    yield loaded
    close_documents(loaded)


@pytest.fixture(scope="session")
def lab(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab, and Notebook 7, on the saved notebook's folder that knows nothing of the user's."""
    with jupyter_server(saved.folder, tmp_path_factory.mktemp("lab")) as address:
        yield address
