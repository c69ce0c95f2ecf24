"""A damaged file opens and shows everything it is asked for, or is refused by one PerfmagicError; and takes no memory.

A failure prints the number of its round: `round_of("npz", 4711, folder)` repeats it.
"""

import gzip
import json
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import perfmagic
from perfmagic.base.errors import PerfmagicError
from perfmagic.results import TimelineResult
from perfmagic.results.ranks import ABOUT
from perfmagic.trace.kineto import file as kineto_file
from tests.damaged import sound
from tests.damaged.columns import changed_npz
from tests.damaged.mutants import as_json, change_bytes, change_pickle, change_value, little_memory
from tests.trace.damage import SOUND
from tests.trace.formats.test_snapshot import _snapshot

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("error::RuntimeWarning")]


@dataclass(frozen=True)
class Kind:
    """make: writes a sound one into a folder.  damage: gives bytes of a damaged one, and words.  file: its name there.

    opened: what opens it, `file` or the folder.  cost: of a round, in rounds of the others.
    """

    make: Callable[[Path], Any]
    damage: Callable[[bytes, random.Random], tuple[bytes, str]]
    file: str
    opened: Callable[[Path], Any]
    cost: int = 1


def _json_damage(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    value = json.loads(data)
    words = [change_value(value, chance) for _ in range(chance.choice((1, 1, 2, 3)))]
    return as_json(value, chance), "; ".join(words)


def _kineto_damage(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    text, words = _json_damage(data, chance)
    if chance.random() < 0.3:
        text = gzip.compress(text, 1, mtime=0)
        if chance.random() < 0.5:
            text, more = change_bytes(text, chance)
            words = f"{words}; gzipped; {more}"
    return text, words


def _open_in_blocks(file: Path) -> TimelineResult:
    """Open a trace in blocks of a size that its length decides, so that cuts fall everywhere."""
    sizes = (200, 1000, 5000, kineto_file.BLOCK_BYTES)
    with patch.object(kineto_file, "BLOCK_BYTES", sizes[file.stat().st_size % len(sizes)]):
        return perfmagic.open_trace(file)


def _pickle_damage(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    return change_pickle(pickle.loads(data), chance)


def _result(made: Callable[[], Any]) -> Kind:
    return Kind(lambda folder: made().save(folder / "result.json"), _json_damage, "result.json", perfmagic.load)


def _ranks(made: Callable[[], Any]) -> Kind:
    return Kind(lambda folder: made().save(folder), _json_damage, ABOUT, lambda file: perfmagic.load(file.parent))


KINDS = {
    "benchmark": _result(sound.benchmark),
    "comparison": _result(sound.comparison),
    "sweep": _result(sound.swept),
    "ranks": _ranks(sound.ranks),
    "rank sweep": _ranks(sound.rank_sweep),
    "kineto": Kind(lambda folder: (folder / "t.json").write_bytes(SOUND), _kineto_damage, "t.json", _open_in_blocks, 5),
    "npz": Kind(
        lambda folder: TimelineResult(sound.timeline()).save(folder / "t.npz"),
        changed_npz,
        "t.npz",
        perfmagic.open_trace,
        3,
    ),
    "snapshot": Kind(
        lambda folder: (folder / "s.pickle").write_bytes(pickle.dumps(_snapshot())),
        _pickle_damage,
        "s.pickle",
        perfmagic.open_snapshot,
    ),
}


@cache
def _sound(kind: str, folder: Path) -> bytes:
    KINDS[kind].make(folder)
    return (folder / KINDS[kind].file).read_bytes()


def round_of(name: str, seed: int, folder: Path) -> bool:
    """One damaged file; whether it opened. Raises AssertionError with the seed and the damage for any other error."""
    kind, chance = KINDS[name], random.Random(seed)
    data, words = kind.damage(_sound(name, folder), chance)
    (folder / kind.file).write_bytes(data)
    try:
        with little_memory():
            sound.show(kind.opened(folder / kind.file), folder)
    except PerfmagicError as error:
        return not error.message  # an error without words fails the test, as if none had been refused
    except Exception as error:
        raise AssertionError(f"{name}, seed {seed}: {words}: {type(error).__name__}: {error}") from error
    return True


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rounds", [500, pytest.param(10_000, marks=[pytest.mark.stress, pytest.mark.timeout(7200)])])
def test_a_damaged_file_opens_and_shows_or_is_refused_in_words(name: str, rounds: int, tmp_path: Path) -> None:
    rounds //= KINDS[name].cost
    opened = sum(round_of(name, seed, tmp_path) for seed in range(rounds))
    assert 0 < opened < rounds


@pytest.mark.parametrize("name", KINDS)
def test_a_sound_file_opens_and_shows(name: str, tmp_path: Path) -> None:
    _sound(name, tmp_path)
    sound.show(KINDS[name].opened(tmp_path / KINDS[name].file), tmp_path)
