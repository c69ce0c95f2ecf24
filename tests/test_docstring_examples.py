"""The examples in docstrings of public names do what they say, on traces of real GPUs and on the simulated device."""

import builtins
import doctest
import shutil
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from tests.trace.recorded import eight_ranks

pytestmark = pytest.mark.slow

TRACES = Path(__file__).resolve().parent / "data" / "traces"
NEED_TORCH = {"bench", "compare", "device", "graph", "load", "testing.not_slower"}


class Checker(doctest.OutputChecker):
    """Numbers stand before their units with a space that does not break; nobody types it."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got.replace("\xa0", " "), optionflags)


def examples() -> dict[str, doctest.DocTest]:
    """The examples of each public name; of a class also those of its members."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found: dict[str, doctest.DocTest] = {}
    things: dict[str, Any] = {name: getattr(perfmagic, name) for name in perfmagic.__all__}
    things |= {name: getattr(perfmagic.rows, name) for name in perfmagic.rows.__all__}
    things |= {f"testing.{name}": getattr(perfmagic.testing, name) for name in perfmagic.testing.__all__}
    things |= {f"lessons.{name}": getattr(perfmagic.lessons, name) for name in perfmagic.lessons.__all__}
    for name, thing in things.items():
        if callable(thing):
            found |= {test.name: test for test in finder.find(thing, name, False, {"perfmagic": perfmagic})}
    return {name: test for name, test in found.items() if test.examples}


EXAMPLES = examples()


def test_what_people_call_first_has_an_example() -> None:
    assert {"open_trace", "open_traces", "bench", "compare", "device", "Rows", "TimelineResult"} <= EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_does_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(TRACES / "v100_4streams_nccl_step.json.gz", tmp_path / "step.json.gz")
    shutil.copytree(eight_ranks(), tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "_", None, raising=False)  # doctest leaves a value; IPython then sets none
    test = EXAMPLES[name]
    if name in NEED_TORCH:
        test.globs["torch"] = pytest.importorskip("torch", reason="torch is not installed")
    told: list[str] = []
    doctest.DocTestRunner(Checker()).run(test, out=told.append)
    assert "".join(told) == ""
