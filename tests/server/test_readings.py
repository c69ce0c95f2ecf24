"""Readings of files: each once, the results within a bound, ended when they cost too much."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmagic.server.reading import Limits, UnreadableError, limits_from, read_message, write_message
from perfmagic.server.readings import Readings
from perfmagic.server.work import UNREADABLE
from tests.trace.recorded import real

from .conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def read(readings: Readings, path: Path) -> Path:
    """The finished reading."""
    while isinstance(made := await readings.get(path, 60), dict):
        pass
    made.close()
    return Path(made.name)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return Path(shutil.copy(real("v100_4streams_nccl_step"), tmp_path / "step.json.gz"))


def test_a_file_is_read_once_for_all_requests(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: started.append(given) or popen(*given, **more))

    async def several() -> list[Path]:
        readings = Readings(Limits())
        first = await asyncio.gather(*(read(readings, trace) for _ in range(5)))
        return [*first, await read(readings, trace)]

    assert len(set(asyncio.run(several()))) == 1
    assert len(started) == 1


def test_while_a_file_is_read_the_answer_is_the_progress(trace: Path) -> None:
    async def twice() -> tuple[Any, Any]:
        readings = Readings(replace(Limits(), processes=1))
        return await readings.get(trace, 0), await read(readings, trace)

    progress, made = asyncio.run(twice())
    assert progress["size_bytes"] == trace.stat().st_size
    assert set(progress) == {"waits", "size_bytes", "seconds", "files", "of"}
    assert made.parent.name.startswith("perfmagic-timelines-")


def test_the_least_recently_used_results_are_dropped_first(trace: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(trace, tmp_path / "other.json.gz"))

    async def both() -> tuple[Path, Path, bool, bool]:
        readings = Readings(replace(Limits(), kept_bytes=1 << 30))
        first = await read(readings, trace)
        readings.limits = replace(readings.limits, kept_bytes=first.stat().st_size + 1)
        second = await read(readings, other)
        return first, second, first.exists(), second.exists()

    first, second, *there = asyncio.run(both())
    assert first != second
    assert there == [False, True]


@pytest.mark.parametrize(
    ("limits", "words"), [({"seconds": 0.0}, "took more than 0 s"), ({"idle_s": -1.0}, "no request waited")]
)
def test_a_reading_that_costs_too_much_is_ended(trace: Path, limits: dict[str, Any], words: str) -> None:
    readings = Readings(replace(Limits(), **limits))
    with pytest.raises(UnreadableError, match=words):
        asyncio.run(read(readings, trace))
    assert list(readings.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the operating system does not limit memory")
def test_a_process_without_memory_gives_an_explained_error(trace: Path) -> None:
    readings = Readings(replace(Limits(), memory_bytes=100 << 20))
    with pytest.raises(UnreadableError, match=r"step\.json\.gz") as caught:
        asyncio.run(read(readings, trace))
    assert "memory" in caught.value.message + caught.value.hint


@pytest.mark.skipif(sys.platform != "linux", reason="the operating system does not limit files")
def test_a_result_that_is_too_large_is_an_error(trace: Path) -> None:
    readings = Readings(replace(Limits(), kept_bytes=1000))
    with pytest.raises(UnreadableError, match=r"the timeline of step\.json\.gz is larger than 1\.00.kB"):
        asyncio.run(read(readings, trace))
    assert list(readings.folder.iterdir()) == []


def test_a_deleted_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="No such file"):
        asyncio.run(read(Readings(Limits()), tmp_path / "absent.json"))


def test_a_module_beside_the_trace_is_not_imported(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (trace.parent / "msgspec.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(trace.parent)
    assert asyncio.run(read(Readings(Limits()), trace)).exists()


def test_the_process_ends_when_the_server_does(trace: Path, tmp_path: Path) -> None:
    code = f"""if True:
        import runpy, sys, threading, perfmagic.base.files
        perfmagic.base.files.open_regular = lambda _path: print("reads", flush=True) or threading.Event().wait()
        sys.argv[1:] = {[str(trace), str(tmp_path / "made"), str(8 << 30), "1000"]!r}
        runpy.run_module("perfmagic.server.work", run_name="__main__")
    """
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == b"reads"  # it reads, which does not end by itself
        process.stdin.close()
        assert process.wait(60) == UNREADABLE
    finally:
        process.kill()


def test_a_message_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "x.said"
    assert read_message(path) == {}
    write_message(path, files=1)
    write_message(path, files=2)
    assert read_message(path) == {"files": 2}
    path.write_text("[")
    assert read_message(path) == {}


def test_limits_come_from_the_server_s_configuration() -> None:
    limits = limits_from({"Perfmagic": {"memory_bytes": 5, "unknown": 1}})
    assert limits == replace(Limits(), memory_bytes=5)
    assert limits_from({}) == Limits()


def _remove_one(folder: Path, kept: list[Path]) -> None:
    kept[0].unlink()


def _remove_all(folder: Path, kept: list[Path]) -> None:
    for path in kept:
        path.unlink()


def _remove_folder(folder: Path, kept: list[Path]) -> None:
    shutil.rmtree(folder)


def _replace_folder(folder: Path, kept: list[Path]) -> None:
    folder.rename(folder.with_name(f"{folder.name}-old"))
    folder.mkdir()


def _cut(folder: Path, kept: list[Path]) -> None:
    os.truncate(kept[0], 10)


def _make_pipe(folder: Path, kept: list[Path]) -> None:
    kept[0].unlink()
    os.mkfifo(kept[0])


LOSSES = [_remove_one, _remove_all, _remove_folder, _replace_folder, _cut, _make_pipe]


WRITE = """
import os, sys
source, target = sys.argv[1:]
with open(target + ".part", "wb") as file:
    file.write(os.fsencode(source) * 1000)
os.replace(file.name, target)
"""


@pytest.fixture
def _name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that write the path of what they are given a thousand times, in place of reading it."""
    popen = subprocess.Popen
    command = [sys.executable, "-S", "-c", WRITE]
    monkeypatch.setattr(subprocess, "Popen", lambda given, **more: popen([*command, *given[3:5]], **more))


@pytest.mark.usefixtures("_name_alone")
@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("few", [False, True], ids=["all kept", "one kept"])
def test_kept_readings_may_vanish_at_any_moment(
    trace: Path, tmp_path: Path, lose: Callable[[Path, list[Path]], None], few: bool
) -> None:
    traces = [trace, *(Path(shutil.copy(trace, tmp_path / f"{name}.json.gz")) for name in "ab")]

    async def again() -> list[bytes]:
        readings = Readings(Limits())
        kept = [await read(readings, path) for path in traces[:2]]
        if few:
            readings.limits = replace(readings.limits, kept_bytes=kept[0].stat().st_size + 1)
        lose(readings.folder, kept)
        return [(await read(readings, path)).read_bytes() for path in traces]

    assert asyncio.run(again()) == [os.fsencode(path) * 1000 for path in traces]


def test_a_reading_is_sent_whole_though_its_file_is_deleted_meanwhile(trace: Path) -> None:
    async def opened() -> tuple[int, bytes]:
        readings = Readings(Limits())
        size_bytes = (await read(readings, trace)).stat().st_size
        file = await readings.get(trace, 60)
        assert not isinstance(file, dict)
        shutil.rmtree(readings.folder)
        with file:
            return size_bytes, file.read()

    size_bytes, content = asyncio.run(opened())
    assert len(content) == size_bytes


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "a file in its place"])
def test_a_folder_that_is_gone_during_a_reading_costs_another_reading(
    trace: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    readings = Readings(Limits())
    popen = subprocess.Popen

    def losing(*given: Any, **more: Any) -> Any:
        process = popen(*given, **more)
        if str(first) in given[0][4]:
            shutil.rmtree(first)
            if replaced:
                first.write_text("not a folder")
        return process

    first = readings.folder
    monkeypatch.setattr(subprocess, "Popen", losing)
    made = asyncio.run(read(readings, trace))
    assert made.parent != first
    assert made.exists()


def test_readings_are_kept_though_the_folder_of_temporary_files_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    readings = Readings(Limits())
    shutil.rmtree(tmp_path / "gone")
    assert readings.folder.is_dir()


def test_hanging_readings_leave_their_places_to_others(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def hangs(command: list[str], **more: Any) -> Any:
        sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
        return popen(sleeps if "hangs" in command[3] else command, **more)

    monkeypatch.setattr(subprocess, "Popen", hangs)
    monkeypatch.setattr("perfmagic.server.reading.LONG_S", 0.1)
    stuck = [Path(shutil.copy(trace, trace.parent / f"hangs{n}.json.gz")) for n in range(2)]

    async def third() -> Path:
        readings = Readings(replace(Limits(), processes=2, seconds=100.0))
        for path in stuck:
            assert isinstance(await readings.get(path, 0), dict)
        made = await asyncio.wait_for(read(readings, trace), 90)
        for path in stuck:
            assert isinstance(await readings.get(path, 0), dict)  # it is not ended for that
        readings.limits = replace(readings.limits, seconds=0)
        for reading in readings._running.values():
            reading.limits = readings.limits
        return made

    assert asyncio.run(third()).name


@pytest.mark.parametrize("kind", ["a named pipe", "a device of the operating system"])
def test_pipes_and_devices_are_an_error_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.json"
    os.mkfifo(path) if kind == "a named pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(UnreadableError, match=f"run.json is {kind}, not a trace file"):
        asyncio.run(read(Readings(Limits()), path))
