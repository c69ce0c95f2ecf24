"""Files appear whole or not at all, and what stands in their place stays what it is."""

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import perfmagic
from perfmagic.base.errors import OptionError, PerfmagicError
from perfmagic.base.files import NotRegularError, file_path, open_regular, whole_file, write_text


def test_a_link_stays_one_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    real = tmp_path / "far" / "real.txt"
    real.write_text("before")
    real.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    assert write_text(link, "after") == link
    assert link.is_symlink()
    assert real.read_text() == "after"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["real.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "words")
    reader.join(60)
    assert read == ["words"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_long_name_leaves_room_for_the_file_beside_it(tmp_path: Path) -> None:
    assert write_text(tmp_path / ("n" * 255), "x").read_text() == "x"


def test_what_fails_half_way_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "kept.txt"
    target.write_text("before")
    with pytest.raises(ZeroDivisionError), whole_file(target) as (_, file):  # noqa: PT012 - the point of it
        file.write(b"half")
        raise ZeroDivisionError
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("name", ["", ".", "/", "a\0b", "none/x", "n" * 300])
def test_what_cannot_be_a_file_is_one_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="cannot be written: "):
        write_text(name, "x")
    assert not list(tmp_path.iterdir())


def test_a_name_of_nobody_stays_as_it_is() -> None:
    assert file_path("~nobody-here/x") == Path("~nobody-here/x")
    assert file_path("~/x") == Path.home() / "x"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))  # the name of a socket has a hundred characters at most


KINDS: dict[str, Callable[[Path], None]] = {
    "a named pipe": _pipe,
    "a socket": _socket,
    "a device of the operating system": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "a link to it"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_and_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, linked: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    KINDS[kind](tmp_path / "real.json")
    path = tmp_path / "real.json"
    if linked:
        path = tmp_path / "link.json"
        path.symlink_to("real.json")
    with pytest.raises(NotRegularError, match=f"it is {kind}, not a regular file"):
        open_regular(path)
    for opened in (perfmagic.load, perfmagic.open_trace, perfmagic.open_snapshot):
        with pytest.raises(PerfmagicError, match=rf"{kind}|is a folder"):
            opened(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_file_that_becomes_a_pipe_between_check_and_opening_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    os.mkfifo(path)
    regular = Path(__file__).stat()
    monkeypatch.setattr("perfmagic.base.files.Path.stat", lambda _path: regular)
    with pytest.raises(NotRegularError, match="a named pipe"):
        open_regular(path)


def test_a_name_that_no_file_can_have_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="null"):
        open_regular(tmp_path / "a\0b")


def test_a_regular_file_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"words")
    (tmp_path / "link").symlink_to("real")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"words"
