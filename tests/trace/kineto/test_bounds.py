"""What no trace holds is bounded, and said in one error or one repair."""

import gzip
import json
import random
from typing import Any

import pytest

from perfmagic.base.errors import TraceError
from perfmagic.results import TimelineResult
from perfmagic.trace.kineto import file
from perfmagic.trace.kineto.reader import MOST_CHARACTERS, MOST_DEVICES, read_trace
from tests.trace.recorded import as_bytes, event, launch_and_kernel

pytestmark = pytest.mark.slow

DIGITS = "9" * 5000
PLACES = [
    *({key: "HERE"} for key in ("ts", "dur", "pid", "tid", "name", "cat", "ph", "id")),
    *({"args": {"device": 0, "stream": 7, "correlation": 5, "Collective name": "x"} | {key: "HERE"}}
      for key in ("device", "stream", "correlation", "bytes", "grid", "External id", "Group size", "shared memory")),
]  # fmt: skip
HEADS: list[dict[str, Any]] = [
    *({key: "HERE"} for key in ("baseTimeNanoseconds", "deviceProperties", "distributedInfo", "perfmagic", "other")),
    {"distributedInfo": {"rank": "HERE", "world_size": "HERE"}},
    {"deviceProperties": [{"id": "HERE", "name": "x", "numSms": "HERE"}]},
]


def _opens(content: bytes) -> None:
    """Read, and all that is shown."""
    found = TimelineResult(read_trace(content))
    assert found.text()
    assert found.html()
    found.live().wire()


@pytest.mark.parametrize("cut", [0, 30], ids=["whole", "cut"])
@pytest.mark.parametrize(
    "text",
    [
        "1e99999999999999999999",
        "-1e-99999999999999999999",
        '"1e99999999999999999999"',
        '"sNaN"',
        DIGITS,
        f'"{DIGITS}"',
        '"--5"',
    ],
    ids=["large", "small", "large text", "no number", "digits", "digits as text", "two signs"],
)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_number_that_no_type_holds_costs_no_more_than_its_record(place: dict[str, Any], text: str, cut: int) -> None:
    kernel = event("kernel", "k", 1, 2, tid=7, stream=7, device=0, correlation=5) | place
    rows = json.dumps({"traceEvents": [*launch_and_kernel(1, 0, 10), kernel, *launch_and_kernel(2, 20, 30)]})
    content = rows.replace('"HERE"', text).encode()
    _opens(content[: len(content) - cut])


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_number_of_thousands_of_digits_beside_the_events_is_left_out(head: dict[str, Any]) -> None:
    text = json.dumps(head | {"traceEvents": launch_and_kernel(1, 0, 10)})
    _opens(text.replace('"HERE"', DIGITS).encode())
    _opens(text.replace('"HERE"', DIGITS).replace("}]", "},]").encode())  # damaged, too


def _devices(n: int) -> bytes:
    return as_bytes([event("kernel", "k", 10 * i, 5, tid=7, stream=7, device=i, correlation=i) for i in range(n)])


def test_more_devices_than_a_process_has_are_one_error() -> None:
    assert len(read_trace(_devices(MOST_DEVICES)).device_ids) == MOST_DEVICES
    with pytest.raises(TraceError, match=r"trace names 1,025 devices, more than 1,024") as refused:
        read_trace(_devices(MOST_DEVICES + 1))
    assert refused.value.hint


def test_a_name_is_cut_where_no_name_is_so_long() -> None:
    def named(n: int) -> list[dict[str, Any]]:
        return [*launch_and_kernel(1, 0, 10), event("kernel", "k" * n, 20, 5, stream=7, device=0, correlation=2)]

    longest = read_trace(as_bytes(named(MOST_CHARACTERS)))
    assert longest.meta.repairs == ()
    cut = read_trace(as_bytes(named(MOST_CHARACTERS + 1)))
    assert [repair.words for repair in cut.meta.repairs] == ["1 name of up to 65,537 characters cut to 65,536"]
    assert cut.names == longest.names


@pytest.mark.parametrize("filler", [b" ", b"\0", b"[", b"9"], ids=["blanks", "nulls", "lists", "a number"])
def test_a_file_that_unpacks_to_hundreds_of_times_its_size_is_refused_early(
    monkeypatch: pytest.MonkeyPatch, filler: bytes
) -> None:
    monkeypatch.setattr(file, "RATIO_FROM_BYTES", 1 << 20)
    bomb = gzip.compress(b'{"traceEvents": [' + filler * (8 << 20))
    _refuse_early(bomb)


def _refuse_early(bomb: bytes) -> None:
    unpacked: list[int] = []
    with pytest.raises(TraceError, match=r"more than 200 times its size") as refused:
        unpacked += map(len, file.text_blocks(bomb, "trace", file.DEFAULT_LIMIT_BYTES, []))
    assert sum(unpacked) <= file.BLOCK_BYTES
    assert "gunzip" in str(refused.value)


def test_what_is_read_and_not_yet_unpacked_does_not_hide_the_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "RATIO_FROM_BYTES", 1 << 20)
    noise = random.Random(0).randbytes(1 << 20)  # behind the blanks, in the same block
    _refuse_early(gzip.compress(b" " * (16 << 20)) + gzip.compress(noise))


def test_more_gzip_members_than_a_trace_has_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "MOST_MEMBERS", 1000)
    trace, empty = gzip.compress(as_bytes(launch_and_kernel(1, 0, 10))), gzip.compress(b"")
    assert len(read_trace(trace + empty * 999).ops) == 1
    with pytest.raises(TraceError, match=r"more than 1,000 gzip files in one") as refused:
        read_trace(trace + empty * 1000)
    assert "gunzip" in str(refused.value)


def test_a_repetitive_trace_is_not_taken_for_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "RATIO_FROM_BYTES", 1 << 20)
    rows = [row for i in range(20_000) for row in launch_and_kernel(i + 1, 100 * i, 100 * i + 10)]
    plain = as_bytes(rows)
    packed = gzip.compress(plain, 9)
    assert len(plain) > 2 << 20
    assert len(read_trace(packed).ops) == 20_000
