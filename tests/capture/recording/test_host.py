"""What a rank's record says of its host."""

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perfmagic.base.clock import unix_offset_ns
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording import host
from perfmagic.capture.recording.host import file_in_new_folder


def test_the_clock_of_a_host_is_its_monotonic_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("4711")
    monkeypatch.setattr(host, "BOOT_ID", boot)
    clock = host.host_clock(1_700_000_000_000_000_000, 1_699_999_990_000_000_000)
    assert clock["monotonic_base_ns"] == 10_000_000_000
    assert "4711" not in clock["boot"]
    boot.write_text("4712")
    assert host.host_clock(0, 0)["boot"] != clock["boot"]
    monkeypatch.setattr(host, "BOOT_ID", tmp_path / "none")
    assert host.host_clock(0, 0) == {}


def test_the_waits_of_all_threads_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for thread, text in (("1", "900 41 7"), ("2", "5 1000 3"), ("3", "damaged")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text)
    (tmp_path / "4").mkdir()  # ended between two looks
    monkeypatch.setattr(host, "THREADS", tmp_path)
    assert host.waited_for_core_ns() == 1041
    monkeypatch.setattr(host, "THREADS", tmp_path / "none")
    assert host.waited_for_core_ns() is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux tells threads where to run")
def test_two_threads_on_one_core_wait_for_it() -> None:
    """Outside Python, so that it is not its lock they wait for."""
    import hashlib

    before = host.waited_for_core_ns()
    if before is None:
        pytest.skip("this kernel keeps no schedstat")
    allowed = os.sched_getaffinity(0)
    stop = time.monotonic() + 0.3

    def busy() -> None:
        os.sched_setaffinity(0, {min(allowed)})  # this thread alone
        while time.monotonic() < stop:
            hashlib.sha256(b"x" * 1_000_000).digest()

    waited: list[int] = []
    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    waited.append(host.waited_for_core_ns() or 0)
    for thread in threads:
        thread.join()
    assert waited[0] - before > 10_000_000


def test_unix_time_by_the_monotonic_clock_is_unix_time() -> None:
    before = time.time_ns()
    now = time.perf_counter_ns() + unix_offset_ns()
    assert before - 50_000_000 <= now <= time.time_ns() + 50_000_000


def test_the_folder_goes_with_what_is_in_it() -> None:
    owner = Owner()
    with owner, owner:
        path = file_in_new_folder(owner)
        path.write_text("{}")
        assert [file.name for file in path.parent.iterdir()] == ["trace.json"]
    assert not path.parent.exists()


def test_an_interrupt_while_the_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tempfile.mkdtemp

    def interrupted(*given: Any, **named: Any) -> str:
        path = real(*given, **named)
        signal.raise_signal(signal.SIGINT)
        return path

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    owner = Owner()
    with pytest.raises(KeyboardInterrupt), owner, owner:
        file_in_new_folder(owner)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("state", "looks"), [("R", 5), ("S", 0)])
def test_a_thread_that_runs_is_waited_for_until_it_ran_long_enough(
    state: str, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, ran_ns = tmp_path / "4711", [0]
    thread.mkdir()
    (thread / "stat").write_text(f"4711 (données ) R) {state} 1", "latin-1")
    (thread / "schedstat").write_text("0 0 0")

    def run_on(_seconds: float) -> None:
        ran_ns.append(ran_ns[-1] + host.RUN_NS // 5)
        (thread / "schedstat").write_text(f"{ran_ns[-1]} 0 0")

    monkeypatch.setattr(host, "THREADS", tmp_path)
    monkeypatch.setattr(host, "RUN_S", 60.0)
    monkeypatch.setattr(host.time, "sleep", run_on)
    host.wait_for_threads()
    assert len(ran_ns) - 1 == looks
