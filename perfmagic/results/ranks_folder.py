"""The folders that results of several ranks are saved as: traces, and one file that says what they are together."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from perfmagic.analysis.bench.saved import damaged, format_of, kind_of, parsed, text_of
from perfmagic.errors import OptionError
from perfmagic.files import file_path, made_folder, write_text

ABOUT = "saved.perfmagic"  # no ending of a trace: whoever opens the folder's traces passes it by
RANKS_FORMAT, SWEEP_FORMAT = "perfmagic ranks 1", "perfmagic ranks-sweep 1"
_OF_FILES = (".npz", ".json", ".gz", ".zip", ".html", ".htm", ".csv", ".txt", ".md", ".pkl", ".pt")


def folder_to_save(path: str | os.PathLike[str], what: str, hint: str) -> Path:
    """The folder of that name, made where it is not there. Raises OptionError for a name that ends as files do."""
    target = file_path(path)
    if target.suffix.lower() in _OF_FILES and not target.is_dir():
        words = f"{target}: {what} is saved as a folder, and {target.suffix} is the ending of a file"
        raise OptionError(words, hint=hint)
    return made_folder(target)


def write_about(folder: Path, form: str, values: dict[str, Any]) -> None:
    """Say what the folder holds; the last thing to write, so that a folder that says it is whole."""
    write_text(folder / ABOUT, json.dumps({"format": form, **values}, ensure_ascii=False, indent=1))


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder that a result of several ranks was saved as."""
    return (file_path(path) / ABOUT).is_file()


def is_sweep(path: str | os.PathLike[str]) -> bool:
    """Whether that result is a sweep over numbers of ranks."""
    return is_saved(path) and kind_of(format_of(text_of(file_path(path) / ABOUT))) == kind_of(SWEEP_FORMAT)


def read_about(path: str | os.PathLike[str], form: str, what: str) -> tuple[Path, dict[str, Any]]:
    """The folder, and what write_about() wrote there. Raises OptionError for another folder."""
    folder = file_path(path)
    if not is_saved(folder):
        is_one = "is a folder without" if folder.is_dir() else "is no folder with"
        hint = "the save() of a result writes one; perfmagic.open_traces(folder).ranks opens the traces of any folder"
        raise OptionError(f"{path} {is_one} {ABOUT}", hint=hint)
    try:
        return folder, parsed(text_of(folder / ABOUT), (form,), what, "perfmagic.load(folder) opens either kind")
    except OptionError as error:
        raise OptionError(f"{folder / ABOUT}: {error.message}", hint=error.hint) from None


def damaged_folder(folder: Path, what: str, error: Exception) -> OptionError:
    """The error where that file does not hold what belongs into it."""
    found = damaged(what, error)
    return OptionError(f"{folder / ABOUT}: {found.message}", hint=found.hint)
