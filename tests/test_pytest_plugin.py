"""The pytest plugin: baselines by name, recorded and compared, and refused where something else changed."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from perfmagic import testing
from perfmagic.api.baselines import baseline_file
from perfmagic.base.errors import OptionError

with suppress(ImportError):
    import torch  # noqa: F401 - pytester forgets what a test imports, and torch cannot be imported twice

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
FEW = "samples=6, warmup=0, runs=2"
TEST = f"""
import time
import perfmagic as module  # the fixture has the module's name

def step():
    time.sleep(MS / 1000)

def test_step(perfmagic):
    found = perfmagic.CHECK(step, {FEW})
    assert found is None or found.results[0].name == "baseline"
"""


def run(pytester: pytest.Pytester, ms: float, *options: str, check: str = "not_slower") -> pytest.RunResult:
    """Run the test on a body of such a length."""
    pytester.makepyfile(test_step=TEST.replace("MS", str(ms)).replace("CHECK", check))
    plain = "-p", "no:cacheprovider", "-p", "no:randomly"
    return pytester.runpytest_inprocess("-p", "perfmagic.pytest_plugin", *plain, *options)


@pytest.fixture
def recorded(pytester: pytest.Pytester) -> Path:
    """The baseline of the test, of a body of 2 ms."""
    found = run(pytester, 2, "--perfmagic-record")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*= perfmagic =*", "recorded test_step.py::test_step"])
    return pytester.path / ".perfmagic" / "baselines" / "test_step.py" / "test_step.json"


def test_a_slower_body_fails_and_a_faster_one_passes(pytester: pytest.Pytester, recorded: Path) -> None:
    assert recorded.is_file()
    slower = run(pytester, 6)
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["E *AssertionError: step is slower than baseline: *"])
    run(pytester, 0.5).assert_outcomes(passed=1)
    run(pytester, 0.5, check="faster").assert_outcomes(passed=1)
    run(pytester, 6, check="faster").assert_outcomes(failed=1)


def test_without_a_baseline_the_error_says_how_to_record_it(pytester: pytest.Pytester) -> None:
    found = run(pytester, 1)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        ['*there is no baseline "test_step.py::test_step"*', "*Hint: pytest --perfmagic-record*"]
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("processor", "Another"), ("threads", 99), ("python", "2.7"), ("torch", "0.1"), ("perfmagic", "0.0.1")],
)
def test_another_machine_or_version_is_refused(
    pytester: pytest.Pytester, recorded: Path, name: str, value: object
) -> None:
    pytest.importorskip("torch", reason="its version and threads are compared")
    data = json.loads(recorded.read_text())
    data["environment"][name] = value
    recorded.write_text(json.dumps(data))
    found = run(pytester, 6)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines([f"E *OptionError: the baseline * cannot be compared with: {name} {value}, now *"])


def test_a_damaged_baseline_is_named(pytester: pytest.Pytester, recorded: Path) -> None:
    recorded.write_text(recorded.read_text()[:100])
    found = run(pytester, 2)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["E *OptionError: *test_step.json: this is not JSON*"])


def test_baselines_of_cold_caches_are_not_compared_with_warm_ones(tmp_path: Path) -> None:
    few = {"samples": 6, "warmup": 0, "runs": 1, "baselines": tmp_path}
    testing.record_baseline(lambda: sum(range(9)), "sum", cold=True, **few)
    with pytest.raises(OptionError, match='baseline "sum" cannot be compared with: one was measured with cold caches'):
        testing.not_slower(lambda: sum(range(9)), "sum", **few)


def test_the_other_checks_and_a_function_as_baseline(pytester: pytest.Pytester) -> None:
    pytest.importorskip("torch", reason="a device allocates")
    pytester.makepyfile(
        """
        import time, torch, pytest, perfmagic as module
        x = torch.ones(1000, device=module.device("sim"))

        def test_memory(perfmagic):
            assert perfmagic.peak_below(lambda: x + 1, "1 GB") > 0
            perfmagic.no_growth(lambda: x + 1)
            with pytest.raises(AssertionError, match="the limit is 1"):
                perfmagic.peak_below(lambda: x + 1, 1)

        def test_two(perfmagic):
            slow = lambda: time.sleep(0.004)
            assert perfmagic.not_slower(lambda: time.sleep(0.001), slow, samples=8, warmup=0).ratio > 1.5
        """
    )
    found = pytester.runpytest_inprocess(
        "-p", "perfmagic.pytest_plugin", "-p", "no:cacheprovider", "--perfmagic-record"
    )
    found.assert_outcomes(passed=2)
    assert not (pytester.path / ".perfmagic").exists()


def test_a_folder_of_ones_own_is_used(pytester: pytest.Pytester) -> None:
    run(pytester, 1, "--perfmagic-record", "--perfmagic-baselines", "kept").assert_outcomes(passed=1)
    assert (pytester.path / "kept" / "test_step.py" / "test_step.json").is_file()


def test_names_stay_in_the_folder_and_apart(tmp_path: Path) -> None:
    names = ["a/b", "a%2Fb", "test.py::test[x/y]", "test.py::test[x*y]", "test.py::test[x?y]", "ö" * 200, "ö" * 201]
    files = [baseline_file(name, tmp_path) for name in names]
    assert len({*files}) == len(names)
    for file in files:
        assert tmp_path in file.parents
        assert len(file.name) < 200
    for name in ("", "../up", "a//b", "a/./b", "/root"):
        with pytest.raises(OptionError, match="cannot name a baseline"):
            baseline_file(name, tmp_path)


def test_pytest_starts_as_fast_with_the_plugin() -> None:
    code = """if True:
        import sys, time, pytest
        start = time.perf_counter()
        import perfmagic.pytest_plugin
        print(f"import perfmagic.pytest_plugin takes {1e3 * (time.perf_counter() - start):.1f} ms", file=sys.stderr)
        print([name for name in ("numpy", "torch", "IPython", "msgspec", "perfmagic.testing") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    print(done.stderr)
    assert done.stdout == "[]\n"


def test_the_package_registers_the_plugin_under_its_module() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    registered = text.partition("[project.entry-points.pytest11]\n")[2].partition(" #")[0]
    assert registered == '"perfmagic.pytest_plugin" = "perfmagic.pytest_plugin"'
