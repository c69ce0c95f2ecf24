"""A flame graph as plain text: the longest paths as a tree."""

from __future__ import annotations

import heapq

from perfmagic.analysis.timeline.flame.call_paths import OWN, THREAD, CallPath, Flame
from perfmagic.base import units
from perfmagic.base.language import chained, say, translated
from perfmagic.base.terminal import columns, cut_to_columns, printable, width, wrapped

PASSED_FRAC = 0.9  # of a caller's time: what it called takes its line
LEAST_FRAC = 0.01  # of all; less is no line

Place = tuple[tuple[int, int], ...]


def flame_text(flame: Flame, most_lines: int) -> str:
    """The sentence, then the longest paths, callers above what they called; as wide as the terminal.

    A caller that spends nearly all of its time in one call shares its line: "step (train.py:12) … aten::copy_".
    """
    head = [*wrapped(translated(chained("{a}. {b}", (flame.sentence, flame.device)))), _head()]
    inside: dict[int, list[int]] = {}
    for row, path in enumerate(flame.paths):
        inside.setdefault(path.parent, []).append(row)
    # of each path its place in the tree, the longest first: those of its callers, then its own
    longest: list[tuple[int, int, Place]] = [(0, row, ()) for row in inside[-1]]
    lines: list[tuple[Place, str]] = []
    while longest and len(lines) < most_lines - len(head):
        _, first, around = heapq.heappop(longest)
        last = _passed(flame, inside, first)
        place = (*around, (-flame.paths[first].total_ns, first))
        lines.append((place, _line(flame, first, last, len(around))))
        for row in inside.get(last, ()):
            if flame.paths[row].total_ns >= LEAST_FRAC * flame.total_ns:
                heapq.heappush(longest, (-flame.paths[row].total_ns, row, place))
    return "\n".join([*head, *(line for _, line in sorted(lines))])


def _head() -> str:
    total, itself = say("total"), say("itself")
    return f"{' ' * (9 - columns(total))}{total}{'':8}{' ' * (9 - columns(itself))}{itself}"


def _passed(flame: Flame, inside: dict[int, list[int]], row: int) -> int:
    """The last path of a chain of calls in which each takes nearly all the time of the one around it."""
    while flame.paths[row].kind != THREAD and row in inside:
        longest = max(inside[row], key=lambda inner: flame.paths[inner].total_ns)
        if flame.paths[longest].total_ns < PASSED_FRAC * flame.paths[row].total_ns:
            break
        row = longest
    return row


def _line(flame: Flame, first: int, last: int, depth: int) -> str:
    top, end = flame.paths[first], flame.paths[last]
    share = units.percent(top.total_ns / max(1, flame.total_ns))
    itself = units.duration(end.self_ns)
    words = printable(_describe_chain(flame, first, last))
    return cut_to_columns(f"{units.duration(top.total_ns):>9} {share:>6} {itself:>9}  {'  ' * depth}{words}", width())


def _describe_chain(flame: Flame, first: int, last: int) -> str:
    """The name of the last path of a chain, behind that of the last function of people's own in it."""
    chain: list[CallPath] = [flame.paths[last]]
    row = last
    while row != first:
        row = flame.paths[row].parent
        chain.append(flame.paths[row])
    own = next((path for path in chain if path.kind == OWN), chain[-1])
    return translated(own.name) if own is chain[0] else f"{translated(own.name)} … {translated(chain[0].name)}"
