"""`import perfmagic` loads nothing heavy: Jupyter servers import it in every environment."""

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perfmagic
from perfmagic import results
from tests.trace.recorded import real

pytestmark = pytest.mark.slow


HEAVY = ("torch", "numpy", "msgspec", "IPython", "ipykernel", "traitlets", "anywidget", "jupyter_server", "pandas")
ROOT = Path(__file__).resolve().parents[1]

BLOCK_TORCH = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


def python(code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, in the repository's root."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=150)
    assert not check or done.returncode == 0, done.stderr
    return done


def loaded_after(code: str) -> set[str]:
    """Which heavy packages a piece of code loads."""
    done = python(f"import sys\n{code}\nimport json\nprint(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))")
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_perfmagic_loads_nothing_heavy() -> None:
    assert loaded_after("import perfmagic; perfmagic.__version__; dir(perfmagic)") == set()
    assert loaded_after("import perfmagic.rows; dir(perfmagic.rows)") == set()


def test_what_a_jupyter_server_imports_loads_nothing_heavy() -> None:
    assert loaded_after("import perfmagic.server; perfmagic._jupyter_server_extension_points()") == set()


def test_without_a_jupyter_server_its_settings_are_only_names() -> None:
    done = python(
        "import sys\nsys.modules['jupyter_server'] = None\nimport perfmagic, importlib\n"
        "(point,) = perfmagic._jupyter_server_extension_points()\n"
        "print(callable(importlib.import_module(point['module'])._load_jupyter_server_extension))"
    )
    assert done.stdout.strip() == "True"


def test_loading_the_extension_does_not_load_torch() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as S\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False\n"
        "S.instance(config=c).run_cell('%load_ext perfmagic')"
    )
    found = loaded_after(code)
    assert "IPython" in found
    assert "torch" not in found


def test_an_unknown_name_is_an_attribute_error() -> None:
    done = python("import perfmagic; perfmagic.nothing_of_that_name", check=False)
    assert "AttributeError" in done.stderr


def test_every_public_name_can_be_had() -> None:
    python("import perfmagic as m\nfor module in (m, m.rows):\n    for name in module.__all__: getattr(module, name)")


def test_there_are_few_public_names_and_each_is_in_one_module() -> None:
    assert len(perfmagic.__all__) <= 40
    assert set(perfmagic.__all__).isdisjoint(perfmagic.rows.__all__)


def test_a_type_under_its_old_name_warns_once_where_it_is_asked_for() -> None:
    done = python(
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    from perfmagic import KernelStat, Finding\n"
        "    from perfmagic import KernelStat\n"
        "    import perfmagic\n"
        "    perfmagic.Verdict, perfmagic.Verdict\n"
        "assert KernelStat is perfmagic.rows.KernelStat\n"
        "for w in caught: print(w.category.__name__, w.filename, w.lineno, w.message, sep='|')"
    )
    rows = [line.split("|") for line in done.stdout.splitlines()]
    assert [row[:3] for row in rows] == [["DeprecationWarning", "<string>", line] for line in ("4", "4", "7")]
    assert [re.findall(r"perfmagic\.rows\.\w+", row[3]) for row in rows] == [
        ["perfmagic.rows.KernelStat"], ["perfmagic.rows.Finding"], ["perfmagic.rows.Verdict"]
    ]  # fmt: skip


def test_an_old_name_leaves_tab_as_it_was() -> None:
    done = python("import perfmagic\nbefore = dir(perfmagic)\nperfmagic.Verdict\nprint(dir(perfmagic) == before)")
    assert done.stdout == "True\n"


def test_dir_has_the_public_names_and_no_others() -> None:
    for module in ("perfmagic", "perfmagic.rows"):
        done = python(
            f"import {module} as m\nassert {{n for n in dir(m) if n[:2] != '__'}} == {{*m.__all__}}", check=False
        )
        assert (module, done.stderr) == (module, "")


def test_every_class_of_a_result_and_its_rows_is_public() -> None:
    returned = {"Rows"}
    for kind in (getattr(results, name) for name in results.__all__):
        members = [member for name, member in inspect.getmembers(kind) if not name.startswith("_")]
        members = [getattr(member, "fget", None) or getattr(member, "func", member) for member in members]
        notes = [str(getattr(member, "__annotations__", {}).get("return", "")) for member in members]
        notes += [str(field.type) for field in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())]
        returned |= {name for note in notes for name in re.findall(r"\b[A-Z][a-z]\w+", note)}
    elsewhere = {
        "Annotated",
        "Any",
        "Callable",
        "DataFrame",
        "Iterator",
        "Mapping",
        "None",
        "Path",
        "Self",
    }  # of Python and pandas
    ranges = {"Amount", "Count", "Ns", "Seconds"}  # int and float with their ranges
    inside = {
        "BenchRecord",
        "BenchSummary",
        "ClockRecord",
        "Dump",
        "FileOfRank",
        "Flame",
        "CriticalPath",
        "Ledger",
        "LiveView",
        "Plain",
        "RanksDoc",
        "RooflineData",
        "Scaling",
        "ScalingDoc",
        "SeenOps",
        "TimelineDoc",
        "ViewState",
        "Waits",
        "Wire",
    }  # what text, pictures and pages are made from
    assert returned - elsewhere - ranges - inside - {*perfmagic.__all__, *perfmagic.rows.__all__} == set()


class TestWithoutTorch:
    """torch is an extra: what does not need it works, what does says so once."""

    def test_a_trace_is_read_explained_and_drawn(self) -> None:
        path = real("a100_event_sync_3streams")
        done = python(
            f"{BLOCK_TORCH}\nimport perfmagic\nresult = perfmagic.open_trace({str(path)!r})\n"
            "print(len(result._repr_mimebundle_()['text/html']))\nassert 'torch' not in sys.modules"
        )
        assert int(done.stdout.splitlines()[-1]) > 1000

    def test_the_command_line_reports_a_trace(self, tmp_path: Path) -> None:
        path, page = real("a100_event_sync_3streams"), tmp_path / "page.html"
        run = "import runpy\nrunpy.run_module('perfmagic', run_name='__main__')"
        done = python(f"{BLOCK_TORCH}\nsys.argv = ['perfmagic', 'report', {str(path)!r}, '--json']\n{run}")
        assert isinstance(json.loads(done.stdout), (dict, list))
        python(f"{BLOCK_TORCH}\nsys.argv = ['perfmagic', 'view', {str(path)!r}, '--html', {str(page)!r}]\n{run}")
        assert "data:image/svg+xml" in page.read_text() or "<svg" in page.read_text()

    def test_a_device_is_refused_in_words(self) -> None:
        done = python(f"{BLOCK_TORCH}\nimport perfmagic\nperfmagic.device()", check=False)
        last = done.stderr.strip().splitlines()[-2:]
        assert "perfmagic.device() needs torch, which is not installed" in last[0]
        assert last[1].startswith("Hint: ")

    @pytest.mark.parametrize("magic", ["%%bench -r 6 --warmup 0", "%%syncbench -r 6 --time 0.05", "%%timeline"])
    def test_a_plain_python_cell_is_measured(self, magic: str) -> None:
        done = python(
            f"{BLOCK_TORCH}\n"
            "from IPython.core.interactiveshell import InteractiveShell as S\n"
            "from traitlets.config import Config\n"
            "c = Config(); c.HistoryManager.enabled = False\n"
            "s = S.instance(config=c)\ns.run_cell('%load_ext perfmagic')\n"
            f"r = s.run_cell({magic + chr(10) + 'x = 6 * 7'!r})\n"
            "assert r.error_in_exec is None and r.error_before_exec is None\nassert s.user_ns['x'] == 42\n"
            "assert 'torch' not in sys.modules"
        )
        assert done.stdout.strip()
