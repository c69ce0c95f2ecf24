"""Recorded traces as their JSON has them, in microseconds: what sentences are checked against, without our reader."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.trace.recorded import real

Event = dict[str, Any]
Span = tuple[float, float]
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}


def span(event: Event) -> Span:
    start = float(event["ts"])
    return start, start + float(event["dur"])


def length(spans: list[Span]) -> float:
    """How long at least one of some spans lasts."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


@dataclass(frozen=True)
class Raw:
    """The complete events of a file."""

    data: dict[str, Any]

    @classmethod
    def of(cls, name: str) -> "Raw":
        return cls(json.loads(gzip.decompress(real(name).read_bytes())))

    @cached_property
    def events(self) -> list[Event]:
        return [e for e in self.data["traceEvents"] if e.get("ph") == "X"]

    @cached_property
    def ops(self) -> list[Event]:
        """What the device executed, by start."""
        return sorted((e for e in self.events if e.get("cat") in DEVICE), key=lambda e: float(e["ts"]))

    @cached_property
    def calls(self) -> dict[int, Event]:
        """Runtime calls by correlation."""
        return {e["args"]["correlation"]: e for e in self.events if e.get("cat") in CALLS}

    def named(self, *words: str) -> list[Event]:
        """Host events with one of some names."""
        return [e for e in self.events if e.get("cat") not in DEVICE and e["name"] in words]

    def launch(self, op: Event) -> Event | None:
        return self.calls.get(op["args"].get("correlation"))

    @cached_property
    def gaps(self) -> list[tuple[Event, Span, Event]]:
        """When nothing ran: the op that ended last before, the gap, the op behind it."""
        found, last = [], self.ops[0]
        for op in self.ops[1:]:
            if span(op)[0] > span(last)[1]:
                found.append((last, (span(last)[1], span(op)[0]), op))
            last = op if span(op)[1] >= span(last)[1] else last
        return found

    def around(self, op: Event) -> list[str]:
        """The names of the operators around the launch of an op, the outermost first."""
        call = self.launch(op)
        if call is None:
            return []
        at = float(call["ts"])
        outer = [e for e in self._by_thread[call["pid"], call["tid"]] if span(e)[0] <= at < span(e)[1]]
        return [e["name"] for e in sorted(outer, key=lambda e: (float(e["ts"]), -float(e["dur"])))]

    @cached_property
    def _by_thread(self) -> dict[tuple[Any, Any], list[Event]]:
        found = defaultdict(list)
        for event in self.events:
            if event.get("cat") == "cpu_op":
                found[event["pid"], event["tid"]].append(event)
        return found
