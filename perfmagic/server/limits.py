"""What reading traces may cost a Jupyter server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Limits:
    """In a server's configuration: `c.Perfmagic.memory_bytes = 4 << 30`.

    processes: readings at a time.  memory_bytes: address space of each process, where the system can limit it.
    seconds: of one reading.  kept_bytes: all finished readings on disk, and the most that one may take.
    idle_s: a reading that nobody has asked about for so long is ended.
    """

    processes: int = 2
    memory_bytes: int = 8 << 30
    seconds: float = 600.0
    kept_bytes: int = 1 << 30
    idle_s: float = 40.0


def settable(limit: str) -> str:
    """Where a limit is set, for hints."""
    return f"c.Perfmagic.{limit} in the configuration of the Jupyter server sets the limit"


def limits_of(config: Mapping[str, Any]) -> Limits:
    """The limits that a server's configuration sets, and the rest as they are."""
    given = config.get("Perfmagic", {})
    return replace(Limits(), **{one.name: given[one.name] for one in fields(Limits) if one.name in given})
