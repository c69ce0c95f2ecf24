"""Ranks, operations and places of a flight recorder in words, as a standstill of %%ranks says them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfmagic.analysis.flight.job import DEFAULT, SENDS, Job, Operation
from perfmagic.base.language import counted, phrase
from perfmagic.base.rank_words import FIRST_GROUP, describe_span
from perfmagic.trace.formats.flight import Call, Group, Place

_MOST_SPANS = 8
_UNNAMED = "undefined"  # as torch describes a group that its maker does not


def describe_ranks(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0–3, 6`; of many spans the first."""
    return counted(len(ranks), "rank {ranks}", "ranks {ranks}", ranks=spans(ranks))


def spans(ranks: Sequence[int]) -> str:
    """`0–3, 6`; of many spans the first."""
    known = describe_span(ranks).split(", ")
    return ", ".join(known[:_MOST_SPANS]) + (", …" if len(known) > _MOST_SPANS else "")


def describe_group(group: Group) -> str:
    """`the default group`, `group dp`."""
    return phrase("the default group") if is_default(group) else phrase("group {name}", name=name_group(group))


def is_default(group: Group) -> bool:
    """Whether init_process_group() made it."""
    return DEFAULT in (group.desc, group.name) or group.name == FIRST_GROUP


def name_group(group: Group) -> str:
    """What its maker calls it, else torch's name for it."""
    return group.name if group.desc in ("", _UNNAMED) else group.desc


def describe_call(call: Call, job: Job) -> str:
    """`all_reduce #417 of group dp`, `send #3 to rank 2 of group pp`."""
    name, number, group = call.name, call.number, describe_group(call.group)
    if call.peer is None:
        return phrase("{name} #{number} of {group}", name=name, number=number, group=group)
    peer = job.peer(call)
    if call.name in SENDS:
        return phrase("{name} #{number} to rank {peer} of {group}", name=name, number=number, peer=peer, group=group)
    return phrase("{name} #{number} from rank {peer} of {group}", name=name, number=number, peer=peer, group=group)


def brief_call(call: Call, job: Job) -> str:
    """`all_reduce #417 · dp`, `send #3 → 2 · pp`: a cell of a table."""
    arrow = "" if call.peer is None else f" {'→' if call.name in SENDS else '←'} {job.peer(call)}"
    group = "" if is_default(call.group) else f" · {name_group(call.group)}"
    return f"{call.name} #{call.number}{arrow}{group}"


def describe_operation(operation: Operation, job: Job) -> str:
    """The call of the first rank in it."""
    return describe_call(operation.calls[min(operation.calls)], job)


def describe_place(place: Place) -> str:
    """`train.py, line 88`; "" where no stack was recorded."""
    return phrase("{file}, line {line}", file=Path(place.file).name, line=place.line) if place.file else ""


def at_place(words: str, place: Place) -> str:
    """What happened, and where in brackets, if that is known."""
    return phrase("{what} ({where})", what=words, where=describe_place(place)) if place.file else words
