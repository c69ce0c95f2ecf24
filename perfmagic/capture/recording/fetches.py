"""When Python fetched batches from a DataLoader, for recordings in which torch's profiler does not run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfmagic.base.clock import thread_reader

_MARK = "enumerate(DataLoader)#"  # torch's record_function around each batch (torch/utils/data/dataloader.py, 2.13.0)


class Fetches:
    """A row for each batch, as torch's profiler would have it; a resource of perfmagic.capture.owner.

    read_ns: unix time.  rows: name, start, end, thread and 0 bytes of each.
    """

    def __init__(self, torch: Any, read_ns: Callable[[], int]) -> None:
        self.rows: list[tuple[str, int, int, int, int]] = []
        self._marks, self._read_ns = torch.autograd.profiler.record_function, read_ns
        self._own = (self._marks.__enter__, self._marks.__exit__)

    def acquire(self) -> None:
        enter, leave = self._own
        started_ns: dict[int, int] = {}

        def entered(mark: Any) -> Any:
            if mark.name.startswith(_MARK):
                started_ns[id(mark)] = self._read_ns()
            return enter(mark)

        def left(mark: Any, kind: object, *error: Any) -> None:
            leave(mark, kind, *error)
            start_ns = started_ns.pop(id(mark), None)
            if start_ns is not None and kind is None:  # the last call finds no batch, and raises StopIteration
                self.rows.append((mark.name, start_ns, self._read_ns(), thread_reader()(), 0))

        self._marks.__enter__, self._marks.__exit__ = entered, left

    def give_back(self) -> None:
        self._marks.__enter__, self._marks.__exit__ = self._own
