"""Readings of files: each once, the results within a bound, ended when they cost too much."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmagic.server.limits import Limits, limits_of
from perfmagic.server.outcomes import Refused, tell, told
from perfmagic.server.readings import Readings
from tests.trace.recorded import real

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def read(readings: Readings, path: Path) -> Path:
    """The finished reading."""
    while not isinstance(made := await readings.get(path, 60), Path):
        pass
    return made


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return Path(shutil.copy(real("v100_4streams_nccl_step"), tmp_path / "step.json.gz"))


def test_a_file_is_read_once_for_all_who_ask(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: started.append(given) or popen(*given, **more))

    async def several() -> list[Path]:
        readings = Readings(Limits())
        first = await asyncio.gather(*(read(readings, trace) for _ in range(5)))
        return [*first, await read(readings, trace)]

    assert len(set(asyncio.run(several()))) == 1
    assert len(started) == 1


def test_while_it_is_read_the_answer_is_how_far_it_is(trace: Path) -> None:
    async def twice() -> tuple[Any, Any]:
        readings = Readings(replace(Limits(), processes=1))
        return await readings.get(trace, 0), await read(readings, trace)

    progress, made = asyncio.run(twice())
    assert progress["size_bytes"] == trace.stat().st_size
    assert set(progress) == {"waits", "size_bytes", "seconds", "files", "of"}
    assert made.parent.name.startswith("perfmagic-timelines-")


def test_the_results_asked_for_longest_ago_go_first(trace: Path, tmp_path: Path) -> None:
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
    ("limits", "words"),
    [
        ({"seconds": 0.0}, "took more than 0 s"),
        ({"idle_s": -1.0}, "nobody waited"),
    ],
)
def test_a_reading_that_costs_too_much_is_ended(trace: Path, limits: dict[str, Any], words: str) -> None:
    readings = Readings(replace(Limits(), **limits))
    with pytest.raises(Refused, match=words):
        asyncio.run(read(readings, trace))
    assert list(readings.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the operating system does not limit memory")
def test_a_process_without_memory_is_refused_in_words(trace: Path) -> None:
    readings = Readings(replace(Limits(), memory_bytes=100 << 20))
    with pytest.raises(Refused, match=r"step\.json\.gz") as refused:
        asyncio.run(read(readings, trace))
    assert "memory" in refused.value.message + refused.value.hint


@pytest.mark.skipif(sys.platform != "linux", reason="the operating system does not limit files")
def test_a_result_that_is_too_large_is_refused(trace: Path) -> None:
    readings = Readings(replace(Limits(), kept_bytes=1000))
    with pytest.raises(Refused, match=r"the timeline of step\.json\.gz is larger than 1\.00.kB"):
        asyncio.run(read(readings, trace))
    assert list(readings.folder.iterdir()) == []


def test_a_file_that_went_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        asyncio.run(read(Readings(Limits()), tmp_path / "absent.json"))


def test_a_module_beside_the_trace_is_not_imported(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (trace.parent / "msgspec.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    monkeypatch.chdir(trace.parent)
    assert asyncio.run(read(Readings(Limits()), trace)).exists()


def test_the_process_ends_when_the_server_does(trace: Path, tmp_path: Path) -> None:
    waits = tmp_path / "pipe.json"
    os.mkfifo(waits)  # nothing is ever written to it: reading does not end by itself
    command = [sys.executable, "-m", "perfmagic.server.work", str(waits), str(tmp_path / "made"), str(8 << 30), "1000"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])
    assert process.stdin is not None
    try:
        process.stdin.close()
        assert process.wait(60) != 0
    finally:
        process.kill()


def test_what_is_told_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.said"
    assert told(path) == {}
    tell(path, files=1)
    tell(path, files=2)
    assert told(path) == {"files": 2}
    path.write_text("[")
    assert told(path) == {}


def test_limits_come_from_the_server_s_configuration() -> None:
    found = limits_of({"Perfmagic": {"memory_bytes": 5, "unknown": 1}})
    assert found == replace(Limits(), memory_bytes=5)
    assert limits_of({}) == Limits()
