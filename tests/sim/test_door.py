"""The package needs few names of the simulated device, all of them from perfmagic.sim."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from perfmagic import sim

PACKAGE = Path(__file__).resolve().parents[2] / "perfmagic"
MOST_NAMES = 15  # eleven, and four for GPUs that are not there


def outside() -> list[Path]:
    """The package's files that are not the simulated device's own."""
    return [path for path in PACKAGE.rglob("*.py") if PACKAGE / "sim" not in path.parents]


def modules_named(tree: ast.AST) -> Iterator[str]:
    """Modules of perfmagic.sim that code imports, or gives to a function by their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("perfmagic.sim."):
            yield str(node.module)
        elif isinstance(node, ast.Call):
            for value in node.args:
                if isinstance(value, ast.Constant) and str(value.value).startswith("perfmagic.sim."):
                    yield value.value


def names_used(tree: ast.AST) -> Iterator[str]:
    """Names of perfmagic.sim: imported from it, or taken from a variable that holds it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "perfmagic.sim":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and holds_sim(node.value):
            yield node.attr


def holds_sim(value: ast.expr) -> bool:
    """`sim.name`, `self._sim.name` and `import_module("perfmagic.sim").name`."""
    if isinstance(value, ast.Call):
        return any(isinstance(a, ast.Constant) and a.value == "perfmagic.sim" for a in value.args)
    return ast.unparse(value) in ("sim", "self._sim")


def test_nothing_imports_another_module_than_the_door() -> None:
    imported = {
        str(path.relative_to(PACKAGE)): modules
        for path in outside()
        if "perfmagic.sim." in (text := path.read_text(encoding="utf-8"))  # parsing all takes seconds
        if (modules := set(modules_named(ast.parse(text))))
    }
    assert imported == {}


def test_the_door_has_few_names_and_each_is_used() -> None:
    used: set[str] = set()
    for path in outside():
        text = path.read_text(encoding="utf-8")
        if "perfmagic.sim" in text or "import sim" in text:
            used.update(names_used(ast.parse(text)), re.findall(r"\"perfmagic\.sim:(\w+)\"", text))  # what is preloaded
    assert set(sim.__all__) <= used
    assert len(sim.__all__) <= MOST_NAMES
    assert set(sim.__all__) <= set(re.findall(r"\w+", sim.__doc__ or ""))
    assert {name for name in used if hasattr(sim, name)} <= set(sim.__all__)


def test_the_groups_have_ten_names_too() -> None:
    assert len(sim.groups.__all__) <= MOST_NAMES
