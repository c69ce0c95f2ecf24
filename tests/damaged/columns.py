"""Damage by chance to .npz files: to the numbers of a column, to its header, to the archive, to the JSON beside."""

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.damaged.mutants import change_bytes, change_value

ABOUT = "about"
Arrays = dict[str, np.ndarray[Any, Any]]
Parts = dict[str, bytes]
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 127, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 10**15)
ODD_FLOATS = (float("nan"), float("inf"), -1.0, 1e300, 1e-300)


def changed_npz(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    """A sound archive with one to three changes, and what they are."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    words = [chance.choice((_about, _about, _numbers, _numbers, _numbers, _form))(arrays, chance)]
    if chance.random() < 0.3:
        words.append(chance.choice((_about, _numbers))(arrays, chance))
    parts = {name: _part(array) for name, array in arrays.items()}
    if chance.random() < 0.2:
        name = chance.choice(sorted(parts))
        parts[name], said = change_bytes(parts[name], chance)
        words.append(f"{name}: {said}")
    made = _archive(parts, chance, words)
    if chance.random() < 0.1:
        made, said = change_bytes(made, chance)
        words.append(said)
    return made, "; ".join(words)


def _about(arrays: Arrays, chance: random.Random) -> str:
    about = json.loads(arrays[ABOUT].tobytes())
    said = change_value(about, chance)
    arrays[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return said


def _numbers(arrays: Arrays, chance: random.Random) -> str:
    """Some or all rows of a column get one number."""
    name = chance.choice([name for name in sorted(arrays) if name != ABOUT])
    column = arrays[name].copy()
    if not column.shape or not column.size:
        return f"{name} is empty"
    rows: Any = slice(None) if chance.random() < 0.3 else chance.randrange(len(column))
    if column.dtype.kind == "f":
        column[rows] = chance.choice(ODD_FLOATS)
    elif column.dtype.kind not in "iu":
        return f"{name} holds no numbers"
    else:
        info = np.iinfo(column.dtype)
        column[rows] = min(max(chance.choice(NUMBERS), info.min), info.max)
    if chance.random() < 0.3:
        column = np.sort(column)
    arrays[name] = column
    return f"{name}[{rows}] = {column[rows]}"


def _form(arrays: Arrays, chance: random.Random) -> str:
    """The dtype, the shape or the length of a column; or the column itself is missing, or another's."""
    name = chance.choice([name for name in sorted(arrays) if name != ABOUT])
    forms: dict[str, Callable[[Any], Any]] = {
        "float": lambda a: a.astype(float),
        "int16": lambda a: a.astype(np.int16),
        "unsigned": lambda a: a.astype(np.uint64),
        "swapped bytes": lambda a: a.astype(a.dtype.newbyteorder()),
        "text": lambda a: a.astype(str),
        "objects": lambda a: a.astype(object),
        "two axes": lambda a: a.reshape(1, -1),
        "no axis": lambda a: np.array(7, a.dtype),
        "shorter": lambda a: a[:-1],
        "longer": lambda a: np.concatenate((a, a)),
        "none": lambda a: a[:0],
        "reversed": lambda a: a[::-1],
    }
    form = chance.choice((*forms, "missing", "another's"))
    if form == "missing":
        del arrays[name]
    elif form == "another's":
        arrays[name] = arrays[chance.choice(sorted(arrays))]
    else:
        arrays[name] = forms[form](arrays[name])
    return f"{name}: {form}"


def _part(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


def _archive(parts: Parts, chance: random.Random, words: list[str]) -> bytes:
    """The archive of some parts, now and then with one twice."""
    twice = chance.choice(sorted(parts)) if chance.random() < 0.05 else ""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of a name that it writes twice
        for name, data in parts.items():
            archive.writestr(f"{name}.npy", data)
        if twice:
            archive.writestr(f"{twice}.npy", parts[chance.choice(sorted(parts))])
            words.append(f"{twice} twice")
    return file.getvalue()
