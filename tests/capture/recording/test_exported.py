"""The folder that torch's export needs."""

import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.host import file_in_new_folder


def test_the_folder_goes_with_what_is_in_it() -> None:
    owner = Owner()
    with owner, owner:
        path = file_in_new_folder(owner)
        path.write_text("{}")
        assert [file.name for file in path.parent.iterdir()] == ["trace.json"]
    assert not path.parent.exists()


def test_an_interrupt_while_the_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tempfile.mkdtemp

    def interrupted(*given: Any, **named: Any) -> str:
        path = real(*given, **named)
        signal.raise_signal(signal.SIGINT)
        return path

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    owner = Owner()
    with pytest.raises(KeyboardInterrupt), owner, owner:
        file_in_new_folder(owner)
    assert list(tmp_path.iterdir()) == []
