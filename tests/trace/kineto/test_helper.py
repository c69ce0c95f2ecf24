"""A large file's chunks spread over two processes give what one gives, whatever becomes of the other."""

import gzip
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest

from perfmagic.base.errors import OptionError
from perfmagic.trace.kineto import decode as kineto_decode
from perfmagic.trace.kineto import file as kineto_file
from perfmagic.trace.kineto import reader as kineto
from perfmagic.trace.kineto.decode import Helper
from perfmagic.trace.kineto.gathered import (
    Gathered,
)
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.trace.recorded import real, repairs, table_of

pytestmark = pytest.mark.slow


NAMES = ("a100_alexnet_cuda_sync", "mi300_sglang_hipgraph", "a100_nccl_rank0of2", "v100_2021_old_categories")
TABLES = ("ops", "calls", "host_ops", "python_frames", "waits", "counters")
WORDS = ("names", "shapes", "input_shapes", "input_dtypes", "input_values", "collectives", "meta")


def content(name: str) -> bytes:
    return gzip.decompress(real(name).read_bytes())


def assert_same(mine: Trace, other: Trace) -> None:
    for word in WORDS:
        assert getattr(mine, word) == getattr(other, word), word
    for table in TABLES:
        for column in fields(table_of(mine, table)):
            pair = (getattr(table_of(trace, table), column.name) for trace in (mine, other))
            np.testing.assert_array_equal(*pair, err_msg=f"{table}.{column.name}")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Helper]:
    """The helpers that were started; each takes every other chunk, of files of any size."""
    found: list[Helper] = []
    start, takes = Helper._start, Helper.takes

    def noted(self: Helper) -> bool:
        found.append(self)
        return start(self)

    def every_other(self: Helper, number: int, text: bytes) -> bool:
        return number % 2 == 0 and takes(self, number, text)

    def none_back(self: Helper) -> Iterator[tuple[int, bytes]]:
        yield from ()

    monkeypatch.setattr(Helper, "_start", noted)
    monkeypatch.setattr(Helper, "takes", every_other)
    monkeypatch.setattr(Helper, "taken_back", none_back)
    monkeypatch.setattr(kineto_decode, "_has_cores", lambda: True)
    monkeypatch.setattr(kineto_decode, "_WAITING", 0)
    monkeypatch.setattr(kineto_decode, "ALONE_BYTES", 0)
    monkeypatch.setattr(kineto_file, "BLOCK_BYTES", 1 << 16)
    return found


def alone(data: bytes) -> Trace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_decode, "ALONE_BYTES", 1 << 40)
        return read_trace(data, origin="trace.json")


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_give_what_one_gives(name: str, started: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    data = content(name)
    serial = alone(data)
    took: list[list[int]] = []
    gathered = Helper.gathered

    def noted(self: Helper) -> Gathered | None:
        found = gathered(self)
        took.append([part.number for part in found.parts])
        return found

    monkeypatch.setattr(Helper, "gathered", noted)
    trace = read_trace(data, origin="trace.json")
    assert took == [list(range(0, 2 * len(took[0]), 2))]
    assert len(took[0]) > 1
    assert_same(trace, serial)


@pytest.mark.parametrize(
    "program",
    ["import sys; sys.exit(3)", "print('perfmagic, or so it says')", "import sys; sys.stdin.buffer.read(); print(1)"],
)
def test_a_lost_helper_is_done_without(program: str, started: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_decode, "_PROGRAM", program)
    data = content(NAMES[0])
    trace = read_trace(data, origin="trace.json")
    assert len(started) == 1
    assert_same(trace, alone(data))


def test_a_helper_that_cannot_be_started_is_done_without(
    started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_decode, "_interpreter", lambda: "/nowhere/python")
    data = content(NAMES[0])
    trace = read_trace(data, origin="trace.json")
    assert (len(started), started[0]._process) == (1, None)
    assert_same(trace, alone(data))


def test_chunks_that_are_taken_back_leave_names_in_the_order_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_file, "BLOCK_BYTES", 1 << 16)
    waiting: list[tuple[int, bytes]] = []

    def two(self: Helper, number: int, text: bytes) -> bool:
        waiting.extend([(number, text)] if number in (1, 3) else [])
        return number in (1, 3)

    data = content(NAMES[1])
    serial = alone(data)
    monkeypatch.setattr(Helper, "takes", two)
    monkeypatch.setattr(Helper, "taken_back", lambda self: iter(waiting))
    trace = read_trace(data, origin="trace.json")
    assert [number for number, _ in waiting] == [1, 3]
    assert_same(trace, serial)


def test_the_environment_can_switch_it_off(started: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    data = content(NAMES[0])
    monkeypatch.setenv("PERFMAGIC_HELPER", "0")
    trace = read_trace(data, origin="trace.json")
    assert started == []
    monkeypatch.setenv("PERFMAGIC_HELPER", "1")
    assert_same(trace, read_trace(data, origin="trace.json"))
    assert len(started) == 1
    monkeypatch.setenv("PERFMAGIC_HELPER", "none")
    with pytest.raises(OptionError, match="PERFMAGIC_HELPER: 'none' is neither 0 nor 1"):
        read_trace(data, origin="trace.json")


def test_damage_the_helper_meets_is_repaired_and_reported(started: list[Helper]) -> None:
    data = content(NAMES[1])
    damaged = data.replace(b'"dur":', b'"dur": nan, "was":', 1)
    trace = read_trace(damaged, origin="trace.json")
    assert len(started) == 1
    assert trace.meta.repairs == alone(damaged).meta.repairs
    assert "1 event with a bare nan or inf was repaired" in repairs(trace)


def test_an_interrupted_read_leaves_no_process(started: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(text: bytes, *, links: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kineto, "decoded", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_trace(content(NAMES[1]), origin="trace.json")
    assert started[0]._process.returncode is not None
    assert not started[0]._feeder.is_alive()
    assert started[0]._process.stdout.closed
