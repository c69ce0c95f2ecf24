"""Eight recorded ranks of one job as the JSON of their files has them, in µs: without our reader."""

import gzip
import json
from functools import cache
from typing import Any

from tests.trace.recorded import eight_ranks

Event = dict[str, Any]
PATHS = sorted(eight_ranks().glob("*.json.gz"))


@cache
def events() -> dict[int, list[Event]]:
    """By rank."""
    files = [json.loads(gzip.decompress(path.read_bytes())) for path in PATHS]
    return {file["distributedInfo"]["rank"]: file["traceEvents"] for file in files}


@cache
def collectives() -> dict[int, list[Event]]:
    """By rank the kernels of NCCL in the order of their start."""
    return {rank: sorted(filter(_is_nccl, found), key=lambda e: e["ts"]) for rank, found in events().items()}


@cache
def durations() -> list[dict[int, int]]:
    """Of each collective how long each rank was in it."""
    by_rank = {rank: [e["dur"] for e in found] for rank, found in collectives().items()}
    return [dict(zip(by_rank, took, strict=True)) for took in zip(*by_rank.values(), strict=True)]


def span(event: Event) -> range:
    """The µs of an event."""
    return range(event["ts"], event["ts"] + event["dur"])


def _is_nccl(event: Event) -> bool:
    return event.get("cat") == "kernel" and "nccl" in event["name"].lower()
