"""time.sleep() lets virtual time pass where the user's code sleeps, and nowhere else."""

import multiprocessing
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from perfmagic.base.clock import HOST, keep_virtual_time
from perfmagic.capture.sleep import Sleep, count_sleeps

PLAIN = getattr(time.sleep, "__wrapped__", time.sleep)
MS = 10**6


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What the real function was asked for, in seconds; it does not sleep."""
    asked: list[float] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: asked.append(seconds) or PLAIN(min(seconds, 0)))
    keep_virtual_time(True)
    yield asked
    keep_virtual_time(False)


def passed_ns(code: Any, *given: Any) -> int:
    before_ns = HOST.read_ns()
    code(*given)
    return HOST.read_ns() - before_ns


@pytest.mark.parametrize("really", [True, False])
def test_the_users_sleep_takes_virtual_time(slept: list[float], really: bool) -> None:
    count_sleeps(really=really)
    count_sleeps(really=not really)  # once a process
    assert passed_ns(lambda: time.sleep(0.25)) == 250 * MS
    assert slept == [0.25 if really else 0]
    keep_virtual_time(False)
    assert passed_ns(time.sleep, 0.5) == 0
    assert slept[1:] == [0.5]


def test_what_only_claims_to_be_a_module_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:  # of cffi
        __slots__ = ()
        __class__ = ModuleType  # type: ignore[assignment]

    monkeypatch.setitem(sys.modules, "somebodys.library", Library())  # type: ignore[arg-type]
    count_sleeps(really=False)
    assert passed_ns(lambda: time.sleep(0.25)) == 250 * MS


def test_time_that_passes_meanwhile_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: HOST.advance(200 * MS))  # another thread, or a measured host
    count_sleeps()
    assert passed_ns(lambda: time.sleep(0.25)) == 250 * MS
    assert passed_ns(lambda: time.sleep(0.1)) == 200 * MS


def test_what_is_no_time_is_refused_and_takes_none() -> None:
    count_sleeps(really=False)
    before_ns = HOST.read_ns()
    for wrong, error in ((-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (None, TypeError)):
        with pytest.raises(error):
            time.sleep(wrong)  # type: ignore[arg-type]
    assert HOST.read_ns() == before_ns


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("torch.distributed.run", "/src/torch/distributed/run.py"),
        ("perfmagic.capture.ranks.job", "/src/perfmagic/capture/ranks/job.py"),
        ("subprocess", "/usr/lib/python3.12/subprocess.py"),
        ("filelock", "/venv/lib/python3.12/site-packages/filelock.py"),
    ],
)
def test_libraries_sleep_as_before(slept: list[float], name: str, file: str) -> None:
    count_sleeps(really=False)
    module = ModuleType(name)
    exec(compile("import time\ndef poll(): time.sleep(0.25)", file, "exec"), vars(module))
    assert passed_ns(module.poll) == 0
    assert slept == [0.25]


def test_other_threads_and_forked_children_sleep_as_before(slept: list[float]) -> None:
    count_sleeps(really=False)

    def on_a_thread() -> None:
        thread = threading.Thread(target=lambda: time.sleep(0.25))
        thread.start()
        thread.join()

    assert passed_ns(on_a_thread) == 0
    assert slept == [0.25]
    if hasattr(os, "fork"):
        child = multiprocessing.get_context("fork").Process(
            target=lambda: sys.exit(int((passed_ns(lambda: time.sleep(0.25)), slept) != (0, [0.25, 0.25])))
        )
        child.start()
        child.join()
        assert child.exitcode == 0


def test_cells_that_have_imported_it_get_it_and_a_class_may_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    vars(main).update(nap=time.sleep, other=print)
    monkeypatch.setitem(sys.modules, "__main__", main)
    count_sleeps(really=False)
    assert main.nap is time.sleep
    assert main.other is print
    assert passed_ns(lambda: main.nap(0.25)) == 250 * MS
    worker = type("Worker", (), {"nap": time.sleep})()
    assert passed_ns(lambda: worker.nap(0.5)) == 500 * MS


@pytest.mark.parametrize(
    ("name", "file", "counts"),
    [
        ("helpers", "/home/me/helpers.py", True),
        ("filelock", "/venv/lib/python3.12/site-packages/filelock.py", False),
        ("torch.late", "/src/torch/late.py", False),
        ("sched", "/usr/lib/python3.12/sched.py", False),
    ],
)
def test_users_modules_that_have_imported_it_get_it(
    monkeypatch: pytest.MonkeyPatch, name: str, file: str, counts: bool
) -> None:
    plain, module = time.sleep, ModuleType(name)
    exec(compile("from time import sleep\ndef poll(): sleep(0.25)", file, "exec"), vars(module))
    module.__file__ = file
    monkeypatch.setitem(sys.modules, name, module)
    count_sleeps(really=False)
    assert module.sleep is (time.sleep if counts else plain)
    assert passed_ns(module.poll) == (250 * MS if counts else 0)


def test_other_processes_get_their_own() -> None:
    vars(time)["sleep"] = PLAIN  # as the fixture's stand-in has no name
    pickled = pickle.dumps(PLAIN)
    count_sleeps(really=False)
    assert isinstance(time.sleep, Sleep)
    assert pickle.dumps(time.sleep) == pickled
