"""Messages come whole and in order, however the socket cuts them."""

import socket
import threading

import pytest

from perfmagic.capture.ranks.connection import Connection


@pytest.fixture
def ends() -> tuple[Connection, Connection]:
    left, right = socket.socketpair()
    return Connection(left), Connection(right)


def test_a_message_comes_with_its_bytes(ends: tuple[Connection, Connection]) -> None:
    ends[0].send({"do": "run", "text": "数"}, b"\x00\xff")
    assert ends[1].receive() == ({"do": "run", "text": "数"}, b"\x00\xff")


def test_several_that_came_together_are_several(ends: tuple[Connection, Connection]) -> None:
    for i in range(3):
        ends[0].send({"i": i})
    assert [message["i"] for message, _ in ends[1].arrived()] == [0, 1, 2]


def test_half_a_message_is_kept_until_the_rest_comes(ends: tuple[Connection, Connection]) -> None:
    whole = bytearray()
    left, right = socket.socketpair()
    Connection(left).send({"i": 7}, b"payload")
    whole += right.recv(1000)
    ends[0].sock.sendall(whole[:9])
    assert ends[1].arrived() == []
    ends[0].sock.sendall(whole[9:])
    assert ends[1].arrived() == [({"i": 7}, b"payload")]


def test_messages_of_several_threads_do_not_mix(ends: tuple[Connection, Connection]) -> None:
    def send(k: int) -> None:
        for _ in range(50):
            ends[0].send({"k": k}, bytes([k]) * 1000)

    threads = [threading.Thread(target=send, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        message, payload = ends[1].receive()
        assert payload == bytes([message["k"]]) * 1000
    for thread in threads:
        thread.join()


def test_the_end_of_the_other_side_raises(ends: tuple[Connection, Connection]) -> None:
    ends[0].close()
    with pytest.raises(EOFError):
        ends[1].receive()


def test_bytes_in_a_display_are_sent_as_jupyter_does(ends: tuple[Connection, Connection]) -> None:
    ends[0].send({"display": {"image/png": b"\x89PNG"}})
    assert ends[1].receive()[0] == {"display": {"image/png": "iVBORw=="}}
