"""%load_ext, %reload_ext and %unload_ext leave the shell as it was."""

import builtins
import subprocess
import sys
from typing import Any

import pytest

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


def state(notebook: Notebook) -> dict[str, Any]:
    """Everything of a shell that an extension could leave something in."""
    shell = notebook.shell
    manager = shell.input_transformer_manager
    return {
        "cleanup": list(shell.input_transformers_cleanup),
        "post": list(shell.input_transformers_post),
        "line": list(manager.line_transforms),
        "token": list(manager.token_transformers),
        "trees": list(shell.ast_transformers),
        "magics": {kind: set(table) for kind, table in shell.magics_manager.magics.items()},
        "builtins": {name for name in vars(builtins) if "perfmagic" in name},
        "names": {name for name in notebook.names if name.strip("_i0123456789")},
        "events": {name: list(callbacks) for name, callbacks in shell.events.callbacks.items()},
        "formatters": {kind: set(f.type_printers) for kind, f in shell.display_formatter.formatters.items()},
        "mimebundle": (
            set(shell.display_formatter.mimebundle_formatter.type_printers),
            set(shell.display_formatter.mimebundle_formatter.deferred_printers),
        ),
        "shell": {name for name in vars(shell) if "perfmagic" in name},
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}


def test_unload_leaves_the_shell_as_it_was(bare: Notebook) -> None:
    before = state(bare)
    bare.run("%load_ext perfmagic")
    assert differences(before, state(bare))
    bare.run("%unload_ext perfmagic")
    assert differences(before, state(bare)) == {}


def test_unload_after_use_leaves_the_shell_as_it_was(bare: Notebook, head: str) -> None:
    before = state(bare)
    bare.run("%load_ext perfmagic")
    bare.run(f"{head}\nNone")
    bare.run(f"{head}\n1 / 0")
    bare.run("%unload_ext perfmagic")
    after = state(bare)
    after["names"] -= {"result"}
    assert differences(before, after) == {}


def test_a_second_load_adds_nothing(bare: Notebook) -> None:
    bare.run("%load_ext perfmagic")
    once = state(bare)
    bare.run("%reload_ext perfmagic")
    bare.run("%load_ext perfmagic")
    twice = state(bare)
    assert {key: len(value) for key, value in once.items()} == {key: len(value) for key, value in twice.items()}
    assert len(bare.run("%%bench -r 6 --warmup 0\nx = 1").outputs) == 1


def test_unload_restores_a_magic_of_the_same_name(bare: Notebook) -> None:
    bare.run("from IPython.core.magic import register_line_magic\n@register_line_magic\ndef bench(line): return 'mine'")
    bare.run("%load_ext perfmagic\n")
    bare.run("%unload_ext perfmagic")
    assert bare.run("%bench").value == "mine"


def test_a_magic_after_unload_is_unknown_and_the_cell_does_not_run(notebook: Notebook, magic: str) -> None:
    notebook.run("%unload_ext perfmagic")
    ran = notebook.run(f"%%{magic}\nx = 1")
    assert "not found" in ran.warned
    assert "x" not in notebook.names


def test_somebody_elses_transformers_stay(bare: Notebook) -> None:
    def theirs(lines: list[str]) -> list[str]:
        return lines

    bare.run("%load_ext perfmagic")
    bare.shell.input_transformers_cleanup.insert(0, theirs)
    bare.run("%unload_ext perfmagic")
    assert bare.shell.input_transformers_cleanup[0] is theirs


def test_another_extensions_tree_transformer_sees_the_cell(notebook: Notebook, head: str) -> None:
    import ast

    class Double(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.copy_location(ast.Constant(node.value * 2), node) if node.value == 21 else node

    notebook.shell.ast_transformers.append(Double())
    assert notebook.run(f"{head}\n21").value == 42
    notebook.shell.ast_transformers.pop()
    notebook.shell.ast_transformers.insert(0, Double())
    assert notebook.run(f"{head}\n21").value == 42


@pytest.mark.parametrize("inside", ["%load_ext perfmagic", "%reload_ext perfmagic"])
def test_loading_inside_a_measured_cell_does_no_harm(notebook: Notebook, head: str, inside: str) -> None:
    ran = notebook.run(f"{head}\n{inside}\nx = 6\nx * 7")
    assert ran.error is None
    assert ran.value == 42
    assert len(notebook.run(f"{head}\nx = 1").outputs) == 1
    assert notebook.run("1 + 1").outputs == []


def test_loading_below_plain_code_leaves_that_cell_plain(bare: Notebook) -> None:
    ran = bare.run("%load_ext perfmagic\n6 * 7")
    assert (ran.value, ran.outputs) == (42, [])


def test_unloading_inside_a_measured_cell_is_survived(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\n%unload_ext perfmagic\nx = 6\nx * 7")
    assert "__perfmagic__" not in ran.traceback
    assert notebook.run("1 + 1").value == 2


def test_help_and_completion_know_the_magic(notebook: Notebook, magic: str) -> None:
    assert "-o NAME" in notebook.shell.object_inspect_mime(f"%%{magic}", detail_level=0)["text/plain"]
    assert f"%%{magic}" in notebook.shell.complete(f"%%{magic[:4]}")[1]


def test_the_tree_transformer_survives_a_cell_it_cannot_prepare(
    notebook: Notebook, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a fault inside perfmagic")

    monkeypatch.setattr("perfmagic.magics.running.registry.wrap", broken)
    ran = notebook.run(f"{head}\nx = 1")
    assert "a fault inside perfmagic" in ran.refusal
    assert "x" not in notebook.names  # never run unmeasured
    monkeypatch.undo()
    assert len(notebook.run(f"{head}\nx = 1").outputs) == 1


def test_a_cell_that_loads_the_simulated_device_itself_says_that_it_is_not_recorded() -> None:
    code = (
        "from IPython.testing.globalipapp import start_ipython\n"
        "shell = start_ipython()\n"
        "shell.run_line_magic('load_ext', 'perfmagic')\n"
        "shell.run_cell('import torch, perfmagic')\n"
        "shell.run_cell('%%timeline\\nx = torch.ones(3, device=perfmagic.device(\"sim\"))')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "loaded inside the cell and not recorded: run the cell again" in done.stdout
