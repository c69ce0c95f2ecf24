"""Files appear whole or not at all, and what stands in their place stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from perfmagic.errors import OptionError
from perfmagic.files import file_path, whole_file, write_text


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
