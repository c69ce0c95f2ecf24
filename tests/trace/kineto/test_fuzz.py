"""Some hundred rounds of random damage, and files cut into blocks at random."""

import gzip
import random

import pytest

from perfmagic.trace.kineto import file as kineto_file
from perfmagic.trace.kineto.reader import read_trace
from tests.trace.kineto.fuzz import round_of
from tests.trace.recorded import FOLDER, NAMES, columns_by_name

pytestmark = pytest.mark.slow


ROUNDS = 200
TABLES = ("ops", "calls", "host_ops", "python_frames", "waits", "counters")


def test_random_damage_gives_a_trace_for_everything_or_one_error() -> None:
    found = {round_of(seed) for seed in range(ROUNDS)}
    assert found == {"trace", "error"}


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_any_size_give_the_same_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = gzip.decompress((FOLDER / name).read_bytes())[:400_000]
    whole = text if text.rstrip().endswith(b"}") else text[: text.rindex(b"},") + 1] + b"]}"
    expected = read_trace(whole)
    assert expected.meta.repairs == ()
    chance = random.Random(name)
    for size in (len(whole) // 3, 100_000, chance.randint(20_000, 90_000), chance.randint(3_000, 9_000)):
        monkeypatch.setattr(kineto_file, "BLOCK_BYTES", size)
        found = read_trace(whole)
        assert found.meta == expected.meta
        for table in TABLES:
            assert columns_by_name(found, table) == columns_by_name(expected, table)
