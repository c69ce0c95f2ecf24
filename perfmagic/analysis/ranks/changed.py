"""What changed between the ranks of two jobs, each of them together: which wait, and how well each is known."""

from __future__ import annotations

from collections import defaultdict

from perfmagic import units
from perfmagic.analysis.ranks.meetings import Meeting
from perfmagic.analysis.ranks.summary import Ranks


def together_changed(first: Ranks, second: Ranks, names: tuple[str, str]) -> tuple[str, ...]:
    """The collective at which waiting changed most, and how well the clocks of both agree, in sentences.

    names: what sentences call the two. A change that the clocks may be wrong by is none.
    """
    said = []
    pairs = _matched(first, second)
    # the wait of a collective is the longest of its ranks, and both may be wrong
    sure = [row for row in pairs if abs(row[2].waited_ns - row[1].waited_ns) > row[1].bound_ns + row[2].bound_ns]
    if sure:
        number, a, b = max(sure, key=lambda row: abs(row[2].waited_ns - row[1].waited_ns))
        waits = f"{units.duration(a.waited_ns)} in {names[0]}, {units.duration(b.waited_ns)} in {names[1]}"
        known = [(name, one.last) for name, one in zip(names, (a, b), strict=True) if one.last is not None]
        last = f"; last came {', '.join(f'rank {rank} in {name}' for name, rank in known)}" if known else ""
        by = units.signed(b.waited_ns - a.waited_ns)
        said.append(f"waiting changed most at {a.kind} number {units.count(number + 1)}, by {by}: {waits}{last}")
    clocks = [ranks.alignment.words for ranks in (first, second)]
    if clocks[0] != clocks[1]:
        said.append(f"clocks of {names[0]}: {clocks[0]}; of {names[1]}: {clocks[1]}")
    elif pairs:
        said.append(f"clocks of both: {clocks[0]}")
    return tuple(said)


def _matched(first: Ranks, second: Ranks) -> list[tuple[int, Meeting, Meeting]]:
    """Each collective of the first with that of the second, by kind, ranks and order, and its number among those.

    Where one has more of a kind than the other nothing says which is which.
    """
    of_both = [_by_kind(ranks) for ranks in (first, second)]
    return [
        (number, a, b)
        for key, mine in of_both[0].items()
        if len(mine) == len(of_both[1].get(key, ()))
        for number, (a, b) in enumerate(zip(mine, of_both[1][key], strict=True))
    ]


def _by_kind(ranks: Ranks) -> dict[tuple[str, tuple[int, ...]], list[Meeting]]:
    """A group's name is not the same in another job; its ranks are."""
    found: dict[tuple[str, tuple[int, ...]], list[Meeting]] = defaultdict(list)
    for one in ranks.meetings:
        found[one.kind, one.ranks].append(one)
    return found
