"""Ranks whose clocks are compared ask rank 0 what time it is, and the relay of an engine ends what nobody asks for."""

import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.api.ranks.session import PRELOAD, PROGRAM, result_from
from perfmagic.capture.ranks import engine
from perfmagic.capture.ranks.connection import Connection
from perfmagic.capture.ranks.drivers import ForkServer, Started
from perfmagic.capture.ranks.pings import EXCHANGES, Clocks
from perfmagic.capture.ranks.session import Session
from perfmagic.capture.ranks.settings import LOOPBACK, Settings
from perfmagic.results import RanksResult
from perfmagic.results.ranks import grouped
from perfmagic.results.timeline import TimelineResult

from .conftest import Heard

SHIFT_NS = 7_000_000_000


class Store(dict[str, bytes]):
    def set(self, key: str, value: bytes) -> None:
        self[key] = value


def test_an_answer_lies_between_the_question_and_its_return() -> None:
    store = Store()
    assert Clocks(0, LOOPBACK, store).round(0) == []
    exchanges = Clocks(1, LOOPBACK, store).round(5)
    assert 0 < len(exchanges) < EXCHANGES
    for first, second, asked_ns, answered_ns, back_ns, number in exchanges:
        assert (first, second, number) == (1, 0, 5)
        assert asked_ns <= answered_ns <= back_ns


def test_a_peer_without_the_token_gets_no_time() -> None:
    store = Store()
    Clocks(0, LOOPBACK, store)
    store["perfmagic/clock"] = store["perfmagic/clock"].split()[0] + b" " + b"0" * 16
    assert Clocks(1, LOOPBACK, store).round(0) == []


@pytest.mark.slow
def test_ranks_of_two_hosts_are_put_on_one_axis_within_the_printed_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ForkServer, "apart", True)
    session = Session(Settings(2, PROGRAM, device="cpu", colors="nocolor"), Heard().outputs(), PRELOAD)
    try:
        session.run("%%ranks\nimport torch, torch.distributed as dist\nt = torch.ones(64)")
        end = session.run("%%ranks\nfor _ in range(3): dist.all_reduce(t)", record={"memory": False, "shapes": False})
    finally:
        session.close()
    same = result_from(end)
    assert isinstance(same, RanksResult)
    assert same.clocks.how == "one host"
    first, second = (timeline.trace for timeline in same.timelines)
    assert (len(first.meta.pings), {ping[5] for ping in second.meta.pings}) == (0, {0, 1})
    # the same record as another host would have made it, whose clock is ahead
    assert second.meta.monotonic_base_ns is not None
    meta = replace(
        second.meta,
        boot="another",
        base_unix_ns=second.meta.base_unix_ns + SHIFT_NS,
        monotonic_base_ns=second.meta.monotonic_base_ns + SHIFT_NS,
        pings=tuple((a, b, c + SHIFT_NS, d, e + SHIFT_NS, f) for a, b, c, d, e, f in second.meta.pings),
    )
    apart = grouped([TimelineResult(first), TimelineResult(replace(second, meta=meta))])[0][0]
    assert apart.clocks.how == "pings"
    assert apart.clocks.bound_ns is not None
    truth = same.clocks.offset_ns[1] - same.clocks.offset_ns[0]
    assert abs(apart.clocks.offset_ns[1] - apart.clocks.offset_ns[0] - truth) <= apart.clocks.bound_ns
    saved = apart.save(tmp_path / "runs")
    assert perfmagic.open_traces(saved).ranks.clocks.words == apart.clocks.words
    (tmp_path / "json").mkdir()
    for number, timeline in zip((0, 1), apart.timelines, strict=True):
        timeline.save(tmp_path / "json" / f"rank{number}.json.gz")
    assert perfmagic.open_traces(tmp_path / "json").ranks.clocks.words == apart.clocks.words


class Loop:
    """Of an engine: free, or inside a cell of its own."""

    def __init__(self, free: bool) -> None:
        self.free = free
        self.asked = threading.Event()

    def add_callback(self, call: object) -> None:
        self.asked.set()
        if self.free:
            call()


class Killed(Started):
    def kill(self) -> None:
        self.connection.sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("free", [True, False])
def test_a_rank_whose_notebook_is_silent_is_ended_unless_its_engine_hears_nobody(
    free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_LOOK_S", 0.01)
    monkeypatch.setattr(engine, "_SILENCE_S", 0.05)
    monkeypatch.setattr(engine, "_BUSY_S", 0.05)
    monkeypatch.setattr(engine, "_CODE_S", 0.01)
    ours, theirs = socket.socketpair()
    output, write = os.pipe()
    said: list[tuple[str, bytes]] = []
    loop = Loop(free)
    relay = engine.Relay(Killed(0, 1, Connection(ours), output), lambda *output_lines: said.append(output_lines), loop)
    assert loop.asked.wait(10)
    if free:
        until = time.monotonic() + 10
        while not said and time.monotonic() < until:
            time.sleep(0.01)
    else:
        loop.asked.clear()
        assert loop.asked.wait(10)  # asked again, and not ended
        assert said == []
        relay.started.kill()
    os.close(write)
    theirs.close()
    assert not free or said == [(engine.END, b"")]
