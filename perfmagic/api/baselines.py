"""Benchmarks that are kept by name, for tests that compare with them later on the same machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import quote

from perfmagic.analysis.bench.machine import other_machine, other_versions
from perfmagic.base.errors import OptionError
from perfmagic.base.files import local_path
from perfmagic.results import BenchResult

FOLDER = ".perfmagic/baselines"
RUNS = 4  # whole runs of a baseline and of what is compared with it (docs/measuring.md, "Comparing")
_SAFE = " []=,+@()"  # besides letters, digits and _.-~: allowed in names of files everywhere
_LONGEST = 150  # letters of a name; file systems hold 255 bytes

Folder = str | os.PathLike[str]


def is_name(baseline: object) -> bool:
    """Whether it names a baseline; text that ends in .json is a file, as a Path is."""
    return isinstance(baseline, str) and not baseline.endswith(".json")


def baseline_file(name: str, folder: Folder) -> Path:
    """The file of a baseline: a folder for each part of a name such as "tests/test_step.py::test_step[bf16]".

    Raises OptionError for a name that leads elsewhere.
    """
    parts = name.replace("::", "/").split("/")
    if any(part.strip(". ") == "" for part in parts):
        raise OptionError(f"{name!r} cannot name a baseline", hint='not_slower(step, "step of the encoder")')
    return local_path(folder).joinpath(*map(_file_name, parts[:-1]), f"{_file_name(parts[-1])}.json")


def _file_name(part: str) -> str:
    safe = quote(part, safe=_SAFE)
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]}-{hashlib.sha256(part.encode()).hexdigest()[:16]}"


def save_baseline(result: BenchResult, name: str, folder: Folder) -> Path:
    """Keep a benchmark by name; one of that name is replaced. Raises OptionError where it cannot be written."""
    file = baseline_file(name, folder)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{file.parent} cannot be made: {error.strerror}", hint="choose another folder") from None
    return result.save(file)


def load_baseline(name: str, folder: Folder) -> BenchResult:
    """The benchmark of a name. Raises OptionError where there is none, and for a file that cannot be read."""
    file = baseline_file(name, folder)
    if not file.exists():
        raise OptionError(f'there is no baseline "{name}" ({file} is missing)', hint=_how_to_record(name))
    return BenchResult.load(file)


def refuse_elsewhere(baseline: BenchResult, now: BenchResult, name: str) -> None:
    """Raise OptionError where another machine, device, driver or version would make the difference."""
    if why := other_machine(baseline, now) or other_versions(baseline, now):
        message = f'the baseline "{name}" cannot be compared with: {why}'
        raise OptionError(message, hint=f"record it again: {_how_to_record(name)}")


def _how_to_record(name: str) -> str:
    return f'pytest --perfmagic-record, or perfmagic.testing.record_baseline(step, "{name}")'
