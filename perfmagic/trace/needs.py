"""Which memory each operator read and wrote, in the order in which the host called them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """A piece of memory that an operator used: the bytes [low, high) of a storage.

    storage: a number that no other storage of the recording has, also where one got the address of another.
    reads, writes: what the operator did there; what it overwrites as a whole it does not read.
    """

    storage: int
    low: int
    high: int
    reads: bool = False
    writes: bool = False

    def meets(self, low: int, high: int) -> bool:
        """Whether the piece shares a byte with another one of its storage."""
        return self.low < high and low < self.high


@dataclass(frozen=True)
class SeenOp:
    """One call of an operator that touches data; views and allocations are none.

    name: without its namespace.  start_ns, end_ns: of the call, in ns of the trace.  thread: that made it.
    device: where its results lie, as torch names it: "cpu", "sim:1".  source: where a copy came from, else "".
    shape: of its first result, or of what it wrote.  has_result: whether it gave or wrote a tensor.
    """

    name: str
    start_ns: int
    end_ns: int
    thread: int
    uses: tuple[Use, ...]
    device: str = "cpu"
    source: str = ""
    shape: tuple[int, ...] = ()
    has_result: bool = True


@dataclass(frozen=True)
class SeenOps:
    """The operators of a recording by their start.

    dropped: how many more there were beyond the limit.  unread: of how many it is not known which memory they used.
    """

    ops: tuple[SeenOp, ...] = ()
    dropped: int = 0
    unread: int = 0

    def __len__(self) -> int:
        return len(self.ops)
