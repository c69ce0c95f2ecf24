"""Every way a cell can fail in ranks ends in words, by line, and the next cell is a good one.

Nothing is timed. A test that would hang is ended by the suite's own time limit.
"""

import os
import re
import signal
import socket
import threading
import time

import pytest

from perfmagic.api.ranks.session import PRELOAD, PROGRAM
from perfmagic.base.errors import CaptureError
from perfmagic.capture.ranks.connection import Connection
from perfmagic.capture.ranks.drivers import Spawned
from perfmagic.capture.ranks.service import Service
from perfmagic.capture.ranks.session import Interrupts, Session
from perfmagic.capture.ranks.settings import Settings

from .conftest import USE, Cells, Heard, messages

pytestmark = pytest.mark.slow


def gone(pids: list[int]) -> bool:
    """Whether processes have ended, within 10 s."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):  # noqa: PTH110
            return True
        time.sleep(0.02)
    return False


class Interrupting:
    """Sends SIGINT to this process whenever a rank prints a line."""

    def __init__(self, cells: Cells, monkeypatch: pytest.MonkeyPatch, most: int = 1) -> None:
        self.sent = 0

        def heard(rank: int, stream: str, text: str) -> None:
            cells.heard.lines.append((rank, stream, text))
            if self.sent < most and text.startswith("begun"):
                self.sent += 1
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(cells.session.outputs, "lines", heard)


def test_an_exception_in_one_rank_frees_the_others(three: Cells) -> None:
    end = three.run("a = 1\nif rank == 1: raise ValueError('boom')\nuse()")
    assert messages(end) == [
        "ValueError on rank 1, line 3: boom",
        "rank 0 was freed on line 4 while it waited in all_reduce: rank 1 failed on line 3 with ValueError",
        "rank 2 was freed on line 4 while it waited in all_reduce: rank 1 failed on line 3 with ValueError",
    ]
    assert three.works()


def test_the_traceback_shows_the_line_of_the_cell(three: Cells) -> None:
    end = three.run("def f():\n    raise ValueError('boom')\nf()")
    shown = end.failures[0].traceback
    assert "raise ValueError('boom')" in shown
    assert "perfmagic" not in shown
    assert [failure.line for failure in end.failures] == [3, 3, 3]


def test_an_exception_while_others_compute_waits_for_them_and_says_so(three: Cells) -> None:
    end = three.run("if rank == 1: 1 / 0\ntime.sleep(2.2)")
    assert messages(end) == ["ZeroDivisionError on rank 1, line 2: division by zero"]
    assert three.heard.notices == [
        "rank 1 failed on line 2 with ZeroDivisionError; ranks 0, 2 still run, interrupt to end the cell"
    ]
    assert three.works()


def test_a_rank_that_will_not_join_is_reasoned(three: Cells) -> None:
    end = three.run("if rank != 1: use()")
    where = r"waits in all_reduce on line 2, the (\w+) collective of the default group"
    why, *freed = messages(end)
    assert re.fullmatch(f"rank 0 {where}, rank 2 {where}; rank 1 has finished the cell and will not join", why)
    assert freed == [
        "rank 0 was freed on line 2 while it waited in all_reduce",
        "rank 2 was freed on line 2 while it waited in all_reduce",
    ]
    assert three.works()


def test_ranks_that_were_left_out_will_not_join(three: Cells) -> None:
    end = three.run("use()", on=[0, 2])
    assert end.hang.endswith("rank 1 does not run this cell and will not join")
    assert three.works()


def test_input_is_refused_at_once(three: Cells) -> None:
    end = three.run("answer = input('how many? ')")
    assert messages(end) == [
        (
            "StdinNotImplementedError on ranks 0–2, line 2: a rank has nobody to ask: call input() in the notebook, "
            "and send the answer with %ranks push NAME"
        )
    ]
    assert three.works()


def test_two_who_receive_from_each_other_are_freed(three: Cells) -> None:
    end = three.run("if rank < 2: dist.recv(t, 1 - rank)")
    assert "waits in recv" in end.hang
    assert [failure.rank for failure in end.failures] == [0, 1]
    assert three.works()


def test_an_interrupt_ends_the_cell_in_all_ranks(three: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = signal.getsignal(signal.SIGINT)
    Interrupting(three, monkeypatch)
    end = three.run("if rank == 1:\n    print('begun')\n    time.sleep(600)\nuse()")
    assert end.interrupted
    assert [failure.interrupted for failure in end.failures] == [True] * 3
    # its print() may not have returned when the interrupt comes
    assert any(re.fullmatch("rank 1 was interrupted on line [34]", message) for message in messages(end))
    assert signal.getsignal(signal.SIGINT) == handler == signal.default_int_handler
    assert three.works()


def test_an_interrupt_reaches_a_rank_that_has_not_begun_the_cell(three: Cells) -> None:
    cell = next(three.session._numbers) + 1
    three.session.peers[2].send({"do": "interrupt", "cell": cell})
    end = three.run("print('begun')\nuse()")
    assert (2, "stdout", "begun") not in three.heard.lines
    assert [failure.interrupted for failure in end.failures if failure.rank == 2] == [True]
    assert three.works()


def test_a_signal_that_python_did_not_act_on_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    service = Service(Connection(ours))
    monkeypatch.setattr(signal, "pthread_kill", lambda *_: monkeypatch.undo())  # the first one has no effect
    before = signal.signal(signal.SIGINT, service._on_signal)
    try:
        service.enter(1)
        service._interrupt(1)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
    finally:
        service.leave()
        signal.signal(signal.SIGINT, before)
        ours.close()
        theirs.close()


def test_an_interrupt_that_comes_when_the_cell_has_ended_strikes_and_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.hear() == 1
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_an_interrupt_after_the_cell_is_nobodys(three: Cells) -> None:
    three.run("1")
    for peer in three.session.peers:
        os.kill(peer.started.pid, signal.SIGINT)
        peer.send({"do": "interrupt", "cell": 1})
        peer.send({"do": "free", "cell": 1, "why": "late"})
    assert three.works()


def test_a_second_interrupt_says_who_does_not_answer_and_a_third_ends_it(
    three: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    Interrupting(three, monkeypatch, most=3)
    stubborn = (
        "for i in range(600):\n    try:\n        print('begun', i)\n        time.sleep(1)\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    end = three.run(stubborn, on=[0])
    assert three.heard.notices == ["rank 0 does not answer; interrupt once more to end it"]
    assert "rank 0 was ended by the third interrupt" in messages(end)
    with pytest.raises(CaptureError, match="rank 0 was ended by the third interrupt"):
        three.run("1")
    three.restart()
    assert three.works()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("os._exit(3)", "rank 1 ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "rank 1 was killed (SIGKILL), usually because the machine ran out of memory"),
        ("os.kill(os.getpid(), 11)", "rank 1 was killed by SIGSEGV"),
    ],
)
def test_a_rank_that_dies_is_named_and_the_others_live(three: Cells, how: str, said: str) -> None:
    end = three.run(f"if rank == 1: {how}\nuse()")
    lines = messages(end)
    assert lines[0] == said
    assert [line.startswith(f"rank {rank} ") for line, rank in zip(lines[1:], (0, 2), strict=True)] == [True, True]
    assert all(line.endswith(said) for line in lines)
    assert [peer.alive for peer in three.session.peers] == [True, False, True]
    with pytest.raises(CaptureError, match="%ranks restart"):
        three.run("1")
    three.restart()
    assert three.works()


def test_a_recorded_cell_that_fails_keeps_its_record(three: Cells) -> None:
    end = three.run("if rank == 1: raise ValueError('boom')\nuse()", record={})
    assert sorted(end.recorded) == [0, 1, 2]
    assert messages(end)[0] == "ValueError on rank 1, line 2: boom"
    assert three.works()


def test_a_rank_that_dies_before_the_others_record_blocks_none(three: Cells) -> None:
    os.kill(three.session.peers[2].started.pid, signal.SIGSTOP)
    threading.Timer(0.3, lambda: os.kill(three.session.peers[2].started.pid, signal.SIGKILL)).start()
    end = three.run("1 + 1", record={})
    assert sorted(end.recorded) == [0, 1]
    assert messages(end) == ["rank 2 was killed (SIGKILL), usually because the machine ran out of memory"]
    three.restart()
    assert three.works()


def test_a_start_that_fails_says_what_the_rank_said() -> None:
    heard = Heard()
    with pytest.raises(CaptureError, match=r"(?s)rank 0 ended.*no_such_program"):
        Session(Settings(2, "no_such_program", device="cpu"), heard.outputs(), ("json",))


def test_a_device_that_is_not_there_is_one_clear_error() -> None:
    import torch

    if torch.cuda.device_count() >= 2:
        pytest.skip("there are two cuda devices here")
    with pytest.raises(CaptureError, match="2 ranks on CUDA need as many devices"):
        Session(Settings(2, PROGRAM, device="cuda"), Heard().outputs(), PRELOAD)


def test_closing_leaves_no_process(three: Cells) -> None:
    pids = [peer.started.pid for peer in three.session.peers]
    three.restart()
    assert gone(pids)


def test_ranks_start_where_forking_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMAGIC_RANKS", "spawn")
    cells = Cells.__new__(Cells)
    cells.heard = Heard()
    settings = Settings(2, PROGRAM, device="cpu", colors="nocolor")
    cells.session = Session(settings, cells.heard.outputs(), ("not asked for",))
    try:
        assert cells.session.how == Spawned.how
        cells.run(USE)
        assert cells.works()
        pids = [peer.started.pid for peer in cells.session.peers]
        cells.run("os._exit(5)", on=[1])
        assert cells.session.peers[1].death == "ended with exit code 5"
    finally:
        cells.session.close()
    assert gone(pids)


def test_two_callers_do_not_mix(three: Cells) -> None:
    errors: list[str] = []

    def second() -> None:
        try:
            three.session.run("%%ranks\n1")
        except CaptureError as error:
            errors.append(str(error))

    real = three.session.outputs.lines
    three.session.outputs.lines = lambda *_: second()
    try:
        three.run("print('now')", on=[0])
    finally:
        three.session.outputs.lines = real
    assert errors == ["ranks 0–2 are already running a cell"]
    assert three.works()
