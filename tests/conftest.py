"""Rules for every test: what is absent is skipped by name, and under CI=true nothing may be absent."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

os.environ["COLUMNS"] = "100"  # texts are as wide as the terminal, for the processes that tests start too
HERE = Path(__file__).resolve().parent
CI = os.environ.get("CI") == "true"
KERNEL = re.compile(r"\[(newest|floor)\b")  # of the fixture that all kernels' tests with one kernel share
# for this process and those that it starts
WITHOUT = str(HERE / "without")
sys.path.insert(0, WITHOUT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (WITHOUT, os.environ.get("PYTHONPATH"))))
# recorded by others and not part of this repository; a second GPU
MAY_BE_ABSENT = ("shared/traces", "there is one cuda device here")

with suppress(ImportError):  # the oldest environment has none
    from hypothesis import settings

    settings.register_profile("untimed", parent=settings.default, deadline=None)  # nothing depends on a machine's speed
    settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True, optionalhook=True)  # the oldest environment has no xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Iterator[Any]:
    """Three processes on two cores for the whole suite: they often wait for what they have started."""
    cores = yield
    return cores * 3 // 2 if config.option.dist == "loadgroup" else cores


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread groups, not tests. xdist's own marker adds the group to a test's name, which pytest 9.2 ignores."""
    if config.option.dist != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave GPU tests out of a CI that has no GPU; elsewhere they are skipped by name."""
    if "stress" not in (config.option.markexpr or ""):
        items[:] = [item for item in items if not item.get_closest_marker("stress")]
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting or _has_gpu():
        return
    if CI:
        config.hook.pytest_deselected(items=wanting)
        items[:] = [item for item in items if item not in wanting]
    for item in wanting:
        item.add_marker(pytest.mark.skip(reason="no CUDA or ROCm device here"))


def _group(nodeid: str) -> str:
    """What one process runs, where several share the suite: a file; all that uses one kernel; all that uses a browser.

    Each of these has fixtures that are dear to make, and notebooks are one story from top to bottom.
    """
    path, _, test = nodeid.partition("::")
    if path.startswith("tests/kernel/") and (environment := KERNEL.search(test)):
        return environment[1]
    if path.endswith("test_guides.py"):
        return nodeid  # each has a kernel of its own for up to half a minute: what is small comes last, and fills up
    return "browser" if path.startswith("tests/browser/") else path


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> None:
    """A measurement collects garbage first, which takes a second for all that the test run holds: that is left out."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_device() -> Iterator[None]:
    """Clock, pace and memory that a test gives the simulated device end with it, and do not reach another file."""
    from perfmagic import sim

    back = sim.state()
    yield
    back()


@pytest.fixture(autouse=True)
def _same_language() -> Iterator[None]:
    """A language that a test or a docstring's example chooses ends with it."""
    yield
    if language := sys.modules.get("perfmagic.base.language"):
        language._chosen.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    return _strict(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    return _strict(report)


def _strict(report: Any) -> Any:
    """Under CI=true a skip is a failure that says what is missing."""
    if not CI or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(name in reason for name in MAY_BE_ABSENT):
        report.outcome = "failed"
        report.longrepr = f"under CI=true nothing may be skipped; {reason}"
    return report


def _has_gpu() -> bool:
    if not any(Path(node).exists() for node in ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")):
        return False
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.is_available())
