"""A fresh IPython shell in the test process, which records what a person would see."""

import atexit
import contextlib
import importlib.util
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from perfmagic.magics.running.registry import unload

# few samples: these tests are about what the cell does, not about how long it takes
HEADS = {
    "timeline": "%%timeline",
    **({"memory": "%%memory", "graph": "%%graph"} if importlib.util.find_spec("torch") else {}),  # they need it
    "bench": "%%bench -r 6 --warmup 0",
    "syncbench": "%%syncbench -r 6 --warmup 0",
}


class RecordingHook(DisplayHook):
    """Fills Out and _ as usual, and keeps what it would print."""

    shown: list[str]

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self.shown.append(format_dict["text/plain"])

    def finish_displayhook(self) -> None:
        pass


class RecordingShell(InteractiveShell):
    """Keeps tracebacks instead of printing them."""

    traceback_text = ""

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.traceback_text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(stb))


@dataclass
class Ran:
    """What came out of one cell.

    value: what the plain cell would show.  shown: its text as Out would print it.  outputs: what was displayed, as
    MIME bundles.  printed, warned: stdout and stderr.  error: the exception that ended it.  traceback: as shown.
    """

    value: Any
    shown: list[str]
    outputs: list[dict[str, Any]]
    printed: str
    warned: str
    error: BaseException | None
    traceback: str

    @property
    def report(self) -> str:
        """The text of everything displayed."""
        return "\n".join(bundle.get("text/plain", "") for bundle in self.outputs)

    @property
    def refusal(self) -> str:
        """The one line a refused cell prints; empty where it was not refused in that form."""
        return self.warned.strip() if self.warned.startswith("UsageError: ") and not self.traceback else ""


class Notebook:
    """A shell as a test uses it: run a cell, look at what came out."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"  # IPython takes a tenth of a second to colour a traceback
        self.shell = RecordingShell.instance(
            config=config, display_pub_class=CapturingDisplayPublisher, displayhook_class=RecordingHook
        )

    @property
    def names(self) -> dict[str, Any]:
        return self.shell.user_ns

    def run(self, source: str) -> Ran:
        shell, out, err = self.shell, io.StringIO(), io.StringIO()
        shell.display_pub.outputs, shell.displayhook.shown, shell.traceback_text = [], [], ""
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            result = shell.run_cell(source, store_history=True)
        bundles = [item["data"] for item in shell.display_pub.outputs]
        return Ran(
            value=result.result,
            shown=shell.displayhook.shown,
            outputs=bundles,
            printed=out.getvalue(),
            warned=err.getvalue(),
            error=result.error_before_exec or result.error_in_exec,
            traceback=shell.traceback_text,
        )


@pytest.fixture
def bare(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A shell without perfmagic."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    main, hook, path = sys.modules["__main__"], sys.displayhook, list(sys.path)
    InteractiveShell.clear_instance()
    RecordingShell.clear_instance()
    notebook = Notebook()
    yield notebook
    unload(notebook.shell)  # the magics alone: %unload_ext would end the ranks that a file's tests share
    atexit.unregister(notebook.shell.atexit_operations)
    RecordingShell.clear_instance()
    sys.modules["__main__"], sys.displayhook = main, hook
    sys.path[:] = path


@pytest.fixture
def notebook(bare: Notebook) -> Notebook:
    """A shell with perfmagic loaded."""
    bare.run("%load_ext perfmagic")
    return bare


@pytest.fixture(params=sorted(HEADS))
def magic(request: pytest.FixtureRequest) -> str:
    """The name of each cell magic in turn."""
    return str(request.param)


@pytest.fixture
def head(magic: str) -> str:
    """The first line of a cell with that magic."""
    return HEADS[magic]
