"""Needs, from pieces of memory that operators read and write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.analysis.graph.graph import DATA, MEMORY, ancestors, needs_of, without_implied
from perfmagic.trace.columns import SeenOp, Use

from .made import op

pytestmark = pytest.mark.slow


A, B = op("a", 0, 1, writes=[1]), op("b", 1, 2, reads=[1])


@pytest.mark.parametrize(
    ("ops", "kinds"),
    [
        ([A, op("b", 1, 2, writes=[1]), op("c", 2, 3, reads=[1], writes=[2])], [{}, {0: MEMORY}, {1: DATA}]),
        ([A, B, op("c", 2, 3, reads=[1])], [{}, {0: DATA}, {0: DATA}]),
        ([A, B, op("c", 2, 3, writes=[1])], [{}, {0: DATA}, {0: MEMORY, 1: MEMORY}]),
        ([A, op("b", 1, 2, reads=[1], writes=[1])], [{}, {0: DATA}]),
    ],
    ids=["a reader needs the last writer", "two readers", "a writer needs the readers", "in place"],
)
def test_who_needs_whom_for_data_or_memory(ops: list[SeenOp], kinds: list[dict[int, str]]) -> None:
    assert [{before: need.kind for before, need in needed.items()} for needed in needs_of(ops)] == kinds


def test_the_size_of_a_need_is_that_of_the_common_piece() -> None:
    first = SeenOp("a", 0, 1, 7, (Use(1, 0, 60, writes=True),))
    second = SeenOp("b", 1, 2, 7, (Use(1, 40, 100, reads=True),))
    assert needs_of([first, second])[1][0].size_bytes == 20


def test_needs_of_memory_that_follow_from_others_are_left_out() -> None:
    needs = needs_of([A, B, op("c", 2, 3, writes=[1])])
    assert [set(needed) for needed in without_implied(needs)] == [set(), {0}, {1}]


Pieces = list[list[tuple[int, int, int, bool, bool]]]
_PIECES = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 5), st.booleans(), st.booleans())


def using(pieces: Pieces) -> list[SeenOp]:
    """Operators by what each uses: storage, first byte, length, whether it reads and writes it."""
    return [
        SeenOp("f", i, i + 1, 7, tuple(Use(s, low, low + n, reads=r, writes=w) for s, low, n, r, w in used))
        for i, used in enumerate(pieces)
    ]


@given(st.lists(st.lists(_PIECES, max_size=3), max_size=12))
def test_needs_are_those_of_every_single_byte(pieces: Pieces) -> None:
    """Reachable through needs is exactly what the last writer and the readers since of each byte ask for."""
    ops = using(pieces)
    writer: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], set[int]] = {}
    wanted: list[set[int]] = []
    for i, one in enumerate(ops):
        asked: set[int] = set()
        cells = [(use, (use.storage, byte)) for use in one.uses for byte in range(use.low, use.high)]
        for use, cell in cells:
            if use.reads or use.writes:
                asked |= {writer[cell]} if cell in writer else set()
            if use.writes:
                asked |= readers.get(cell, set())
        for use, cell in cells:
            if use.writes:
                writer[cell] = i
                readers[cell] = set()
        for use, cell in cells:
            if use.reads and not use.writes:
                readers.setdefault(cell, set()).add(i)
        wanted.append(asked - {i})
    needs = needs_of(ops)
    reached = ancestors(needs)
    assert [{j for j in needed if not reached[i] >> j & 1} for i, needed in enumerate(wanted)] == [set() for _ in ops]
    closed: list[set[int]] = []
    for needed in wanted:
        closed.append(needed | {k for j in needed for k in closed[j]})
    assert [set(needed) - closed[i] for i, needed in enumerate(needs)] == [set() for _ in ops]
    assert ancestors(without_implied(needs)) == reached


def _simply(ops: list[SeenOp]) -> list[dict[int, tuple[str, int]]]:
    """The same, with a look at every piece of a storage."""
    touched: dict[str, list[tuple[Use, int]]] = {"writes": [], "reads": []}
    simple = []
    for node, seen in enumerate(ops):
        needed: dict[int, tuple[str, int]] = {}
        for kind, of, asks in (
            (DATA, "writes", lambda use: use.reads),
            (MEMORY, "reads", lambda use: use.writes),
            (MEMORY, "writes", lambda use: use.writes),
        ):
            for use in filter(asks, seen.uses):
                for other, before in touched[of]:
                    if other.storage == use.storage and use.low < other.high and other.low < use.high:
                        size = min(use.high, other.high) - max(use.low, other.low)
                        had = needed.get(before, (kind, 0))
                        needed[before] = (had[0], max(size, had[1])) if had[0] == kind else had
        for use in seen.uses:
            if use.writes:
                for of, pieces in touched.items():
                    touched[of] = [
                        (one, at)
                        for one, at in pieces
                        if one.storage != use.storage or not (use.low <= one.low and one.high <= use.high)
                    ]
                touched["writes"].append((use, node))
            elif use.reads:
                touched["reads"].append((use, node))
        simple.append(needed)
    return simple


@given(st.lists(st.lists(_PIECES, max_size=3), max_size=25))
def test_needs_are_found_by_their_bytes_as_by_a_look_at_all(pieces: Pieces) -> None:
    ops = using(pieces)
    assert [{k: (n.kind, n.size_bytes) for k, n in needed.items()} for needed in needs_of(ops)] == _simply(ops)


def test_many_pieces_of_one_storage_are_found_without_a_scan() -> None:
    n = 30_000  # squared it is a quarter of an hour
    ops = [
        SeenOp("x", i, i + 1, 7, (Use(0, 4 * i, 4 * i + 4, True), Use(1, 4 * i, 4 * i + 4, writes=True)))
        for i in range(n)
    ]
    assert not any(needs_of(ops))
    assert len(needs_of([*ops, SeenOp("sum", n, n + 1, 7, (Use(1, 0, 4 * n, True),))])[-1]) == n
