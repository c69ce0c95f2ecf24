"""Where torch's profiler writes what it recorded, until it is read: torch gives it out as a file only."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from perfmagic.capture.owner import Owner


def file_in_new_folder(owner: Owner) -> Path:
    """The path of a file that does not exist yet, alone in a folder that goes when the owner closes."""
    folder = _Folder()
    owner.take(folder)
    return folder.path / "trace.json"


class _Folder:
    """A new folder as a resource: an interrupt within tempfile.TemporaryDirectory() leaves one that nobody removes."""

    path: Path

    def take(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="perfmagic-"))

    def give_back(self) -> None:
        if hasattr(self, "path"):
            shutil.rmtree(self.path, ignore_errors=True)  # Windows keeps a file that somebody has open
