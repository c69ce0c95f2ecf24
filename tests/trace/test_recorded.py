"""The recorded traces that are stored as .xz reach every test as .json.gz."""

import gzip
import lzma
import os
from pathlib import Path

import pytest

from tests.trace import recorded


def test_a_trace_stored_as_xz_is_unpacked_once_and_anew_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "UNPACKED", tmp_path / "unpacked")
    stored = tmp_path / "step.json.xz"
    stored.write_bytes(lzma.compress(b"first"))
    copy = recorded.unpacked(stored)
    assert (copy.name, gzip.decompress(copy.read_bytes())) == ("step.json.gz", b"first")
    copy.write_bytes(gzip.compress(b"kept"))
    assert gzip.decompress(recorded.unpacked(stored).read_bytes()) == b"kept"
    stored.write_bytes(lzma.compress(b"second"))
    os.utime(stored, ns=(0, copy.stat().st_mtime_ns + 1))
    assert gzip.decompress(recorded.unpacked(stored).read_bytes()) == b"second"
    assert list(copy.parent.iterdir()) == [copy]
    assert recorded.unpacked(copy) == copy


def test_every_stored_trace_has_a_name() -> None:
    assert len(recorded.ALL) == len(set(recorded.ALL)) == len(list(recorded.FOLDER.rglob("*.json.*")))
    assert len(recorded.ALL) - len(recorded.ALONE) == len(
        [*recorded.FOLDER.rglob("dlrm_8ranks/*"), *recorded.FOLDER.glob("serving/*")]
    )
    for name in recorded.ALL:
        assert recorded.real(name).name.startswith(f"{Path(name).name}.")
        assert recorded.real(name).name.endswith(".json.gz")
