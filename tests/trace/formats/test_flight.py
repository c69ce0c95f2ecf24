"""Dumps of torch's flight recorder: what is read of them, and that nothing in them runs or harms."""

import json
import os
import pickle
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perfmagic.base.errors import TraceError
from perfmagic.trace.formats import flight
from perfmagic.trace.formats.flight import Dump, Place, read_dump
from perfmagic.trace.formats.plain_pickle import nested_pickle
from perfmagic.trace.formats.sources import without_dumps
from tests.trace.formats.flight_dumps import CREATED_NS, Recorder, job

DP = ("7", "dp")


def recorded() -> Recorder:
    (recorder, _) = job(2, {DP: [0, 1]})
    recorder.call("all_reduce", DP, sizes=[8, 4], dtype="BFloat16", line=80, duration_ms=0.25)
    recorder.call("send 0->1", DP, state="scheduled", line=81)
    return recorder


def test_a_call_has_its_group_number_size_time_and_the_users_line(tmp_path: Path) -> None:
    dump = read_dump(recorded().write(tmp_path))
    reduced, sent = dump.calls
    assert (dump.rank, dump.version, dump.library, dump.n_lost) == (0, "2.10", "nccl 2.27.3", 0)
    assert (reduced.name, reduced.number, reduced.peer, reduced.ended) == ("all_reduce", 1, None, True)
    assert (reduced.group.name, reduced.group.desc, reduced.group.ranks) == ("7", "dp", (0, 1))
    assert (reduced.inputs, reduced.size_bytes, reduced.created_ns) == ((32,), 64, CREATED_NS)
    assert (reduced.duration_ns, sent.duration_ns) == (250_000, None)
    assert reduced.place == Place("/home/me/train.py", 80, "train_step")
    assert (sent.name, sent.number, sent.peer, sent.state) == ("send", 1, 1, "scheduled")


def test_json_says_the_same_without_stacks(tmp_path: Path) -> None:
    of_pickle, of_json = read_dump(recorded().write(tmp_path)), read_dump(recorded().write_json(tmp_path))
    assert [(call.name, call.number, call.state, call.inputs) for call in of_json.calls] == [
        (call.name, call.number, call.state, call.inputs) for call in of_pickle.calls
    ]
    assert of_json.groups == of_pickle.groups
    assert all(call.place == Place() and call.stack == () for call in of_json.calls)


def as_lists(read: Any) -> Any:
    return json.loads(json.dumps(read))


@pytest.mark.parametrize("n", [19_000, 2_000_000])
def test_nested_tuples_as_keys_end_nothing(n: int) -> None:
    with suppress(ValueError):
        nested_pickle(b"\x80\x02})" + b"\x85" * n + b"K\x01s.")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_with_tuples_of_texts_is_read(protocol: int) -> None:
    content = recorded().content
    read = as_lists(nested_pickle(pickle.dumps(content, protocol=protocol)))
    assert read["entries"][0]["process_group"] == ["7", "dp"]
    assert read["entries"][0] | {"process_group": DP} == content["entries"][0]
    assert as_lists(nested_pickle(pickle.dumps([(), (1,), (1, 2, "three"), (1, 2, 3, (4.5, None))], protocol))) == [
        [], [1], [1, 2, "three"], [1, 2, 3, [4.5, None]]
    ]  # fmt: skip


def test_calls_of_a_coalesced_group_are_one_and_have_the_state_of_its_end(tmp_path: Path) -> None:
    (recorder,) = job(1)
    recorder.call("all_reduce", sizes=[2], state="scheduled")
    recorder.call("all_reduce", sizes=[3], state="scheduled", same=True)
    recorder.call("coalesced", sizes=[], state="completed", same=True)
    (call,) = read_dump(recorder.write(tmp_path)).calls
    assert (call.name, call.number, call.inputs, call.size_bytes, call.ended) == ("all_reduce", 1, (2, 3), 20, True)


def test_calls_of_gloo_end_when_they_are_retired(tmp_path: Path) -> None:
    (recorder,) = job(1)
    for retired in (True, False):
        recorder.call("all_reduce", state="scheduled") | {}
        recorder.entries[-1] |= {"profiling_name": "gloo:all_reduce", "retired": retired}
    assert [call.ended for call in read_dump(recorder.write(tmp_path)).calls] == [True, False]
    for entry in recorder.entries:
        entry["profiling_name"] = "nccl:all_reduce"  # of which a retired one has timed out
    assert [call.ended for call in read_dump(recorder.write(tmp_path)).calls] == [False, False]


def test_older_and_newer_versions_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    recorder = recorded()
    recorder.version = "1.5"
    entry = recorder.entries[0]
    recorder.entries = [
        {"profiling_name": "nccl:all_reduce", "seq_id": 4, "state": "completed", "frames": entry["frames"]}
    ]
    (call,) = read_dump(recorder.write(tmp_path)).calls
    assert (call.number, call.size_bytes, call.place.line) == (4, None, 80)
    recorder.version = "3.0"
    recorder.entries = [entry | {"not_yet_known": {"a": [1]}}]
    assert read_dump(recorder.write(tmp_path)).version == "3.0"


class Harm:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("harmed",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_asks_for_code_is_refused_and_none_runs(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(recorded().content | {"harm": Harm()}, protocol=protocol))
    with pytest.raises(TraceError, match=r"nccl_trace_rank_0 is not a dump of torch's flight recorder: .*") as raised:
        read_dump(path)
    assert protocol < 2 or "GLOBAL before byte" in raised.value.message
    assert not (tmp_path / "harmed").exists()


def test_a_cut_file_says_where_it_ends(tmp_path: Path) -> None:
    path = recorded().write(tmp_path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(TraceError, match="not a dump of torch's flight recorder"):
            read_dump(path)
    path.write_bytes(whole[:200])
    with pytest.raises(TraceError, match="it ends at byte 200 before it is whole") as raised:
        read_dump(path)
    assert raised.value.hint == "copy the file again"


@pytest.mark.slow
def test_a_flipped_byte_never_does_more_than_raise_a_trace_error(tmp_path: Path) -> None:
    path = recorded().write(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with suppress(TraceError):
            assert isinstance(read_dump(path), Dump)


NESTED = b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000
HUGE_PLACE = b"\x80\x02]r\xff\xff\xff\xff."
LONG_TEXT = b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"text."


@pytest.mark.parametrize(
    "data", [NESTED + b".", NESTED + b"}q\0h\0h\0s.", HUGE_PLACE, LONG_TEXT, b"\x80\x02", b"", b"{", b"[" * 99_999]
)
def test_hostile_files_take_neither_stack_nor_memory(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(data)
    with pytest.raises(TraceError):
        read_dump(path)


def test_one_list_in_many_places_is_refused(tmp_path: Path) -> None:
    recorder = recorded()
    sizes = [[1] * 1000] * 1000
    recorder.entries = [recorder.entries[0] | {"input_sizes": sizes, "output_sizes": sizes}] * 50
    with pytest.raises(TraceError, match="its lists hold more than fits in the file"):
        read_dump(recorder.write(tmp_path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state", 5),
        ("input_sizes", [[-1]]),
        ("input_sizes", "no"),
        ("frames", [{"name": 1}]),
        ("collective_seq_id", -3),
    ],
)
def test_a_value_of_another_type_is_named(key: str, value: object, tmp_path: Path) -> None:
    recorder = recorded()
    recorder.entries[1][key] = value
    with pytest.raises(TraceError, match=r"not a dump of torch's flight recorder: .*Expected"):
        read_dump(recorder.write(tmp_path))


def test_a_file_too_large_or_without_a_rank_in_its_name_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded().write(tmp_path)
    nameless = path.rename(tmp_path / "dump.pickle")
    with pytest.raises(TraceError, match=r"dump\.pickle does not say of which rank it is"):
        read_dump(nameless)
    monkeypatch.setattr(flight, "MOST_FILE_BYTES", 10)
    with pytest.raises(TraceError, match="larger than 256 MiB"):
        read_dump(recorded().write(tmp_path))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("comm_lib_trace_rank_3", 3),
        ("rank7.pickle", 7),
        ("2026_rank_5.json", 5),
        ("fr_4", 4),
    ],
)
def test_the_rank_is_in_the_name(name: str, rank: int, tmp_path: Path) -> None:
    path = recorded().write(tmp_path).rename(tmp_path / name)
    assert read_dump(path).rank == rank


def test_dumps_are_told_from_traces_by_what_they_hold(tmp_path: Path) -> None:
    dumps = [recorded().write(tmp_path, "any"), recorded().write_json(tmp_path)]
    (tmp_path / "trace.json").write_text(
        '{"schemaVersion": 1, "distributedInfo": {"pg_config": []}, "traceEvents": []}'
    )
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"weights": [1.0]}))
    (tmp_path / "nccl_trace_rank_9").write_bytes(b"")  # torch was stopped while it wrote
    others, found = without_dumps([tmp_path, "s3://bucket/nccl_trace_rank_0"])
    assert sorted(found) == sorted([*dumps, tmp_path / "nccl_trace_rank_9"])
    assert others == [tmp_path / "trace.json", "s3://bucket/nccl_trace_rank_0"]
    with pytest.raises(TraceError, match="it is empty"):
        read_dump(tmp_path / "nccl_trace_rank_9")
