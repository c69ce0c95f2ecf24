"""Which processes the ranks are: a line for each."""

from __future__ import annotations

from pathlib import Path

from perfmagic import units
from perfmagic.capture.ranks.drivers import Started
from perfmagic.capture.ranks.session import Session


def status_words(session: Session) -> str:
    """A line for each rank that runs: its process, its memory and where it stands."""
    places = session.places()
    lines = [f"{session.world} ranks on {session.device}, {session.how}"]
    for peer in session.peers:
        place = places[peer.rank]
        does = "ready" if place else "does not answer" if peer.alive else f"{peer.death}; %ranks restart"
        lines.append(f"rank {peer.rank}  process {peer.started.pid}  {_of_process(peer.started)}  {does}")
    return "\n".join(lines)


def _of_process(started: Started) -> str:
    """Where a rank is: beside which engine, or else how much memory of this machine it takes."""
    return started.engine or _memory(started.pid)


def _memory(pid: int) -> str:
    """What a rank has for itself; what it shares with the others was there before it."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return ""
    return "private " + units.size(sum(int(row.split()[1]) * 1024 for row in rows if row.startswith("Private_")))
