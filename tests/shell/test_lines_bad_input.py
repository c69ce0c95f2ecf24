"""Lines of functions in cells of every kind: rows show the code that ran, and unknown text stays empty."""

import sys
from pathlib import Path

import pytest

from perfmagic.capture.watch.sources import CHANGED, NO_TEXT
from tests.shell.conftest import Notebook

pytestmark = pytest.mark.slow

OLD = "def slow(x):\n    y = x + 1\n    y = y * 2\n    return y\n"


@pytest.fixture
def module(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the notebook's, imported, and a tensor on the simulated device."""
    pytest.importorskip("torch", reason="the simulated device needs torch")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "bad_input_module", raising=False)
    path = tmp_path / "bad_input_module.py"
    path.write_text(OLD)
    loaded = notebook.run(
        "import perfmagic, torch, bad_input_module as module\n"
        "device = perfmagic.device('sim')\nx = torch.ones(4, 4, device=device)"
    )
    assert loaded.error is None
    return path


def lines_of(notebook: Notebook, cell: str) -> str:
    """The report of a measured cell."""
    ran = notebook.run("%%timeline --lines --device sim -o t\n" + cell)
    assert ran.error is None, ran.traceback
    return ran.report


def rows(notebook: Notebook, function: str) -> dict[int, tuple[str, int]]:
    """Text and ops of the lines of a function that queued ops."""
    notebook.run(f"result = {{r.line: (r.text, r.n_ops) for r in t.lines.in_function({function!r}) if r.n_ops}}")
    return notebook.names["result"]


@pytest.mark.parametrize("new", ["# a line more\n" + OLD, OLD.replace("x + 1", "x - 5"), "x = 1\n"])
def test_a_changed_file_shows_no_text(notebook: Notebook, module: Path, new: str) -> None:
    module.write_text(new)
    report = lines_of(notebook, "y = module.slow(x)")
    assert f"  slow · {module.name} · called from line 2\n  {CHANGED}\n" in report
    assert rows(notebook, "slow") == {2: ("", 1), 3: ("", 1)}
    assert "x - 5" not in report


def test_a_file_that_the_cell_changes_shows_no_text(notebook: Notebook, module: Path) -> None:
    cell = "y = module.slow(x)\nopen('bad_input_module.py', 'w').write('def slow(x):\\n    return 7\\n' * 2)\n1"
    assert CHANGED in lines_of(notebook, cell)
    assert rows(notebook, "slow") == {2: ("", 1), 3: ("", 1)}


def test_a_deleted_file_shows_no_text(notebook: Notebook, module: Path) -> None:
    module.unlink()
    assert f"  slow · {module.name} · called from line 2\n  {NO_TEXT}\n" in lines_of(notebook, "y = module.slow(x)")
    assert rows(notebook, "slow") == {2: ("", 1), 3: ("", 1)}


def test_code_of_a_string_counts_to_the_line_that_runs_it(notebook: Notebook, module: Path) -> None:
    lines_of(notebook, "exec('for i in range(3):\\n    y = x + i')\ny = x * 2")
    notebook.run("result = [(r.line, r.n_ops) for r in t.lines if r.n_ops]")
    assert notebook.names["result"] == [(2, 3), (3, 1)]


def test_recursion_a_thousand_deep_has_one_row_per_line(notebook: Notebook, module: Path) -> None:
    notebook.run("import sys\nlimit = sys.getrecursionlimit()\nsys.setrecursionlimit(5000)")
    lines_of(notebook, "def down(n):\n    y = x + 1\n    if n:\n        down(n - 1)\ndown(1000)")
    notebook.run("sys.setrecursionlimit(limit)")
    assert rows(notebook, "down") == {3: ("y = x + 1", 1001), 5: ("down(n - 1)", 1000)}


def test_a_function_of_ten_thousand_lines(notebook: Notebook, module: Path) -> None:
    body = "".join(f"    a{i} = x\n" for i in range(9998))
    module.with_name("bad_input_big.py").write_text(f"def big(x):\n{body}    return a1 + 1\n")
    notebook.run("import bad_input_big")
    report = lines_of(notebook, "y = bad_input_big.big(x)")
    assert rows(notebook, "big") == {10000: ("return a1 + 1", 1)}
    assert len(report) < 5000


def test_chinese_and_tabs(notebook: Notebook, module: Path) -> None:
    ran = notebook.run(
        "%%timeline --lines --device sim -o t\ndef 训练(x):\n\ty = x + 1  # 第一行 <b>&\n\treturn y\ny = 训练(x)"
    )
    assert "训练 · In[" in ran.report
    assert "y = x + 1  # 第一行 <b>&" in ran.report
    assert "<b>&" not in "".join(bundle.get("text/html", "") for bundle in ran.outputs)
    assert rows(notebook, "训练") == {3: ("y = x + 1  # 第一行 <b>&", 1)}


def test_two_lambdas_on_one_line_have_separate_rows(notebook: Notebook, module: Path) -> None:
    report = lines_of(notebook, "f, g = (lambda a: a + 1), (lambda a: (a * 2) * 3)\ny = f(x), g(x)")
    result = [line.split()[-1] for line in report.splitlines() if line.startswith("     2  f, g")]
    assert result[-2:] == ["1", "2"]


def test_tasks_generators_decorators_and_threads(notebook: Notebook, module: Path) -> None:
    cell = """\
import asyncio, functools, threading
def decorated(function):
    @functools.wraps(function)
    def around(*args):
        return function(*args)
    return around
@decorated
def twice(a):
    return a * 2
async def one(n):
    y = x + n
    await asyncio.sleep(0)
    return y * 2
def numbers(n):
    for i in range(n):
        yield x + i
def work(n):
    for i in range(n):
        y = x + i
y = twice(x)
y = await asyncio.gather(one(1), one(2))
for y in numbers(3):
    z = y * 2
t1 = threading.Thread(target=work, args=(4,))
t1.start()
t1.join()"""
    lines_of(notebook, cell)
    assert rows(notebook, "twice") == {10: ("return a * 2", 1)}
    assert rows(notebook, "one") == {12: ("y = x + n", 2), 14: ("return y * 2", 2)}
    assert rows(notebook, "numbers") == {17: ("yield x + i", 3)}
    assert rows(notebook, "work") == {20: ("y = x + i", 4)}
    notebook.run("result = sum(r.n_ops for r in t.lines if not r.function)")
    assert notebook.names["result"] == 15
