"""Blocks from memory events: paired by address, in nodes of autograd, and what was there before."""

import gzip
import json
from typing import Any

import numpy as np
import pytest

from perfmagic.results import MemoryResult
from perfmagic.trace.columns import HOST_DEVICE, NONE
from perfmagic.trace.kineto.reader import read_trace
from tests.trace.recorded import real

GPU, HOST = 1, 0  # as c10::DeviceType numbers them


def _event(ts: float, size: int, address: int, allocated: int, **other: Any) -> dict[str, Any]:
    args = {"Bytes": size, "Addr": address, "Total Allocated": allocated, "Device Type": GPU, "Device Id": 0}
    named = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 7, "ts": ts}
    return named | {"args": args | other}


def _op(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 7, "ts": ts, "dur": dur, "args": args}


def _blocks(*events: dict[str, Any]) -> Any:
    text = json.dumps({"traceEvents": [_op("aten::mm", 0, 100), *events]})
    return read_trace(text.encode(), origin="x.json", links=True).blocks


def test_an_address_that_is_given_again_is_another_block() -> None:
    found = _blocks(_event(1, 512, 64, 512), _event(2, -512, 64, 0), _event(3, 1024, 64, 1024))
    assert found.size_bytes.tolist() == [512, 1024]
    assert found.order.tolist() == [0, 2]
    assert found.free_order.tolist() == [1, NONE]
    assert (found.free_ns - found.alloc_ns)[0] == 1000
    assert found.address.tolist() == [64, 64]


def test_what_was_there_before_is_what_the_allocator_had_given() -> None:
    found = _blocks(_event(1, 512, 64, 5632), _event(2, -1024, 128, 4608))
    before = found.before == 1
    assert sorted(found.size_bytes[before].tolist()) == [1024, 4096]  # one came back, the rest stays
    assert found.size_bytes[before & (found.free_order == NONE)].tolist() == [4096]
    assert found.address[before].tolist().count(NONE) == 1


def test_the_hosts_count_is_of_profilers_alone() -> None:
    host = {"Device Type": HOST, "Device Id": -1}
    found = _blocks(_event(1, 512, 64, 9999, **host))
    assert found.device.tolist() == [HOST_DEVICE]
    assert found.before.tolist() == [0]


def test_a_lost_release_ends_a_block_where_its_address_is_given_again() -> None:
    found = _blocks(_event(1, 512, 64, 512), _event(2, 1024, 64, 1024))
    assert found.free_order.tolist() == [1, NONE]


def test_events_without_addresses_tell_of_no_block() -> None:
    event = _event(1, 512, 64, 512)
    del event["args"]["Addr"]
    assert not len(_blocks(event))


def test_a_block_knows_the_nodes_it_was_made_for_and_came_back_in() -> None:
    found = _blocks(
        _op("aten::add", 1, 2, **{"Sequence number": 5, "Fwd thread id": 0}),  # makes no node: the next has the number
        _event(2, 512, 64, 512),
        _op("aten::relu", 4, 2, **{"Sequence number": 5, "Fwd thread id": 0}),
        _event(5, 1024, 128, 1536),
        _op("autograd::engine::evaluate_function: ReluBackward0", 10, 5, **{"Sequence number": 5, "Fwd thread id": 1}),
        _event(11, 2048, 256, 3584),
        _event(12, -1024, 128, 2560),
    )
    assert found.newest_sequence.tolist() == [NONE, 5, NONE]
    assert found.node_sequence.tolist() == [NONE, NONE, 5]
    assert found.free_sequence.tolist() == [NONE, 5, NONE]
    assert (found.node != NONE).tolist() == [False, False, True]


@pytest.mark.slow
def test_a_recorded_step_adds_up_to_what_the_allocator_counted() -> None:
    path = real("v100_fsdp_memory_events")
    raw = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    counted = max(
        e["args"]["Total Allocated"] for e in raw if e["name"] == "[memory]" and e["args"]["Device Type"] == GPU
    )
    found = MemoryResult(read_trace(path))
    assert found.ledger.device == 1
    assert found.peak_bytes == counted == sum(row.size_bytes for row in found.at_peak())
    kept = next(row for row in found.at_peak() if row.reason == "kept for the backward pass")
    assert kept.n_blocks == 316  # of which each came back in a node of autograd
    assert np.all(found.ledger.blocks.size_bytes > 0)
