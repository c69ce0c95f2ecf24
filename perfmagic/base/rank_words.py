"""Ranks and their turns in words."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_GROUP = "0"  # as torch calls the group that init_process_group() makes
GIVEN_UP = ", given up"  # follows the name of an operation that other ranks took no part in


def describe_ranks(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 2`, `ranks 0–3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {describe_span(ranks)}"


def describe_span(ranks: Sequence[int]) -> str:
    """`2`, `0, 2`, `0–3, 6`: three or more in a row are a span."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(parts)


def describe_group(name: str, desc: str, ranks: Sequence[int]) -> str:
    """`the default group`, `group 1 (ranks 0, 2)`; desc: what its maker calls it, "" for nothing."""
    if name == FIRST_GROUP:
        return "the default group"
    return f"group {desc or name} ({describe_ranks(ranks)})"


def nth(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
