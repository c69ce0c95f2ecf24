"""Compiled functions: their lines run as regions, and the words say which lines those are."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="torch compiles")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.capture.watch.sources import CHANGED  # noqa: E402

pytestmark = pytest.mark.slow

SOURCE = """import torch


def part(x):
    return torch.tanh(x) * 2


def whole(x):
    y = part(x)
    z = y @ y
    return z.relu()


def broken(x):
    y = part(x)
    print("halfway")
    z = y @ y
    return z.relu()
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "of_mine.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("of_mine", path)
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield made
    torch.compiler.reset()


def _functions(function: object, n: int = 2) -> dict[str, tuple[str, list[int]]]:
    """By the name of each user's function that ran: its note, and its lines that ran."""
    fast, x = torch.compile(function, backend="eager"), torch.randn(8, 8)
    for _ in range(n):
        fast(x)
    with perfmagic.timeline(lines=True, device="cpu") as t:
        fast(x)
    paths = t.result.trace.paths
    assert paths is not None
    ran: dict[str, tuple[str, list[int]]] = {}
    for row, function_row in enumerate(paths.function.tolist()):
        if function_row >= 0 and (function := paths.functions[function_row]).file.endswith("of_mine.py"):
            ran.setdefault(function.name, (function.note, []))[1].append(int(paths.line[row]))
            assert function.text(int(paths.line[row]))  # the text of its file is shown
    return ran


def test_a_compiled_function_is_one_region(module: ModuleType) -> None:
    assert _functions(module.whole) == {"whole": ("compiled: lines 9–11 are one region, charged to line 8", [8])}


def test_what_follows_a_graph_break_is_a_region_of_its_own(
    module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    regions = _functions(module.broken)
    assert capsys.readouterr().out.count("halfway") == 3
    assert {name: note for name, (note, _) in regions.items()} == {
        "broken": "compiled in parts: lines up to a graph break are one region, charged to line 14",
        "broken, from line 16 on": "compiled: lines 16–18 are one region, charged to line 16",
    }


def test_a_plain_function_has_no_such_note(module: ModuleType) -> None:
    with perfmagic.timeline(lines=True, device="cpu") as t:
        module.whole(torch.randn(8, 8))
    notes = {function.note for function in t.result.trace.paths.functions if function.file.endswith("of_mine.py")}
    assert notes == {""}
    assert CHANGED not in notes
